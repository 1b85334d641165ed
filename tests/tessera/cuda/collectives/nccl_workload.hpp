// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program that uses every function of NCCL that is called: communicators for two
/// ranks, and collectives of all kinds.
#pragma once

#include <memory>
#include <vector>

#include "collectives/clique_rig.hpp"

namespace weir::tessera::stand_in {

/// What became of a run.
struct nccl_outcome {
  int wrong = 0;                ///< results that succeeded with wrong values
  std::vector<error> failures;  ///< errors, in order
};

/// Returns the sum of four numbers of all ranks, into the outputs.
[[nodiscard]] cuda::clique_work nccl_sum(
    const std::vector<std::unique_ptr<device_buffers>>& memory);
/// Runs the program and ends its communicators. Errors do not end it.
[[nodiscard]] nccl_outcome run_nccl_workload(const clique_rig& rig);

}  // namespace weir::tessera::stand_in
