// SPDX-License-Identifier: Apache-2.0
/// @file
/// Philox4x32-10, and integers and floats made from its bits.
///
/// The generator is a function of a key (the seed) and a counter (index and stream),
/// without state. Any number can be computed alone, in any order and on any thread.
/// @source{Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011}
#include "weir/base/philox.hpp"

namespace weir {

namespace {

__extension__ using uint128 = unsigned __int128;

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c,
                                        std::array<std::uint32_t, 2> k) noexcept {
  // Multipliers and key increments are those of the paper.
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1],
         static_cast<std::uint32_t>(a)};
    k[0] += 0x9E3779B9U;
    k[1] += 0xBB67AE85U;
  }
  return c;
}

/// The counter is index and stream, 64 bits each; two of the four words of the result are
/// used.
std::uint64_t philox::bits(std::uint64_t index) const noexcept {
  const auto out = philox4x32(
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
       static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
      {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
  return std::uint64_t{out[1]} << 32 | out[0];
}

std::uint64_t philox::below(std::uint64_t index, std::uint64_t bound) const noexcept {
  // The high half of a 64-bit number times the bound is nearly uniform. Products whose
  // low half is below 2^64 mod bound are rejected, which makes it exactly uniform
  // (Lemire, 2019). Further attempts use other keys, so that they take no numbers from
  // the indices behind this one.
  const std::uint64_t threshold = (0 - bound) % bound;
  for (std::uint64_t attempt = 0;; ++attempt) {
    const std::uint64_t x =
        philox(seed_ ^ (attempt * 0x9E3779B97F4A7C15U), stream_).bits(index);
    const uint128 product = uint128{x} * bound;
    if (static_cast<std::uint64_t>(product) >= threshold) {
      return static_cast<std::uint64_t>(product >> 64);
    }
  }
}

/// 24 bits are what an fp32 in [0, 1) can hold in equal steps.
float philox::uniform(std::uint64_t index) const noexcept {
  return static_cast<float>(bits(index) >> 40) * 0x1p-24F;
}

/// The sum of uniform numbers is computed in integers, so its bits do not depend on the
/// order or the precision of additions. Each value uses four indices.
float philox::normal(std::uint64_t index) const noexcept {
  // The sum of twelve 21-bit integers has a variance of 2^42 - 1 and a mean of 6 times
  // the largest of them. Doubling makes the mean an integer, and the scale 2^-22 makes
  // the variance 1 up to rounding.
  std::int64_t sum = 0;
  for (std::uint64_t part = 0; part < 4; ++part) {
    const std::uint64_t x = bits(index * 4 + part);
    sum += static_cast<std::int64_t>(x & 0x1FFFFF) +
           static_cast<std::int64_t>(x >> 21 & 0x1FFFFF) +
           static_cast<std::int64_t>(x >> 42 & 0x1FFFFF);
  }
  return static_cast<float>(2 * sum - 12 * 0x1FFFFF) * 0x1p-22F;
}

}  // namespace weir
