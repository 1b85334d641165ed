// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tables of rotary positions from our own sine and cosine in double precision.
#include "layers/rope.hpp"

#include "weir/base/math/elementary.hpp"

namespace weir::models::layers {

/// The values are those of single precision, as other programs have them.
rope_table make_rope_table(int head_width, std::uint32_t positions, double base) {
  using math::elementary_detail::exp_wide;
  using math::elementary_detail::log_wide;
  rope_table table;
  table.pairs = head_width / 2;
  const auto pairs = static_cast<std::size_t>(table.pairs);
  std::vector<float> frequencies(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(pairs);
    // base^(-i / pairs), computed without functions of the system.
    frequencies[i] = 1.0F / static_cast<float>(exp_wide(part * log_wide(base)));
  }
  table.cosines.resize(positions * pairs);
  table.sines.resize(positions * pairs);
  for (std::uint32_t p = 0; p < positions; ++p) {
    for (std::size_t i = 0; i < pairs; ++i) {
      // The angle is rounded before, as other programs do it.
      const float angle = static_cast<float>(p) * frequencies[i];
      table.cosines[p * pairs + i] =
          static_cast<float>(math::table_cos(static_cast<double>(angle)));
      table.sines[p * pairs + i] =
          static_cast<float>(math::table_sin(static_cast<double>(angle)));
    }
  }
  return table;
}

/// The halves of a head are the parts of the pairs.
void rotate_head(const rope_table& table, std::uint64_t position, float* head) noexcept {
  const auto pairs = static_cast<std::uint64_t>(table.pairs);
  const float* cosines = table.cosines.data() + position * pairs;
  const float* sines = table.sines.data() + position * pairs;
  for (std::uint64_t i = 0; i < pairs; ++i) {
    // Both are read before one is written.
    const float a = head[i];
    const float b = head[i + pairs];
    head[i] = a * cosines[i] - b * sines[i];
    head[i + pairs] = b * cosines[i] + a * sines[i];
  }
}

}  // namespace weir::models::layers
