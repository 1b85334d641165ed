// SPDX-License-Identifier: Apache-2.0
/// @file
/// For how long other ranks have been silent, as seen by a rank that may itself have been
/// stopped meanwhile.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weir::runtime {

/// Counts the silence of other ranks for the deadline of a transport.
///
/// A rank that waits looks at the others again and again. If it has not looked for a
/// fifth of the deadline, it was not running itself: a signal, a debugger or the machine
/// has stopped it, and perhaps the others as well. Silence then counts from the look at
/// which it goes on, so that the others get the whole deadline again.
/// @threads{thread-compatible}
class silence_clock {
 public:
  /// A rank that has not looked for this part of the deadline was stopped.
  static constexpr std::int64_t gaps_in_deadline = 5;
  /// Shorter gaps are those of any thread that waits for a processor.
  /// @units{nanoseconds}
  static constexpr std::int64_t shortest_gap_ns = 20'000'000;
  /// Returns how long a rank may sleep between two looks, which is much shorter.
  /// @units{nanoseconds}
  [[nodiscard]] static constexpr std::int64_t longest_sleep_ns(
      std::int64_t deadline_ns) noexcept {
    constexpr std::int64_t shortest_ns = 1'000'000;
    return std::max(deadline_ns / (4 * gaps_in_deadline), shortest_ns);
  }

  /// @units{nanoseconds}
  explicit silence_clock(std::int64_t deadline_ns) noexcept : deadline_ns_(deadline_ns) {}

  /// Looks at the others. The silence of all is counted up to this time.
  /// @units{nanoseconds}
  void look(std::int64_t now) noexcept {
    if (now - looked_ns_ > std::max(deadline_ns_ / gaps_in_deadline, shortest_gap_ns)) {
      awake_since_ns_ = now;
    }
    looked_ns_ = now;
  }
  /// Returns for how long a rank has been silent whose last sign of life was at a time.
  /// @units{nanoseconds}
  [[nodiscard]] std::int64_t since(std::int64_t heard_ns) const noexcept {
    return looked_ns_ - std::max(heard_ns, awake_since_ns_);
  }
  /// Returns true if that is longer than the deadline. @units{nanoseconds}
  [[nodiscard]] bool is_overdue(std::int64_t heard_ns) const noexcept {
    return since(heard_ns) > deadline_ns_;
  }

 private:
  std::int64_t deadline_ns_;
  std::int64_t looked_ns_ = 0;
  std::int64_t awake_since_ns_ = 0;  ///< look at which the rank has last gone on
};

}  // namespace weir::runtime
