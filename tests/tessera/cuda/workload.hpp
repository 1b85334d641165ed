// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program that uses every function of the driver that the backend calls: two devices,
/// copies of all kinds, fills, kernels, graphs, a persistent kernel.
#pragma once

#include <vector>

#include "tessera/cuda/support.hpp"

namespace weir::tessera::stand_in {

/// What became of a run.
struct workload_outcome {
  bool opened = false;          ///< the backend could be made and the module loaded
  int wrong = 0;                ///< results that succeeded with wrong values
  std::vector<error> failures;  ///< errors, in order
};

/// Runs the program over the machine that `set_up` has made, and ends the backend. Errors
/// do not end the program: it goes on with what it has.
[[nodiscard]] workload_outcome run_workload(const cuda_options& options,
                                            listed_executor& executor);
/// Returns the machine for the program.
[[nodiscard]] inline machine workload_machine() {
  machine shown;
  shown.devices = 2;
  shown.memory = std::size_t{8} << 20;
  return shown;
}

}  // namespace weir::tessera::stand_in
