// SPDX-License-Identifier: Apache-2.0
/// @file
/// Orders of the conductor, and the end of epochs.
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
  if (s.orders.last()) {
    finish(self);
  }
}

/// Passes the image of the epoch in flight to the conductor.
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
            if (self->state.orders.last()) {
              fail(self, from_caf(e, "writing a checkpoint"));
            } else if (!self->state.over) {
              execution_of(self).abandoned();
            }
            keep_working(self);
          });
  return {};
}

/// Carries the order of the conductor out if it is due.
result<bool> carry_out(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
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

void tell_begin(host_pointer self) {
  auto& s = self->state;
  const bool stored = s.config.generation != 0;
  const flow::stand from = execution_of(self).reached();
  s.orders.launch(from, stored, s.config.options.every_items != 0);
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
  if (!s.end_told && (s.failure || run.all_ended())) {
    s.end_told = true;
    self->send(s.config.conductor, drain_atom_v);
  }
  return carry_out(self);
}

}  // namespace weir::actors
