// SPDX-License-Identifier: Apache-2.0
/// @file
/// Allocation and naming of storages.
#include "tasks/storage_table.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace weir::runtime {
namespace {

/// Storages begin at cache lines.
constexpr std::size_t alignment = 64;

/// Returns the first aligned address in the block. Blocks have room for the alignment.
/// Cache lines are 64 bytes, so two storages never share one.
std::byte* aligned(void* block) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  return static_cast<std::byte*>(block) + (alignment - address % alignment) % alignment;
}

}  // namespace

/// Allocates a storage of zeros. The block is larger than the storage, so that its
/// beginning can be aligned and nothing else lies in its last cache line.
result<storage> storage_table::allocate(std::int64_t bytes, std::string_view owner) {
  constexpr std::int64_t max_bytes = INT64_MAX - static_cast<std::int64_t>(2 * alignment);
  // calloc takes large blocks from fresh pages, which are zero without being touched.
  void* block = bytes < 0 || bytes > max_bytes
                    ? nullptr
                    : std::calloc(static_cast<std::size_t>(bytes) + 2 * alignment, 1);
  if (block == nullptr) {
    return error(
        errc::out_of_memory,
        fmt::format("allocation failed for \"{}\": expected {} bytes, found no memory",
                    owner, bytes));
  }
  storage s = add(aligned(block), bytes, owner_index(owner));
  // The address of the block, and not the aligned one, is what `free` takes.
  details_[s.id.index].memory.reset(block);
  return s;
}

// Memory of the program is charged to an owner only if one is named.
storage storage_table::adopt(std::byte* base, std::int64_t bytes,
                             std::string_view owner) {
  return add(base, bytes, owner.empty() ? unowned : owner_index(owner));
}

/// Names memory that belongs to another storage and that a scope holds. It has an
/// identity of its own, so it has no dependencies on earlier uses of the same bytes.
storage storage_table::fresh_part(std::byte* base, std::int64_t bytes,
                                  std::uint64_t scope) {
  const storage s = add(base, bytes, unowned);
  slots_[s.id.index].fresh = true;
  any_fresh_ = true;
  details_[s.id.index].scope = scope;
  return s;
}

/// Takes a free slot, or a new one, and gives it the next generation. An old id with the
/// same index is recognised as outdated by its generation.
storage storage_table::add(std::byte* base, std::int64_t bytes, std::size_t owner) {
  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
    details_.emplace_back();
    ++count_;
  } else {
    index = free_.back();
    free_.pop_back();
  }
  slot& s = slots_[index];
  s.usable = static_cast<std::uint64_t>(bytes);
  s.size = bytes;
  s.live = true;
  s.fresh = false;
  s.kept_by = 0;
  details_[index].owner = owner;
  // The first storage of a slot has generation 1, so 0 is never valid.
  ++s.generation;
  if (owner != unowned) {
    owners_[owner].second += bytes;
  }
  return {{index, s.generation}, base, bytes};
}

/// Frees the memory and the slot. Bytes are no longer charged to the owner.
void storage_table::release(storage_id id) {
  slot& s = slots_[id.index];
  slot_details& details = details_[id.index];
  if (details.owner != unowned) {
    owners_[details.owner].second -= s.size;
  }
  details.memory.reset();
  end(s);
  if (s.generation != UINT32_MAX) {  // a generation is never used twice
    free_.push_back(id.index);
  }
}

/// Returns the number of an owner. Owners are few, so they are searched one by one.
std::size_t storage_table::owner_index(std::string_view owner) {
  const auto found = std::find_if(owners_.begin(), owners_.end(),
                                  [&](const auto& o) { return o.first == owner; });
  if (found != owners_.end()) {
    return static_cast<std::size_t>(found - owners_.begin());
  }
  owners_.emplace_back(std::string(owner), 0);
  return owners_.size() - 1;
}

}  // namespace weir::runtime
