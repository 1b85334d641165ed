// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counter-based random numbers. A value is a function of seed, stream and index alone,
/// so that threads can compute any part of a sequence in any order and get the same bits.
#pragma once

#include <array>
#include <cstdint>

namespace weir {

/// Computes one block of Philox4x32 with 10 rounds.
/// @threads{safe to call concurrently}
/// @source{Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11}
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(
    std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept;

/// The random numbers of one stream of one seed, by index.
/// @threads{const; safe to call concurrently}
class philox {
 public:
  /// Streams of one seed are independent of each other.
  philox(std::uint64_t seed, std::uint64_t stream) noexcept
      : seed_(seed), stream_(stream) {}

  /// Returns 64 random bits.
  [[nodiscard]] std::uint64_t bits(std::uint64_t index) const noexcept;
  /// Returns a uniform integer in [0, bound), without bias.
  /// @param bound  Greater than 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t index,
                                    std::uint64_t bound) const noexcept;
  /// Returns a uniform number in [0, 1): a multiple of 2^-24, so it is exact in fp32.
  [[nodiscard]] float uniform(std::uint64_t index) const noexcept;
  /// Returns an approximately standard normal number in [-6, 6].
  ///
  /// It is the sum of 12 uniform numbers minus 6 (Irwin-Hall), computed in integers. No
  /// function of the math library is involved, so the bits are the same everywhere.
  [[nodiscard]] float normal(std::uint64_t index) const noexcept;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
};

}  // namespace weir
