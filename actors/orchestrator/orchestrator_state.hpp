// SPDX-License-Identifier: Apache-2.0
/// @file
/// The logic of the orchestrator, without actors: a queue of pulses and snapshots for one
/// model.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "orchestrator/pulse_model.hpp"

namespace weir::actors {

/// Measures the pause that a snapshot causes: the time by which the pulse behind a
/// snapshot takes longer than the median of other pulses.
/// @threads{thread-compatible}
class pause_meter {
 public:
  /// Notes the end of a pulse. `behind_snapshot` says that a snapshot ran with it.
  void ended(std::int64_t now_ns, bool behind_snapshot);
  /// Forgets the last end, so that the time until the next end does not count.
  void restart() noexcept { last_ns_ = 0; }
  /// Returns the median pause of the newest snapshots in milliseconds; 0 if there is
  /// none.
  [[nodiscard]] double pause_ms() const;

 private:
  static constexpr std::size_t max_intervals = 15;
  static constexpr std::size_t max_pauses = 4096;  // a run may last for weeks
  std::int64_t last_ns_ = 0;        ///< last end of a pulse; 0 if there is none
  std::deque<std::int64_t> usual_;  ///< newest intervals without a snapshot
  std::deque<std::int64_t> pauses_;
};

/// A queue of work. All of it ends in order. The engine gets pulses ahead, as far as the
/// depth of the model says.
/// @threads{thread-compatible: belongs to the engine's submitter}
class orchestrator_state {
 public:
  /// Returns the time in nanoseconds.
  using clock = std::int64_t (*)();
  /// Takes a model whose engine is idle.
  orchestrator_state(std::unique_ptr<pulse_model> model, clock now);

  /// The result of work that has ended.
  using finished =
      std::variant<result<pulse_done>, result<std::shared_ptr<const state_snapshot>>>;

  /// Queues a pulse.
  void submit(std::shared_ptr<const pulse_order> order);
  /// Queues a copy of the state behind the pulses queued so far. `pulses` is the number
  /// of pulses of the run before it, which the snapshot states.
  void snapshot(std::uint64_t pulses);
  /// Runs tasks until the work at the front of the queue has ended, but not longer than
  /// `max_ns`. Returns its result; nothing if the time was over or the queue is empty.
  [[nodiscard]] std::optional<finished> work(std::int64_t max_ns);
  /// Returns whether there is queued work.
  [[nodiscard]] bool busy() const noexcept { return !jobs_.empty(); }
  /// Waits for all tasks, and returns counters and digests.
  [[nodiscard]] result<engine_report> report(const trace_order& order);
  /// Returns the time for which the engine was idle because no pulse was there.
  [[nodiscard]] std::int64_t stall_ns() const noexcept { return stall_ns_; }

 private:
  /// A pulse or a snapshot.
  struct job {
    std::shared_ptr<const pulse_order> order;  ///< null if this is a snapshot
    std::shared_ptr<state_snapshot> snapshot;  ///< null until the snapshot has begun
    std::uint64_t pulses = 0;                  ///< of a snapshot
    result<work_ticket> ticket = 0;            ///< valid once the engine has the work
  };
  void begin_some();
  void begin(job& j);
  [[nodiscard]] bool front_ended();
  [[nodiscard]] finished finish(job j);
  [[nodiscard]] std::shared_ptr<state_snapshot> spare_snapshot();

  /// Pulses before stalls count: at its start a run waits for its first chunks anyway.
  static constexpr std::uint64_t warm_pulses = 10;

  std::unique_ptr<pulse_model> model_;
  clock now_;
  std::deque<job> jobs_;
  std::size_t begun_ = 0;         ///< number of jobs at the front that the engine has
  std::size_t begun_pulses_ = 0;  ///< number of pulses among them
  std::vector<std::shared_ptr<state_snapshot>> snapshots_;  ///< reused: `spare_snapshot`
  pause_meter pauses_;
  std::uint64_t submitted_ = 0;    ///< pulses that the engine got
  bool snapshot_running_ = false;  ///< a snapshot ended behind the last pulse
  /// When the engine became idle although another pulse will come; 0 if it is not.
  std::int64_t idle_since_ns_ = 0;
  std::int64_t stall_ns_ = 0;
};

}  // namespace weir::actors
