// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ranks of a mesh, their positions on four axes, and the groups along axes. Axis tp is
/// the fastest: neighbouring ranks differ in it first.
///
/// A mesh has no state: groups are computed from the sizes of the axes whenever they are
/// asked for.
#include "weir/collective/mesh.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace weir::collective {
namespace {

constexpr std::array<std::string_view, axis_count> axis_names = {"tp", "pp", "dp", "ep"};

/// Returns the bit of an axis. `text` is the whole text for messages.
result<axis_set> axis_bit(std::string_view name, std::string_view text) {
  for (std::size_t a = 0; a < axis_count; ++a) {
    if (axis_names[a] == name) {
      return static_cast<axis_set>(1U << a);
    }
  }
  return error(
      errc::invalid_argument,
      fmt::format("cannot read axes \"{}\": expected tp, pp, dp, ep joined by +, "
                  "or world, found \"{}\"",
                  text, name));
}

error no_such_rank(int rank, int ranks) {
  return {errc::invalid_argument,
          fmt::format("no rank {} in the mesh: expected [0, {})", rank, ranks)};
}

}  // namespace

// An empty text means the whole mesh, as "world" does.
result<axis_set> parse_axes(std::string_view text) {
  if (text.empty() || text == "world") {
    return whole_mesh;
  }
  unsigned axes = 0;
  for (std::string_view rest = text;;) {
    const std::size_t plus = rest.find('+');
    WEIR_TRY(const axis_set bit, axis_bit(rest.substr(0, plus), text));
    if ((axes & bit) != 0) {
      return error(errc::invalid_argument,
                   fmt::format("cannot read axes \"{}\": expected each axis once", text));
    }
    axes |= bit;
    if (plus == std::string_view::npos) {
      return static_cast<axis_set>(axes);
    }
    rest.remove_prefix(plus + 1);
  }
}

result<axis_set> parse_axes(const char* text) {
  return parse_axes(text == nullptr ? std::string_view() : std::string_view(text));
}

result<mesh_shape> mesh_shape::make(int devices, const mesh_axes& axes) {
  mesh_shape shape;
  const std::array<int, axis_count> asked = {axes.tp, axes.pp, axes.dp, axes.ep};
  std::int64_t product = 1;
  for (std::size_t a = 0; a < axis_count; ++a) {
    if (asked[a] < 0) {
      return error(errc::invalid_argument,
                   fmt::format("cannot shape a mesh: expected axis {} >= 0, found {}",
                               axis_names[a], asked[a]));
    }
    shape.sizes_[a] = std::max(asked[a], 1);
    // Limits the product, so that it cannot overflow: a value above every int stays
    // above.
    product = std::min(product * shape.sizes_[a], std::int64_t{1} << 31);
  }
  if (devices < 1 || product != devices) {
    return error(errc::invalid_argument,
                 fmt::format("cannot shape a mesh of {} devices: expected as many as "
                             "{} x {} x {} x {}",
                             devices, shape.sizes_[0], shape.sizes_[1], shape.sizes_[2],
                             shape.sizes_[3]));
  }
  shape.ranks_ = devices;
  return shape;
}

// Checks the device ids, which must differ, and makes the shape from their number.
result<mesh_shape> mesh_shape::make(std::span<const int> device_ids, int known,
                                    const mesh_axes& axes) {
  std::vector<int> sorted(device_ids.begin(), device_ids.end());
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty() && (sorted.front() < 0 || sorted.back() >= known)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot shape a mesh: expected devices in [0, {}), found {}",
                             known, sorted.front() < 0 ? sorted.front() : sorted.back()));
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot shape a mesh: expected each device once, found {} "
                             "twice",
                             *twice));
  }
  if (sorted.size() > (std::size_t{1} << 30)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot shape a mesh: expected at most 2^30 devices, found "
                             "{}",
                             sorted.size()));
  }
  return make(static_cast<int>(sorted.size()), axes);
}

// The rank is a number with the axes as digits, the first axis being the lowest.
result<std::array<int, axis_count>> mesh_shape::coordinates(int rank) const {
  if (rank < 0 || rank >= ranks_) {
    return no_such_rank(rank, ranks_);
  }
  std::array<int, axis_count> place{};
  for (std::size_t a = 0; a < axis_count; ++a) {
    place[a] = rank % sizes_[a];
    rank /= sizes_[a];
  }
  return place;
}

// Inverse of `coordinates`.
result<int> mesh_shape::rank_at(const std::array<int, axis_count>& place) const {
  int rank = 0;
  for (std::size_t a = axis_count; a-- > 0;) {
    if (place[a] < 0 || place[a] >= sizes_[a]) {
      return error(errc::invalid_argument,
                   fmt::format("no place {} on axis {}: expected [0, {})", place[a],
                               axis_names[a], sizes_[a]));
    }
    rank = rank * sizes_[a] + place[a];
  }
  return rank;
}

// Axes that are not in the set do not vary within a group.
int mesh_shape::group_size(axis_set axes) const noexcept {
  int size = 1;
  for (std::size_t a = 0; a < axis_count; ++a) {
    size *= ((axes >> a) & 1U) != 0 ? sizes_[a] : 1;
  }
  return size;
}

result<std::vector<int>> mesh_shape::group_of(axis_set axes, int rank) const {
  if (rank < 0 || rank >= ranks_) {
    return no_such_rank(rank, ranks_);
  }
  // The group is widened axis by axis, with the slower axes outside, so that ranks come
  // out in ascending order.
  std::vector<int> group = {rank};
  int stride = 1;
  for (std::size_t a = 0; a < axis_count; ++a) {
    if (((axes >> a) & 1U) != 0) {
      const int first = -(rank / stride % sizes_[a]) * stride;
      std::vector<int> wider;
      for (int i = 0; i < sizes_[a]; ++i) {
        for (const int r : group) {
          wider.push_back(r + first + i * stride);
        }
      }
      group = std::move(wider);
    }
    stride *= sizes_[a];
  }
  return group;
}

// Each rank belongs to one group. Groups are in the order of their first ranks.
std::vector<std::vector<int>> mesh_shape::groups(axis_set axes) const {
  std::vector<std::vector<int>> all;
  std::vector<bool> seen(static_cast<std::size_t>(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!seen[static_cast<std::size_t>(rank)]) {
      all.push_back(or_throw(group_of(axes, rank)));
      for (const int r : all.back()) {
        seen[static_cast<std::size_t>(r)] = true;
      }
    }
  }
  return all;
}

}  // namespace weir::collective
