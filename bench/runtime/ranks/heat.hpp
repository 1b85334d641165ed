// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernel of the heat programs and their first state, the same for the program over
/// worlds and for the one that is written by hand with MPI.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir::bench {

/// Computes `rows` by `columns` cells of the next state. `in` points to the cell before
/// the first one in both directions. @units{steps from row to row: elements}
inline void heat_step(const double* in, std::int64_t in_step, double* __restrict out,
                      std::int64_t out_step, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const double* const above = in + i * in_step;
    const double* const here = above + in_step;
    const double* const below = here + in_step;
    double* __restrict to = out + i * out_step;
    for (std::int64_t j = 0; j < columns; ++j) {
      to[j] = here[j + 1] + 0.2 * (above[j + 1] + below[j + 1] + here[j] + here[j + 2] -
                                   4 * here[j + 1]);
    }
  }
}

/// Returns the first temperature of the cell with a number, counted row by row.
inline double first_heat(std::int64_t cell) {
  return static_cast<double>(cell * 7919 % 1000);
}

/// Returns a sum of a row that depends on the place of each cell.
inline double row_sum(std::span<const double> row) {
  double sum = 0;
  double weight = 1;
  for (const double cell : row) {
    sum += weight * cell;
    weight = weight == 97 ? 1 : weight + 1;
  }
  return sum;
}
/// Returns a number by which the states of two programs are compared: the sum of the sums
/// of rows, from the first to the last.
inline double checksum(std::span<const double> row_sums) {
  double sum = 0;
  for (const double one : row_sums) {
    sum = sum * 0.75 + one;
  }
  return sum;
}

}  // namespace weir::bench
