// SPDX-License-Identifier: Apache-2.0
/// @file
/// The object that stands in a run for a stage in a child process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/stage_object.hpp"

namespace weir::actors {

/// What all child processes of a run have in common.
struct process_options {
  std::uint64_t seed = 1;            ///< seed of the run
  std::string folder;                ///< folder of relative paths
  std::int64_t deadline_ns = 0;      ///< longest time without an answer
  std::vector<std::string> plugins;  ///< files of the catalog
  /// Set when a child has died; shared with the run.
  std::shared_ptr<std::atomic<bool>> died;
};

/// Starts the child process of a stage. The calling thread has to live as long as it.
/// @param stage  Index in the plan.
/// @error{not_found, the program of the child does not exist}
/// @error{out_of_memory, no_space, io; the shared memory or the process cannot be made}
[[nodiscard]] result<std::unique_ptr<flow::stage_object>> make_process_stage(
    const flow::plan& p, std::uint32_t stage, const process_options& options);

}  // namespace weir::actors
