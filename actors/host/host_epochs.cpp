// SPDX-License-Identifier: Apache-2.0
/// @file
/// The begin, the retraction and the end of epochs.
#include "host/host_epochs.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "host/host_report.hpp"
#include "weir/base/clock.hpp"

namespace weir::actors {
namespace {

/// Ends the epoch whose image is durable.
void commit(host_pointer self) {
  auto& s = self->state;
  ++s.report.epochs;
  s.saving = false;
  s.durable_items = execution_of(self).barrier();
  execution_of(self).committed();
  if (s.last_epoch) {
    finish(self);
  }
}

/// A run goes on without the checkpoint, because the one before stands. Only the last one
/// must succeed.
void not_saved(host_pointer self, error cause) {
  auto& s = self->state;
  s.saving = false;
  s.progress_ns = now_ns();
  if (s.over) {
    return;
  }
  if (s.last_epoch) {
    fail(self, std::move(cause));
    return;
  }
  if (s.config.warning) {
    s.config.warning(fmt::format(
        "the checkpoint before item {} is left out, the one before item {} stands: {}",
        execution_of(self).barrier(), s.durable_items, cause.message()));
  }
  execution_of(self).abandoned();
  keep_working(self);
}

/// Has the image of the epoch in flight written.
result<void> save(host_pointer self) {
  auto& s = self->state;
  WEIR_TRY(const flow::image* made, execution_of(self).completed());
  if (!s.config.saver) {
    commit(self);
    return {};
  }
  s.saving = true;
  self->request(s.config.saver, caf::infinite, save_atom_v,
                by_reference(image_order{made}))
      .then(
          [self](std::uint64_t generation) {
            self->state.progress_ns = now_ns();
            self->state.report.generation = generation;
            if (!self->state.over) {
              commit(self);
            }
            keep_working(self);
          },
          [self](const caf::error& e) {
            not_saved(self, from_caf(e, "writing a checkpoint"));
          });
  return {};
}

void begin_epoch(host_pointer self, std::uint64_t next) {
  auto& s = self->state;
  s.epoch_due = false;
  s.epoch_ns = now_ns();
  execution_of(self).begin_epoch(next);
}

/// A source that failed reads no more items, so a last checkpoint is possible only if no
/// other source is ahead of it.
bool can_stop_at(const engine_host_shell& s, const flow::execution& run,
                 std::uint64_t next) {
  return std::none_of(s.sources.begin(), s.sources.end(), [&](const outside& o) {
    return o.failed && run.delivered(o.hosted.stage) < next;
  });
}

/// A barrier that was set ahead by number may stand where no source comes for now. If the
/// sources are to stop, it is taken back. Returns whether it was.
result<bool> retract_epoch(engine_host_shell& s) {
  auto& run = *s.config.parts->run;
  if (run.retract_epoch()) {
    place_boundary(s);
    return true;
  }
  if (s.failure && !can_stop_at(s, run, run.barrier())) {
    return std::move(*s.failure);
  }
  for (outside& o : s.sources) {
    o.quiet = false;  // another source has passed the barrier, so this one must reach it
  }
  return false;
}

}  // namespace

void place_boundary(engine_host_shell& s) {
  const std::uint64_t every = s.config.options.every_items;
  if (every != 0) {
    auto& run = *s.config.parts->run;
    s.boundary = (run.next_item() / every + 1) * every;
    run.stop_before(s.boundary);
  }
}

bool stops_sources(const engine_host_shell& s) {
  return (s.stopping || s.epoch_due) && !s.last_epoch;
}

result<bool> advance_epoch(host_pointer self) {
  auto& s = self->state;
  auto& run = execution_of(self);
  if (s.saving || s.last_epoch) {
    if (!s.saving && run.complete()) {
      WEIR_CHECK(save(self));
      return true;
    }
    return false;
  }
  if (run.complete()) {
    WEIR_CHECK(save(self));
    return true;
  }
  const bool busy = std::any_of(s.sources.begin(), s.sources.end(),
                                [](const outside& o) { return o.busy; });
  if (run.epoch_in_flight()) {
    return stops_sources(s) && !busy ? retract_epoch(s) : result<bool>(false);
  }
  if (run.all_ended() || (s.stopping && !busy)) {
    if (s.failure && !can_stop_at(s, run, run.next_item())) {
      return std::move(*s.failure);
    }
    if (!run.all_ended() && run.next_item() == s.durable_items &&
        s.report.generation != 0) {
      s.last_epoch = true;  // the last checkpoint stands where the sources do
      finish(self);
      return true;
    }
    s.last_epoch = true;
    run.stop_before(run.next_item());
    begin_epoch(self, run.next_item());
    return true;
  }
  const std::uint64_t every = s.config.options.every_items;
  if (every != 0 && run.next_item() >= s.boundary) {
    begin_epoch(self, s.boundary);
    s.boundary += every;
    run.stop_before(s.boundary);
    return true;
  }
  if (s.epoch_due && !busy) {
    begin_epoch(self, run.next_item());
    return true;
  }
  return false;
}

}  // namespace weir::actors
