// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rotary positions: tables of cosines and sines, and the rotation of a head.
#pragma once

#include <cstdint>
#include <vector>

namespace weir::models::layers {

/// Cosines and sines by position and pair of features.
struct rope_table {
  int pairs = 0;               ///< half the width of a head
  std::vector<float> cosines;  ///< [positions][pairs]
  std::vector<float> sines;    ///< [positions][pairs]
};

/// Computes a table.
///
/// The angle of pair i at position p is p * base^(-i / pairs). Frequencies and angles are
/// rounded to fp32, because the libraries in which such models are made compute them so;
/// the functions of the angle are exact to the last bit.
/// @param head_width  Features of a head; even.
/// @param positions  Number of positions; at most 2^17.
[[nodiscard]] rope_table make_rope_table(int head_width, std::uint32_t positions,
                                         double base);

/// Rotates a head in place. Feature i and feature i + pairs are a pair.
void rotate_head(const rope_table& table, std::uint64_t position, float* head) noexcept;

}  // namespace weir::models::layers
