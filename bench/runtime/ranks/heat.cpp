// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernel of the heat programs, in a file of its own so that its code has the same
/// place in cache lines in each of them.
#include "heat.hpp"

namespace weir::bench {

__attribute__((aligned(64))) void heat_step(const double* in, std::int64_t in_step,
                                            double* __restrict out, std::int64_t out_step,
                                            std::int64_t rows, std::int64_t columns) {
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

}  // namespace weir::bench
