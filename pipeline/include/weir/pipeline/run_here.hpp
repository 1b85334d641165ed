// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a pipeline on the calling thread: sources and sinks take turns with the stages.
/// Tasks run on the workers of the engine. For programs whose sources and sinks do not
/// block, and for tests.
#pragma once

#include <cstdint>
#include <functional>

#include "weir/pipeline.hpp"
#include "weir/pipeline/counters.hpp"
#include "weir/pipeline/host/image.hpp"

namespace weir::flow {

/// Options of a run on the calling thread.
struct here_options {
  unsigned workers = 1;            ///< threads that run tasks, the calling one included
  std::uint64_t every_items = 0;   ///< items between checkpoints; 0: at the end only
  std::uint64_t seed = 1;          ///< seed of `step::random`
  std::string folder;              ///< folder of the pipeline's file, see `opening::path`
  image_store* store = nullptr;    ///< keeps the checkpoints; null: there are none
  bool resume = false;             ///< true to continue from the newest checkpoint
  std::vector<item_range> skip{};  ///< items that are read and not processed
  std::uint32_t turn_items = 32;   ///< items that a stage takes in one turn at most
  opening::loader load{};          ///< loads constants; may be empty
  std::string kernels = "auto";    ///< see `opening::kernels`
  /// Time without any progress after which the run ends with an error that names what
  /// each stage waits for. @units{nanoseconds}
  std::int64_t stall_ns = 2'000'000'000;
  /// Asked after each turn; true stops the sources, makes a checkpoint and ends the run.
  std::function<bool()> stop;
};

/// Result of a run.
struct here_report {
  std::uint64_t items = 0;   ///< items that sources have delivered
  std::uint64_t epochs = 0;  ///< checkpoints
  bool finished = false;     ///< true if all sources have ended
  run_counters counters;     ///< counters of stages and edges
};

/// Runs a pipeline until its sources have ended or `stop` returns true.
/// @error{invalid_argument, the pipeline is refused, or a stage or a task failed; the
/// message names stage and item} @error{timeout, no stage can go on; the message names
/// what each waits for} @error{config_mismatch, the checkpoint belongs to another
/// pipeline}
/// @threads{thread-compatible}
[[nodiscard]] result<here_report> run_here(pipeline& p, const here_options& options);

}  // namespace weir::flow
