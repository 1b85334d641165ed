// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of the calls `run` and `resume` of pipelines: opening the checkpoints of a
/// run folder, and running the stages behind one of them.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "epochs/epoch_plan.hpp"
#include "epochs/epoch_store.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::actors {

/// The checkpoints of a run folder, and the one to continue from.
struct run_checkpoints {
  std::shared_ptr<epoch_store> store;     ///< holds the lock; null: there is no folder
  std::optional<storage::checkpoint> at;  ///< empty: the run begins with its first item
  bool made_folder = false;               ///< the run folder did not exist before
  bool made_checkpoints = false;  ///< the folder of checkpoints did not exist before
};

/// Makes the folder of a new run, takes the lock of its checkpoints, and reads the one to
/// continue from. Passes on why newer ones are not used as warnings.
/// @error{not_found, the folder of a run to resume does not exist}
/// @error{already_exists, a new run finds checkpoints in its folder}
/// @error{locked, another process has a run in the folder} @error{io}
/// @error{corrupt, no checkpoint is valid}
[[nodiscard]] result<run_checkpoints> open_checkpoints(const run_options& options,
                                                       bool resuming);

/// What a run continues from.
struct run_origin {
  std::shared_ptr<epoch_store> store;       ///< null: nothing is kept
  std::shared_ptr<const flow::image> from;  ///< null: the run begins with its first item
  std::uint64_t generation = 0;   ///< generation of the image; 0 if there is none
  bool resuming = false;          ///< the folder may hold a run
  bool made_folder = false;       ///< see `run_checkpoints`
  bool made_checkpoints = false;  ///< see `run_checkpoints`
  /// True if the run goes back in this process, so that its stages are made again.
  bool again = false;
  bool goes_back = false;  ///< the run may go back once more if a host dies
  /// Set when a host has died; may be null.
  std::shared_ptr<std::atomic<bool>> died{};
  /// Number of the first item that sources do not hand on; see `epoch_rules::end`.
  std::uint64_t end = epoch_order::no_boundary;
  /// Receives the number of the item that has ended the run; see
  /// `execution::failed_item`. May be null.
  std::optional<std::uint64_t>* failed_item = nullptr;
};

/// Runs the stages until they end. A run that has finished is not begun again.
/// @error{config_mismatch, the image belongs to another pipeline} Also returns the errors
/// of `weir::run`.
[[nodiscard]] result<pipeline_report> run_from(pipeline& p, const run_options& options,
                                               run_origin origin);

/// Runs the stages as `run_from` does, and goes back to the newest checkpoint when a host
/// has died or an item has failed. The part of `weir::run` behind the choice of the
/// store; tests give it a store on a disk of their own.
/// @error{abandoned, more child processes have died than `restarts` allows} Also returns
/// the errors of `run_from`.
[[nodiscard]] result<pipeline_report> run_with_restarts(pipeline& p,
                                                        const run_options& options,
                                                        run_origin origin);

}  // namespace weir::actors
