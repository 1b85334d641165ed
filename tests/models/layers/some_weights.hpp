// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random weights as rows of files, their values by the definitions of the types, and
/// their panels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/base/philox.hpp"
#include "weir/models/panels.hpp"

namespace weir::test {

/// Returns the value of an fp16 by its definition, for finite numbers.
inline float half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double size = exponent == 0 ? std::ldexp(fraction, -24)
                                    : std::ldexp(1024 + fraction, exponent - 25);
  return static_cast<float>((bits >> 15) != 0 ? -size : size);
}

/// Returns the rows of a matrix as a file has them, with random weights between -`size`
/// and `size`.
inline byte_vector some_rows(const models::panel_shape& shape, std::uint64_t seed,
                             float size = 1.0F) {
  byte_vector rows(shape.outputs * shape.row_bytes());
  const philox random(seed, 77);
  if (shape.type == models::weight_type::f32) {
    for (std::uint64_t i = 0; i < rows.size() / sizeof(float); ++i) {
      const float x = (2 * random.uniform(i) - 1) * size;
      std::memcpy(rows.data() + i * sizeof(float), &x, sizeof x);
    }
    return rows;
  }
  const bool q8 = shape.type == models::weight_type::q8_0;
  for (std::uint64_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<std::byte>(random.bits(i) & 255U);
  }
  // Scales: fp16 between size / 256 and size / 128 for q8_0, size / 16 and size / 8 for
  // q4_1; minima: between -size and -size / 2.
  const auto half = [&](std::uint64_t at, int exponent, bool negative) {
    const auto fraction = static_cast<std::uint16_t>(random.bits(at) >> 20 & 1023U);
    const auto bits = static_cast<std::uint16_t>((negative ? 0x8000 : 0) |
                                                 (exponent + 15) << 10 | fraction);
    std::memcpy(rows.data() + at, &bits, sizeof bits);
  };
  const int power = static_cast<int>(std::floor(std::log2(size)));
  const std::uint64_t step = q8 ? 34 : 20;
  for (std::uint64_t at = 0; at < rows.size(); at += step) {
    half(at, power - (q8 ? 8 : 4), false);
    if (!q8) {
      half(at + 2, power - 1, true);
    }
  }
  return rows;
}

/// Returns the weights of one row by the definition of its type.
inline std::vector<float> expected_weights(const models::panel_shape& shape,
                                           bytes_view rows, std::uint64_t row) {
  std::vector<float> weights(shape.inputs);
  const std::byte* from = rows.data() + row * shape.row_bytes();
  if (shape.type == models::weight_type::f32) {
    std::memcpy(weights.data(), from, shape.inputs * sizeof(float));
    return weights;
  }
  const bool q8 = shape.type == models::weight_type::q8_0;
  for (std::uint64_t k = 0; k < shape.inputs; ++k) {
    const std::byte* block = from + k / 32 * (q8 ? 34 : 20);
    std::uint16_t scale = 0;
    std::memcpy(&scale, block, 2);
    if (q8) {
      const int code = static_cast<std::int8_t>(block[2 + k % 32]);
      weights[k] = half_value(scale) * static_cast<float>(code);
    } else {
      std::uint16_t minimum = 0;
      std::memcpy(&minimum, block + 2, 2);
      const int pair = std::to_integer<int>(block[4 + k % 16]);
      const int code = k % 32 < 16 ? pair & 15 : pair >> 4;
      weights[k] = half_value(scale) * static_cast<float>(code) + half_value(minimum);
    }
  }
  return weights;
}

/// A matrix that owns its panels.
struct owned_matrix {
  models::panel_shape shape;
  byte_vector panels;
  /// Returns the matrix as one run.
  [[nodiscard]] models::panel_matrix view() const { return {shape, {{0, panels}}}; }
};

/// Packs all panels of a matrix.
inline owned_matrix packed(std::string_view name, const models::panel_shape& shape,
                           bytes_view rows, std::uint64_t pair_rows) {
  owned_matrix m{shape, byte_vector(shape.packed_bytes())};
  or_throw(models::pack_panels(name, shape, rows, pair_rows, 0, m.panels));
  return m;
}

}  // namespace weir::test
