// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the orchestrator needs of a model and of the engine below it; tests have one
/// without either.
#pragma once

#include <cstdint>
#include <memory>

#include "weir/actors/orders.hpp"
#include "weir/base/error.hpp"

namespace weir::actors {

/// Names submitted work until it is finished.
using work_ticket = std::uint64_t;

/// A model that turns pulses into tasks. All of it belongs to one thread.
/// @threads{thread-compatible: belongs to the engine's submitter}
class pulse_model {
 public:
  virtual ~pulse_model() = default;
  /// Pulses that are worth having in flight at a time: a second fills the tail of the
  /// first, where there is more than one worker.
  [[nodiscard]] virtual std::size_t depth() const = 0;
  /// Submits a pulse behind those before.
  [[nodiscard]] virtual result<work_ticket> submit(const pulse_order& order) = 0;
  /// Submits a copy of the state behind the pulses so far.
  [[nodiscard]] virtual result<work_ticket> snapshot(
      std::shared_ptr<state_snapshot> to) = 0;
  /// True once the work has ended, in whatever way.
  [[nodiscard]] virtual bool ended(work_ticket ticket) = 0;
  /// Result of a pulse. @error{kernel_failed, upstream_failed}
  [[nodiscard]] virtual result<models::pulse_result> finish(work_ticket ticket) = 0;
  [[nodiscard]] virtual result<void> finish_snapshot(work_ticket ticket) = 0;
  /// Runs at most one ready task on this thread; false if none was ready.
  virtual bool run_one() = 0;
  /// Rests until something changes or the time has passed.
  virtual void idle(std::int64_t timeout_ns) = 0;
  /// Time inside kernels so far, all threads, in nanoseconds.
  [[nodiscard]] virtual std::int64_t kernel_ns() const = 0;
  [[nodiscard]] virtual std::uint64_t state_bytes() const = 0;
  /// Draws a span on a line of its own in the trace.
  virtual void span(const char* line, const char* name, std::int64_t start_ns,
                    std::int64_t end_ns) = 0;
  /// Digests and counters once all tasks have ended; writes the trace.
  [[nodiscard]] virtual result<engine_report> report(const trace_order& order) = 0;
};

}  // namespace weir::actors
