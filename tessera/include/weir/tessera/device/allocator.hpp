// SPDX-License-Identifier: Apache-2.0
/// @file
/// Allocators of the program, which give devices their memory instead of the system.
#pragma once

#include <cstddef>
#include <functional>

namespace weir::tessera {

/// An allocator. Both functions are set or none. @threads{called from any thread}
struct allocator {
  /// Returns `bytes` bytes at a multiple of `alignment`, or null.
  std::function<void*(std::size_t bytes, std::size_t alignment)> take;
  /// Takes memory back.
  std::function<void(void* address, std::size_t bytes)> give_back;
};

}  // namespace weir::tessera
