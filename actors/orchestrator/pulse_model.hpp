// SPDX-License-Identifier: Apache-2.0
/// @file
/// The interface by which the orchestrator uses a model and its engine. Tests implement
/// it without either.
#pragma once

#include <cstdint>
#include <memory>

#include "weir/actors/orders.hpp"
#include "weir/base/error.hpp"

namespace weir::actors {

/// Names submitted work until it is finished.
using work_ticket = std::uint64_t;

/// A model that turns pulses into tasks, with the engine that runs them.
/// @threads{thread-compatible: belongs to the engine's submitter}
class pulse_model {
 public:
  virtual ~pulse_model() = default;
  /// Returns the number of pulses that should be in flight at a time. With several
  /// workers a second pulse fills the gaps in the last tasks of the first.
  [[nodiscard]] virtual std::size_t depth() const = 0;
  /// Submits a pulse behind those submitted before.
  [[nodiscard]] virtual result<work_ticket> submit(const pulse_order& order) = 0;
  /// Submits a copy of the state behind the pulses submitted so far, to the bytes of
  /// `snapshot`.
  [[nodiscard]] virtual result<work_ticket> snapshot(
      std::shared_ptr<state_snapshot> snapshot) = 0;
  /// Returns true if the work has ended, with success or not.
  [[nodiscard]] virtual bool ended(work_ticket ticket) = 0;
  /// Waits for a pulse and returns its result.
  /// @error{kernel_failed, a task of the pulse failed}
  /// @error{upstream_failed, a task on which the pulse depends failed}
  [[nodiscard]] virtual result<models::pulse_result> finish(work_ticket ticket) = 0;
  /// Waits for a snapshot.
  [[nodiscard]] virtual result<void> finish_snapshot(work_ticket ticket) = 0;
  /// Runs one ready task on the calling thread. Returns false if no task was ready.
  virtual bool run_one() = 0;
  /// Waits until a task may be ready, or until the time has passed.
  virtual void idle(std::int64_t timeout_ns) = 0;
  /// Returns the time inside kernels so far, all threads together, in nanoseconds.
  [[nodiscard]] virtual std::int64_t kernel_ns() const = 0;
  /// Returns the length of a snapshot in bytes.
  [[nodiscard]] virtual std::uint64_t state_bytes() const = 0;
  /// Adds a stretch of time to the trace, on a line that has this name.
  virtual void span(const char* line, const char* name, std::int64_t start_ns,
                    std::int64_t end_ns) = 0;
  /// Waits for all tasks, returns digests and counters, and writes the trace.
  [[nodiscard]] virtual result<engine_report> report(const trace_order& order) = 0;
};

}  // namespace weir::actors
