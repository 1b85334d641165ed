// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums of times for deadlines. Needs no CAF.
#pragma once

#include <cstdint>
#include <limits>

#include "weir/base/bytes.hpp"

namespace weir::actors {

/// Returns the time that lies `ns` behind `now`. If the sum has more than 63 bits, it is
/// the last time that there is, so that such a request waits for ever and does not expire
/// at once.
[[nodiscard]] inline std::int64_t time_behind(std::int64_t now, std::int64_t ns) {
  std::int64_t sum = 0;
  return checked_add(now, ns, sum) ? sum : std::numeric_limits<std::int64_t>::max();
}

}  // namespace weir::actors
