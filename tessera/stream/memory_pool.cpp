// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory that a mesh keeps for later requests, and the choice of the block that serves a
/// request.
///
/// A block serves requests of exactly its size. Programs repeat the
/// same sizes in each step, so exact sizes are found again and nothing is lost to
/// fragmentation. All members are guarded by `mutex_`. The memory itself is released
/// without the lock.
#include "weir/tessera/stream/memory_pool.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "stream/graphs/graph_memory.hpp"

namespace weir::tessera {

// Returns the bytes that may still be charged. The limit may be below the use if the
// program lowers it.
std::size_t memory_budget::free_bytes() const noexcept {
  const std::size_t max_bytes = limit_;
  const std::size_t used = used_;
  return max_bytes == 0     ? std::numeric_limits<std::size_t>::max()
         : used < max_bytes ? max_bytes - used
                            : 0;
}

// Charges bytes unless that exceeds the limit. The loop makes check and addition one
// step, because several threads may allocate on the same stream.
bool memory_budget::charge(std::size_t bytes) noexcept {
  std::size_t used = used_;
  for (;;) {
    const std::size_t max_bytes = limit_;
    if (bytes > std::numeric_limits<std::size_t>::max() - used ||
        (max_bytes != 0 && used + bytes > max_bytes)) {
      return false;
    }
    if (used_.compare_exchange_weak(used, used + bytes)) {
      return true;
    }
  }
}

memory_pool::memory_pool(symmetric_memory& memory, std::span<const std::int32_t> devices,
                         std::uint64_t owner)
    : memory_(memory), devices_(devices.begin(), devices.end()), owner_(owner) {
  counts_.keeps = usual_keep;
}

// Finds a kept block. A block that the same stream returned serves at once: its earlier
// users come before the new ones in the stream's order. A block of another stream serves
// once the point at its end is reached.
allocation_ptr memory_pool::find_kept(std::uint64_t stream, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto fits = [&](const kept_memory& k) {
    return k.memory->bytes() == bytes && (k.stream == stream || k.end->reached());
  };
  // The latest block is the most likely to be in the caches.
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(), fits);
  if (found == kept_.rend()) {
    return nullptr;
  }
  allocation_ptr out = std::move(found->memory);
  kept_.erase(std::next(found).base());
  kept_bytes_ -= bytes;
  ++counts_.reused;
  return out;
}

// Counts memory as used and returns its address.
result<void*> memory_pool::hand_out(allocation_ptr memory,
                                    const std::shared_ptr<memory_budget>& pays) {
  void* const address = memory->data();
  const std::lock_guard lock(mutex_);
  out_.emplace(address, handed_out{memory->bytes(), pays, {}});
  counts_.used += memory->bytes();
  counts_.used_peak = std::max(counts_.used_peak, counts_.used);
  counts_.reserved_peak = std::max(counts_.reserved_peak, counts_.reserved);
  return address;
}

result<void*> memory_pool::take(std::uint64_t stream, std::size_t bytes,
                                const std::shared_ptr<memory_budget>& pays) {
  allocation_ptr memory = find_kept(stream, bytes);
  if (memory != nullptr) {
    // A kept block had left the table of addresses when it was freed.
    if (auto known = memory_.restore(memory); !known) {
      const std::lock_guard lock(mutex_);
      counts_.reserved -= bytes;
      return std::move(known).error();
    }
    return hand_out(std::move(memory), pays);
  }
  WEIR_TRY(memory, memory_.allocate(devices_, bytes, owner_));
  {
    const std::lock_guard lock(mutex_);
    counts_.reserved += bytes;
  }
  return hand_out(std::move(memory), pays);
}

// Counts memory of a graph as handed out to the program. The pool does not keep it later.
void memory_pool::lend(const allocation_ptr& memory,
                       const std::shared_ptr<memory_budget>& pays,
                       std::weak_ptr<graph_memory> graphs) {
  const std::lock_guard lock(mutex_);
  out_.emplace(memory->data(), handed_out{memory->bytes(), pays, std::move(graphs)});
  counts_.used += memory->bytes();
  counts_.used_peak = std::max(counts_.used_peak, counts_.used);
  counts_.reserved += memory->bytes();
  counts_.reserved_peak = std::max(counts_.reserved_peak, counts_.reserved);
}

// Ends the accounting of handed-out memory. Returns nothing if the pool did not hand it
// out. The caller holds `mutex_`.
std::optional<memory_pool::handed_out> memory_pool::settle(const allocation_ptr& memory) {
  const auto found = out_.find(memory->data());
  if (found == out_.end()) {
    return std::nullopt;
  }
  handed_out entry = std::move(found->second);
  entry.pays->discharge(entry.bytes);
  counts_.used -= entry.bytes;
  out_.erase(found);
  return entry;
}

// Takes memory back after the operations in front of `end`. Memory of a graph returns to
// the graph and is not kept.
void memory_pool::give_back(std::uint64_t stream, const allocation_ptr& memory,
                            ref<point> end) {
  std::shared_ptr<graph_memory> graphs;
  // Declared before the lock, so that the blocks are released after it is unlocked.
  std::vector<kept_memory> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto entry = settle(memory);
    if (!entry) {
      return;
    }
    graphs = entry->graphs.lock();
    // Memory that another library has may be in use for any time, so it is not kept
    // either.
    if (memory->lent() || graphs != nullptr) {
      counts_.reserved -= memory->bytes();
    } else {
      kept_.push_back({memory, stream, end});
      kept_bytes_ += memory->bytes();
      gone = over(counts_.keeps);
    }
  }
  if (graphs != nullptr) {
    graphs->given_back({std::move(end)});
  }
}

// Ends the accounting without keeping the memory. Returns the graph that has it, or null.
std::shared_ptr<graph_memory> memory_pool::forget(const allocation_ptr& memory) {
  const std::lock_guard lock(mutex_);
  const auto entry = settle(memory);
  if (!entry) {
    return nullptr;
  }
  counts_.reserved -= memory->bytes();
  return entry->graphs.lock();
}

// Notes addresses that only a capture has, so that freeing them by other calls is
// refused.
void memory_pool::note_recorded(const void* address, bool recorded) {
  const std::lock_guard lock(mutex_);
  if (recorded) {
    recorded_.insert(address);
  } else {
    recorded_.erase(address);
  }
}

bool memory_pool::recorded(const void* address) const {
  const std::lock_guard lock(mutex_);
  return recorded_.count(address) != 0;
}

// Removes the oldest blocks until at most `bytes` are kept, and returns them. The caller
// holds `mutex_` and releases the blocks after it.
std::vector<memory_pool::kept_memory> memory_pool::over(std::size_t bytes) {
  auto last = kept_.begin();
  for (; kept_bytes_ > bytes; ++last) {
    kept_bytes_ -= last->memory->bytes();
    counts_.reserved -= last->memory->bytes();
  }
  std::vector<kept_memory> out(std::make_move_iterator(kept_.begin()),
                               std::make_move_iterator(last));
  kept_.erase(kept_.begin(), last);
  return out;
}

void memory_pool::set_keep(std::size_t bytes) {
  std::vector<kept_memory> gone;
  const std::lock_guard lock(mutex_);
  counts_.keeps = bytes;
  gone = over(bytes);
}

void memory_pool::trim(std::size_t bytes) {
  std::vector<kept_memory> gone;
  const std::lock_guard lock(mutex_);
  gone = over(bytes);
}

pool_counters memory_pool::counters() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace weir::tessera
