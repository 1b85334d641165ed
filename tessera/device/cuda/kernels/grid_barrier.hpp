// SPDX-License-Identifier: Apache-2.0
/// @file
/// The barrier of all blocks of a persistent kernel, and the memory that it needs.
///
/// A persistent kernel has one parameter more than its record in the module: the address
/// of a `grid_control` on the device, which the backend passes behind all others. Its
/// first three members are 0 when the kernel starts.
#pragma once

#include "kernels/device.hpp"

namespace weir::device_code {

/// State of the barrier of one launch.
struct grid_control {
  std::uint32_t arrived;     ///< blocks that wait
  std::uint32_t generation;  ///< number of barriers so far
  std::uint32_t stopped;   ///< not 0 if the kernel was asked to stop at the last barrier
  std::uint32_t reserved;  ///< 0
  const std::uint32_t* stop;  ///< number that the host sets to ask the kernel to stop
};

/// Waits for all blocks of the grid, and returns true if the kernel is asked to stop. All
/// threads of all blocks get the same result: the last block that arrives reads the
/// request for all.
WEIR_DEVICE bool grid_barrier(grid_control* control) noexcept {
  barrier();
  if (thread_number() == 0) {
    fence();
    const std::uint32_t generation = atomic_load(&control->generation);
    if (atomic_add(&control->arrived, 1) + 1 ==
        static_cast<std::uint32_t>(block_count())) {
      atomic_store(&control->stopped, atomic_load(load(&control->stop, 0)));
      atomic_store(&control->arrived, 0);
      fence();
      atomic_add(&control->generation, 1);
    } else {
      while (atomic_load(&control->generation) == generation) {
        pause();
      }
    }
    fence();
  }
  barrier();
  return atomic_load(&control->stopped) != 0;
}

}  // namespace weir::device_code
