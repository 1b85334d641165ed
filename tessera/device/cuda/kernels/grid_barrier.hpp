// SPDX-License-Identifier: Apache-2.0
/// @file
/// The barrier of all blocks of a persistent kernel. The kernel gets the memory for it
/// and the request to stop in its last parameter, `launch_facts`.
#pragma once

#include "kernels/device.hpp"
#include "launch_facts.hpp"

namespace weir::device_code {

using tessera::cuda::launch_facts;

/// Places in `launch_facts::barrier`: number of blocks that wait, number of barriers so
/// far, and a number that is not 0 if the kernel was asked to stop at the last barrier.
enum : std::int32_t { barrier_arrived = 0, barrier_generation = 1, barrier_stopped = 2 };

/// Waits for all blocks of the grid, and returns true if the kernel is asked to stop. All
/// threads of all blocks get the same result: the last block that arrives reads the
/// request for all.
WEIR_DEVICE bool grid_barrier(const launch_facts& facts) noexcept {
  std::uint32_t* const words = facts.barrier;
  barrier();
  if (thread_number() == 0) {
    fence();
    const std::uint32_t generation = atomic_load(words + barrier_generation);
    const auto blocks = static_cast<std::uint32_t>(block_count());
    if (atomic_add(words + barrier_arrived, 1) + 1 == blocks) {
      const auto* stop = const_cast<const std::uint32_t*>(facts.stop);
      atomic_store(words + barrier_stopped, atomic_load(stop));
      atomic_store(words + barrier_arrived, 0);
      fence();
      atomic_add(words + barrier_generation, 1);
    } else {
      while (atomic_load(words + barrier_generation) == generation) {
        short_wait();
      }
    }
    fence();
  }
  barrier();
  return atomic_load(words + barrier_stopped) != 0;
}

}  // namespace weir::device_code
