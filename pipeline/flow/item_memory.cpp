// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pools of slots and items.
///
/// A slot has one of three states: free (in `free_`), taken (`names` counts the items and
/// calls that use it), or blank (taken, while a stage on another thread fills it). All
/// fields of the pool belong to the thread of the host. A blank belongs to the thread
/// that fills it, which may only call `shape`; larger memory is then kept in `grown`, and
/// `settle` makes it known to the engine on the host's thread.
#include "flow/item_memory.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace weir::flow {
namespace {

/// Alignment of slots, that of vector registers and cache lines. @units{bytes}
constexpr std::int64_t alignment = 64;

}  // namespace

result<std::unique_ptr<slot_pool>> slot_pool::create(
    engine& host, std::size_t count, std::int64_t fixed_bytes, std::int64_t budget,
    std::string name, std::shared_ptr<slot_memory> shared) {
  std::unique_ptr<slot_pool> pool(
      new slot_pool(host, fixed_bytes, budget, std::move(name), std::move(shared)));
  for (std::size_t i = 0; i < count; ++i) {
    slot& s = *pool->all_.emplace_back(std::make_unique<slot>());
    // A slot knows its pool, to which it returns.
    s.home = pool.get();
    // Slots of varying size get memory when they are first taken.
    if (fixed_bytes != 0) {
      WEIR_CHECK(pool->give_memory(s, fixed_bytes));
    }
  }
  // The last slot of the list is taken first, so the order of use is that of `all_`.
  for (auto s = pool->all_.rbegin(); s != pool->all_.rend(); ++s) {
    pool->free_.push_back(s->get());
  }
  return pool;
}

/// No task uses a slot any more; see `execution::~execution`.
slot_pool::~slot_pool() {
  for (const auto& s : all_) {
    release(*s);
  }
}

/// The child process of a stage reaches shared memory; when that is full, the slot comes
/// from the heap and the item is copied for the child. Returns null without memory.
slot::buffer slot_pool::allocate(std::int64_t bytes) const noexcept {
  // Every slot begins at a multiple of the alignment and has at least one unit.
  const std::int64_t rounded =
      std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (shared_) {
    if (std::byte* p = shared_->allocate(static_cast<std::uint64_t>(rounded))) {
      return slot::buffer(p, slot::free_memory(shared_.get()));
    }
  }
  return slot::buffer(static_cast<std::byte*>(
      std::aligned_alloc(alignment, static_cast<std::size_t>(rounded))));
}

/// Names the outlet and the size.
error slot_pool::no_memory(std::int64_t bytes) const {
  return error(errc::out_of_memory,
               fmt::format("cannot allocate an item of \"{}\": expected {} bytes of free "
                           "memory, found less",
                           name_, bytes));
}

/// Gives a slot that no task uses memory of another size.
/// The engine learns the new address and forgets the old one.
result<void> slot_pool::give_memory(slot& s, std::int64_t bytes) {
  release(s);
  s.owned = allocate(bytes);
  if (!s.owned) {
    return no_memory(bytes);
  }
  // The engine can name the memory in accesses from now on.
  s.memory = host_.base().adopt(s.owned.get(), bytes, name_);
  total_ += bytes;
  return {};
}

/// Gives the memory of a slot back; the slot itself stays.
void slot_pool::release(slot& s) noexcept {
  // The memory of the slot has no task any more.
  if (s.owned) {
    static_cast<void>(host_.base().release(s.memory.id));
    total_ -= s.memory.size;
  }
  s.memory = {};
  s.owned.reset();
  s.fits = false;
}

/// The slot has no task left, so that its bytes may be written without one.
/// Filling shows elements that a stage does not write.
void slot_pool::fill(const runtime::storage& memory) const noexcept {
  if (fill_ >= 0 && memory.size > 0) {
    std::memset(memory.base, fill_, static_cast<std::size_t>(memory.size));
  }
}

/// Frees memory of free slots until all slots together have at most `budget_` bytes.
void slot_pool::trim() noexcept {
  for (auto s = free_.begin(); s != free_.end() && total_ > budget_; ++s) {
    release(**s);
  }
}

/// Computes the size of a tensor. It is limited by the size of the slot, or by the window
/// in bytes behind the outlet.
result<std::int64_t> slot_pool::bytes_for(dtype type,
                                          std::span<const std::int64_t> shape) const {
  std::int64_t count = 1;
  bool fits = true;
  // Negative extents and products that overflow are both impossible shapes.
  for (const std::int64_t extent : shape) {
    fits = fits && extent >= 0 && checked_mul(count, extent, count);
  }
  const auto bytes = fits ? byte_size(type, count) : result<std::int64_t>(-1);
  const std::int64_t limit = fixed_ != 0 ? fixed_ : budget_;
  if (!bytes || *bytes < 0 || *bytes > limit) {
    return error(errc::out_of_range,
                 fmt::format("cannot make an item of \"{}\": expected at most {} bytes, "
                             "found {}",
                             name_, limit,
                             bytes && *bytes >= 0 ? std::to_string(*bytes)
                                                  : std::string("an impossible shape")))
        .hint(fixed_ != 0 ? "the shape must be that of the port"
                          : "give the edge behind it a window of more bytes");
  }
  return *bytes;
}

/// Sets the tensor of a slot. Most items have the type and shape of the item before, for
/// which nothing changes.
result<void> slot_pool::name_tensor(slot& s, const runtime::storage& memory, dtype type,
                                    std::span<const std::int64_t> shape) {
  // The comparison is cheaper than making a tensor anew.
  const runtime::storage& now = s.tensor.store();
  if (now.id == memory.id && now.base == memory.base && now.size == memory.size &&
      s.tensor.type() == type && std::ranges::equal(s.tensor.shape(), shape)) {
    return {};
  }
  WEIR_TRY(s.tensor, runtime::tensor::over(memory, type, shape));
  return {};
}

/// Makes the largest free slot the next one, because it is likely to have enough memory.
/// Memory above the budget is given back, from free slots only.
void slot_pool::prefer_largest() noexcept {
  trim();
  const auto largest = std::max_element(
      free_.begin(), free_.end(),
      [](const slot* a, const slot* b) { return a->memory.size < b->memory.size; });
  std::iter_swap(largest, free_.end() - 1);
}

// The order of the steps keeps `used_` right even if the allocation fails.
result<slot*> slot_pool::take(dtype type, std::span<const std::int64_t> shape) {
  auto bytes = bytes_for(type, shape);
  if (!bytes) {
    return std::move(bytes.error());
  }
  slot& s = take_blank();
  s.complete = false;
  // Slots of a fixed size always fit.
  if (*bytes > s.memory.size) {
    used_ -= s.memory.size;
    auto grown = give_memory(s, *bytes);
    used_ += s.memory.size;
    if (!grown) {
      drop(s);
      return std::move(grown.error());
    }
  }
  auto named = name_tensor(s, s.memory, type, shape);
  if (!named) {
    // The slot returns to the pool after an error.
    drop(s);
    return std::move(named.error());
  }
  s.bytes = *bytes;
  s.fits = keeps_tensors();
  fill(s.memory);
  return &s;
}

/// Runs on the thread of a source, so it touches the slot alone.
/// A slot that is too small gets `grown`, which the engine does not know yet.
result<void> slot_pool::shape(slot& s, dtype type, std::span<const std::int64_t> shape) {
  auto bytes = bytes_for(type, shape);
  if (!bytes) {
    return std::move(bytes.error());
  }
  // Memory that an earlier call has grown is used again.
  runtime::storage memory = s.memory;
  if (s.grown) {
    memory.base = s.grown.get();
    memory.size = s.grown_size;
  }
  if (*bytes > memory.size) {
    s.grown = allocate(*bytes);
    if (!s.grown) {
      return no_memory(*bytes);
    }
    s.grown_size = *bytes;
    memory.base = s.grown.get();
    memory.size = s.grown_size;
  }
  WEIR_CHECK(name_tensor(s, memory, type, shape));
  s.bytes = *bytes;
  fill(memory);
  return {};
}

/// Makes grown memory the memory of the slot. The tensor of the slot then names the new
/// memory, whose address is the same.
void slot_pool::settle(slot& s) {
  // Most items fit into the slot.
  if (!s.grown) {
    return;
  }
  used_ -= s.memory.size;
  release(s);
  s.owned = std::move(s.grown);
  s.memory = host_.base().adopt(s.owned.get(), s.grown_size, name_);
  s.grown_size = 0;
  total_ += s.memory.size;
  used_ += s.memory.size;
  s.tensor = or_throw(runtime::tensor::over(s.memory, s.tensor.type(), s.tensor.shape()));
}

/// Gives a slot new memory of the same size, because tasks that have failed may still
/// write to the old one in part.
result<void> slot_pool::replace(slot& s) {
  const std::int64_t size = s.memory.size;
  used_ -= size;
  auto given = give_memory(s, size);
  used_ += s.memory.size;
  return given;
}

/// @param outlets  Outlets of the stage, which bound the work of `give_back`.
item_pool::item_pool(std::size_t count, std::size_t outlets) : outlets_(outlets) {
  add(count);
}

/// Addresses of items never change, because the container does not move them.
void item_pool::add(std::size_t count) {
  const std::size_t before = all_.size();
  all_.resize(before + count);
  free_.reserve(all_.size());
  // The first item of the container is taken first.
  for (std::size_t i = all_.size(); i-- > before;) {
    all_[i].home = this;
    free_.push_back(&all_[i]);
  }
}

/// Drops the slots of an item and returns it to the pool.
void item_pool::give_back(item& one) noexcept {
  for (std::size_t o = 0; o < outlets_; ++o) {
    // Slots that were never filled are null.
    if (slot*& s = one.slots[o]; s != nullptr) {
      s->home->drop(*s);
      s = nullptr;
    }
  }
  one.lane = 0;
  push_reserved(free_, one);
  // Clearing an empty map would cost a call. Behind a call in the middle the function
  // would need what it has saved before, so this one comes last.
  if (!one.about.empty()) {
    one.about.clear();
  }
}

}  // namespace weir::flow
