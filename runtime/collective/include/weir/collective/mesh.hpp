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

/// Devices along each axis; zero means that the axis is absent, which is a size of one.
/// @source{Tessera Runtime & ABI, 4.2}
struct mesh_axes {
  int tp = 0;
  int pp = 0;
  int dp = 0;
  int ep = 0;
};

/// A set of axes: bit 0 is tp, then pp, dp, ep.
using axis_set = std::uint8_t;
inline constexpr int axis_count = 4;
inline constexpr axis_set whole_mesh = (1U << axis_count) - 1;

/// Axes named by a text such as "dp" or "tp+dp"; "" and "world" are all four.
/// @error{invalid_argument, a name that is none of tp, pp, dp and ep, or stands twice}
[[nodiscard]] result<axis_set> parse_axes(std::string_view text);
/// The same for C strings, where null is the whole mesh too.
[[nodiscard]] result<axis_set> parse_axes(const char* text);

/// How ranks lie on the axes: tp varies fastest, then pp, dp, ep, so that
/// `rank == tp + TP * (pp + PP * (dp + DP * ep))`.
/// @threads{a value}
class mesh_shape {
 public:
  /// @error{invalid_argument, no devices, an axis below zero, or a product of the axes
  /// that is not the number of devices}
  [[nodiscard]] static result<mesh_shape> make(int devices, const mesh_axes& axes);
  /// The same, and looks at the devices' numbers as well.
  /// @error{invalid_argument, moreover a number that stands twice or is not below
  /// `known`}
  [[nodiscard]] static result<mesh_shape> make(std::span<const int> device_ids, int known,
                                               const mesh_axes& axes);

  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  /// Sizes along tp, pp, dp, ep; none is zero.
  [[nodiscard]] const std::array<int, axis_count>& sizes() const noexcept {
    return sizes_;
  }
  /// Place of a rank along tp, pp, dp, ep.
  /// @error{invalid_argument, no such rank}
  [[nodiscard]] result<std::array<int, axis_count>> coordinates(int rank) const;
  /// @error{invalid_argument, a coordinate outside its axis}
  [[nodiscard]] result<int> rank_at(const std::array<int, axis_count>& place) const;

  /// Ranks in each group of these axes.
  [[nodiscard]] int group_size(axis_set axes) const noexcept;
  /// Ranks that differ from `rank` along these axes alone, itself among them, ascending.
  /// @error{invalid_argument, no such rank}
  [[nodiscard]] result<std::vector<int>> group_of(axis_set axes, int rank) const;
  /// All groups of these axes, by their lowest rank. They share no rank and leave none
  /// out.
  [[nodiscard]] std::vector<std::vector<int>> groups(axis_set axes) const;

 private:
  mesh_shape() = default;

  int ranks_ = 1;
  std::array<int, axis_count> sizes_{1, 1, 1, 1};
};

}  // namespace weir::collective
