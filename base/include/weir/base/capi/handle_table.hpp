// SPDX-License-Identifier: Apache-2.0
/// @file
/// Handles of a C interface that are numbers. A handle contains the kind of its table, a
/// slot and the slot's generation. A stale handle therefore causes an error and never an
/// access to memory that is gone.
///
/// Looking up a handle takes no lock of the table: chunks of slots are only ever added,
/// and a slot has a spin lock for the moment in which its pointer is copied. Only adding
/// and removing take the mutex. Lock order: the mutex, then a slot.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "weir/base/error.hpp"

namespace weir {

/// A table of objects with handles, for at most 2^20 objects at a time.
/// @threads{safe from any thread}
template <class T>
class handle_table {
 public:
  /// Makes an empty table. Slots begin with this generation, so that two tables with
  /// distant generations do not accept each other's handles.
  /// @param kind  Number of the table below 16. No handle is 0 if it is not 0.
  explicit handle_table(std::uint8_t kind, std::uint32_t first_generation = 1)
      : kind_(kind), first_generation_(first_generation) {
    WEIR_EXPECT(kind < 1U << kind_bits);
  }

  /// Adds an object and returns its handle. Throws `std::bad_alloc` if memory is short or
  /// all 2^20 slots are in use.
  [[nodiscard]] std::uintptr_t add(std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      grow();
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    slot& s = slot_at(index);
    const hold held(s);
    s.object = std::move(object);
    const std::uintptr_t out = encode(index, s.generation);
    s.handle.store(out, std::memory_order_release);
    return out;
  }

  /// Returns the object of a handle, or null if the handle is not valid (any more).
  [[nodiscard]] std::shared_ptr<T> get(std::uintptr_t handle) {
    slot* const s = find(handle);
    if (s == nullptr) {
      return nullptr;
    }
    const hold held(*s);
    return matches(*s, handle) ? s->object : nullptr;
  }

  /// Returns true if the handle has an object at this moment. Takes no lock, so the
  /// caller must know that the object stays.
  [[nodiscard]] bool live(std::uintptr_t handle) {
    const slot* const s = find(handle);
    return s != nullptr && s->handle.load(std::memory_order_acquire) == handle;
  }

  /// Removes and returns the object of a handle. Returns null if there is none. Of
  /// several threads that remove the same handle, one gets the object.
  [[nodiscard]] std::shared_ptr<T> remove(std::uintptr_t handle) {
    slot* const s = find(handle);
    if (s == nullptr) {
      return nullptr;
    }
    std::shared_ptr<T> out;
    {
      const hold held(*s);
      if (!matches(*s, handle)) {
        return nullptr;
      }
      out = take(*s);
    }
    const std::lock_guard lock(mutex_);
    free_.push_back(index_of(handle));
    return out;
  }

  /// Removes and returns all objects for which `which` returns true.
  template <class Which>
  [[nodiscard]] std::vector<std::shared_ptr<T>> remove_if(Which&& which) {
    std::vector<std::shared_ptr<T>> out;
    const std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < slots_; ++i) {
      slot& s = slot_at(i);
      const hold held(s);
      if (used(s) && which(*s.object)) {
        out.push_back(take(s));
        free_.push_back(i);
      }
    }
    return out;
  }

  /// Calls `visit` with each object, without a lock. Objects that are added meanwhile are
  /// not visited.
  template <class Visit>
  void for_each(Visit&& visit) {
    std::vector<std::shared_ptr<T>> present;
    {
      const std::lock_guard lock(mutex_);
      for (std::uint32_t i = 0; i < slots_; ++i) {
        slot& s = slot_at(i);
        const hold held(s);
        if (used(s)) {
          present.push_back(s.object);
        }
      }
    }
    for (const auto& object : present) {
      visit(*object);
    }
  }

  /// Returns the object in the lowest slot, or null if the table is empty.
  [[nodiscard]] std::shared_ptr<T> any() {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < slots_; ++i) {
      slot& s = slot_at(i);
      const hold held(s);
      if (used(s)) {
        return s.object;
      }
    }
    return nullptr;
  }

 private:
  /// A handle has, from its lowest bit: 4 bits for the kind, 20 for the slot, and the
  /// rest for the generation.
  static constexpr std::uint32_t per_chunk = 256;
  static constexpr std::uint32_t chunks = 4096;
  static constexpr unsigned kind_bits = 4;
  static constexpr unsigned index_bits = 20;

  /// A place for one object. `handle` may be read without the lock; all other members are
  /// accessed by the holder of `busy`.
  struct slot {
    std::atomic_flag busy = ATOMIC_FLAG_INIT;
    std::uint32_t generation = 1;
    std::atomic<std::uintptr_t> handle{0};  ///< handle of the object; 0: slot is free
    std::shared_ptr<T> object;
  };
  /// Holds a slot while a pointer is copied. A spin lock suffices for that.
  class hold {
   public:
    explicit hold(slot& s) : slot_(s) {
      while (slot_.busy.test_and_set(std::memory_order_acquire)) {
      }
    }
    ~hold() { slot_.busy.clear(std::memory_order_release); }
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;

   private:
    slot& slot_;
  };
  using chunk = std::array<slot, per_chunk>;

  /// Adds a chunk of free slots. The caller holds the mutex. Slots are handed out from
  /// the lowest on, so the highest index is pushed first.
  void grow() {
    if (slots_ == per_chunk * chunks) {
      throw std::bad_alloc();
    }
    auto made = std::make_unique<chunk>();
    for (slot& s : *made) {
      s.generation = first_generation_;
    }
    // Readers find the chunk without the mutex; release and acquire order its contents.
    table_[slots_ / per_chunk].store(made.get(), std::memory_order_release);
    owned_.push_back(std::move(made));
    for (std::uint32_t i = per_chunk; i-- > 0;) {
      free_.push_back(slots_ + i);
    }
    slots_ += per_chunk;
  }
  /// Returns a slot that exists.
  [[nodiscard]] slot& slot_at(std::uint32_t index) {
    return (
        *table_[index / per_chunk].load(std::memory_order_acquire))[index % per_chunk];
  }
  /// Returns the handle of a slot in a generation.
  [[nodiscard]] std::uintptr_t encode(std::uint32_t index,
                                      std::uint32_t generation) const {
    return ((std::uintptr_t{generation} << index_bits | index) << kind_bits) |
           std::uintptr_t{kind_};
  }
  /// Returns the slot's number in a handle, which may name no slot.
  [[nodiscard]] static std::uint32_t index_of(std::uintptr_t handle) noexcept {
    return static_cast<std::uint32_t>(handle >> kind_bits) & ((1U << index_bits) - 1);
  }
  /// Returns the slot that a handle names, or null if its kind is another or its chunk
  /// does not exist. The generation is not compared yet.
  [[nodiscard]] slot* find(std::uintptr_t handle) {
    const std::uint32_t index = index_of(handle);
    if ((handle & ((1U << kind_bits) - 1)) != std::uintptr_t{kind_}) {
      return nullptr;
    }
    chunk* const c = table_[index / per_chunk].load(std::memory_order_acquire);
    return c == nullptr ? nullptr : &(*c)[index % per_chunk];
  }
  /// Returns true if the slot has the object of this handle. The caller holds the slot.
  [[nodiscard]] static bool matches(const slot& s, std::uintptr_t handle) noexcept {
    return s.handle.load(std::memory_order_relaxed) == handle;
  }
  [[nodiscard]] static bool used(const slot& s) noexcept {
    return s.handle.load(std::memory_order_relaxed) != 0;
  }
  /// Empties a slot and begins its next generation. The caller holds it.
  [[nodiscard]] static std::shared_ptr<T> take(slot& s) {
    s.handle.store(0, std::memory_order_release);
    ++s.generation;
    return std::move(s.object);
  }

  std::uint8_t kind_;
  std::uint32_t first_generation_;
  std::array<std::atomic<chunk*>, chunks> table_{};  ///< null where no chunk exists yet
  std::mutex mutex_;  ///< guards `owned_`, `free_` and `slots_`
  std::vector<std::unique_ptr<chunk>> owned_;
  std::vector<std::uint32_t> free_;
  std::uint32_t slots_ = 0;
};

}  // namespace weir
