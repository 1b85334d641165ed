// SPDX-License-Identifier: Apache-2.0
/// @file
/// Orders of the conductor, and the end of epochs.
#include "host/host_epochs.hpp"

#include <algorithm>

#include "host/host_report.hpp"
#include "weir/base/clock.hpp"

namespace weir::actors {
namespace {

/// Moves the first item that no source is asked for. It never moves back.
void raise_limit(engine_host_shell& s, std::uint64_t to) {
  s.limit = std::max(s.limit, to);
  s.config.parts->run->stop_before(s.limit);
}

/// Ends the epoch whose image is durable.
void commit(host_pointer self, std::uint64_t generation) {
  auto& s = self->state;
  ++s.report.epochs;
  s.report.generation = generation;
  s.committed = execution_of(self).barrier();
  execution_of(self).committed();
  if (s.last_epoch) {
    finish(self);
  }
}

/// Passes the image of the epoch in flight to the conductor.
result<void> save(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
  WEIR_TRY(const flow::image* made, run.completed());
  s.saving = true;
  self->request(s.config.conductor, caf::infinite, save_atom_v,
                by_reference(image_order{made, run.barrier(), s.last_epoch}))
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
            if (self->state.last_epoch) {
              fail(self, from_caf(e, "writing a checkpoint"));
            } else if (!self->state.over) {
              execution_of(self).abandoned();
            }
            keep_working(self);
          });
  return {};
}

/// Returns whether a checkpoint at this place would equal the last one.
bool is_committed(const engine_host_shell& s, const flow::stand& reached) {
  return s.committed && s.committed->items == reached.items &&
         s.committed->ended == reached.ended;
}

/// Carries the order out if its place is reached.
result<bool> carry_out(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
  const flow::stand reached = run.reached();
  if (reached.next_item < s.order->at) {
    return false;
  }
  if (is_committed(s, reached)) {
    if (s.order->last) {
      finish(self);
    }
    return s.order->last;
  }
  s.last_epoch = s.order->last;
  const std::uint64_t then = s.order->then;
  s.order.reset();
  WEIR_CHECK(run.begin_epoch());
  raise_limit(s, then);
  return true;
}

}  // namespace

void tell_begin(host_pointer self) {
  auto& s = self->state;
  const bool stored = s.config.generation != 0;
  const flow::stand from = execution_of(self).reached();
  if (stored) {
    s.committed = from;
  }
  if (const std::uint64_t every = s.config.options.every_items; every != 0) {
    s.limit = 0;  // until the conductor has ordered the first epoch
    raise_limit(s, from.next_item);
  }
  self->send(s.config.conductor, launch_atom_v,
             by_reference(run_begin{engine_host_actor(self), from, stored}));
}

void take_order(host_pointer self, const epoch_order& order) {
  auto& s = self->state;
  s.order = order;
  s.stopping = s.stopping || order.last;
  raise_limit(s, order.at);
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
    WEIR_CHECK(save(self));
    return true;
  }
  if (!s.end_told && (s.failure || run.all_ended())) {
    s.end_told = true;
    self->send(s.config.conductor, drain_atom_v);
  }
  return s.order ? carry_out(self) : result<bool>(false);
}

}  // namespace weir::actors
