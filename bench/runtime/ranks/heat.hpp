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
/// the first one in both directions. All programs call the same machine code, because the
/// place of a loop in cache lines changes its speed by up to a third where the other half
/// of a core is busy. @units{steps from row to row: elements}
void heat_step(const double* in, std::int64_t in_step, double* __restrict out,
               std::int64_t out_step, std::int64_t rows, std::int64_t columns);

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
