// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kept blocks, and the choice of the block that serves a request.
#include "weir/tessera/stream/memory_pool.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "stream/graphs/graph_memory.hpp"

namespace weir::tessera {

std::size_t memory_budget::free_bytes() const noexcept {
  const std::size_t most = limit_;
  const std::size_t used = used_;
  return most == 0     ? std::numeric_limits<std::size_t>::max()
         : used < most ? most - used
                       : 0;
}

bool memory_budget::charge(std::size_t bytes) noexcept {
  std::size_t used = used_;
  for (;;) {
    const std::size_t most = limit_;
    if (bytes > std::numeric_limits<std::size_t>::max() - used ||
        (most != 0 && used + bytes > most)) {
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

allocation_ptr memory_pool::find_kept(std::uint64_t stream, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto fits = [&](const kept& k) {
    return k.memory->bytes() == bytes && (k.stream == stream || k.end->reached());
  };
  // The last block that the stream itself returned is the most likely to be in the
  // caches.
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

result<void*> memory_pool::hand_out(allocation_ptr memory,
                                    const std::shared_ptr<memory_budget>& pays) {
  void* const at = memory->data();
  const std::lock_guard lock(mutex_);
  out_.emplace(at, handed_out{memory->bytes(), pays, {}});
  counts_.used += memory->bytes();
  counts_.used_peak = std::max(counts_.used_peak, counts_.used);
  counts_.reserved_peak = std::max(counts_.reserved_peak, counts_.reserved);
  return at;
}

result<void*> memory_pool::take(std::uint64_t stream, std::size_t bytes,
                                const std::shared_ptr<memory_budget>& pays) {
  allocation_ptr memory = find_kept(stream, bytes);
  if (memory != nullptr) {
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

std::optional<memory_pool::handed_out> memory_pool::settle(const allocation_ptr& memory) {
  const auto found = out_.find(memory->data());
  if (found == out_.end()) {
    return std::nullopt;
  }
  handed_out what = std::move(found->second);
  what.pays->discharge(what.bytes);
  counts_.used -= what.bytes;
  out_.erase(found);
  return what;
}

void memory_pool::give_back(std::uint64_t stream, const allocation_ptr& memory,
                            ref<point> end) {
  std::shared_ptr<graph_memory> graphs;
  std::vector<kept> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto what = settle(memory);
    if (!what) {
      return;
    }
    graphs = what->graphs.lock();
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

std::shared_ptr<graph_memory> memory_pool::forget(const allocation_ptr& memory) {
  const std::lock_guard lock(mutex_);
  const auto what = settle(memory);
  if (!what) {
    return nullptr;
  }
  counts_.reserved -= memory->bytes();
  return what->graphs.lock();
}

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

std::vector<memory_pool::kept> memory_pool::over(std::size_t bytes) {
  auto last = kept_.begin();
  for (; kept_bytes_ > bytes; ++last) {
    kept_bytes_ -= last->memory->bytes();
    counts_.reserved -= last->memory->bytes();
  }
  std::vector<kept> out(std::make_move_iterator(kept_.begin()),
                        std::make_move_iterator(last));
  kept_.erase(kept_.begin(), last);
  return out;
}

void memory_pool::set_keep(std::size_t bytes) {
  std::vector<kept> gone;
  const std::lock_guard lock(mutex_);
  counts_.keeps = bytes;
  gone = over(bytes);
}

void memory_pool::trim(std::size_t bytes) {
  std::vector<kept> gone;
  const std::lock_guard lock(mutex_);
  gone = over(bytes);
}

pool_counters memory_pool::counters() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace weir::tessera
