// SPDX-License-Identifier: Apache-2.0
/// @file
/// Medians of the newest intervals and pauses.
///
/// A pulse during which a snapshot is copied takes longer than usual. The difference to
/// the median of the other intervals is the pause that a checkpoint costs.
#include "stages/prose/pause_meter.hpp"

#include <algorithm>
#include <vector>

namespace weir::actors {

namespace {

/// Drops the oldest value if there are more than `count`.
/// Called after each addition, so one value at most is too many.
void keep_newest(std::deque<std::int64_t>& values, std::size_t count) {
  if (values.size() > count) {
    values.pop_front();
  }
}

/// Returns the median, the upper one of two middle values.
/// @pre There is a value.
std::int64_t median(const std::deque<std::int64_t>& values) {
  std::vector<std::int64_t> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace

/// An interval ends with each pulse. Those without a snapshot give the usual length, from
/// which the interval with a snapshot is measured.
/// @param behind_snapshot  A snapshot was taken before this pulse. @units{nanoseconds}
void pause_meter::ended(std::int64_t now_ns, bool behind_snapshot) {
  // The first pulse has no interval.
  if (last_ns_ != 0) {
    const std::int64_t interval = now_ns - last_ns_;
    if (!behind_snapshot) {
      usual_.push_back(interval);
      keep_newest(usual_, max_intervals);
    } else if (!usual_.empty()) {
      pauses_.push_back(std::max<std::int64_t>(0, interval - median(usual_)));
      keep_newest(pauses_, max_pauses);
    }
  }
  last_ns_ = now_ns;
}

/// Median of the newest pauses, 0 before the first. @units{milliseconds}
double pause_meter::pause_ms() const {
  return pauses_.empty() ? 0 : static_cast<double>(median(pauses_)) * 1e-6;
}

}  // namespace weir::actors
