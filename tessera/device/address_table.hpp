// SPDX-License-Identifier: Apache-2.0
/// @file
/// The table of known addresses. Its intervals are in ascending order, and each is an
/// instance of an allocation. Translation takes no lock: it repeats its search if a
/// writer has changed the table meanwhile.
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

/// Finds allocations by address, and translates addresses between ranks.
/// @threads{safe from any thread; `translate` takes no lock}
class address_table {
 public:
  address_table();
  address_table(const address_table&) = delete;
  address_table& operator=(const address_table&) = delete;

  /// Adds all instances, or none.
  /// @error{already_exists; one overlaps an interval of the table}
  /// @error{out_of_memory; no memory for the entries}
  [[nodiscard]] result<void> add(const allocation_ptr& memory);
  /// Removes the allocation. Returns false if the table does not have this very
  /// allocation.
  bool remove(const allocation_ptr& memory) noexcept;

  /// Returns the place of an address; its allocation is null if the address is unknown.
  [[nodiscard]] memory_place find(const void* address) const;
  /// Returns true if a single interval holds all of [address, address + bytes).
  [[nodiscard]] bool contains(const std::byte* address, std::size_t bytes) const;
  /// Returns the address on rank `rank` that belongs to `pointer`, or `pointer` if there
  /// is none.
  [[nodiscard]] std::byte* translate(std::byte* pointer,
                                     std::int32_t rank) const noexcept;
  /// Returns all allocations without duplicates.
  [[nodiscard]] std::vector<allocation_ptr> all() const;

 private:
  /// An interval. Readers may see mixed values in the middle of a change; they read again
  /// then.
  struct cell {
    std::atomic<std::uintptr_t> begin{0};
    std::atomic<std::uintptr_t> end{0};
    /// Addresses of all ranks if this is instance 0 of a symmetric allocation, else null.
    std::atomic<std::atomic<std::uintptr_t>*> ranks{nullptr};
    std::atomic<std::size_t> rank_count{0};

    void copy(const cell& from) noexcept;
  };
  /// A list of cells with a fixed capacity.
  struct cells {
    explicit cells(std::size_t n) : capacity(n), items(new cell[n]) {}
    std::size_t capacity;
    std::unique_ptr<cell[]> items;
  };
  /// Address lists of equal length.
  struct rank_lists {
    std::vector<std::unique_ptr<std::atomic<std::uintptr_t>[]>> all;
    std::vector<std::atomic<std::uintptr_t>*> idle;  ///< has capacity for all lists
  };
  /// Members of an interval that are guarded by the lock.
  struct entry {
    allocation_ptr memory;
    std::int32_t rank = 0;
  };

  /// Returns the number of cells that begin at or before an address.
  [[nodiscard]] std::size_t first_behind(std::uintptr_t address) const noexcept;
  /// Returns true if no interval shares an address with [begin, end).
  [[nodiscard]] bool is_free(std::uintptr_t begin, std::uintptr_t end) const noexcept;
  /// Provides capacity for this many cells and entries. Throws std::bad_alloc.
  void grow(std::size_t wanted);
  /// Inserts all instances. The caller has begun a change and called `grow`.
  void insert(const allocation_ptr& memory,
              std::span<const std::int32_t> by_address) noexcept;
  /// Returns an unused list for the addresses of `count` ranks. Throws std::bad_alloc.
  [[nodiscard]] std::atomic<std::uintptr_t>* take_ranks(std::size_t count);
  /// Make the version odd at the beginning of a change, and even at its end.
  void begin_change() noexcept;
  void end_change() noexcept;

  mutable std::mutex mutex_;  ///< guards everything but what `translate` reads
  std::atomic<std::uint64_t> version_{0};  ///< odd during a change
  std::atomic<cells*> cells_{nullptr};
  std::atomic<std::size_t> count_{0};
  std::vector<entry> entries_;  ///< one for each cell
  /// Memory that readers may use is kept until the table is destroyed.
  std::vector<std::unique_ptr<cells>> all_cells_;
  std::map<std::size_t, rank_lists> ranks_;  ///< lists of each length
};

}  // namespace weir::tessera
