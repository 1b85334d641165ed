// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measures the memory that a program allocates, whether by `new`, by `malloc` or in a C
/// library. Linking allocation_meter.cpp puts the meter between the program and its
/// allocator.
#pragma once

#include <cstdint>

namespace weir::test {

/// Measures the allocations of all threads together since the meter was made. Only one
/// meter counts at a time: a new one begins anew.
class allocation_meter {
 public:
  allocation_meter();
  /// Returns the highest number of bytes that were allocated at one time, beyond those
  /// that were allocated when the meter was made.
  [[nodiscard]] std::int64_t peak() const;
  /// Returns the bytes of the largest single allocation, whether it was freed or not.
  [[nodiscard]] static std::int64_t largest();

 private:
  std::int64_t before_;
};

}  // namespace weir::test
