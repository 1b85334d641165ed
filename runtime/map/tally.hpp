// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counters that one thread writes and any thread reads.
#pragma once

#include <atomic>

namespace weir::runtime {

/// Adds without a locked instruction; the writer is alone. Who loads the counter with
/// acquire sees what the writer did before.
template <class T>
void tally(std::atomic<T>& counter, T amount = 1) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + amount,
                std::memory_order_release);
}

}  // namespace weir::runtime
