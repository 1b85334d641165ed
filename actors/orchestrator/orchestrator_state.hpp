// SPDX-License-Identifier: Apache-2.0
/// @file
/// The orchestrator without actors: a queue of submitted work on one model, worked off
/// from the front.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "orchestrator/pulse_model.hpp"

namespace weir::actors {

/// Length of a pause that snapshots cause: how much longer the pulse behind one takes
/// than the usual one.
/// @threads{thread-compatible}
class pause_meter {
 public:
  /// A pulse has ended; `behind_snapshot`: it had to share the engine with one.
  void ended(std::int64_t now_ns, bool behind_snapshot);
  /// Forgets the last end: what follows is no interval.
  void restart() noexcept { last_ns_ = 0; }
  /// Median over the newest snapshots, in ms; 0 if there was none.
  [[nodiscard]] double pause_ms() const;

 private:
  static constexpr std::size_t max_intervals = 15;
  static constexpr std::size_t max_pauses = 4096;  // a run may last for weeks
  std::int64_t last_ns_ = 0;
  std::deque<std::int64_t> usual_;
  std::deque<std::int64_t> pauses_;
};

/// @threads{thread-compatible: belongs to the engine's submitter}
class orchestrator_state {
 public:
  using clock = std::int64_t (*)();
  orchestrator_state(std::unique_ptr<pulse_model> model, clock now);

  /// Work that has ended: the front of the queue.
  using finished =
      std::variant<result<pulse_done>, result<std::shared_ptr<const state_snapshot>>>;

  /// Queues a pulse behind everything before; the engine gets it when few enough pulses
  /// are in flight there.
  void submit(std::shared_ptr<const pulse_order> order);
  /// Queues a copy of the state behind the pulses so far.
  void snapshot(std::uint64_t pulses);
  /// Runs tasks until the front of the queue has ended, at most for `max_ns`.
  [[nodiscard]] std::optional<finished> work(std::int64_t max_ns);
  [[nodiscard]] bool busy() const noexcept { return !jobs_.empty(); }
  [[nodiscard]] result<engine_report> report(const trace_order& order);
  [[nodiscard]] std::int64_t stall_ns() const noexcept { return stall_ns_; }

 private:
  struct job {
    std::shared_ptr<const pulse_order> order;  ///< null: a snapshot
    std::shared_ptr<state_snapshot> snapshot;
    std::uint64_t pulses = 0;        ///< of a snapshot: completed before it
    result<work_ticket> ticket = 0;  ///< once begun
  };
  void begin_some();
  void begin(job& j);
  [[nodiscard]] bool front_ended();
  [[nodiscard]] finished finish(job j);
  [[nodiscard]] std::shared_ptr<state_snapshot> spare_snapshot();

  static constexpr std::uint64_t warm_pulses = 10;  ///< before stalls count

  std::unique_ptr<pulse_model> model_;
  clock now_;
  std::deque<job> jobs_;
  std::size_t begun_ = 0;         ///< jobs at the front that the engine has
  std::size_t begun_pulses_ = 0;  ///< pulses among them
  std::vector<std::shared_ptr<state_snapshot>> snapshots_;
  pause_meter pauses_;
  std::uint64_t submitted_ = 0;
  bool snapshot_running_ = false;
  std::int64_t rests_since_ns_ = 0;  ///< 0: it does not, or nothing follows
  std::int64_t stall_ns_ = 0;
};

}  // namespace weir::actors
