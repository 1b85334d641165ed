// SPDX-License-Identifier: Apache-2.0
/// @file
/// CRC-32 with carry-less multiplication where the processor has it, and with 16 tables.
#include <array>

#include "weir/base/hash.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir {

namespace {

using slice_tables = std::array<std::array<std::uint32_t, 256>, 16>;

consteval slice_tables make_tables() {
  slice_tables t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) {
      c = (c & 1) != 0 ? (c >> 1) ^ 0xEDB88320U : c >> 1;
    }
    t[0][i] = c;
  }
  for (std::size_t k = 1; k < 16; ++k) {
    for (std::size_t i = 0; i < 256; ++i) {
      t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFF];
    }
  }
  return t;
}

constexpr slice_tables tables = make_tables();

// The register without the inversions at both ends.
std::uint32_t update_sliced(std::uint32_t reg, const std::byte* p,
                            std::size_t n) noexcept {
  for (; n >= 16; p += 16, n -= 16) {
    const std::uint32_t a = load_le<std::uint32_t>(p) ^ reg;
    const std::uint32_t b = load_le<std::uint32_t>(p + 4);
    const std::uint32_t c = load_le<std::uint32_t>(p + 8);
    const std::uint32_t d = load_le<std::uint32_t>(p + 12);
    const auto four = [](std::uint32_t x, std::size_t k) {
      return tables[k + 3][x & 0xFF] ^ tables[k + 2][x >> 8 & 0xFF] ^
             tables[k + 1][x >> 16 & 0xFF] ^ tables[k][x >> 24];
    };
    reg = four(a, 12) ^ four(b, 8) ^ four(c, 4) ^ four(d, 0);
  }
  for (; n > 0; ++p, --n) {
    reg = (reg >> 8) ^ tables[0][(reg ^ static_cast<std::uint32_t>(*p)) & 0xFF];
  }
  return reg;
}

#if defined(__x86_64__)

// Remainders of x^k modulo the polynomial, bit-reflected, computed rather than quoted:
// folding a 128-bit lane over d bits needs x^(d+32) and x^(d-32).
consteval std::uint64_t reflected_power(unsigned k) {
  std::uint32_t r = 0x80000000U;  // x^0, reflected
  for (unsigned i = 0; i < k; ++i) {
    r = (r & 1) != 0 ? (r >> 1) ^ 0xEDB88320U : r >> 1;
  }
  return std::uint64_t{r} << 1;
}

__attribute__((target("pclmul,sse4.1"))) __m128i fold(__m128i lane, __m128i keys,
                                                      __m128i next) noexcept {
  const __m128i lo = _mm_clmulepi64_si128(lane, keys, 0x00);
  const __m128i hi = _mm_clmulepi64_si128(lane, keys, 0x11);
  return _mm_xor_si128(_mm_xor_si128(lo, hi), next);
}

// Folds 64 bytes at a time into four lanes, then the lanes into one; the last 16 bytes go
// through the tables.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t update_folded(
    std::uint32_t reg, const std::byte* p, std::size_t n) noexcept {
  const auto at = [](const std::byte* q) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
  };
  const __m128i by512 = _mm_set_epi64x(static_cast<long long>(reflected_power(512 - 32)),
                                       static_cast<long long>(reflected_power(512 + 32)));
  const __m128i by128 = _mm_set_epi64x(static_cast<long long>(reflected_power(128 - 32)),
                                       static_cast<long long>(reflected_power(128 + 32)));
  __m128i a = _mm_xor_si128(at(p), _mm_cvtsi32_si128(static_cast<int>(reg)));
  __m128i b = at(p + 16);
  __m128i c = at(p + 32);
  __m128i d = at(p + 48);
  for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
    a = fold(a, by512, at(p));
    b = fold(b, by512, at(p + 16));
    c = fold(c, by512, at(p + 32));
    d = fold(d, by512, at(p + 48));
  }
  a = fold(a, by128, b);
  a = fold(a, by128, c);
  a = fold(a, by128, d);
  for (; n >= 16; p += 16, n -= 16) {
    a = fold(a, by128, at(p));
  }
  std::array<std::byte, 16> rest{};
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest.data()), a);
  return update_sliced(update_sliced(0, rest.data(), rest.size()), p, n);
}

#endif

}  // namespace

std::uint32_t crc32_portable(std::uint32_t crc, bytes_view bytes) noexcept {
  return ~update_sliced(~crc, bytes.data(), bytes.size());
}

std::uint32_t crc32(std::uint32_t crc, bytes_view bytes) noexcept {
#if defined(__x86_64__)
  static const bool folds =
      __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (folds && bytes.size() >= 128) {
    return ~update_folded(~crc, bytes.data(), bytes.size());
  }
#endif
  return crc32_portable(crc, bytes);
}

}  // namespace weir
