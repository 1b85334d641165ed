// SPDX-License-Identifier: Apache-2.0
/// @file
/// Intervals of addresses in ascending order, each an instance of an allocation. Readers
/// of translations take no lock: they look again if a writer was at work meanwhile.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/tessera/device/symmetric_memory.hpp"

namespace weir::tessera {

/// @threads{safe from any thread; `translate` takes no lock}
class address_table {
 public:
  address_table();
  address_table(const address_table&) = delete;
  address_table& operator=(const address_table&) = delete;

  /// Adds all instances, or none.
  /// @error{already_exists, one overlaps an interval of the table}
  /// @error{out_of_memory}
  [[nodiscard]] result<void> add(const allocation_ptr& memory);
  /// Whether it was there, as itself and not as one that begins at the same address.
  bool remove(const allocation_ptr& memory) noexcept;

  /// Where an address lies; no allocation if nowhere.
  [[nodiscard]] memory_place find(const void* at) const;
  /// Interval that holds all of [at, at + bytes), if any.
  [[nodiscard]] bool contains(const std::byte* at, std::size_t bytes) const;
  [[nodiscard]] std::byte* translate(std::byte* at, std::int32_t rank) const noexcept;
  /// All allocations, each once.
  [[nodiscard]] std::vector<allocation_ptr> all() const;

 private:
  /// Words that readers may see half changed; they then look again.
  struct cell {
    std::atomic<std::uintptr_t> begin{0};
    std::atomic<std::uintptr_t> end{0};
    /// Addresses of all ranks if this is instance 0 of a symmetric allocation, else null.
    std::atomic<std::atomic<std::uintptr_t>*> ranks{nullptr};
    std::atomic<std::size_t> rank_count{0};

    void copy(const cell& from) noexcept;
  };
  struct cells {
    explicit cells(std::size_t n) : capacity(n), at(new cell[n]) {}
    std::size_t capacity;
    std::unique_ptr<cell[]> at;
  };
  /// Lists of addresses of one length.
  struct rank_lists {
    std::vector<std::unique_ptr<std::atomic<std::uintptr_t>[]>> all;
    std::vector<std::atomic<std::uintptr_t>*> idle;  ///< has room for all
  };
  /// What only holders of the lock see of the same interval.
  struct entry {
    allocation_ptr memory;
    std::int32_t rank = 0;
  };

  [[nodiscard]] std::size_t first_behind(std::uintptr_t at) const noexcept;
  [[nodiscard]] bool is_free(std::uintptr_t begin, std::uintptr_t end) const noexcept;
  void grow(std::size_t wanted);
  void insert(const allocation_ptr& memory,
              std::span<const std::int32_t> by_address) noexcept;
  [[nodiscard]] std::atomic<std::uintptr_t>* take_ranks(std::size_t count);
  void begin_change() noexcept;
  void end_change() noexcept;

  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> version_{0};  ///< odd while a writer is at work
  std::atomic<cells*> cells_{nullptr};
  std::atomic<std::size_t> count_{0};
  std::vector<entry> entries_;  ///< one per cell
  // Memory that a reader may still look at is kept until the end.
  std::vector<std::unique_ptr<cells>> all_cells_;
  std::map<std::size_t, rank_lists> ranks_;  ///< by their length
};

}  // namespace weir::tessera
