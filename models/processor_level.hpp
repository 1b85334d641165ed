// SPDX-License-Identifier: Apache-2.0
/// @file
/// The microarchitecture levels of x86-64 for which kernels are compiled.
#pragma once

namespace weir::models {

/// Returns the highest level of this processor among 1 (the baseline), 3 (AVX2 and FMA)
/// and 4 (AVX-512). Other architectures have level 1.
/// @source{System V Application Binary Interface, AMD64, microarchitecture levels}
[[nodiscard]] inline int processor_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2")) {
    const bool avx512 =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512cd");
    return avx512 ? 4 : 3;
  }
#endif
  return 1;
}

}  // namespace weir::models
