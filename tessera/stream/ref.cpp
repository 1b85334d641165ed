// SPDX-License-Identifier: Apache-2.0
/// @file
/// The memory of counted objects.
///
/// An operation is made by a thread of the program and destroyed by a worker, so a
/// general allocator would move each block back from thread to thread under a lock. Here
/// a thread keeps freed blocks for its own use and exchanges them with other threads in
/// batches of 32, so that the shared lock is rarely taken. Blocks are multiples of a
/// cache line and are aligned to one. A thread that ends gives its full batches to the
/// exchange and frees the rest.
#include "weir/tessera/stream/ref.hpp"

#include <array>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "weir/base/system/fork.hpp"
#include "weir/base/system/prefetch.hpp"
#include "weir/base/system/sanitizers.hpp"

namespace weir::tessera {
namespace {

// In a build with a sanitizer, every use after the release is found by it.
constexpr bool recycles = !sanitized;

constexpr std::size_t step = 64;   ///< sizes are multiples of it
constexpr std::size_t kinds = 12;  ///< larger objects are not kept
constexpr std::align_val_t line{step};

/// A batch of free blocks of one size. The blocks are not linked through their own
/// memory, because following a link would wait for another processor's cache line.
struct block_batch {
  static constexpr std::uint32_t capacity = 32;
  std::array<void*, capacity> blocks{};
  std::uint32_t count = 0;

  [[nodiscard]] bool full() const noexcept { return count == capacity; }
};

/// Batches on their way from thread to thread, by size. @threads{safe from any thread}
class exchange {
 public:
  /// Takes over a batch and leaves `all` empty. If the list cannot grow, the blocks are
  /// freed.
  void give(std::size_t kind, block_batch& all) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      batches_[kind].push_back(all);
      all.count = 0;
    } catch (const std::bad_alloc&) {
      drop(all);
    }
  }
  /// Moves a batch into `all`, which stays empty if there is none.
  void take(std::size_t kind, block_batch& all) noexcept {
    const std::lock_guard lock(mutex_);
    if (!batches_[kind].empty()) {
      all = batches_[kind].back();
      batches_[kind].pop_back();
    }
  }
  /// Makes the lock usable in children of `fork`.
  bool open_in_children() { return unlock_in_child_of_fork(mutex_); }
  /// Frees the blocks of a batch.
  static void drop(block_batch& all) noexcept {
    while (all.count != 0) {
      ::operator delete(all.blocks[--all.count], line);
    }
  }

 private:
  std::mutex mutex_;
  std::array<std::vector<block_batch>, kinds> batches_;
};

/// Returns the exchange, which is never destroyed because threads may end after it.
exchange& between_threads() {
  static auto* const all = new exchange;
  static const bool watched = all->open_in_children();
  static_cast<void>(watched);
  return *all;
}

/// Free blocks of one thread. There are two batches of each size, so that a thread that
/// alternates between making and destroying objects does not use the exchange each time.
class own_blocks {
 public:
  ~own_blocks() {
    gone_ = true;
    for (auto* const all : {&now_, &spare_}) {
      for (std::size_t kind = 0; kind < kinds; ++kind) {
        // Partial batches are freed: exchanging them would fill the exchange with small
        // ones.
        if ((*all)[kind].full()) {
          between_threads().give(kind, (*all)[kind]);
        }
        exchange::drop((*all)[kind]);
      }
    }
  }

  /// Returns a block, or null if the thread and the exchange have none. Takes from the
  /// current batch, then the spare one, then the exchange.
  [[nodiscard]] void* get(std::size_t kind) noexcept {
    block_batch& now = now_[kind];
    if (now.count == 0) {
      std::swap(now, spare_[kind]);
    }
    if (now.count == 0) {
      between_threads().take(kind, now);
    }
    if (now.count == 0) {
      return nullptr;
    }
    void* const out = now.blocks[--now.count];
    if (now.count != 0) {  // the next block may be in another processor's cache
      const auto* const next = static_cast<const std::byte*>(now.blocks[now.count - 1]);
      for (std::size_t i = 0; i <= kind; ++i) {
        prefetch_to_write(next + i * step);
      }
    }
    return out;
  }
  /// Keeps a block. If both batches are full, one goes to the exchange.
  void keep(std::size_t kind, void* address) noexcept {
    block_batch& now = now_[kind];
    if (now.full()) {
      if (spare_[kind].count != 0) {
        between_threads().give(kind, spare_[kind]);
      }
      std::swap(now, spare_[kind]);
    }
    now.blocks[now.count++] = address;
  }

  /// Returns true once the thread's blocks are released. Other thread-local variables may
  /// destroy objects after that.
  [[nodiscard]] static bool gone() noexcept { return gone_; }

 private:
  std::array<block_batch, kinds> now_;
  std::array<block_batch, kinds> spare_;
  static thread_local bool gone_;
};
thread_local bool own_blocks::gone_ = false;
thread_local own_blocks blocks_of_thread;  // NOLINT: one for each thread

/// Returns the index of a size: blocks of index k have (k + 1) * `step` bytes.
constexpr std::size_t kind_of(std::size_t bytes) noexcept {
  return (bytes - 1) / step;
}

}  // namespace

// A thread whose blocks are released already, at its end, uses the general allocator.
void* counted::operator new(std::size_t bytes) {
  const std::size_t kind = kind_of(bytes);
  if (!recycles || kind >= kinds) {
    return ::operator new(bytes, line);
  }
  void* const found = own_blocks::gone() ? nullptr : blocks_of_thread.get(kind);
  return found != nullptr ? found : ::operator new((kind + 1) * step, line);
}

// Often called on another thread than the one that made the object.
void counted::operator delete(void* memory, std::size_t bytes) noexcept {
  const std::size_t kind = kind_of(bytes);
  if (!recycles || kind >= kinds || own_blocks::gone()) {
    ::operator delete(memory, line);
  } else {
    blocks_of_thread.keep(kind, memory);
  }
}

}  // namespace weir::tessera
