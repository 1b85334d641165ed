// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rates, stalls and problems of a pipeline's run, from samples, without actors.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weir/actors/pipelines.hpp"

namespace weir::actors {

/// How a run stands at one moment.
struct host_sample {
  std::int64_t time_ns = 0;         ///< when the sample was taken
  std::uint64_t items = 0;          ///< items that all sources have delivered
  std::uint64_t epochs = 0;         ///< checkpoints so far
  std::uint64_t durable_items = 0;  ///< first item that is not in a checkpoint
  std::uint64_t generation = 0;     ///< last durable checkpoint; 0 if there is none
  std::string bottleneck;           ///< stage that limits the rate; empty if unknown
  std::vector<figures> stages;      ///< figures of each stage; may be empty
  /// Counters of stages and edges.
  std::shared_ptr<const flow::run_counters> counters;
  /// Time for which nothing has happened although no I/O host, no checkpoint and no task
  /// of the engine was waited for. @units{nanoseconds}
  std::int64_t idle_ns = 0;
  std::string waiting;  ///< reasons of all stages, set if `idle_ns` is not 0
};

/// Keeps the samples of the last few seconds.
/// @threads{thread-compatible}
class progress_state {
 public:
  /// @param stall_ns  Idle time after which a run has stalled.
  /// @param stages  Names of the stages, in the order of their figures.
  progress_state(std::int64_t stall_ns, std::vector<std::string> stages)
      : stall_ns_(stall_ns), stages_(std::move(stages)) {}
  /// Takes a sample. Returns the progress with the rate over the last few seconds.
  [[nodiscard]] pipeline_progress take(const host_sample& s);
  /// Returns the error of a run that has stalled at the last sample, once. It names for
  /// each stage the reason for which it does nothing.
  [[nodiscard]] std::optional<error> stall();
  /// Returns lines about problems of stages that were not returned before.
  /// @param now  Figures of all stages, in their order.
  [[nodiscard]] std::vector<std::string> new_problems(const std::vector<figures>& now);
  /// Returns one line about the last sample.
  [[nodiscard]] std::string line() const;

 private:
  static constexpr std::int64_t rate_window_ns = 3'000'000'000;
  std::int64_t stall_ns_;
  std::vector<std::string> stages_;
  std::set<std::pair<std::size_t, std::string>> problems_;     ///< returned, by stage
  std::deque<std::pair<std::int64_t, std::uint64_t>> recent_;  ///< time and items
  pipeline_progress last_;
  std::optional<std::string> stalled_;  ///< reasons, until `stall` has returned them
  bool reported_ = false;               ///< `stall` has returned an error
};

}  // namespace weir::actors
