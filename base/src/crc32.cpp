// SPDX-License-Identifier: Apache-2.0
/// @file
/// CRC-32 with carry-less multiplication of 128 or 512 bits where the processor has it,
/// and with 16 tables.
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
  for (; n >= 4; p += 4, n -= 4) {
    const std::uint32_t a = load_le<std::uint32_t>(p) ^ reg;
    reg = tables[3][a & 0xFF] ^ tables[2][a >> 8 & 0xFF] ^ tables[1][a >> 16 & 0xFF] ^
          tables[0][a >> 24];
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

// What is left behind a lane: 16 bytes at a time, then through the tables.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t finish(__m128i lane, __m128i by128,
                                                              const std::byte* p,
                                                              std::size_t n) noexcept {
  for (; n >= 16; p += 16, n -= 16) {
    lane = fold(lane, by128, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  std::array<std::byte, 16> rest{};
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest.data()), lane);
  return update_sliced(update_sliced(0, rest.data(), rest.size()), p, n);
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
  return finish(a, by128, p, n);
}

#define WEIR_WIDE \
  __attribute__((target("avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul,sse4.1")))

WEIR_WIDE __m512i fold_wide(__m512i lanes, __m512i keys, __m512i next) noexcept {
  constexpr int exclusive_or = 0x96;  // of all three
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(lanes, keys, 0x00),
                                   _mm512_clmulepi64_epi128(lanes, keys, 0x11), next,
                                   exclusive_or);
}

WEIR_WIDE __m512i wide_keys(std::uint64_t high, std::uint64_t low) noexcept {
  const auto h = static_cast<long long>(high), l = static_cast<long long>(low);
  return _mm512_set_epi64(h, l, h, l, h, l, h, l);
}

// The same with four lanes per register: 256 bytes at a time.
WEIR_WIDE std::uint32_t update_wide(std::uint32_t reg, const std::byte* p,
                                    std::size_t n) noexcept {
  const __m512i by2048 =
      wide_keys(reflected_power(2048 - 32), reflected_power(2048 + 32));
  const __m512i by512 = wide_keys(reflected_power(512 - 32), reflected_power(512 + 32));
  __m512i a =
      _mm512_xor_si512(_mm512_loadu_si512(p),
                       _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(reg))));
  __m512i b = _mm512_loadu_si512(p + 64);
  __m512i c = _mm512_loadu_si512(p + 128);
  __m512i d = _mm512_loadu_si512(p + 192);
  for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
    a = fold_wide(a, by2048, _mm512_loadu_si512(p));
    b = fold_wide(b, by2048, _mm512_loadu_si512(p + 64));
    c = fold_wide(c, by2048, _mm512_loadu_si512(p + 128));
    d = fold_wide(d, by2048, _mm512_loadu_si512(p + 192));
  }
  a = fold_wide(a, by512, b);
  a = fold_wide(a, by512, c);
  a = fold_wide(a, by512, d);
  for (; n >= 64; p += 64, n -= 64) {
    a = fold_wide(a, by512, _mm512_loadu_si512(p));
  }
  const __m128i by128 = _mm_set_epi64x(static_cast<long long>(reflected_power(128 - 32)),
                                       static_cast<long long>(reflected_power(128 + 32)));
  std::array<std::byte, 64> lanes{};
  _mm512_storeu_si512(lanes.data(), a);
  const auto lane_at = [&](std::size_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes.data() + 16 * i));
  };
  __m128i lane = lane_at(0);
  for (std::size_t i = 1; i < 4; ++i) {
    lane = fold(lane, by128, lane_at(i));
  }
  return finish(lane, by128, p, n);
}

#undef WEIR_WIDE

#endif

}  // namespace

std::uint32_t crc32_portable(std::uint32_t crc, bytes_view bytes) noexcept {
  return ~update_sliced(~crc, bytes.data(), bytes.size());
}

std::uint32_t crc32(std::uint32_t crc, bytes_view bytes) noexcept {
#if defined(__x86_64__)
  static const bool folds =
      __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  static const bool wide =
      folds && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq");
  if (wide && bytes.size() >= 256) {
    return ~update_wide(~crc, bytes.data(), bytes.size());
  }
  if (folds && bytes.size() >= 128) {
    return ~update_folded(~crc, bytes.data(), bytes.size());
  }
#endif
  return crc32_portable(crc, bytes);
}

}  // namespace weir
