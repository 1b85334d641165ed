// SPDX-License-Identifier: Apache-2.0
/// @file
/// Meshes: devices along four named axes, and the groups of ranks that a collective
/// joins.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::collective {

/// Number of devices along each axis; 0 means that the axis is absent, and counts as 1.
/// @source{Tessera Runtime & ABI, 4.2}
struct mesh_axes {
  int tp = 0;  ///< tensor parallel
  int pp = 0;  ///< pipeline parallel
  int dp = 0;  ///< data parallel
  int ep = 0;  ///< expert parallel
};

/// A set of axes: bit 0 is tp, then pp, dp, ep.
using axis_set = std::uint8_t;
/// Number of axes.
inline constexpr int axis_count = 4;
/// All axes.
inline constexpr axis_set whole_mesh = (1U << axis_count) - 1;

/// Reads a set of axes such as "dp" or "tp+dp"; "" and "world" are all axes.
/// @error{invalid_argument; a name that is none of tp, pp, dp and ep, or stands twice}
[[nodiscard]] result<axis_set> parse_axes(std::string_view text);
/// Reads a set of axes from a C string; null names all axes.
/// @error{invalid_argument; see above}
[[nodiscard]] result<axis_set> parse_axes(const char* text);

/// Places of ranks on the axes: tp varies fastest, then pp, dp, ep, so that
/// `rank == tp + TP * (pp + PP * (dp + DP * ep))`.
/// @threads{a value}
class mesh_shape {
 public:
  /// Makes the shape of a mesh of `devices` devices.
  /// @error{invalid_argument; no devices, an axis below zero, or a product of the axes
  /// that is not the number of devices}
  [[nodiscard]] static result<mesh_shape> make(int devices, const mesh_axes& axes);
  /// Makes the shape of a mesh of these devices, and checks their numbers.
  /// @error{invalid_argument; see above, a number twice, or a number that is not below
  /// `known`}
  [[nodiscard]] static result<mesh_shape> make(std::span<const int> device_ids, int known,
                                               const mesh_axes& axes);

  /// Returns the number of ranks.
  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  /// Returns the sizes along tp, pp, dp, ep; each is at least 1.
  [[nodiscard]] const std::array<int, axis_count>& sizes() const noexcept {
    return sizes_;
  }
  /// Returns the place of a rank along tp, pp, dp, ep.
  /// @error{invalid_argument; no such rank}
  [[nodiscard]] result<std::array<int, axis_count>> coordinates(int rank) const;
  /// Returns the rank at a place. @error{invalid_argument; a coordinate outside its axis}
  [[nodiscard]] result<int> rank_at(const std::array<int, axis_count>& place) const;

  /// Returns the number of ranks in each group of these axes.
  [[nodiscard]] int group_size(axis_set axes) const noexcept;
  /// Returns the ranks that differ from `rank` along these axes alone, including itself,
  /// in ascending order. @error{invalid_argument; no such rank}
  [[nodiscard]] result<std::vector<int>> group_of(axis_set axes, int rank) const;
  /// Returns all groups of these axes, ordered by their lowest rank. Every rank is in
  /// exactly one group.
  [[nodiscard]] std::vector<std::vector<int>> groups(axis_set axes) const;

 private:
  mesh_shape() = default;

  int ranks_ = 1;
  std::array<int, axis_count> sizes_{1, 1, 1, 1};
};

}  // namespace weir::collective
