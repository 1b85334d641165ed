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

/// The storages of an engine. An index may be used again with the next generation, so an
/// id of a released storage is recognised.
///
/// Invariant: `slot::usable` is the size of a live storage and 0 of all others, so that
/// one comparison says whether bytes lie inside a live storage.
/// @threads{thread-compatible}
class storage_table {
 public:
  [[nodiscard]] result<storage> allocate(std::int64_t bytes, std::string_view owner);
  [[nodiscard]] storage adopt(std::byte* base, std::int64_t bytes,
                              std::string_view owner);
  /// Makes a storage of memory that belongs to another storage; a scope holds it.
  [[nodiscard]] storage fresh_part(std::byte* base, std::int64_t bytes,
                                   std::uint64_t scope);
  /// Makes the id of fresh memory invalid, so that no new task can use it. `release`
  /// follows later. @pre valid(id)
  void give_up(storage_id id) noexcept { end(slots_[id.index]); }
  /// How often a storage stopped being valid. What was known to be valid still is while
  /// this number stays the same.
  [[nodiscard]] std::uint64_t releases() const noexcept { return releases_; }
  /// Frees the memory and the index. @pre valid(id), or it has been given up
  void release(storage_id id);
  [[nodiscard]] bool valid(storage_id id) const noexcept {
    return id.generation != 0 && id.index < slots_.size() &&
           slots_[id.index].generation == id.generation && slots_[id.index].live;
  }
  /// Returns true if the id is valid and [lo, hi) is not empty and lies in the storage.
  [[nodiscard]] bool holds(storage_id id, std::int64_t lo,
                           std::int64_t hi) const noexcept {
    if (id.index >= count_) {
      return false;
    }
    const slot& s = slots_[id.index];
    // A negative number without its sign is larger than any size.
    const auto end = static_cast<std::uint64_t>(hi);
    return s.generation == id.generation && end <= s.usable &&
           static_cast<std::uint64_t>(lo) < end;
  }
  /// Returns true if the id named a storage at some time.
  [[nodiscard]] bool known(storage_id id) const noexcept {
    return id.generation != 0 && id.index < slots_.size() &&
           id.generation <= slots_[id.index].generation;
  }
  [[nodiscard]] bool fresh(storage_id id) const noexcept {
    return slots_[id.index].fresh;
  }
  /// Returns true if fresh memory was ever made.
  [[nodiscard]] bool any_fresh() const noexcept { return any_fresh_; }
  /// Serial number of the scope that fresh memory belongs to.
  [[nodiscard]] std::uint64_t scope_of(storage_id id) const noexcept {
    return details_[id.index].scope;
  }
  /// @pre valid(id)
  [[nodiscard]] std::int64_t size(storage_id id) const noexcept {
    return slots_[id.index].size;
  }
  /// Notes the newest task that uses the storage although its accesses are not in the
  /// map, or will not be looked for there. @pre valid(id)
  void keep(storage_id id, std::uint64_t task) noexcept {
    slots_[id.index].kept_by = task;
  }
  /// Returns that task, or 0. @pre valid(id), or it has been given up
  [[nodiscard]] std::uint64_t kept_by(storage_id id) const noexcept {
    return slots_[id.index].kept_by;
  }
  [[nodiscard]] const std::vector<std::pair<std::string, std::int64_t>>& memory()
      const noexcept {
    return owners_;
  }

 private:
  /// The data that every access of every task needs.
  struct slot {
    std::uint64_t usable = 0;  ///< the size while the storage is live, else 0
    std::int64_t size = 0;
    std::uint64_t kept_by = 0;
    std::uint32_t generation = 0;
    bool live = false;
    bool fresh = false;
  };
  struct slot_details {
    std::uint64_t scope = 0;
    std::size_t owner = 0;
    std::unique_ptr<void, decltype(&std::free)> memory{nullptr, &std::free};
  };

  static constexpr std::size_t unowned = SIZE_MAX;

  void end(slot& s) noexcept {
    releases_ += static_cast<std::uint64_t>(s.live);
    s.live = false;
    s.usable = 0;
  }
  storage add(std::byte* base, std::int64_t bytes, std::size_t owner);
  std::size_t owner_index(std::string_view owner);

  std::uint32_t count_ = 0;  ///< slots_.size()
  std::uint64_t releases_ = 0;
  bool any_fresh_ = false;
  std::vector<slot> slots_;
  std::vector<slot_details> details_;  ///< in the order of `slots_`
  std::vector<std::uint32_t> free_;
  std::vector<std::pair<std::string, std::int64_t>> owners_;
};

}  // namespace weir::runtime
