// SPDX-License-Identifier: Apache-2.0
/// @file
/// The observer of a pipeline: an actor that turns samples of a run into the progress
/// that a user sees, and ends a run that has stalled.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "progress/interfaces.hpp"
#include "shim/shim.hpp"

namespace weir::actors {

/// Configuration of an observer. Its functions are called from the actor's thread.
struct progress_observer_config {
  std::int64_t stall_ns = 0;        ///< idle time after which a run has stalled
  std::vector<std::string> stages;  ///< names of the stages
  std::function<void(pipeline_progress)>
      progress;                              ///< called with every sample; may be empty
  std::function<void(std::string)> warning;  ///< called with one line of text; not empty
  std::function<void(pipeline_report)> ended;  ///< called once at the end; not empty
  std::function<void(error)> stalled;  ///< called once if the run has stalled; not empty
};
/// State that CAF keeps for an observer.
struct progress_observer_shell {
  static constexpr const char* name = "weir.progress_observer";
  progress_observer_config config;
  progress_state core{0, {}};
};
/// Returns the behavior of an observer; CAF calls this when it spawns the actor.
progress_observer_actor::behavior_type progress_observer(
    progress_observer_actor::stateful_pointer<progress_observer_shell> self,
    progress_observer_config config);

}  // namespace weir::actors
