// SPDX-License-Identifier: Apache-2.0
/// @file
/// Allocations of a virtual device: a capacity that is counted, and guard bytes that show
/// writes outside of an allocation when it is freed.
///
/// Layout of an allocation: bytes in front, of which the last 64 are guard bytes, then
/// the requested bytes, then guard bytes to the end. Under AddressSanitizer the guards
/// are poisoned, so that an access to them is reported where it happens.
#include "device/cpu/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include <fmt/core.h>

#include "device/cpu/sanitizers.hpp"

/// Freeing reports damage as an error of the call; the place of the write is not known
/// then.
namespace weir::tessera {
namespace {

/// Guard bytes before and behind an allocation, at least, and their value, which is
/// unlikely to be written by chance. Sizes of pages; pinned memory uses the small ones.
constexpr std::size_t guard_bytes = 64;
constexpr std::size_t small_page = 4096;
constexpr std::size_t huge_page = std::size_t{2} << 20;
/// Allocations of this size or more begin at another offset in their page on each device.
/// If all began at the same offset, a loop over the devices would use few sets of the
/// cache.
constexpr std::size_t large_allocation = std::size_t{64} << 10;
constexpr std::byte guard_byte{0xA7};
/// Largest request. It is far below the end of the address space, so that sums with the
/// guard bytes cannot overflow.
constexpr std::size_t max_arena_bytes = std::numeric_limits<std::size_t>::max() / 4;

/// `unit` is a power of two or any other positive number.
constexpr std::size_t round_up_to(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Returns the index of the first byte that differs from the guard's value, or `bytes`.
std::size_t first_damage(const std::byte* guard, std::size_t bytes) {
  const auto* found =
      std::find_if(guard, guard + bytes, [](std::byte b) { return b != guard_byte; });
  return static_cast<std::size_t>(found - guard);
}

}  // namespace

cpu_arena::cpu_arena(options o) : options_(std::move(o)) {
  use_.capacity = options_.capacity;
}

/// What is still allocated is freed, as the device ends.
cpu_arena::~cpu_arena() {
  for (const auto& [address, b] : live_) {
    (void)give_back(address, b);
  }
}

// Counts a request before memory is taken, so that two threads cannot exceed the capacity
// together. Counts are of rounded sizes.
result<void> cpu_arena::charge(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  // The subtraction cannot wrap, as no more than the capacity is ever in use.
  const std::size_t left = use_.capacity - use_.in_use;
  if (bytes > max_arena_bytes || round_up_to(bytes, alignment) > left) {
    ++use_.refused;
    return error(
        errc::out_of_memory,
        fmt::format("allocate memory of {}: expected {} bytes free, found {} of {}",
                    options_.name, bytes, left, use_.capacity));
  }
  use_.in_use += round_up_to(bytes, alignment);
  use_.peak = std::max(use_.peak, use_.in_use);
  return {};
}

// The caller holds the lock.
void cpu_arena::discharge(std::size_t bytes) {
  use_.in_use -= round_up_to(bytes, alignment);
}

// Takes memory from the program's allocator or the system. Large pages are requested for
// large allocations, which saves misses of the address translation.
//
// `unit` is the alignment.
result<std::byte*> cpu_arena::raw(std::size_t bytes, std::size_t unit) const {
  void* out = nullptr;
  const bool own = !options_.allocator.take;
  if (!own) {
    out = options_.allocator.take(bytes, unit);
  } else if (::posix_memalign(&out, unit, bytes) != 0) {
    out = nullptr;
  } else if (bytes >= huge_page) {
    // Advice that may be refused.
    (void)::madvise(out, bytes, MADV_HUGEPAGE);
  }
  if (out == nullptr) {
    return error(errc::out_of_memory,
                 fmt::format("allocate memory of {}: expected {} bytes from the {}, "
                             "found none",
                             options_.name, bytes, own ? "system" : "program"));
  }
  // The allocator of the program must keep to the alignment.
  if (reinterpret_cast<std::uintptr_t>(out) % unit != 0) {
    options_.allocator.give_back(out, bytes);
    return error(errc::invalid_argument,
                 fmt::format("allocate memory of {}: expected an address of the program "
                             "that is a multiple of {}, found {}",
                             options_.name, unit, out));
  }
  return static_cast<std::byte*>(out);
}

/// The same allocator as for `raw`.
void cpu_arena::release(const block& b) const {
  if (options_.allocator.give_back) {
    options_.allocator.give_back(b.raw, b.total);
  } else {
    std::free(b.raw);
  }
}

// Takes memory and fills its guards.
result<cpu_arena::block> cpu_arena::take(std::size_t bytes) const {
  block b;
  b.bytes = bytes;
  // Pinned memory has pages of its own: unlocking a page would otherwise unlock other
  // allocations in it.
  b.front = options_.pinned
                ? small_page
                : alignment + (bytes >= large_allocation ? options_.shift : 0);
  b.total = round_up_to(b.front + bytes + guard_bytes,
                        options_.pinned ? small_page : alignment);
  // Large allocations begin at a large page, so that the system can use one.
  const std::size_t unit = b.total >= huge_page ? huge_page
                           : options_.pinned    ? small_page
                                                : alignment;
  WEIR_TRY(b.raw, raw(b.total, unit));
  // Locking may fail for lack of rights; the memory is then used unlocked.
  if (options_.pinned) {
    (void)::mlock(b.raw, b.total);
  }
  std::byte* const address = b.raw + b.front;
  const std::size_t behind = b.total - b.front - bytes;
  std::fill_n(address - guard_bytes, guard_bytes, guard_byte);
  std::fill_n(address + bytes, behind, guard_byte);
  // From here on an access to a guard is reported by the sanitizer.
  forbid(b.raw, b.front);
  forbid(address + bytes, behind);
  return b;
}

// Checks the guards and frees the memory. Damage is reported after the memory is free,
// because keeping it would help nobody.
result<void> cpu_arena::give_back(std::byte* address, const block& b) const {
  const std::size_t behind = b.total - b.front - b.bytes;
  // The guards may be read now.
  permit(b.raw, b.total);
  const std::size_t before_ok = first_damage(address - guard_bytes, guard_bytes);
  const std::size_t behind_ok = first_damage(address + b.bytes, behind);
  if (options_.pinned) {
    (void)::munlock(b.raw, b.total);
  }
  release(b);
  if (before_ok < guard_bytes) {
    return error(errc::corrupt,
                 fmt::format("free memory of {}: expected {} bytes that end where they "
                             "should, found a write {} bytes before the first",
                             options_.name, b.bytes, guard_bytes - before_ok));
  }
  if (behind_ok < behind) {
    return error(errc::corrupt,
                 fmt::format("free memory of {}: expected {} bytes that end where they "
                             "should, found a write {} bytes behind the last",
                             options_.name, b.bytes, behind_ok + 1));
  }
  return {};
}

// Memory is taken without the lock, since the system may need long for it.
result<std::byte*> cpu_arena::allocate(std::size_t bytes) {
  // Null stands for an allocation without bytes.
  if (bytes == 0) {
    return nullptr;
  }
  WEIR_CHECK(charge(bytes));
  auto taken = take(bytes);
  const std::lock_guard lock(mutex_);
  // The charge is undone.
  if (!taken) {
    ++use_.refused;
    discharge(bytes);
    return std::move(taken).error();
  }
  std::byte* const address = taken->raw + taken->front;
  try {
    live_.emplace(address, *taken);
  } catch (const std::bad_alloc&) {
    (void)give_back(address, *taken);
    discharge(bytes);
    return error(errc::out_of_memory,
                 "allocate memory of a device: expected memory "
                 "for an entry of the table, found none");
  }
  ++use_.live;
  ++use_.allocated;
  return address;
}

// The allocation leaves the table first, so of two threads that free the same address one
// gets an error.
result<void> cpu_arena::free(std::byte* address) {
  if (address == nullptr) {
    return {};
  }
  block b;
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(address);
    if (found == live_.end()) {
      return error(errc::invalid_argument,
                   fmt::format("free memory of {}: expected the start of an allocation, "
                               "found {}",
                               options_.name, static_cast<const void*>(address)));
    }
    // From here on the allocation belongs to this thread.
    b = found->second;
    live_.erase(found);
    --use_.live;
    discharge(b.bytes);
  }
  return give_back(address, b);
}

/// A copy of the counters.
memory_use cpu_arena::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

}  // namespace weir::tessera
