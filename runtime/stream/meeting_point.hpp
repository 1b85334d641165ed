// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where ranks that call a collective each for themselves meet.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stream/context.hpp"

namespace weir::runtime {

/// @threads{safe from any thread}
class meeting_point {
 public:
  explicit meeting_point(context& of) : of_(of) {}

 private:
  context& of_;
};

}  // namespace weir::runtime
