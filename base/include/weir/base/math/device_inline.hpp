// SPDX-License-Identifier: Apache-2.0
/// @file
/// The macro WEIR_MATH, which begins functions that are always inlined and that nvcc
/// compiles for the host and for GPUs.
#pragma once

#if defined(__CUDACC__)
#define WEIR_MATH __host__ __device__ inline __attribute__((always_inline))
#else
#define WEIR_MATH [[gnu::always_inline]] inline
#endif
