// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of kernels in place of tasks: with one worker, the submitter would run a task
/// that waits for nothing itself, and next. Calling its kernel costs less, because the
/// task needs no record and no search for predecessors.
#pragma once

#include <cstdint>
#include <span>

#include "weir/runtime/engine.hpp"

namespace weir::runtime {

/// An access whose region lies elsewhere, for calls that do not keep it.
struct borrowed_access {
  const footprint* bytes = nullptr;      ///< bytes that the kernel touches; not null
  access_mode mode = access_mode::read;  ///< use of the bytes
};

/// Calls kernels of one engine in place of tasks.
/// @threads{thread-compatible; belongs to the submitter of the engine}
class direct_calls {
 public:
  /// Makes an object that permits no call until `allow`. The engine must outlive it.
  explicit direct_calls(engine& of_tasks) : engine_(&of_tasks) {}

  /// Permits calls to begin during this time from now. @units{nanoseconds}
  void allow(std::int64_t ns) noexcept;

  /// Calls a function `result<void>()` on this thread if that has the effect of
  /// submitting it as a task with these accesses and running the task at once. Returns
  /// false, and does nothing, if `allow` does not permit it; if the engine has several
  /// workers or places for them, a watchdog or a trace; if a task is in flight or has
  /// failed; if an access is none of read, write and update, or is not allowed; or inside
  /// of a capture or a manual scope. A call counts as a task in the counters of the
  /// engine.
  /// @error{kernel_failed; the function threw. An error of the function keeps its code.
  /// Nothing is counted then, and the bytes that the function should have written are
  /// undefined until a task that fails in its place is submitted}
  template <class Function>
  [[nodiscard]] result<bool> call(std::span<const borrowed_access> accesses,
                                  const Function& function) {
    return call_erased(accesses, &function, [](const void* f) -> result<void> {
      return (*static_cast<const Function*>(f))();
    });
  }

 private:
  [[nodiscard]] result<bool> call_erased(std::span<const borrowed_access> accesses,
                                         const void* function,
                                         result<void> (*caller)(const void*));

  engine* engine_;
  std::int64_t allowed_ns_ = 0;     ///< time of the last `allow`
  std::int64_t allowed_ticks_ = 0;  ///< `allowed_ns_` in ticks of the engine's clock
  std::int64_t end_ = 0;            ///< end of the time for calls, in ticks
};

}  // namespace weir::runtime
