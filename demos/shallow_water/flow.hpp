// SPDX-License-Identifier: Apache-2.0
/// @file
/// One step of the shallow water equations for one tile: Rusanov fluxes of first order,
/// with walls around the basin. The kernels know nothing of ranks and tasks.
/// @source{R. J. LeVeque, Finite Volume Methods for Hyperbolic Problems, chapter 13}
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "weir/tiles.hpp"

namespace shallow_water {

/// Acceleration by gravity. @units{m/s^2}
inline constexpr double gravity = 9.81;

/// State of one cell.
struct cell {
  double depth = 0;  ///< depth of the water
  double east = 0;   ///< momentum along a row: depth times velocity
  double south = 0;  ///< momentum along a column
};
/// Views of the three fields of the state.
template <class T>
struct fields {
  weir::view<T, 2> depth;  ///< depth of the water
  weir::view<T, 2> east;   ///< momentum along a row
  weir::view<T, 2> south;  ///< momentum along a column
};
/// Shape of the basin and the box that a kernel computes.
struct place {
  weir::tile<2> box;         ///< cells that the kernel writes
  std::int64_t rows = 0;     ///< rows of the basin
  std::int64_t columns = 0;  ///< columns of the basin
};

/// Flow through a face between two cells.
struct flux {
  double mass = 0;    ///< water
  double normal = 0;  ///< momentum across the face
  double along = 0;   ///< momentum parallel to the face
};

/// Returns the largest speed of a wave in one direction.
inline double wave_speed(double depth, double momentum) {
  return std::abs(momentum / depth) + std::sqrt(gravity * depth);
}

/// Returns the flow from one cell to the next: the mean of both, less what the fastest
/// wave smooths. `n` is momentum across the face, `t` momentum parallel to it. The
/// expression is symmetric, so that a mirrored basin gives mirrored bits.
inline flux rusanov(double h1, double n1, double t1, double h2, double n2, double t2) {
  const double u1 = n1 / h1;
  const double u2 = n2 / h2;
  const double pressure1 = n1 * u1 + 0.5 * gravity * h1 * h1;
  const double pressure2 = n2 * u2 + 0.5 * gravity * h2 * h2;
  const double half = 0.5 * std::max(wave_speed(h1, n1), wave_speed(h2, n2));
  return {0.5 * (n1 + n2) - half * (h2 - h1),
          0.5 * (pressure1 + pressure2) - half * (n2 - n1),
          0.5 * (t1 * u1 + t2 * u2) - half * (t2 - t1)};
}
/// Returns the flow through the face between a cell and the next one of its row.
inline flux flow_east(const cell& a, const cell& b) {
  return rusanov(a.depth, a.east, a.south, b.depth, b.east, b.south);
}
/// Returns the flow through the face between a cell and the next one of its column.
inline flux flow_south(const cell& a, const cell& b) {
  return rusanov(a.depth, a.south, a.east, b.depth, b.south, b.east);
}

/// The cells of a row that a kernel reads, one more at both ends.
using line = std::vector<cell>;

/// Reads a row. A cell outside of the basin is its neighbour inside, which flows towards
/// the wall with the opposite speed. `in` begins with the first cell that the task reads.
inline void load(const fields<const double>& in, const place& at, std::int64_t row,
                 line& to) {
  const std::int64_t first_row = std::max<std::int64_t>(at.box.lo[0] - 1, 0);
  const std::int64_t first_column = std::max<std::int64_t>(at.box.lo[1] - 1, 0);
  const std::int64_t inside = std::clamp<std::int64_t>(row, 0, at.rows - 1);
  to.clear();
  for (std::int64_t j = at.box.lo[1] - 1; j <= at.box.hi[1]; ++j) {
    const std::int64_t i = inside - first_row;
    const std::int64_t k = std::clamp<std::int64_t>(j, 0, at.columns - 1);
    const double east = in.east(i, k - first_column);
    const double south = in.south(i, k - first_column);
    to.push_back({in.depth(i, k - first_column), k == j ? east : -east,
                  inside == row ? south : -south});
  }
}

/// Fills `to` with the flows through the faces between two rows.
inline void faces_between(const line& above, const line& below, std::vector<flux>& to) {
  to.clear();
  for (std::size_t j = 1; j + 1 < above.size(); ++j) {
    to.push_back(flow_south(above[j], below[j]));
  }
}

/// Returns the state of a cell after a step. `ratio` is the length of the step in time
/// over the length of a cell.
inline cell after(const cell& c, double ratio, const flux& west, const flux& east,
                  const flux& north, const flux& south) {
  return {c.depth - ratio * ((east.mass - west.mass) + (south.mass - north.mass)),
          c.east - ratio * ((east.normal - west.normal) + (south.along - north.along)),
          c.south - ratio * ((east.along - west.along) + (south.normal - north.normal))};
}

/// Computes one step of a box and returns the largest speed of a wave in it afterwards.
/// `in` are the cells of the box and those beside it, without those outside of the basin.
inline double step(const fields<const double>& in, const fields<double>& out,
                   const place& at, double ratio) {
  line above;
  line here;
  line below;
  std::vector<flux> north;
  std::vector<flux> south;
  load(in, at, at.box.lo[0] - 1, above);
  load(in, at, at.box.lo[0], here);
  faces_between(above, here, north);
  double fastest = 0;
  for (std::int64_t i = 0; i < at.box.hi[0] - at.box.lo[0]; ++i) {
    load(in, at, at.box.lo[0] + i + 1, below);
    faces_between(here, below, south);
    flux west = flow_east(here[0], here[1]);
    for (std::size_t j = 0; j < north.size(); ++j) {
      const flux east = flow_east(here[j + 1], here[j + 2]);
      const cell now = after(here[j + 1], ratio, west, east, north[j], south[j]);
      const auto k = static_cast<std::int64_t>(j);
      out.depth(i, k) = now.depth;
      out.east(i, k) = now.east;
      out.south(i, k) = now.south;
      fastest = std::max(
          {fastest, wave_speed(now.depth, now.east), wave_speed(now.depth, now.south)});
      west = east;
    }
    std::swap(here, below);
    std::swap(north, south);
  }
  return fastest;
}

/// Returns the energy of a column of water of unit area, over its density.
inline double energy_of(const cell& c) {
  return 0.5 * gravity * c.depth * c.depth +
         0.5 * (c.east * c.east + c.south * c.south) / c.depth;
}

/// Returns the sum of `value(0)`, ..., `value(count - 1)` by a tree.
template <class Value>
double tree_sum(const Value& value, std::int64_t first, std::int64_t count) {
  if (count == 1) {
    return value(first);
  }
  const std::int64_t half = count / 2;
  return tree_sum(value, first, half) + tree_sum(value, first + half, count - half);
}

}  // namespace shallow_water
