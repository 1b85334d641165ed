// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counters that one thread writes and any thread reads.
///
/// Each counter has one writer: the submitting thread, or the worker that it belongs to.
#pragma once

#include <atomic>

namespace weir::runtime {

/// Adds to a counter without a locked instruction, because only one thread writes it. A
/// thread that loads the counter with acquire also sees the writer's earlier stores.
template <class T>
void tally(std::atomic<T>& counter, T amount = 1) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + amount,
                std::memory_order_release);
}

}  // namespace weir::runtime
