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
  /// A part of memory that another storage owns, held by a scope.
  [[nodiscard]] storage fresh_part(std::byte* base, std::int64_t bytes,
                                   std::uint64_t scope);
  /// No new task may use fresh memory any more; `release` is to follow. @pre valid(id)
  void give_up(storage_id id) noexcept { end(slots_[id.index]); }
  /// How often a storage stopped being valid. What was known to be valid still is while
  /// this number stays the same.
  [[nodiscard]] std::uint64_t releases() const noexcept { return releases_; }
  /// The index may be used again, with the next generation. @pre valid(id), or it has
  /// been given up
  void release(storage_id id);
  [[nodiscard]] bool valid(storage_id id) const noexcept {
    return id.generation != 0 && id.index < slots_.size() &&
           slots_[id.index].generation == id.generation && slots_[id.index].live;
  }
  /// Whether it is a storage that has these bytes, and they are not none.
  [[nodiscard]] bool holds(storage_id id, std::int64_t lo,
                           std::int64_t hi) const noexcept {
    if (id.index >= count_) {
      return false;
    }
    const slot& s = slots_[id.index];
    // Nothing below zero: as a number without a sign it is above all that there is.
    const auto end = static_cast<std::uint64_t>(hi);
    return s.generation == id.generation && end <= s.usable &&
           static_cast<std::uint64_t>(lo) < end;
  }
  /// Whether this was a storage at some time.
  [[nodiscard]] bool known(storage_id id) const noexcept {
    return id.generation != 0 && id.index < slots_.size() &&
           id.generation <= slots_[id.index].generation;
  }
  [[nodiscard]] bool fresh(storage_id id) const noexcept {
    return slots_[id.index].fresh;
  }
  /// Whether there has been any.
  [[nodiscard]] bool any_fresh() const noexcept { return any_fresh_; }
  /// Serial number of the scope that fresh memory belongs to.
  [[nodiscard]] std::uint64_t scope_of(storage_id id) const noexcept {
    return rest_[id.index].scope;
  }
  /// @pre valid(id)
  [[nodiscard]] std::int64_t size(storage_id id) const noexcept {
    return slots_[id.index].size;
  }
  /// A task keeps the storage whose accesses to it are not in the map, or will not be
  /// asked for there. @pre valid(id)
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
  /// What every access of every task asks for.
  struct slot {
    std::uint64_t usable = 0;  ///< its size while it is live
    std::int64_t size = 0;
    std::uint64_t kept_by = 0;
    std::uint32_t generation = 0;
    bool live = false;
    bool fresh = false;
  };
  struct rest_of_slot {
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

  std::uint32_t count_ = 0;  ///< of slots
  std::uint64_t releases_ = 0;
  bool any_fresh_ = false;
  std::vector<slot> slots_;
  std::vector<rest_of_slot> rest_;  ///< likewise
  std::vector<std::uint32_t> free_;
  std::vector<std::pair<std::string, std::int64_t>> owners_;
};

}  // namespace weir::runtime
