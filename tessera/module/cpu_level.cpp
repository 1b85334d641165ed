// SPDX-License-Identifier: Apache-2.0
/// @file
/// Levels of x86-64, from cpuid and from the registers that the operating system saves.
/// An instruction set can be used only if the system saves its registers when it switches
/// threads.
///
/// The levels are those of the x86-64 psABI. On other processors there is one level or
/// none.
///
///   v1  every processor of this family
///   v2  SSE4.2, POPCNT and others
///   v3  AVX2, FMA, BMI; the system saves the registers of 256 bits
///   v4  AVX-512 F, BW, CD, DQ, VL; the system saves those of 512 bits
#include "module/cpu_level.hpp"

#include <algorithm>
#include <cstdint>

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace weir::tessera {

namespace {

#ifdef __x86_64__

/// The four registers that cpuid fills.
struct cpuid_words {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
};

// Returns the words of a leaf, or zeros if the processor does not have it.
cpuid_words cpuid(std::uint32_t leaf) {
  cpuid_words out;
  if (__get_cpuid_count(leaf, 0, &out.a, &out.b, &out.c, &out.d) == 0) {
    return {};
  }
  return out;
}

/// Returns a mask of bits.
constexpr std::uint32_t bits(std::initializer_list<int> places) {
  std::uint32_t out = 0;
  for (const int place : places) {
    out |= std::uint32_t{1} << place;
  }
  return out;
}

/// Returns true if all bits of the mask are set.
bool has(std::uint32_t word, std::uint32_t mask) {
  return (word & mask) == mask;
}

// Returns the mask of register sets that the system saves (XCR0). May be called only if
// OSXSAVE is set.
std::uint32_t saved_registers() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  // XCR0 has one bit for each set of registers. The upper half is not used here.
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/// Returns the levels that are supported, best first. A level includes those below it.
std::vector<std::string> find_levels() {
  constexpr std::uint32_t osxsave = bits({27});
  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT
  constexpr std::uint32_t v2_c = bits({0, 9, 13, 19, 20, 23});
  // FMA, MOVBE, OSXSAVE, AVX, F16C
  constexpr std::uint32_t v3_c = bits({12, 22, 27, 28, 29});
  constexpr std::uint32_t v3_b = bits({3, 5, 8});             // BMI1, AVX2, BMI2
  constexpr std::uint32_t v4_b = bits({16, 17, 28, 30, 31});  // AVX512 F, DQ, CD, BW, VL
  constexpr std::uint32_t lahf = bits({0}), lzcnt = bits({5});
  constexpr std::uint32_t saves_ymm = bits({1, 2});
  constexpr std::uint32_t saves_zmm = bits({1, 2, 5, 6, 7});

  // The leaves of cpuid with the features.
  const cpuid_words one = cpuid(1);
  const cpuid_words seven = cpuid(7);
  const cpuid_words extended = cpuid(0x80000001);
  // The instruction may be used only if the system has enabled it.
  const std::uint32_t saved = has(one.c, osxsave) ? saved_registers() : 0;

  std::vector<std::string> out{"x86-64-v1"};
  // Each level requires the one below.
  const bool v2 = has(one.c, v2_c) && has(extended.c, lahf);
  const bool v3 = v2 && has(one.c, v3_c) && has(seven.b, v3_b) &&
                  has(extended.c, lzcnt) && has(saved, saves_ymm);
  const bool v4 = v3 && has(seven.b, v4_b) && has(saved, saves_zmm);
  if (v2) {
    out.insert(out.begin(), "x86-64-v2");
  }
  if (v3) {
    out.insert(out.begin(), "x86-64-v3");
  }
  if (v4) {
    out.insert(out.begin(), "x86-64-v4");
  }
  return out;
}

#elif defined(__aarch64__)
std::vector<std::string> find_levels() {
  return {"aarch64"};
}
#else
std::vector<std::string> find_levels() {
  return {};
}
#endif

}  // namespace

/// Found once, best level first.
const std::vector<std::string>& host_levels() {
  // Threads of the library may run while the process ends, so this is never destroyed.
  static const auto* const levels = new std::vector<std::string>(find_levels());
  return *levels;
}

/// `highest` limits the levels, for instance for tests; a name that is not among them
/// gives none.
std::vector<std::string> host_levels_up_to(std::string_view highest) {
  const std::vector<std::string>& all = host_levels();
  const auto from =
      highest.empty() ? all.begin() : std::find(all.begin(), all.end(), highest);
  return {from, all.end()};
}

}  // namespace weir::tessera
