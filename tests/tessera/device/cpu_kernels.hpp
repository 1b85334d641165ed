// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the conformance suite, written for the processor backend. The argument
/// structures in conformance.hpp say what each kernel does.
#pragma once

#include <cstdint>
#include <numeric>
#include <string_view>
#include <thread>

#include "conformance.hpp"
#include "device/cpu.hpp"

namespace weir::tessera::cpu_kernels {

/// Returns the packed arguments as their structure.
template <class Args>
const Args& as(const void* args) {
  return *static_cast<const Args*>(args);
}

/// Returns the linear index of the block in its grid, x fastest.
inline std::int64_t linear_block(const tessBlockContext* b) {
  return (std::int64_t{b->blockIndex[2]} * b->grid[1] + b->blockIndex[1]) * b->grid[0] +
         b->blockIndex[0];
}
/// Returns the linear index of a thread in its block, x fastest.
inline std::int64_t linear_thread(const tessBlockContext* b, const std::int32_t* t) {
  return (std::int64_t{t[2]} * b->block[1] + t[1]) * b->block[0] + t[0];
}
/// Returns the number of threads of a block.
inline std::int64_t threads_of(const tessBlockContext* b) {
  return std::int64_t{b->block[0]} * b->block[1] * b->block[2];
}

extern "C" {

inline int write_indices(const tessBlockContext* b, const std::int32_t thread[3],
                         const void* args) {
  const std::int64_t id = linear_block(b) * threads_of(b) + linear_thread(b, thread);
  as<conformance::write_indices_args>(args).out[id] += 1 + static_cast<std::int32_t>(id);
  return 0;
}

inline int write_facts(const tessBlockContext* b, const void* args) {
  std::int32_t* out = as<conformance::write_facts_args>(args).out;
  out = std::copy(b->grid, b->grid + 3, out);
  out = std::copy(b->block, b->block + 3, out);
  *out++ = b->rank;
  *out++ = b->ranks;
  *out++ = b->device;
  out = std::copy(b->axisSize, b->axisSize + 4, out);
  out = std::copy(b->axisIndex, b->axisIndex + 4, out);
  const auto* bytes = static_cast<const std::uint8_t*>(b->constants);
  *out = std::accumulate(bytes, bytes + b->constantBytes, 0);
  return 0;
}

inline int reverse(const tessBlockContext* b, const std::int32_t thread[3],
                   const void* args) {
  const auto& a = as<conformance::reverse_args>(args);
  auto* shared = static_cast<std::int32_t*>(b->shared);
  const std::int64_t n = threads_of(b);
  const std::int64_t t = linear_thread(b, thread);
  shared[t] = a.in[linear_block(b) * n + t];
  b->services->barrier(b);
  a.out[linear_block(b) * n + t] = shared[n - 1 - t];
  return 0;
}

inline int fail_block(const tessBlockContext* b, const void* args) {
  const auto& a = as<conformance::fail_block_args>(args);
  if (linear_block(b) == a.block) {
    return a.status;
  }
  ++a.out[linear_block(b)];
  return 0;
}

inline int grid_sum(const tessBlockContext* b, const void* args) {
  const auto& a = as<conformance::grid_sum_args>(args);
  const std::int64_t self = linear_block(b);
  for (std::int32_t r = 0; r < a.rounds; ++r) {
    ++a.slots[self];
    (void)b->services->gridBarrier(b);
    for (std::int32_t i = 0; i < b->grid[0]; ++i) {
      a.sums[self] += a.slots[i];
    }
    (void)b->services->gridBarrier(b);
  }
  return 0;
}

inline int until_stop(const tessBlockContext* b, const void* args) {
  while (b->services->stopRequested(b) == 0) {
    std::this_thread::yield();
  }
  as<conformance::until_stop_args>(args).out[linear_block(b)] = 7;
  return 0;
}

}  // extern "C"

/// Returns the code of a kernel that is called once per block.
inline kernel_code code_of(std::string_view name,
                           int (*entry)(const tessBlockContext*, const void*),
                           std::uint32_t flags = 0) {
  return {name, reinterpret_cast<void (*)()>(entry), flags};
}
/// Returns the code of a kernel that is called once per thread.
inline kernel_code code_of(std::string_view name,
                           int (*entry)(const tessBlockContext*, const std::int32_t*,
                                        const void*),
                           std::uint32_t flags = 0) {
  return {name, reinterpret_cast<void (*)()>(entry), flags | TESS_KERNEL_PER_THREAD};
}

/// Returns the kernel with this name and the flags that it needs.
inline kernel_code conformance_kernel(std::string_view name) {
  if (name == "write_indices") {
    return code_of(name, &write_indices);
  }
  if (name == "write_facts") {
    return code_of(name, &write_facts);
  }
  if (name == "reverse") {
    return code_of(name, &reverse, TESS_KERNEL_USES_BARRIER);
  }
  if (name == "fail_block") {
    return code_of(name, &fail_block);
  }
  if (name == "grid_sum") {
    return code_of(name, &grid_sum, TESS_KERNEL_PERSISTENT_CAPABLE);
  }
  return code_of("until_stop", &until_stop, TESS_KERNEL_PERSISTENT_ONLY);
}

}  // namespace weir::tessera::cpu_kernels
