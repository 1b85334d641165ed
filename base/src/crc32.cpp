// SPDX-License-Identifier: Apache-2.0
/// @file
/// CRC-32 in three forms: by 16 tables, by carry-less multiplication of 128-bit registers
/// (PCLMULQDQ), and of 512-bit registers (VPCLMULQDQ).
///
/// The fast forms treat the data as a polynomial over GF(2). A 128-bit lane that stands d
/// bits before another one can be multiplied by x^d modulo the CRC polynomial and added
/// to it without changing the remainder ("folding"). Several independent lanes hide the
/// latency of the multiplication. At the end all lanes are folded into one, which is
/// reduced to 32 bits.
/// @source{Gopal et al., "Fast CRC computation for generic polynomials using PCLMULQDQ",
/// Intel, 2009}
#include <array>
#include <cstring>
#include <optional>

#include "weir/base/copy_crc32.hpp"
#include "weir/base/hash.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir {

namespace {

/// 16 tables of 256 entries, 16 KiB in all.
using slice_tables = std::array<std::array<std::uint32_t, 256>, 16>;

/// Table k gives the contribution of a byte that k more bytes follow.
consteval slice_tables make_tables() {
  slice_tables t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    // One bit at a time: a step of the division by the polynomial, reflected.
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) {
      c = (c & 1) != 0 ? (c >> 1) ^ 0xEDB88320U : c >> 1;
    }
    t[0][i] = c;
  }
  // One more byte behind a byte shifts its contribution by 8 bits.
  for (std::size_t k = 1; k < 16; ++k) {
    for (std::size_t i = 0; i < 256; ++i) {
      t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFF];
    }
  }
  return t;
}

/// The tables are made by the compiler.
constexpr slice_tables tables = make_tables();

// Returns the CRC register after n bytes; the caller inverts it before and after. Works
// on 16 bytes at a time ("slicing"), because the 16 look-ups do not depend on each other.
std::uint32_t update_sliced(std::uint32_t reg, const std::byte* p,
                            std::size_t n) noexcept {
  for (; n >= 16; p += 16, n -= 16) {
    const std::uint32_t a = load_le<std::uint32_t>(p) ^ reg;
    const std::uint32_t b = load_le<std::uint32_t>(p + 4);
    const std::uint32_t c = load_le<std::uint32_t>(p + 8);
    const std::uint32_t d = load_le<std::uint32_t>(p + 12);
    // The look-ups of four bytes of a word, of which the lowest is the first in memory.
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

// Returns x^k modulo the polynomial, bit-reflected. Folding a 128-bit lane over d bits
// needs x^(d+32) for its low half and x^(d-32) for its high half.
consteval std::uint64_t reflected_power(unsigned k) {
  // Multiplying by x shifts to the right here, because the bits are reflected.
  std::uint32_t r = 0x80000000U;  // x^0, reflected
  for (unsigned i = 0; i < k; ++i) {
    r = (r & 1) != 0 ? (r >> 1) ^ 0xEDB88320U : r >> 1;
  }
  return std::uint64_t{r} << 1;
}

// Multiplies both halves of a lane by the keys and adds the lane `next` behind it.
__attribute__((target("pclmul,sse4.1"))) __m128i fold(__m128i lane, __m128i keys,
                                                      __m128i next) noexcept {
  const __m128i lo = _mm_clmulepi64_si128(lane, keys, 0x00);
  const __m128i hi = _mm_clmulepi64_si128(lane, keys, 0x11);
  return _mm_xor_si128(_mm_xor_si128(lo, hi), next);
}

// Returns the quotient of x^64 and the polynomial, bit-reflected. Barrett's reduction
// multiplies by it instead of dividing by the polynomial.
consteval std::uint64_t reflected_quotient() {
  constexpr std::uint64_t polynomial = 0x104C11DB7;  // x^32 + x^26 + ... + 1
  std::uint64_t rest = 1, reflected = 0;
  for (unsigned power = 63; power < 64; --power) {
    rest <<= 1;
    if ((rest >> 32 & 1) != 0) {
      rest ^= polynomial;
      reflected |= std::uint64_t{1} << (32 - power);
    }
  }
  return reflected;
}

// Reduces a lane of 128 bits to the register: by folding to 96 and then 64 bits, and by
// Barrett's reduction to 32 bits.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t reduce(__m128i lane,
                                                              __m128i by128) noexcept {
  constexpr auto polynomial = static_cast<long long>(0x1DB710641ULL);  // reflected
  // Bits beyond 64 are folded first, then the upper 32 of the 96 that are left.
  const __m128i by64 = _mm_cvtsi64_si128(static_cast<long long>(reflected_power(64)));
  const __m128i division =
      _mm_set_epi64x(static_cast<long long>(reflected_quotient()), polynomial);
  const __m128i low = _mm_setr_epi32(-1, 0, -1, 0);
  const __m128i to96 =
      _mm_xor_si128(_mm_clmulepi64_si128(lane, by128, 0x10), _mm_srli_si128(lane, 8));
  const __m128i to64 =
      _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(to96, low), by64, 0x00),
                    _mm_srli_si128(to96, 4));
  // The quotient times the polynomial equals the 64 bits except for the remainder.
  const __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(to64, low), division, 0x10);
  const __m128i product =
      _mm_clmulepi64_si128(_mm_and_si128(quotient, low), division, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(to64, product), 1));
}

// Returns the register after a lane and the n bytes behind it: whole lanes are folded,
// the last bytes go through the tables.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t finish(__m128i lane, __m128i by128,
                                                              const std::byte* p,
                                                              std::size_t n) noexcept {
  for (; n >= 16; p += 16, n -= 16) {
    lane = fold(lane, by128, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  return update_sliced(reduce(lane, by128), p, n);
}

/// Returns the keys that move a lane over 128 bits.
__attribute__((target("pclmul,sse4.1"))) __m128i keys_by128() noexcept {
  return _mm_set_epi64x(static_cast<long long>(reflected_power(128 - 32)),
                        static_cast<long long>(reflected_power(128 + 32)));
}

// Uses a single lane, for 64 to 127 bytes.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t update_lane(
    std::uint32_t reg, const std::byte* p, std::size_t n) noexcept {
  const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return finish(_mm_xor_si128(first, _mm_cvtsi32_si128(static_cast<int>(reg))),
                keys_by128(), p + 16, n - 16);
}

// Distance of prefetching in a copy, in bytes. The processor's own prefetching stops at
// the end of a page, and the blocks of volumes that are copied are pages.
constexpr std::size_t ahead = 2048;

// Prefetches the bytes `ahead` of p + i. The address is computed as a number, because it
// may lie behind the array, where pointer arithmetic is undefined.
void prefetch(const std::byte* p, std::size_t i) noexcept {
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + i + ahead));
}

// Loads 16 bytes, and stores them at `destination + i` if the function copies.
template <bool copies>
__attribute__((target("sse4.1"))) __m128i pass(const std::byte* p, std::byte* destination,
                                               std::size_t i) noexcept {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i));
  if constexpr (copies) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + i), bytes);
  }
  return bytes;
}

// Copies the bytes from i on, which no lane has taken, if the function copies.
template <bool copies>
void copy_rest(const std::byte* p, std::byte* destination, std::size_t i,
               std::size_t n) noexcept {
  if constexpr (copies) {
    std::memcpy(destination + i, p + i, n - i);
  }
}

// Folds 64 bytes at a time into four lanes, then the lanes into one, and copies all bytes
// to `destination` if asked for. Takes at least 64 bytes.
template <bool copies>
__attribute__((target("pclmul,sse4.1"))) std::uint32_t update_folded(
    std::uint32_t reg, const std::byte* p, std::size_t n,
    std::byte* destination) noexcept {
  // Keys that move a lane over the 512 bits of four lanes.
  const __m128i by512 = _mm_set_epi64x(static_cast<long long>(reflected_power(512 - 32)),
                                       static_cast<long long>(reflected_power(512 + 32)));
  const __m128i by128 = keys_by128();
  // The register is added to the first bytes, as if it stood before them.
  __m128i a = _mm_xor_si128(pass<copies>(p, destination, 0),
                            _mm_cvtsi32_si128(static_cast<int>(reg)));
  __m128i b = pass<copies>(p, destination, 16);
  __m128i c = pass<copies>(p, destination, 32);
  __m128i d = pass<copies>(p, destination, 48);
  std::size_t i = 64;
  for (; n - i >= 64; i += 64) {
    if constexpr (copies) {
      prefetch(p, i);
    }
    a = fold(a, by512, pass<copies>(p, destination, i));
    b = fold(b, by512, pass<copies>(p, destination, i + 16));
    c = fold(c, by512, pass<copies>(p, destination, i + 32));
    d = fold(d, by512, pass<copies>(p, destination, i + 48));
  }
  // The four lanes stand one behind the other; the last one stays where it is.
  a = fold(a, by128, b);
  a = fold(a, by128, c);
  a = fold(a, by128, d);
  copy_rest<copies>(p, destination, i, n);
  return finish(a, by128, p + i, n - i);
}

/// Instructions of the wide form. The attribute limits them to the functions that need
/// them, so the program runs on other processors.
#define WEIR_WIDE \
  __attribute__((target("avx512f,avx512bw,avx512vl,vpclmulqdq,pclmul,sse4.1")))

/// Folds four lanes at once; see `fold`.
WEIR_WIDE __m512i fold_wide(__m512i lanes, __m512i keys, __m512i next) noexcept {
  constexpr int exclusive_or = 0x96;  // the truth table of a ^ b ^ c
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(lanes, keys, 0x00),
                                   _mm512_clmulepi64_epi128(lanes, keys, 0x11), next,
                                   exclusive_or);
}

/// Returns a register with the keys for each of its four lanes.
WEIR_WIDE __m512i wide_keys(std::uint64_t high, std::uint64_t low) noexcept {
  const auto h = static_cast<long long>(high), l = static_cast<long long>(low);
  return _mm512_set_epi64(h, l, h, l, h, l, h, l);
}

/// Loads 64 bytes, and stores them if the function copies; see `pass`.
template <bool copies>
WEIR_WIDE __m512i pass_wide(const std::byte* p, std::byte* destination,
                            std::size_t i) noexcept {
  const __m512i bytes = _mm512_loadu_si512(p + i);
  if constexpr (copies) {
    _mm512_storeu_si512(destination + i, bytes);
    prefetch(p, i);
  }
  return bytes;
}

// Like update_folded with four lanes in each 512-bit register: 256 bytes at a time. Takes
// at least 256 bytes.
template <bool copies>
WEIR_WIDE std::uint32_t update_wide(std::uint32_t reg, const std::byte* p, std::size_t n,
                                    std::byte* destination) noexcept {
  // 2048 bits are four registers.
  const __m512i by2048 =
      wide_keys(reflected_power(2048 - 32), reflected_power(2048 + 32));
  const __m512i by512 = wide_keys(reflected_power(512 - 32), reflected_power(512 + 32));
  __m512i a =
      _mm512_xor_si512(pass_wide<copies>(p, destination, 0),
                       _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(reg))));
  __m512i b = pass_wide<copies>(p, destination, 64);
  __m512i c = pass_wide<copies>(p, destination, 128);
  __m512i d = pass_wide<copies>(p, destination, 192);
  std::size_t i = 256;
  for (; n - i >= 256; i += 256) {
    a = fold_wide(a, by2048, pass_wide<copies>(p, destination, i));
    b = fold_wide(b, by2048, pass_wide<copies>(p, destination, i + 64));
    c = fold_wide(c, by2048, pass_wide<copies>(p, destination, i + 128));
    d = fold_wide(d, by2048, pass_wide<copies>(p, destination, i + 192));
  }
  // The registers become one, then whole registers, then lanes.
  a = fold_wide(a, by512, b);
  a = fold_wide(a, by512, c);
  a = fold_wide(a, by512, d);
  for (; n - i >= 64; i += 64) {
    a = fold_wide(a, by512, pass_wide<copies>(p, destination, i));
  }
  const __m128i by128 = keys_by128();
  // Lanes are taken out through memory, which is rare and so may be slow.
  std::array<std::byte, 64> lanes{};
  _mm512_storeu_si512(lanes.data(), a);
  const auto lane_at = [&](std::size_t k) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes.data() + 16 * k));
  };
  __m128i lane = lane_at(0);
  for (std::size_t k = 1; k < 4; ++k) {
    lane = fold(lane, by128, lane_at(k));
  }
  copy_rest<copies>(p, destination, i, n);
  reg = finish(lane, by128, p + i, n - i);
  // SSE instructions of callers are slow while the upper halves of the vector registers
  // are in use. This is the last statement, because reading a lane of a wide register
  // counts as use too.
  _mm256_zeroupper();
  return reg;
}

#undef WEIR_WIDE

// Uses the fastest form that the processor has. Returns nothing if it has no carry-less
// multiplication, or if the data is too short to gain from it.
template <bool copies>
std::optional<std::uint32_t> update_fast(std::uint32_t reg, bytes_view from,
                                         std::byte* destination) noexcept {
  // The processor is asked once. Every form gives the same value.
  static const bool folds =
      __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  static const bool wide =
      folds && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq");
  if (wide && from.size() >= 256) {
    return update_wide<copies>(reg, from.data(), from.size(), destination);
  }
  if (folds && from.size() >= 128) {
    return update_folded<copies>(reg, from.data(), from.size(), destination);
  }
  // A copy of so few bytes is faster with memcpy() and a separate CRC.
  if (!copies && folds && from.size() >= 64) {
    return update_lane(reg, from.data(), from.size());
  }
  return std::nullopt;
}

#else

/// Other processors have no fast form.
template <bool copies>
std::optional<std::uint32_t> update_fast(std::uint32_t, bytes_view, std::byte*) noexcept {
  return std::nullopt;
}

#endif

}  // namespace

/// The register is inverted before and after by the definition of CRC-32.
std::uint32_t crc32_portable(std::uint32_t crc, bytes_view bytes) noexcept {
  return ~update_sliced(~crc, bytes.data(), bytes.size());
}

std::uint32_t crc32(std::uint32_t crc, bytes_view bytes) noexcept {
  const auto fast = update_fast<false>(~crc, bytes, nullptr);
  return fast ? ~*fast : crc32_portable(crc, bytes);
}

std::uint32_t copy_crc32(std::uint32_t crc, bytes_view from,
                         std::byte* destination) noexcept {
  if (const auto fast = update_fast<true>(~crc, from, destination)) {
    return ~*fast;
  }
  // memcpy() must not get a null pointer, even for no bytes.
  if (!from.empty()) {
    std::memcpy(destination, from.data(), from.size());
  }
  return crc32(crc, from);
}

}  // namespace weir
