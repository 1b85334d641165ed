// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measures the memory that a program allocates, whether by `new`, by `malloc` or in a C
/// library. Linking allocation_meter.cpp puts the meter between the program and its
/// allocator.
#pragma once

#include <cstdint>

namespace weir::test {

/// Measures the highest number of bytes that all threads together had allocated at one
/// time since the meter was made, beyond those that were allocated then. Only one meter
/// counts at a time: a new one resets the highest number.
class allocation_meter {
 public:
  allocation_meter();
  [[nodiscard]] std::int64_t peak() const;

 private:
  std::int64_t before_;
};

}  // namespace weir::test
