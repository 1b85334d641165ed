// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory of one virtual device or of the host. An access behind the last requested byte
/// meets a guard, and allocations count against a capacity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "weir/base/error.hpp"
#include "weir/tessera/device/allocator.hpp"
#include "weir/tessera/device/backend.hpp"

namespace weir::tessera {

/// An allocator with a capacity and guarded allocations. @threads{safe from any thread}
class cpu_arena {
 public:
  /// Alignment of allocations and of their counted sizes in bytes.
  static constexpr std::size_t alignment = 256;

  /// Options of an arena.
  struct options {
    std::string name;  ///< name in error messages, such as "device 3" or "host"
    std::size_t capacity = 0;
    /// True: allocations are locked into memory if the system permits.
    bool pinned = false;
    std::size_t shift = 0;         ///< offset of large allocations in their page in bytes
    tessera::allocator allocator;  ///< allocator; empty: the system
  };

  explicit cpu_arena(options o);
  /// Frees all allocations.
  ~cpu_arena();
  cpu_arena(const cpu_arena&) = delete;
  cpu_arena& operator=(const cpu_arena&) = delete;

  /// Allocates memory. See device_backend::allocate.
  [[nodiscard]] result<std::byte*> allocate(std::size_t bytes);
  /// Frees memory. See device_backend::free.
  [[nodiscard]] result<void> free(std::byte* address);
  /// Returns the counters.
  [[nodiscard]] memory_use use() const;

 private:
  /// One allocation. Guard bytes of known values lie before and behind it.
  struct block {
    std::byte* raw = nullptr;
    std::size_t front = 0;  ///< bytes before the address that the user has
    std::size_t bytes = 0;
    std::size_t total = 0;
  };

  /// Counts `bytes` as used. @error{out_of_memory; the capacity leaves less}
  [[nodiscard]] result<void> charge(std::size_t bytes);
  /// Counts `bytes` as free again.
  void discharge(std::size_t bytes);
  /// Takes memory with guards. @error{out_of_memory; the system has none}
  [[nodiscard]] result<block> take(std::size_t bytes) const;
  /// Takes memory at a multiple of `unit` from the program or the system.
  [[nodiscard]] result<std::byte*> raw(std::size_t bytes, std::size_t unit) const;
  /// Returns memory to where it was taken from.
  void release(const block& b) const;
  /// Frees memory. @error{corrupt; a guard was overwritten}
  [[nodiscard]] result<void> give_back(std::byte* address, const block& b) const;

  options options_;
  mutable std::mutex mutex_;
  memory_use use_;
  std::unordered_map<std::byte*, block> live_;
};

}  // namespace weir::tessera
