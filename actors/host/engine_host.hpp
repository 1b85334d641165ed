// SPDX-License-Identifier: Apache-2.0
/// @file
/// The engine host actor: gives the stages of a pipeline their turns, moves items between
/// them and the I/O hosts, and begins epochs when its conductor orders them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "epochs/epoch_orders.hpp"
#include "epochs/interfaces.hpp"
#include "host/interfaces.hpp"
#include "progress/interfaces.hpp"
#include "shim/shim.hpp"
#include "weir/pipeline/host/task_batch.hpp"

namespace weir::actors {

/// The objects of a run. I/O hosts share their ownership, so that a source that never
/// returns from a call cannot lose its memory.
struct pipeline_parts {
  std::vector<std::unique_ptr<flow::stage_object>> objects;  ///< until the run begins
  std::unique_ptr<weir::engine> host;                        ///< outlives `run`
  std::unique_ptr<flow::execution> run;                      ///< null until the launch
  /// Time that I/O hosts have spent in the functions of each stage. @units{nanoseconds}
  std::vector<std::atomic<std::int64_t>> busy_ns;
};
/// Returns the counters of a run, with the times of its I/O hosts. Only the thread of the
/// engine host may ask for them. @pre The run was launched.
[[nodiscard]] flow::run_counters counters_of(const pipeline_parts& parts);

/// An I/O host and the stage that it runs.
struct hosted_stage {
  std::uint32_t stage = 0;  ///< index in the plan
  io_host_actor actor;      ///< its host
};

/// Configuration of an engine host.
struct engine_host_config {
  std::shared_ptr<pipeline_parts> parts;    ///< not null
  flow::plan planned;                       ///< plan of the pipeline
  std::shared_ptr<const flow::image> from;  ///< image to continue from; may be null
  std::uint64_t generation = 0;             ///< generation of that image
  runtime::engine_options engine;           ///< options of the engine
  run_options options;                      ///< options of the run
  std::vector<hosted_stage> sources;        ///< all sources
  std::vector<hosted_stage> sinks;          ///< all sinks
  std::vector<hosted_stage> blocking;       ///< all blocking stages
  epoch_conductor_actor conductor;          ///< orders epochs
  progress_observer_actor observer;         ///< gets samples and the report
  bool stored = false;                      ///< checkpoints are kept in a folder
  bool ends_early = false;                  ///< the conductor ends it before an item
  std::function<void(error)> failed;        ///< called once
  /// Called once all stages have accepted the image, if it is set. An error ends the run.
  std::function<result<void>()> accepted;
};

/// State that CAF keeps for an engine host.
struct engine_host_shell {
  static constexpr const char* name = "weir.engine_host";
  /// A source, blocking stage or sink, and what its host is doing.
  struct outside {
    hosted_stage hosted;
    bool busy = false;                  ///< the host has not answered yet
    std::vector<flow::blank*> granted;  ///< items that a source has
    std::uint32_t refill = 1;           ///< items for which a source is usually asked
    /// Items of a blocking stage that it has not processed, from the oldest.
    std::vector<flow::exchange*> exchanges;
    std::size_t sent = 0;        ///< those of them that are with its host
    unsigned requests = 0;       ///< batches of them that are with its host
    bool ended_early = false;    ///< its host leaves the batches that it still has alone
    std::uint32_t worth_it = 1;  ///< items for which a further batch is sent
  };

  engine_host_config config;
  std::vector<outside> sources;
  std::vector<outside> sinks;
  std::vector<outside> blocking;
  bool working = false;          ///< a message to work is on its way to this actor
  bool over = false;             ///< the end was reported
  bool saving = false;           ///< the conductor has the image
  bool drain_requested = false;  ///< the conductor knows that sources or stages ended
  std::optional<error> failure;  ///< why a source failed; ends the run after a checkpoint
  epoch_orders orders;
  yielding_wait short_wait;  ///< for an answer
  std::int64_t start_ns = 0;
  std::int64_t progress_ns = 0;  ///< last time that anything happened
  // Kept between rounds because it adapts the number of tasks per round.
  flow::task_batch tasks;  ///< tasks between two looks at the stages
  /// Filled in until the end of the run; `finish` sends it to the observer.
  pipeline_report report;
};

/// Returns the behavior of an engine host; CAF calls this when it spawns the actor.
engine_host_actor::behavior_type engine_host(
    engine_host_actor::stateful_pointer<engine_host_shell> self,
    const std::shared_ptr<engine_host_config>& config);

}  // namespace weir::actors
