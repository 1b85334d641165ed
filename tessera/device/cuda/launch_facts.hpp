// SPDX-License-Identifier: Apache-2.0
/// @file
/// The last parameter that a CUDA kernel may declare behind those of its table entry. It
/// tells the kernel what blocks on processors get from tessBlockContext. Device code and
/// host code include it.
#pragma once

#include <cstdint>

#include "tessera_kernel.h"

namespace weir::tessera::cuda {

/// What a kernel reports to the host. The words begin as zeros, in memory of the host
/// that the device can write.
struct kernel_report {
  /// A number other than 0 makes the launch fail. Written before `block`.
  std::uint32_t failure;
  std::uint32_t block;  ///< linear index of the block that failed
};

/// Facts about a launch, passed by value.
struct launch_facts {
  std::uint32_t struct_size;           ///< size of this structure in bytes
  std::int32_t rank;                   ///< rank of this device in the mesh
  std::int32_t ranks;                  ///< number of devices of the mesh
  std::int32_t device;                 ///< ordinal of the device
  std::int32_t axis_size[4];           ///< devices along tp, pp, dp, ep
  std::int32_t axis_index[4];          ///< coordinates of this device in the mesh
  const void* constants;               ///< read-only data of the module, or null
  std::uint64_t constant_bytes;        ///< bytes of `constants`
  kernel_report* report;               ///< report of this launch
  const volatile std::uint32_t* stop;  ///< persistent: not 0 once it has to stop
  /// Persistent: 16 words of device memory for a barrier of the grid, zeros at the start.
  std::uint32_t* barrier;
  tessDeterminism determinism;  ///< freedom with numbers; all zeros if none was given
};

}  // namespace weir::tessera::cuda
