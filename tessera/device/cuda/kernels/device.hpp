// SPDX-License-Identifier: Apache-2.0
/// @file
/// The primitives of which kernels for GPUs are made, for nvcc and for a compiler of the
/// host.
///
/// With nvcc each primitive is the operation of the device. With another compiler it
/// calls a function of `host::`, which whoever compiles the kernels for the host defines:
/// the kernels then run on the processor, and every access to memory can be checked.
///
/// Kernels read and write memory by `load` and `store` alone. Products that are added are
/// spelled `fused`: the compilers must not contract expressions (nvcc: `-fmad=false`,
/// others: `-ffp-contract=off`). No kernel uses operations between the threads of a warp
/// or a function of the CUDA mathematical library.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weir/base/math/elementary.hpp"

#if defined(__CUDACC__)
#define WEIR_KERNEL extern "C" __global__ void
#define WEIR_DEVICE __device__ inline __attribute__((always_inline))
/// Defines an array that the threads of a block share. Its content is undefined at first.
#define WEIR_SHARED(type, name, count) __shared__ type name[count]
/// Stands before a loop that the compiler leaves as it is.
#define WEIR_ROLLED _Pragma("unroll 1")
#else
#define WEIR_KERNEL inline void
#define WEIR_DEVICE inline
#define WEIR_ROLLED
#define WEIR_SHARED(type, name, count)   \
  type* const name = static_cast<type*>( \
      ::weir::device_code::host::shared_array(#name, sizeof(type) * (count)))
#endif

namespace weir::device_code {

/// Extents of a launch along x, y and z.
struct launch_extents {
  std::int32_t grid[3];   ///< in blocks
  std::int32_t block[3];  ///< in threads
};

#if !defined(__CUDACC__)
/// Functions that run the kernels on the host. They are called by a thread of a block.
namespace host {

/// Kinds of accesses.
enum class access : std::uint8_t { read, write, atomic };
/// Number of the calling thread in its block, and of its block in the grid.
struct position {
  std::int32_t thread;
  std::int32_t threads;
  std::int64_t block;
  std::int64_t blocks;
};
position where() noexcept;
launch_extents extents() noexcept;
/// Waits for all threads of the block. The line names the call.
void barrier(int line) noexcept;
/// Lets other threads run.
void short_wait() noexcept;
/// Returns the array of this name, one for each block.
void* shared_array(const char* name, std::size_t bytes) noexcept;
/// Notes an access. Returns false if it must not take place.
bool note(const void* address, std::size_t bytes, access kind) noexcept;

}  // namespace host
#endif

/// Returns the number of the thread in its block; the first dimension varies fastest.
WEIR_DEVICE std::int32_t thread_number() noexcept {
#if defined(__CUDACC__)
  return static_cast<std::int32_t>(threadIdx.x +
                                   blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
#else
  return host::where().thread;
#endif
}
/// Returns the number of threads of a block.
WEIR_DEVICE std::int32_t thread_count() noexcept {
#if defined(__CUDACC__)
  return static_cast<std::int32_t>(blockDim.x * blockDim.y * blockDim.z);
#else
  return host::where().threads;
#endif
}
/// Returns the number of the block in its grid; the first dimension varies fastest.
WEIR_DEVICE std::int64_t block_number() noexcept {
#if defined(__CUDACC__)
  return blockIdx.x +
         static_cast<std::int64_t>(gridDim.x) *
             (blockIdx.y + static_cast<std::int64_t>(gridDim.y) * blockIdx.z);
#else
  return host::where().block;
#endif
}
/// Returns the number of blocks of the grid.
WEIR_DEVICE std::int64_t block_count() noexcept {
#if defined(__CUDACC__)
  return static_cast<std::int64_t>(gridDim.x) * gridDim.y * gridDim.z;
#else
  return host::where().blocks;
#endif
}

/// Returns the extents of the launch.
WEIR_DEVICE launch_extents extents() noexcept {
#if defined(__CUDACC__)
  return {{static_cast<std::int32_t>(gridDim.x), static_cast<std::int32_t>(gridDim.y),
           static_cast<std::int32_t>(gridDim.z)},
          {static_cast<std::int32_t>(blockDim.x), static_cast<std::int32_t>(blockDim.y),
           static_cast<std::int32_t>(blockDim.z)}};
#else
  return host::extents();
#endif
}

/// Waits for all threads of the block. All of them must call it in the same place.
#if defined(__CUDACC__)
WEIR_DEVICE void barrier() noexcept {
  __syncthreads();
}
#else
WEIR_DEVICE void barrier(int line = __builtin_LINE()) noexcept {
  host::barrier(line);
}
#endif

/// Makes earlier writes of this thread visible to the device before its later ones.
WEIR_DEVICE void fence() noexcept {
#if defined(__CUDACC__)
  __threadfence();
#endif
}

/// Waits for a short time in a loop that asks for a value of another block.
WEIR_DEVICE void short_wait() noexcept {
#if defined(__CUDACC__)
  __nanosleep(64);
#else
  host::short_wait();
#endif
}

/// Returns element `i`.
template <class T>
WEIR_DEVICE T load(const T* from, std::int64_t i) noexcept {
#if !defined(__CUDACC__)
  if (!host::note(from + i, sizeof(T), host::access::read)) {
    return T{};
  }
#endif
  return from[i];
}
/// Writes element `i`.
template <class T>
WEIR_DEVICE void store(T* to, std::int64_t i, T value) noexcept {
#if !defined(__CUDACC__)
  if (!host::note(to + i, sizeof(T), host::access::write)) {
    return;
  }
#endif
  to[i] = value;
}

/// Reads a number that other blocks change by atomic operations.
WEIR_DEVICE std::uint32_t atomic_load(const std::uint32_t* from) noexcept {
#if defined(__CUDACC__)
  return *static_cast<const volatile std::uint32_t*>(from);
#else
  return host::note(from, sizeof *from, host::access::atomic)
             ? __atomic_load_n(from, __ATOMIC_ACQUIRE)
             : 0;
#endif
}
/// Writes a number that other blocks read or change by atomic operations.
WEIR_DEVICE void atomic_store(std::uint32_t* to, std::uint32_t value) noexcept {
#if defined(__CUDACC__)
  *static_cast<volatile std::uint32_t*>(to) = value;
#else
  if (host::note(to, sizeof *to, host::access::atomic)) {
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
  }
#endif
}
/// Adds to a number and returns the number before.
WEIR_DEVICE std::uint32_t atomic_add(std::uint32_t* to, std::uint32_t value) noexcept {
#if defined(__CUDACC__)
  return atomicAdd(to, value);
#else
  return host::note(to, sizeof *to, host::access::atomic)
             ? __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL)
             : 0;
#endif
}
/// Replaces `expected` by `value`, and returns the number before.
WEIR_DEVICE std::uint32_t atomic_exchange_if(std::uint32_t* at, std::uint32_t expected,
                                             std::uint32_t value) noexcept {
#if defined(__CUDACC__)
  return atomicCAS(at, expected, value);
#else
  if (!host::note(at, sizeof *at, host::access::atomic)) {
    return expected;
  }
  __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);
  return expected;
#endif
}

/// Returns a * b + c, rounded once.
WEIR_DEVICE float fused(float a, float b, float c) noexcept {
#if defined(__CUDACC__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}
/// Returns the square root, rounded to nearest.
WEIR_DEVICE double square_root(double x) noexcept {
#if defined(__CUDACC__)
  return __dsqrt_rn(x);
#else
  return __builtin_sqrt(x);
#endif
}
/// Returns the bits of a number.
WEIR_DEVICE std::uint32_t bits_of(float x) noexcept {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
WEIR_DEVICE std::uint64_t bits_of(double x) noexcept {
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
/// Returns the number with these bits.
WEIR_DEVICE float float_from(std::uint32_t bits) noexcept {
  float x = 0;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
WEIR_DEVICE double double_from(std::uint64_t bits) noexcept {
  double x = 0;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
/// Returns the number, or the canonical NaN if it is a NaN: the bits of a NaN that an
/// operation makes depend on the processor.
WEIR_DEVICE float canonical(float x) noexcept {
  return x == x ? x : float_from(0x7FC00000U);
}
WEIR_DEVICE double canonical(double x) noexcept {
  return x == x ? x : double_from(0x7FF8000000000000U);
}

}  // namespace weir::device_code
