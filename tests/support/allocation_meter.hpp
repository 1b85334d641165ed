// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that a program has allocated, by whatever way: `new`, `malloc` or a library of
/// C. Linking allocation_meter.cpp puts the meter between the program and its allocator.
#pragma once

#include <cstdint>

namespace weir::test {

/// The highest number of bytes that were allocated at one time since it was made, beyond
/// those that were allocated then. Of all threads; one meter at a time.
class allocation_meter {
 public:
  allocation_meter();
  [[nodiscard]] std::int64_t peak() const;

 private:
  std::int64_t before_;
};

}  // namespace weir::test
