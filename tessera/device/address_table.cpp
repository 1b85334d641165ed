// SPDX-License-Identifier: Apache-2.0
/// @file
/// The table of known addresses: intervals in ascending order, read under a version
/// number (a sequence lock).
///
/// Writers hold the mutex. Readers of `translate` run in kernels and must not wait for a
/// mutex that a preempted writer holds, so they read the version, search, and read the
/// version again; if it was odd or has changed, they repeat. Everything that a reader may
/// touch is atomic and is never freed while the table exists, so a search in the middle
/// of a change may give a wrong result, which is dropped, but never reads invalid memory.
#include "device/address_table.hpp"

#include <algorithm>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/core.h>

namespace weir::tessera {
namespace {

/// Number of intervals for which the table has capacity at first.
constexpr std::size_t first_capacity = 64;

/// Comparisons of pointers to different objects are not defined, those of numbers are.
std::uintptr_t address_number(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

}  // namespace

// Copies a cell that readers may read at the same time. Stores are releases; see
// `begin_change`.
void address_table::cell::copy(const cell& from) noexcept {
  begin.store(from.begin.load(std::memory_order_relaxed), std::memory_order_release);
  end.store(from.end.load(std::memory_order_relaxed), std::memory_order_release);
  ranks.store(from.ranks.load(std::memory_order_relaxed), std::memory_order_release);
  rank_count.store(from.rank_count.load(std::memory_order_relaxed),
                   std::memory_order_release);
}

/// Old lists of cells are kept in `all_cells_`.
address_table::address_table() {
  all_cells_.push_back(std::make_unique<cells>(first_capacity));
  cells_.store(all_cells_.back().get(), std::memory_order_release);
}

// The stores between the two calls are releases and the loads of readers are acquires. A
// reader that has seen a store of the change therefore also sees the odd number or a
// later one when it reads the version again.
void address_table::begin_change() noexcept {
  version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}
void address_table::end_change() noexcept {
  version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

/// Returns the number of cells that begin at or before `address`, by binary search. A
/// reader may see a count that belongs to a newer list of cells, so the count is limited
/// by the capacity of the list at hand.
std::size_t address_table::first_behind(std::uintptr_t address) const noexcept {
  const cells& table = *cells_.load(std::memory_order_acquire);
  std::size_t low = 0;
  std::size_t high = std::min(count_.load(std::memory_order_acquire), table.capacity);
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    // The last cell that begins at or before the address is the only one that may
    // contain it.
    if (table.items[middle].begin.load(std::memory_order_acquire) <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// `end` is behind the last byte.
bool address_table::is_free(std::uintptr_t begin, std::uintptr_t end) const noexcept {
  // Intervals do not overlap, so the last one that begins before `end` decides.
  const std::size_t behind = first_behind(end - 1);
  return behind == 0 || cells_.load(std::memory_order_relaxed)
                                ->items[behind - 1]
                                .end.load(std::memory_order_relaxed) <= begin;
}

/// Provides capacity for `wanted` cells and entries, so that the insertion cannot fail in
/// the middle of a change. Old lists of cells stay alive for readers; since each is twice
/// as large as the one before, they take no more memory than the newest.
void address_table::grow(std::size_t wanted) {
  const cells& old = *cells_.load(std::memory_order_relaxed);
  // Entries are read under the mutex only, so they may move.
  entries_.reserve(old.capacity);
  if (wanted <= old.capacity) {
    return;
  }
  // Twice as large at least, so that growing is rare.
  auto made = std::make_unique<cells>(std::max(wanted, 2 * old.capacity));
  const std::size_t count = count_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    made->items[i].copy(old.items[i]);
  }
  entries_.reserve(made->capacity);
  all_cells_.push_back(std::move(made));
  begin_change();
  cells_.store(all_cells_.back().get(), std::memory_order_release);
  end_change();
}

// Returns a list for the addresses of `count` ranks. Lists are used again for later
// allocations, and are not freed while the table exists, because a reader may still read
// one. The list of unused ones always has capacity for all, so that `remove` cannot fail.
std::atomic<std::uintptr_t>* address_table::take_ranks(std::size_t count) {
  rank_lists& lists = ranks_[count];
  if (lists.idle.empty()) {
    lists.idle.reserve(lists.all.size() + 1);
    lists.all.emplace_back(new std::atomic<std::uintptr_t>[count]);
    lists.idle.push_back(lists.all.back().get());
  }
  auto* taken = lists.idle.back();
  lists.idle.pop_back();
  return taken;
}

/// Merges all instances into the order, from the last cell down, so that each cell moves
/// at most once. `by_address` has the ranks in ascending order of their addresses. `grow`
/// has provided the capacity.
void address_table::insert(const allocation_ptr& memory,
                           std::span<const std::int32_t> by_address) noexcept {
  const auto instances = memory->instances();
  cell* const items = cells_.load(std::memory_order_relaxed)->items.get();
  std::size_t old_left = count_.load(std::memory_order_relaxed);
  std::size_t new_left = by_address.size();
  std::size_t to = old_left + new_left;
  entries_.resize(to);
  count_.store(to, std::memory_order_release);
  // From the back: each cell is written after it has been moved away.
  while (new_left > 0) {
    const std::int32_t rank = by_address[new_left - 1];
    const std::uintptr_t begin =
        address_number(instances[static_cast<std::size_t>(rank)]);
    --to;
    if (old_left > 0 &&
        items[old_left - 1].begin.load(std::memory_order_relaxed) > begin) {
      --old_left;
      items[to].copy(items[old_left]);
      entries_[to] = std::move(entries_[old_left]);
      continue;
    }
    --new_left;
    items[to].begin.store(begin, std::memory_order_release);
    items[to].end.store(begin + memory->bytes(), std::memory_order_release);
    items[to].ranks.store(nullptr, std::memory_order_release);
    items[to].rank_count.store(0, std::memory_order_release);
    entries_[to] = entry{memory, rank};
  }
}

// The check of all instances comes first, so the table has all or none.
//
// An allocation has one interval per rank. Called by the thread that allocates.
result<void> address_table::add(const allocation_ptr& memory) {
  const std::lock_guard lock(mutex_);
  for (const std::byte* instance : memory->instances()) {
    if (!is_free(address_number(instance), address_number(instance) + memory->bytes())) {
      return error(errc::already_exists,
                   fmt::format("note memory at {}: expected {} bytes that nothing else "
                               "holds, found some that are known",
                               static_cast<const void*>(instance), memory->bytes()));
    }
  }
  // Memory for the table is taken before the change begins.
  try {
    const std::size_t ranks = memory->instances().size();
    grow(count_.load(std::memory_order_relaxed) + ranks);
    std::vector<std::int32_t> by_address(ranks);
    std::iota(by_address.begin(), by_address.end(), 0);
    std::sort(by_address.begin(), by_address.end(), [&](std::int32_t a, std::int32_t b) {
      const auto instances = memory->instances();
      return instances[static_cast<std::size_t>(a)] <
             instances[static_cast<std::size_t>(b)];
    });
    // Nothing below can fail, so readers never see half an allocation. Only symmetric
    // memory is translated between ranks.
    auto* numbers = memory->symmetric() ? take_ranks(ranks) : nullptr;
    begin_change();
    insert(memory, by_address);
    if (numbers != nullptr) {
      for (std::size_t r = 0; r < ranks; ++r) {
        numbers[r].store(address_number(memory->instances()[r]),
                         std::memory_order_release);
      }
      cell& zero = cells_.load(std::memory_order_relaxed)
                       ->items[first_behind(address_number(memory->data())) - 1];
      zero.ranks.store(numbers, std::memory_order_release);
      zero.rank_count.store(ranks, std::memory_order_release);
    }
    end_change();
  } catch (const std::bad_alloc&) {
    // Nothing was changed yet.
    return error(errc::out_of_memory,
                 "note memory in the table: expected memory for an entry of the table, "
                 "found none");
  }
  return {};
}

// Removes the cells of all instances in one pass. Only the address on rank 0 identifies
// the allocation.
//
// Returns false if the allocation is not in the table.
bool address_table::remove(const allocation_ptr& memory) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t found = first_behind(address_number(memory->data()));
  if (found == 0 || entries_[found - 1].memory != memory) {
    return false;
  }
  cell* const items = cells_.load(std::memory_order_relaxed)->items.get();
  if (auto* numbers = items[found - 1].ranks.load(std::memory_order_relaxed)) {
    // A reader may still use the list. It will find that the version has changed.
    ranks_[memory->instances().size()].idle.push_back(numbers);
  }
  begin_change();
  std::size_t remaining = 0;
  // Closes the gaps of all instances.
  const std::size_t count = count_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    if (entries_[i].memory == memory) {
      continue;
    }
    if (remaining != i) {
      items[remaining].copy(items[i]);
      entries_[remaining] = std::move(entries_[i]);
    }
    ++remaining;
  }
  count_.store(remaining, std::memory_order_release);
  end_change();
  entries_.resize(remaining);
  return true;
}

// Takes the mutex, because the result keeps the allocation alive.
//
// The result has the offset in the instance and the rank of it; it is empty for an
// unknown address.
memory_place address_table::find(const void* address) const {
  const std::lock_guard lock(mutex_);
  const std::size_t behind = first_behind(address_number(address));
  if (behind == 0) {
    return {};
  }
  const cell& c = cells_.load(std::memory_order_relaxed)->items[behind - 1];
  if (address_number(address) >= c.end.load(std::memory_order_relaxed)) {
    return {};
  }
  const entry& found = entries_[behind - 1];
  return {found.memory, address_number(address) - c.begin.load(std::memory_order_relaxed),
          found.rank};
}

/// Returns true if `bytes` bytes from the address on lie in one instance.
bool address_table::contains(const std::byte* address, std::size_t bytes) const {
  const memory_place place = find(address);
  return place.memory != nullptr && bytes <= place.bytes_left();
}

// Takes no lock. Returns the address on another rank if `pointer` lies in instance 0 of a
// symmetric allocation, and `pointer` itself otherwise.
//
// May be called by any kernel at any time.
std::byte* address_table::translate(std::byte* pointer,
                                    std::int32_t rank) const noexcept {
  const std::uintptr_t address = address_number(pointer);
  for (;;) {
    const std::uint64_t before = version_.load(std::memory_order_acquire);
    if (before % 2 != 0) {
      // A writer changes few cells, so it is done soon.
      std::this_thread::yield();
      continue;
    }
    // Every value that is read in between may be outdated.
    std::uintptr_t found = address;
    if (const std::size_t behind = first_behind(address); behind > 0) {
      const cell& c = cells_.load(std::memory_order_acquire)->items[behind - 1];
      const std::uintptr_t begin = c.begin.load(std::memory_order_acquire);
      const std::uintptr_t end = c.end.load(std::memory_order_acquire);
      const auto* ranks = c.ranks.load(std::memory_order_acquire);
      const std::size_t count = c.rank_count.load(std::memory_order_acquire);
      if (address < end && ranks != nullptr && rank >= 0 &&
          static_cast<std::size_t>(rank) < count) {
        found = ranks[rank].load(std::memory_order_acquire) + (address - begin);
      }
    }
    // Nothing has changed meanwhile, so the result is right.
    if (version_.load(std::memory_order_acquire) == before) {
      return pointer + static_cast<std::ptrdiff_t>(found - address);
    }
  }
}

// Each allocation has exactly one entry for rank 0.
std::vector<allocation_ptr> address_table::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<allocation_ptr> found;
  for (const entry& e : entries_) {
    if (e.rank == 0) {
      found.push_back(e.memory);
    }
  }
  return found;
}

}  // namespace weir::tessera
