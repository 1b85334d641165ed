// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counter-based random numbers: a value is a function of (seed, stream, index) and of
/// nothing else.
#pragma once

#include <array>
#include <cstdint>

namespace weir {

/// Philox4x32 with 10 rounds. @source{Salmon et al., SC'11; Random123 known-answer
/// vectors}
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(
    std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept;

/// Random numbers of one stream of one seed, by index.
/// @threads{const; safe to call concurrently}
class philox {
 public:
  philox(std::uint64_t seed, std::uint64_t stream) noexcept
      : seed_(seed), stream_(stream) {}

  /// 64 random bits.
  [[nodiscard]] std::uint64_t bits(std::uint64_t index) const noexcept;
  /// Uniform in [0, bound), without bias; `bound` > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t index,
                                    std::uint64_t bound) const noexcept;
  /// Uniform in [0, 1) with 24 bits: exact in fp32.
  [[nodiscard]] float uniform(std::uint64_t index) const noexcept;
  /// Standard normal: sum of 12 uniforms less 6 in integers, so no libm enters and bits
  /// never differ.
  [[nodiscard]] float normal(std::uint64_t index) const noexcept;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
};

}  // namespace weir
