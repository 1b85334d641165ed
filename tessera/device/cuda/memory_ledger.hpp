// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts the memory of a device, so that a request that is too large fails without the
/// driver.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

#include "weir/tessera/device/backend.hpp"

namespace weir::tessera::cuda {

/// Allocations of one device and what they use. @threads{safe to call concurrently}
///
/// Sizes are rounded up to the alignment, as the driver rounds them.
class memory_ledger {
 public:
  memory_ledger(std::size_t capacity, std::size_t alignment) : alignment_(alignment) {
    use_.capacity = capacity;
  }
  /// Reserves memory and returns its rounded size, or nothing if there is too little.
  /// Reserved before the driver is asked, so two threads cannot exceed the capacity
  /// together.
  [[nodiscard]] std::optional<std::size_t> reserve(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t left = use_.capacity - use_.in_use;
    if (bytes > left || (bytes + alignment_ - 1) / alignment_ * alignment_ > left) {
      ++use_.refused;
      return std::nullopt;
    }
    const std::size_t rounded = (bytes + alignment_ - 1) / alignment_ * alignment_;
    use_.in_use += rounded;
    return rounded;
  }
  /// Notes that the reserved memory is at an address. Counts the allocation.
  void settle(std::byte* address, std::size_t rounded) {
    const std::lock_guard lock(mutex_);
    allocations_[address] = rounded;
    use_.peak = std::max(use_.peak, use_.in_use);
    ++use_.live;
    ++use_.allocated;
  }
  /// Takes back what could not be allocated. Counts a refusal.
  void cancel(std::size_t rounded) {
    const std::lock_guard lock(mutex_);
    use_.in_use -= rounded;
    ++use_.refused;
  }
  /// Forgets an allocation. Returns false if none begins at the address.
  [[nodiscard]] bool release(std::byte* address) {
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(address);
    if (found == allocations_.end()) {
      return false;
    }
    use_.in_use -= found->second;
    --use_.live;
    allocations_.erase(found);
    return true;
  }
  [[nodiscard]] memory_use use() const {
    const std::lock_guard lock(mutex_);
    return use_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::byte*, std::size_t> allocations_;
  std::size_t alignment_;
  memory_use use_;
};

}  // namespace weir::tessera::cuda
