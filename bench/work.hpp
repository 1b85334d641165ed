// SPDX-License-Identifier: Apache-2.0
/// @file
/// Work that uses nothing but a processor's time: the kernel of the METG rows, and the
/// measure of a processor's speed. @source{Task Bench}
#pragma once

#include <array>
#include <cstdint>

#include "bench.hpp"

namespace weir::bench {

/// One iteration is 16 independent fused multiplications and additions of four doubles,
/// which stay in registers. Nothing else costs time, so all of it is work.
#if defined(__x86_64__)
__attribute__((noinline, target("avx2,fma"))) inline void fused_work(
    std::int64_t iterations) {
  using lanes = double __attribute__((vector_size(32)));
  std::array<lanes, 16> a;
  for (lanes& one : a) {
    one = lanes{-0.5, -0.5, -0.5, -0.5};
  }
  for (std::int64_t i = 0; i < iterations; ++i) {
    for (lanes& one :
         a) {  // x * x + x approaches 0 so slowly that it stays a normal number
      asm volatile("vfmadd213pd %0, %0, %0" : "+x"(one));
    }
  }
}
#endif

/// Does the same work with the instructions that the processor has.
inline void work(std::int64_t iterations) {
#if defined(__x86_64__)
  static const bool fused =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (fused) {
    fused_work(iterations);
    return;
  }
#endif
  std::array<double, 64> lanes;
  lanes.fill(0.5);
  for (std::int64_t i = 0; i < iterations; ++i) {
    for (double& lane : lanes) {
      lane = lane * lane + 0.2;
    }
    keep(lanes);
  }
}

}  // namespace weir::bench
