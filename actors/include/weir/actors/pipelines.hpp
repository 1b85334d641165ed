// SPDX-License-Identifier: Apache-2.0
/// @file
/// Running a pipeline of stages with actors: the engine has a thread, every source and
/// every sink has one, and checkpoints are written beside them. A run is a folder, which
/// `resume` continues after any crash.
/// @source{docs/pipelines.md}
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weir/actors/control.hpp"
#include "weir/pipeline.hpp"
#include "weir/pipeline/counters.hpp"
#include "weir/pipeline/figures.hpp"
#include "weir/pipeline/host/image.hpp"
#include "weir/runtime/trace.hpp"

namespace weir {

/// How a run of a pipeline stands at the moment.
/// @threads{a value}
struct pipeline_progress {
  std::uint64_t items = 0;          ///< items that all sources have delivered
  double items_per_second = 0;      ///< over the last few seconds
  std::uint64_t durable_items = 0;  ///< number of the first item that is not durable
  std::uint64_t epochs = 0;         ///< checkpoints so far
  std::string bottleneck;           ///< stage that limits the rate; empty if unknown
  std::uint64_t generation = 0;     ///< last durable checkpoint; 0 if there is none
  /// Figures of each stage, in the order of the plan. Those of sources, blocking stages
  /// and sinks are there in the first and in the last call only.
  std::vector<figures> stages;
  /// Counters of stages and edges, in the order of the plan; null if they are not known.
  std::shared_ptr<const flow::run_counters> counters;
};

/// The checkpoint from which a run of a pipeline continues.
/// @threads{a value}
struct pipeline_start {
  std::uint64_t generation = 0;  ///< generation of the checkpoint
  std::uint64_t next_item = 0;   ///< number of the first item behind it
};

/// Options of a run of a pipeline.
struct run_options {
  /// The run folder, created if it does not exist. Checkpoints are below it. Empty: the
  /// run leaves nothing and cannot be resumed.
  std::string folder{};
  std::string files{};            ///< folder to which relative paths of stages belong
  unsigned workers = 1;           ///< threads that run tasks
  std::uint64_t every_items = 0;  ///< items between two checkpoints; 0: no such limit
  double every_seconds = 0;       ///< time between two checkpoints; 0: no such limit
  std::uint64_t seed = 1;         ///< seed of `step::random`
  /// Text of the file that describes the pipeline; checkpoints hold it. May be empty.
  std::string description{};
  /// Newest checkpoints that stay in the folder, at least 2.
  std::uint32_t keep = 2;
  /// Selects the tasks and items that `trace.json` in the folder shows: none, those of
  /// the first and last seconds, or all. It opens in ui.perfetto.dev.
  runtime::trace_mode trace = runtime::trace_mode::off;
  /// Generation of the checkpoint to continue from; 0: the newest valid one. A run that
  /// continues from an older one removes the newer ones and cuts its sinks.
  std::uint64_t generation = 0;
  /// Items that sources read and the run does not process. Checkpoints hold the ranges,
  /// so a resumed run knows them.
  std::vector<flow::item_range> skip{};
  std::int64_t stall_s = 60;  ///< time without progress after which the run fails
  /// Times that the run may go back to its last checkpoint and start a host again that
  /// has died, such as a child process. The outputs are those of a run without a death.
  std::uint32_t restarts = 0;
  /// Time after which a child process that has not answered is ended. @units{seconds}
  std::int64_t deadline_s = 30;
  /// Byte, from 0 to 255, that fills the memory of an item before a stage gets it, so
  /// that bytes that no stage writes show; -1: nothing is filled.
  int fill_slots = -1;
  /// Instruction set of the kernels of all models in the stages: "auto", which stands for
  /// the best one of the processor, or one of `models::instruction_sets_here`. Results do
  /// not depend on it.
  std::string kernels = "auto";
  /// Called before a resumed run continues, on the thread that called `resume`. Not
  /// called if the run begins anew or had finished.
  std::function<void(const pipeline_start&)> resumed{};
  /// Called before the first item, about ten times a second, and at the end, on the
  /// thread that called `run`; also at the end of a run that fails, unless its stages
  /// could not be opened.
  std::function<void(const pipeline_progress&)> progress{};
  /// Called with one line of text, on the thread that called `run`.
  std::function<void(const std::string&)> warning{};
  /// Asks the run to stop behind the items in flight, with a checkpoint. May be null.
  actors::run_control* control = nullptr;
};

/// Result of a run of a pipeline.
struct pipeline_report {
  std::string ended;             ///< "finished" or "interrupted"
  bool finished_before = false;  ///< there was nothing to do
  /// Sinks of a run that had finished before that cannot compare their output.
  std::vector<std::string> unverified{};
  std::uint64_t items = 0;         ///< items that all sources have delivered
  std::uint64_t epochs = 0;        ///< checkpoints of this process
  std::uint32_t restarts = 0;      ///< times that the run has gone back after a death
  std::uint64_t generation = 0;    ///< last durable checkpoint; 0 if there is none
  std::uint64_t resumed_item = 0;  ///< first item after a resume
  double seconds = 0;              ///< duration of the run
  /// Messages between the host of the engine and those of sources, sinks and blocking
  /// stages, and of the host of the engine to itself.
  std::uint64_t messages = 0;
  std::int64_t memory_bound = 0;     ///< largest bytes of items, as `check` prints it
  std::int64_t item_bytes = 0;       ///< bytes of items at the end
  std::int64_t peak_item_bytes = 0;  ///< largest bytes of items that were seen
  flow::run_counters counters;       ///< counters of stages and edges
  flow::plan planned;                ///< the plan of the run, with names for the counters
  std::vector<figures> stages;       ///< figures of each stage, in the order of the plan
  runtime::engine_counters engine;   ///< counters of the engine
  /// Memory of the engine at the end, in bytes by owner.
  std::vector<std::pair<std::string, std::int64_t>> memory;
  std::vector<std::string> warnings;  ///< failures after the results were durable
};

/// Makes the stages of Weir known by name: `tgm.read`, `tgm.write`, `hn4.tensors` and the
/// others of docs/stages.md. Further calls do nothing.
/// @threads{safe to call concurrently}
void add_standard_stages();

/// Begins a run of a pipeline and returns when all sources have ended and the sinks are
/// durable, or when the control asked to stop.
/// @error{already_exists, the folder holds a checkpoint: resume the run instead}
/// @error{invalid_argument, the pipeline is refused, two stages write one file, the
/// processor lacks the instruction set `kernels`, or a stage or a task failed; the
/// message names stage and item; a checkpoint in the folder holds the items before that
/// one, if they could be processed again, see docs/pipelines.md}
/// @error{locked, another process has a run in the folder}
/// @error{timeout, no stage can go on; the message names what each waits for}
/// @threads{may be called from any thread; one run at a time in a folder}
[[nodiscard]] result<pipeline_report> run(pipeline& p, const run_options& options);

/// Continues the run in `options.folder` from its newest valid checkpoint, or begins it
/// anew if there is none. The outputs of all sinks then equal those of a run without an
/// interruption. If the run had finished, the outputs are compared with the checkpoint,
/// and nothing is changed. Also returns the errors of `run`.
/// @error{not_found, the folder does not exist}
/// @error{config_mismatch, the checkpoint belongs to another pipeline}
/// @error{history_mismatch, a source has other data than before}
/// @error{torn, a sink has lost durable data} @error{hash_mismatch, an output is another
/// one}
[[nodiscard]] result<pipeline_report> resume(pipeline& p, const run_options& options);

}  // namespace weir
