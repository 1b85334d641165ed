// SPDX-License-Identifier: Apache-2.0
/// @file
/// The level of the processor that this runs on.
#include <string_view>

#include "weir/runtime/device/cpu.hpp"

namespace weir::runtime {

#if defined(__x86_64__)
namespace {

bool has_v2() noexcept {
  return __builtin_cpu_supports("sse3") && __builtin_cpu_supports("ssse3") &&
         __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") &&
         __builtin_cpu_supports("popcnt");
}

/// The other features of the level came with the same processors as these.
bool has_v3() noexcept {
  return __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("fma");
}

bool has_v4() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace

std::string_view cpu_arch() noexcept {
  __builtin_cpu_init();
  if (!has_v2()) {
    return "x86-64";
  }
  if (!has_v3()) {
    return "x86-64-v2";
  }
  return has_v4() ? "x86-64-v4" : "x86-64-v3";
}
#elif defined(__aarch64__)
std::string_view cpu_arch() noexcept {
  return "aarch64";
}
#else
std::string_view cpu_arch() noexcept {
  return "generic";
}
#endif

}  // namespace weir::runtime
