// SPDX-License-Identifier: Apache-2.0
/// @file
/// Layout of the memory of the host that each device has registered: reports of kernels,
/// words that stop persistent kernels, and buffers for copies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda/launch_facts.hpp"

namespace weir::tessera::cuda::slab {

inline constexpr std::uint32_t reports = 2048;   ///< number of reports of kernels
inline constexpr std::uint32_t stop_words = 64;  ///< number of stop words
inline constexpr std::size_t stop_stride = 64;   ///< bytes from one stop word to the next
/// Bytes of device memory for the barrier of a persistent kernel.
inline constexpr std::size_t barrier_bytes = 64;
inline constexpr std::size_t stop_offset = reports * sizeof(kernel_report);
inline constexpr std::size_t staging_offset = stop_offset + stop_words * stop_stride;
static_assert(staging_offset % 4096 == 0);

}  // namespace weir::tessera::cuda::slab
