// SPDX-License-Identifier: Apache-2.0
/// @file
/// The storages of an engine: ids with generations, memory, owners.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// @threads{thread-compatible}
class storage_table {
 public:
  [[nodiscard]] result<storage> allocate(std::int64_t bytes, std::string_view owner);
  [[nodiscard]] storage adopt(std::byte* base, std::int64_t bytes,
                              std::string_view owner);
  /// The index may be used again, with the next generation. @pre valid(id)
  void release(storage_id id);
  [[nodiscard]] bool valid(storage_id id) const noexcept {
    return id.generation != 0 && id.index < slots_.size() &&
           slots_[id.index].generation == id.generation && slots_[id.index].live;
  }
  /// @pre valid(id)
  [[nodiscard]] std::int64_t size(storage_id id) const noexcept {
    return slots_[id.index].size;
  }
  /// A task that has no ordered access keeps the storage. @pre valid(id)
  void keep(storage_id id, std::uint64_t task) noexcept {
    slots_[id.index].kept_by = task;
  }
  /// The newest task that does, or 0. @pre valid(id)
  [[nodiscard]] std::uint64_t kept_by(storage_id id) const noexcept {
    return slots_[id.index].kept_by;
  }
  [[nodiscard]] const std::vector<std::pair<std::string, std::int64_t>>& memory()
      const noexcept {
    return owners_;
  }

 private:
  struct slot {
    std::int64_t size = 0;
    std::uint64_t kept_by = 0;
    std::uint32_t generation = 0;
    bool live = false;
    std::size_t owner = 0;
    std::unique_ptr<void, decltype(&std::free)> memory{nullptr, &std::free};
  };

  storage add(std::byte* base, std::int64_t bytes, std::string_view owner);
  std::size_t owner_index(std::string_view owner);

  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::pair<std::string, std::int64_t>> owners_;
};

}  // namespace weir::runtime
