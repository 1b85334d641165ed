// SPDX-License-Identifier: Apache-2.0
/// @file
/// The observer actor: turns the samples of a run into the progress that a user sees.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// The logic of the observer, without actors.
/// @threads{thread-compatible}
class observer_state {
 public:
  /// Takes a sample. Returns the progress with the rate over the last few seconds and the
  /// time left at that rate.
  [[nodiscard]] run_progress take(const run_sample& s);
  /// Returns one line about the last sample.
  [[nodiscard]] std::string line() const;

 private:
  static constexpr std::int64_t rate_window_ns = 3'000'000'000;
  std::deque<run_sample> recent_;  ///< of the rate window, all of one phase
  run_progress last_;
};

/// Configuration of an observer.
struct observer_config {
  /// Called from the actor's thread with every sample's progress. May be empty.
  std::function<void(run_progress)> listener;
};
/// State that CAF keeps for an observer.
struct observer_shell {
  static constexpr const char* name = "weir.observer";
  observer_state core;
};
/// Returns the behavior of an observer; CAF calls this when it spawns the actor.
observer_actor::behavior_type observer(
    observer_actor::stateful_pointer<observer_shell> self, observer_config config);

}  // namespace weir::actors
