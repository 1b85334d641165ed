// SPDX-License-Identifier: Apache-2.0
/// @file
/// Orders of the conductor, and the end of epochs.
///
/// An epoch passes through these steps: the conductor orders it (`take_order`); the host
/// begins it as soon as the position of the order is reached (`carry_out`); the execution
/// lets the barrier pass all stages (`epoch_in_flight`, `complete`); the image goes to
/// the conductor, whose saver writes it (`save_in_store`); and the answer commits it
/// (`commit`). Only then may sinks and stages drop what they have kept for the case of a
/// restart.
#include "host/host_epochs.hpp"

#include "host/host_report.hpp"
#include "weir/base/clock.hpp"

namespace weir::actors {
namespace {

/// Ends the epoch whose image is durable.
void commit(host_pointer self, std::uint64_t generation) {
  auto& s = self->state;
  ++s.report.epochs;
  s.report.generation = generation;
  s.orders.committed(execution_of(self).barrier());
  execution_of(self).committed();
  // The last epoch of a run is followed by its end, not by more items.
  if (s.orders.last()) {
    finish(self);
  }
}

/// Passes the image of the epoch in flight to the conductor.
/// The image belongs to the execution and does not change until `committed` or
/// `abandoned`, so the conductor and the saver may read it by reference.
result<void> save_in_store(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
  WEIR_TRY(const flow::image* made, run.completed());
  s.saving = true;
  self->request(s.config.conductor, caf::infinite, save_atom_v,
                by_reference(image_order{made, run.barrier(), s.orders.last()}))
      .then(
          [self](std::uint64_t generation) {
            self->state.saving = false;
            self->state.progress_ns = now_ns();
            if (!self->state.over) {
              commit(self, generation);
            }
            keep_working(self);
          },
          [self](const caf::error& e) {
            self->state.saving = false;
            self->state.progress_ns = now_ns();
            // Without the last checkpoint the run would lose its end, so the failure ends
            // it.
            if (self->state.orders.last()) {
              fail(self, from_caf(e, "writing a checkpoint"));
            } else if (!self->state.over) {
              // A checkpoint in between may fail, for example on a full disk: the run
              // goes on, and the next epoch is tried later.
              execution_of(self).abandoned();
            }
            keep_working(self);
          });
  return {};
}

/// Carries the order of the conductor out if it is due.
/// Returns whether something has changed.
result<bool> carry_out(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
  // `due` decides by the number of items that were reached; see `epoch_orders`.
  switch (s.orders.due(run.reached())) {
    case epoch_orders::action::finish: finish(self); return true;
    case epoch_orders::action::begin:
      WEIR_CHECK(run.begin_epoch());
      s.orders.begun();
      run.stop_before(s.orders.limit());
      return true;
    default: return false;
  }
}

}  // namespace

// A generation other than 0 means that the run continues from a stored checkpoint.
void tell_begin(host_pointer self) {
  auto& s = self->state;
  const bool stored = s.config.generation != 0;
  const flow::stand from = execution_of(self).reached();
  // With a boundary by number, nothing is read before its order has come.
  const bool bounded = s.config.options.every_items != 0 || s.config.ends_early;
  s.orders.launch(from, stored, bounded);
  // Sources stop before the item at which the next epoch begins.
  execution_of(self).stop_before(s.orders.limit());
  self->send(s.config.conductor, launch_atom_v,
             by_reference(run_begin{engine_host_actor(self), from, stored}));
}

void take_order(host_pointer self, const epoch_order& order) {
  auto& s = self->state;
  if (s.over) {
    return;
  }
  s.orders.take(order);
  execution_of(self).stop_before(s.orders.limit());
  keep_working(self);
}

/// At most one epoch is in flight: a new order waits while an image is being saved.
result<bool> advance_epoch(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
  if (s.saving) {
    return false;
  }
  if (run.epoch_in_flight()) {
    if (!run.complete()) {
      return false;
    }
    WEIR_CHECK(save_in_store(self));
    return true;
  }
  // The conductor is told once, and answers with the order for the last epoch.
  if (!s.drain_requested && (s.failure || run.all_ended())) {
    s.drain_requested = true;
    self->send(s.config.conductor, drain_atom_v);
  }
  return carry_out(self);
}

}  // namespace weir::actors
