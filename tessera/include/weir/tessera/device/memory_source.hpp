// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where memory of devices comes from, if not from the system.
#pragma once

#include <cstddef>
#include <functional>

namespace weir::tessera {

/// Both are set or none; any thread calls them.
struct memory_source {
  /// So many bytes at a multiple of `alignment`; null if there are none.
  std::function<void*(std::size_t bytes, std::size_t alignment)> take;
  std::function<void(void* at, std::size_t bytes)> give_back;
};

}  // namespace weir::tessera
