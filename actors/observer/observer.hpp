// SPDX-License-Identifier: Apache-2.0
/// @file
/// The observer actor: turns samples into what people want to know.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// The observer without actors. @threads{thread-compatible}
class observer_state {
 public:
  /// Rate over the last few seconds, time left at that rate.
  [[nodiscard]] run_progress take(const run_sample& s);
  /// One line about the last sample.
  [[nodiscard]] std::string line() const;

 private:
  static constexpr std::int64_t rate_window_ns = 3'000'000'000;
  std::deque<run_sample> recent_;
  run_progress last_;
};

struct observer_config {
  std::function<void(run_progress)>
      listener;  ///< called from the actor's thread; may be empty
};
struct observer_shell {
  static constexpr const char* name = "weir.observer";
  observer_state core;
};
observer_actor::behavior_type observer(
    observer_actor::stateful_pointer<observer_shell> self, observer_config config);

}  // namespace weir::actors
