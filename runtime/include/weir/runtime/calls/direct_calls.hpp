// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls of kernels in place of tasks. With one worker, the submitter would run a task
/// that waits for nothing itself, and next. With several workers, handing a short kernel
/// to another one costs more than the kernel. Calling it costs less in both cases,
/// because the task needs no record and no search for predecessors.
#pragma once

#include <array>
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
/// @threads{thread-compatible; the submitter, which calls `call` inside of an `fp_scope`}
class direct_calls {
 public:
  /// Longest kernel that is called though other workers could run it. Handing a task over
  /// takes the submitter about as long. @units{nanoseconds}
  static constexpr std::int64_t usual_short_ns = 250;

  /// Makes an object that permits no call until `allow`. The engine must outlive it.
  /// @param short_ns  Longest kernel that counts as short. @units{short_ns: nanoseconds}
  /// @source{docs/decisions/616: which calls are timed}
  explicit direct_calls(engine& of_tasks, std::int64_t short_ns = usual_short_ns)
      : engine_(&of_tasks), short_ns_(short_ns) {}

  /// Permits calls to begin during this time from now. @units{nanoseconds}
  void allow(std::int64_t ns) noexcept;
  /// Returns whether kernels were asked for since the last `allow`, and all of them are
  /// known to be short. Tasks in flight are then probably short too, and waiting for them
  /// makes calls possible. With one worker the result means nothing.
  [[nodiscard]] bool only_short() const noexcept { return asked_short_ && !asked_other_; }

  /// Calls a function `result<void>()` on this thread if that has the effect of
  /// submitting it as a task with these accesses and running the task at once. Returns
  /// false, and does nothing, if `allow` does not permit it; if the engine has a watchdog
  /// or a trace; if a task is in flight or has failed; if an access is none of read,
  /// write and update, or is not allowed; or inside of a capture or a manual scope. With
  /// several workers, or places for them, it also returns false unless the kernels of the
  /// tag of the next task are known to be short, which needs an engine that measures the
  /// time inside of kernels. A call counts as a task in the counters of the engine.
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
  /// Record of how long the kernels of a tag take.
  struct kernel_length {
    std::uint32_t short_calls = 0;  ///< calls since the last one that was not short
    // What follows is used with several workers only.
    std::uint32_t submitted = 0;  ///< tasks since `ticks` was read
    std::int32_t credit = 0;      ///< the kernels count as short while it is positive
    std::int64_t ticks = 0;       ///< time inside of the kernels so far
  };

  [[nodiscard]] result<bool> call_erased(std::span<const borrowed_access> accesses,
                                         const void* function,
                                         result<void> (*caller)(const void*));
  [[nodiscard]] bool is_short(kernel_length& of_tag, std::uint16_t tag) noexcept;
  [[nodiscard]] std::uint32_t draw_gap() noexcept;
  void note_time(kernel_length& of_tag, std::uint16_t tag, std::int64_t ticks) noexcept;
  void judge(kernel_length& of_tag, std::uint16_t tag, std::int64_t ticks) noexcept;
  [[nodiscard]] std::int64_t ticks_of(std::uint16_t tag) const noexcept;

  engine* engine_;
  std::array<kernel_length, engine::max_tags> lengths_{};
  std::uint32_t until_timed_ = 1;   ///< short calls until one of them is timed
  std::uint32_t draws_ = 1;         ///< state of the random numbers of `draw_gap`
  std::int64_t short_ns_;           ///< longest time of a short kernel
  std::int64_t short_ticks_ = 0;    ///< `short_ns_` in ticks of the engine's clock
  bool asked_short_ = false;        ///< a short kernel was asked for, see `only_short`
  bool asked_other_ = false;        ///< a kernel was asked for that may be long
  std::int64_t allowed_ns_ = 0;     ///< time of the last `allow`
  std::int64_t allowed_ticks_ = 0;  ///< `allowed_ns_` in ticks of the engine's clock
  std::int64_t end_ = 0;            ///< end of the time for calls, in ticks
};

}  // namespace weir::runtime
