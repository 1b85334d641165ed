// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory of items: slots hold the tensors of an outlet, items name slots. Both come from
/// pools that a run fills once, so that items at rest cost no allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "weir/pipeline/host/slot_memory.hpp"
#include "weir/pipeline/item.hpp"
#include "weir/weir.hpp"

namespace weir::flow {

class slot_pool;
class item_pool;

/// Memory for the tensor of one item at one outlet.
///
/// A slot is free when no item names it. Names are dropped only after the tasks of the
/// stage that held them have ended, so a free slot has no task left.
struct slot {
  /// Releases memory of `std::aligned_alloc`, or of a region that another process shares.
  struct free_memory {
    free_memory() noexcept : from(nullptr) {}
    explicit free_memory(slot_memory* region) noexcept : from(region) {}
    slot_memory* from;  ///< null: `std::aligned_alloc`
    void operator()(std::byte* p) const noexcept {
      from != nullptr ? from->free(p) : std::free(p);
    }
  };
  /// Owned bytes at a multiple of 64.
  using buffer = std::unique_ptr<std::byte, free_memory>;

  runtime::tensor tensor;       ///< tensor of the item, set when the slot is taken
  runtime::storage memory;      ///< all bytes of the slot, known to the engine
  buffer owned;                 ///< bytes behind `memory`
  buffer grown;                 ///< larger bytes that the engine does not know yet
  std::int64_t grown_size = 0;  ///< size of `grown`. @units{bytes}
  std::int64_t bytes = 0;       ///< bytes of `tensor`. @units{bytes}
  std::uint32_t names = 0;      ///< items and calls that name the slot
  /// True if all bytes are there when the slot is filled, because no task writes them.
  bool complete = false;
  /// True if the slot has a fixed size, and `tensor` names `memory` and has a type and
  /// shape that the pool's outlet may have.
  bool fits = false;
  slot_pool* home = nullptr;  ///< pool to which the slot returns

  /// Returns whether the slot's tensor has this type and shape already, as those of most
  /// items.
  [[nodiscard]] bool has(dtype type, std::span<const std::int64_t> shape) const noexcept {
    const std::span<const std::int64_t> now = tensor.shape();
    bool same = fits && tensor.type() == type && now.size() == shape.size();
    // There are few numbers, for which a loop takes less than a call of `memcmp`.
    for (std::size_t i = 0; same && i < shape.size(); ++i) {
      same = now[i] == shape[i];
    }
    return same;
  }
};

/// Appends to a vector that has room for one more. Without the code that makes room the
/// functions that call it are short.
/// @pre `to.size() < to.capacity()`
template <class T>
[[gnu::always_inline]] inline void push_reserved(std::vector<T*>& to, T& one) noexcept {
  if (to.size() == to.capacity()) {
    __builtin_unreachable();
  }
  to.push_back(&one);
}

/// The slots of one outlet or scratch memory.
///
/// Slots of a fixed size are allocated once. Slots of other sizes grow on demand; all of
/// them together have at most twice `budget` bytes, because a slot is taken only while
/// those in use have fewer than `budget`, and one item has at most `budget`.
/// @threads{thread-compatible; `grow` of a taken slot: the thread that holds it}
class slot_pool {
 public:
  /// Makes a pool. @param count Number of slots. @param fixed_bytes Size of each slot, or
  /// 0 if sizes vary. @param budget See above. @param name Outlet, for messages.
  /// @param shared Memory from which slots come as long as it has space; may be null.
  /// @error{out_of_memory, the slots cannot be allocated}
  [[nodiscard]] static result<std::unique_ptr<slot_pool>> create(
      engine& host, std::size_t count, std::int64_t fixed_bytes, std::int64_t budget,
      std::string name, std::shared_ptr<slot_memory> shared = nullptr);
  slot_pool(const slot_pool&) = delete;
  slot_pool& operator=(const slot_pool&) = delete;
  ~slot_pool();

  /// Returns whether `count` slots can be taken.
  [[nodiscard]] bool available(std::size_t count) const noexcept {
    return free_.size() >= count && (fixed_ != 0 || used_ < budget_);
  }
  /// Takes a slot with memory for a tensor, which it then names once.
  /// @pre `available(1)` @error{out_of_range, more bytes than the pool gives one item}
  /// @error{out_of_memory, the allocation fails}
  [[nodiscard]] result<slot*> take(dtype type, std::span<const std::int64_t> shape);
  /// Takes a slot that `has` this type and shape. Returns null if there is none.
  /// @pre `available(1)`
  [[nodiscard]] slot* take_same(dtype type,
                                std::span<const std::int64_t> shape) noexcept {
    slot& s = *free_.back();
    if (!s.has(type, shape)) {
      return nullptr;
    }
    free_.pop_back();
    s.names = 1;
    s.complete = false;
    used_ += s.memory.size;
    return &s;
  }
  /// Takes a slot without setting its tensor, for a source that sets it by `shape`.
  /// @pre `available(1)`
  [[nodiscard]] slot& take_blank() noexcept {
    if (fixed_ == 0) {
      prefer_largest();
    }
    slot& s = *free_.back();
    free_.pop_back();
    s.names = 1;
    s.complete = true;
    used_ += s.memory.size;
    return s;
  }
  /// Sets the tensor of a taken slot. Memory that is too small is replaced by memory that
  /// the engine does not know before `settle`.
  /// @error{out_of_range, see `take`} @error{out_of_memory, see `take`}
  [[nodiscard]] result<void> shape(slot& s, dtype type,
                                   std::span<const std::int64_t> shape);
  /// Makes memory that `shape` has replaced known to the engine.
  void settle(slot& s);
  /// Gives new memory to a slot whose tasks have failed, because the engine does not run
  /// tasks on bytes that a failed task should have written.
  /// @error{out_of_memory, the allocation fails}
  [[nodiscard]] result<void> replace(slot& s);
  /// Takes back a slot of `take_blank` whose item was not delivered.
  void take_back(slot& s) noexcept {
    s.grown.reset();
    s.grown_size = 0;
    drop(s);
  }
  /// Drops one name; the slot becomes free with the last one.
  void drop(slot& s) noexcept {
    if (--s.names == 0) {
      push_reserved(free_, s);  // all slots have been in it
      used_ -= s.memory.size;
    }
  }
  /// Fills each slot with a byte before it is handed out, so that bytes that no stage
  /// writes show. @param byte  From 0 to 255; -1: nothing is filled.
  void fill_with(int byte) noexcept { fill_ = byte; }
  /// Returns whether a slot may keep its tensor for the next item of the same shape.
  [[nodiscard]] bool keeps_tensors() const noexcept { return fixed_ != 0 && fill_ < 0; }
  /// Returns whether all slots have one size.
  [[nodiscard]] bool fixed() const noexcept { return fixed_ != 0; }
  /// Returns the bytes of all slots. @units{bytes}
  [[nodiscard]] std::int64_t bytes() const noexcept { return total_; }

 private:
  slot_pool(engine& host, std::int64_t fixed, std::int64_t budget, std::string name,
            std::shared_ptr<slot_memory> shared)
      : host_(host),
        shared_(std::move(shared)),
        fixed_(fixed),
        budget_(budget),
        name_(std::move(name)) {}
  [[nodiscard]] result<std::int64_t> bytes_for(dtype type,
                                               std::span<const std::int64_t> shape) const;
  [[nodiscard]] static result<void> name_tensor(slot& s, const runtime::storage& memory,
                                                dtype type,
                                                std::span<const std::int64_t> shape);
  [[nodiscard]] slot::buffer allocate(std::int64_t bytes) const noexcept;
  [[nodiscard]] error no_memory(std::int64_t bytes) const;
  [[nodiscard]] result<void> give_memory(slot& s, std::int64_t bytes);
  void release(slot& s) noexcept;
  void fill(const runtime::storage& memory) const noexcept;
  void trim() noexcept;
  void prefer_largest() noexcept;

  engine& host_;
  std::shared_ptr<slot_memory> shared_;  ///< outlives the slots
  std::int64_t fixed_;
  std::int64_t budget_;
  std::int64_t used_ = 0;   ///< bytes of slots that are not free
  std::int64_t total_ = 0;  ///< bytes of all slots
  int fill_ = -1;           ///< see `fill_with`
  std::string name_;
  std::vector<std::unique_ptr<slot>> all_;
  std::vector<slot*> free_;
};

/// An item on the edges of a run: number, lane, attributes and the slots of its tensors.
struct item {
  std::uint64_t seq = 0;                 ///< number of the item
  std::uint32_t lane = 0;                ///< lane of the item
  std::uint32_t holders = 0;             ///< edges and calls that hold the item
  std::int64_t left_source_ns = 0;       ///< when the oldest item in it left its source
  std::array<slot*, max_ports> slots{};  ///< by outlet; null for a gap at the outlet
  attributes about;                      ///< attributes of the item
  item_pool* home = nullptr;             ///< pool to which the item returns
};

/// The items of one stage.
/// @threads{thread-compatible}
class item_pool {
 public:
  /// Makes a pool of `count` items, which name slots of `outlets` outlets at most.
  explicit item_pool(std::size_t count, std::size_t outlets = max_ports);
  /// Returns the number of outlets that its items have.
  [[nodiscard]] std::size_t outlets() const noexcept { return outlets_; }
  /// Takes an item without slots, attributes or holders. The pool grows if it has none,
  /// because stages that pass items on make them live longer.
  [[nodiscard]] item& take() {
    if (free_.empty()) {
      add(all_.size());
    }
    item& one = *free_.back();
    free_.pop_back();
    return one;
  }
  /// Takes an item back and drops its names.
  void give_back(item& one) noexcept;

 private:
  void add(std::size_t count);

  std::size_t outlets_;
  std::deque<item> all_;
  std::vector<item*> free_;
};

/// Drops one holder of an item, which returns to its pool with the last one.
inline void let_go(item& one) noexcept {
  if (--one.holders == 0) {
    one.home->give_back(one);
  }
}

}  // namespace weir::flow
