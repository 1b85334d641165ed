// SPDX-License-Identifier: Apache-2.0
/// @file
/// The pause that a copy of the state causes.
#pragma once

#include <cstdint>
#include <deque>

namespace weir::actors {

/// Measures the pause that a snapshot causes: the time by which the pulse behind a
/// snapshot takes longer than the median of other pulses.
/// @threads{thread-compatible}
class pause_meter {
 public:
  /// Notes the end of a pulse. `behind_snapshot` says that a snapshot ran with it.
  void ended(std::int64_t now_ns, bool behind_snapshot);
  /// Returns the median pause of the newest snapshots in milliseconds; 0 if there is
  /// none.
  [[nodiscard]] double pause_ms() const;

 private:
  static constexpr std::size_t max_intervals = 15;
  static constexpr std::size_t max_pauses = 4096;  // a run may last for weeks
  std::int64_t last_ns_ = 0;        ///< last end of a pulse; 0 if there is none
  std::deque<std::int64_t> usual_;  ///< newest intervals without a snapshot
  std::deque<std::int64_t> pauses_;
};

}  // namespace weir::actors
