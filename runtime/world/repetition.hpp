// SPDX-License-Identifier: Apache-2.0
/// @file
/// Steps of a loop that submit the same tasks again and again: how they are recognised,
/// and what is kept of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "weir/runtime/world.hpp"
#include "world/call_log.hpp"
#include "world/pieces.hpp"

namespace weir::runtime {

/// One submission of a period.
struct recorded_call {
  std::uint64_t signature = 0;  ///< equal for equal calls of this rank; 0: unknown
  std::uint64_t hash = 0;       ///< hash that ranks compare
  world_submission with;
  const char* name = "";
  std::vector<access> accesses;
  /// Submits the task to the engine; empty if another rank runs it.
  std::function<result<void>(std::uint64_t step)> start{};
  /// The tasks, if the call has submitted a series. `with` and `accesses` are of no
  /// meaning then.
  std::shared_ptr<const task_series> series{};
};

/// The submissions of a period, the pieces and the tasks that they make on this rank.
struct recorded_period {
  std::vector<recorded_call> calls;
  std::vector<std::size_t> step_ends;  ///< number of calls at the end of each step
  std::vector<piece_order> pieces;
  std::vector<world::kept_object> kept;  ///< objects of tasks of series
  capture tasks;
  std::uint64_t first_step = 0;  ///< submissions before the period
  std::uint64_t steps = 0;       ///< submissions of the period
  world_counters before;         ///< counters before the period
  world_counters after;          ///< counters after it
  std::deque<std::unique_ptr<replay_run>> runs;

  /// Takes a run whose tasks have ended, or makes one, and returns it as the last of all.
  [[nodiscard]] replay_run& take_run(const engine& on) {
    if (!runs.empty() && runs.front()->has_ended(on)) {
      runs.push_back(std::move(runs.front()));
      runs.pop_front();
    } else {
      runs.push_back(std::make_unique<replay_run>());
    }
    return *runs.back();
  }
  /// Returns true if more replays are in flight than hide the way of a message. Further
  /// ones would only make polling and the memory of pieces grow.
  [[nodiscard]] bool is_far_ahead(const engine& on) const noexcept {
    constexpr std::size_t least_replays = 4;
    constexpr std::size_t tasks_ahead = 128;
    return runs.size() >= std::max(least_replays, tasks_ahead / std::max<std::size_t>(
                                                                    tasks.size(), 1)) &&
           !runs.front()->has_ended(on);
  }
  /// Returns true if all tasks of all replays have ended.
  [[nodiscard]] bool has_ended(const engine& on) const noexcept {
    return std::all_of(runs.begin(), runs.end(),
                       [&on](const auto& run) { return run->has_ended(on); });
  }
};

/// Finds the shortest period of the newest steps. @threads{thread-compatible}
class period_finder {
 public:
  /// Largest number of steps of a period.
  static constexpr std::size_t max_period = 4;

  /// Adds a submission to the present step. 0 stands for an unknown one.
  void add(std::uint64_t signature) noexcept {
    step_.add(signature);
    known_ = known_ && signature != 0;
    ++count_;
  }
  /// Ends the present step. One that is unknown or empty forgets all steps before it.
  void end_step();
  /// Forgets all steps and makes the present one unknown.
  void forget() noexcept {
    steps_.clear();
    known_ = false;
  }
  /// Returns the period if the newest steps are two equal ones, else 0.
  [[nodiscard]] std::size_t period() const noexcept;
  /// Returns true if the newest step equals the one that is `back` steps before it.
  [[nodiscard]] bool repeats(std::size_t back) const noexcept {
    return steps_.size() > back && step(1) == step(1 + back);
  }

 private:
  /// Returns the hash of the step that is `back` steps before the present one, from 1.
  [[nodiscard]] std::uint64_t step(std::size_t back) const noexcept {
    return steps_[steps_.size() - back];
  }

  /// Hashes of the newest known steps, the newest last.
  std::deque<std::uint64_t> steps_;
  /// Hash of the present step so far.
  mixed_hash step_;
  /// Submissions of the present step.
  std::size_t count_ = 0;
  /// False if the present step has a submission that is unknown.
  bool known_ = true;
};

/// Treatment of the calls of a step.
enum class repeat_mode : std::uint8_t {
  off,        ///< no loop, or one that is not looked at
  watching,   ///< tasks are submitted, and a period is looked for
  recording,  ///< tasks are submitted and recorded
  verifying,  ///< tasks are submitted and compared with the recorded ones
  deferring,  ///< calls are compared; the whole period is replayed at its end
};

/// Place in a loop whose steps may repeat. See `world::ranked` for the methods.
struct repetition {
  repeat_mode now = repeat_mode::off;
  bool in_step = false;
  bool is_disturbed = false;  ///< something else has changed the ledger in this step
  period_finder finder;
  std::shared_ptr<recorded_period> recorded;
  std::size_t period = 0;            ///< steps
  std::size_t phase = 0;             ///< step inside of the period
  std::size_t position = 0;          ///< calls of the period that have been made
  std::size_t passed = 0;            ///< steps of the present period that were passed
  std::size_t clean_steps = 0;       ///< newest steps that nothing has disturbed
  std::uint64_t recorded_tasks = 0;  ///< tasks of the engine that were recorded
  /// Calls that were deferred, which pace the polls.
  std::uint64_t offered = 0;
  /// Periods whose deferred calls had to be submitted one by one.
  std::uint64_t flushes = 0;
  /// Periods that were replayed.
  std::uint64_t replays = 0;
  /// Periods that are not used any more, whose tasks may be in flight.
  std::deque<std::shared_ptr<recorded_period>> retired;

  /// Returns true if the calls are compared with a recorded period.
  [[nodiscard]] bool follows() const noexcept {
    return now == repeat_mode::verifying || now == repeat_mode::deferring;
  }
};

}  // namespace weir::runtime
