// SPDX-License-Identifier: Apache-2.0
/// @file
/// The values that the actors of a run send each other: orders, replies and samples.
/// Messages pass them by reference (`local`), so a value never changes once it is sent.
/// `interfaces.hpp` says which message carries which of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weir/actors/run.hpp"
#include "weir/actors/tensograms.hpp"
#include "weir/actors/volumes.hpp"
#include "weir/base/bytes.hpp"
#include "weir/models/prose.hpp"
#include "weir/models/pulse.hpp"
#include "weir/runtime/engine.hpp"
#include "weir/storage/checkpoint.hpp"
#include "weir/storage/context.hpp"

namespace weir::actors {

/// Order for the next tokens of one lane.
struct chunk_order {
  std::uint32_t lane = 0;    ///< lane of the context stream
  std::uint64_t tokens = 0;  ///< number of tokens wanted, at least 1
  friend bool operator==(const chunk_order&, const chunk_order&) = default;
};
/// Orders of several lanes in one message.
using chunk_orders = std::vector<chunk_order>;

/// Answer to one order.
struct chunk_reply {
  chunk_order order;  ///< the order that is answered
  /// At most as many tokens as ordered. Empty if the lane has ended.
  std::optional<storage::token_chunk> chunk;
};
/// Answers to several orders in one message.
using chunk_replies = std::vector<chunk_reply>;

/// The context stream that the stream hub opens.
struct stream_spec {
  std::vector<std::string> paths;  ///< files, folders and patterns, or "-" alone
  bool eot = true;                 ///< an end-of-text token stands between files
  /// Settings of the context stream.
  storage::stream_config config;
  /// Where the stream continues, after its history was compared with the one that the
  /// cursor names. Empty: the stream begins at its first token.
  std::optional<storage::stream_cursor> cursor;
};
/// The context stream that the hub has opened.
struct stream_info {
  std::vector<std::string> corpus;  ///< files in the order of reading, or "stdin"
  std::uint64_t tokens = 0;         ///< length of the corpus; 0 if it is unknown
  std::uint64_t identity = 0;       ///< digest of names, sizes and content
  std::string warning;              ///< for the user; empty if there is nothing to say
  bool seekable = true;             ///< false for standard input
};
/// Order for a cursor.
struct cursor_order {
  std::vector<storage::chunk_mark> marks;  ///< last committed chunk of each lane
  std::uint64_t pulse_id = 0;              ///< number of pulses that the cursor covers
};

/// One pulse and the tokens that it consumes. It is made once and never changed: forward
/// and backward work, the step and all observers see the same pulse.
struct pulse_order {
  /// Phase, number and schedule of the pulse.
  models::pulse pulse;
  /// Tokens of each lane; an empty entry is a lane that takes no part in the pulse.
  std::vector<std::optional<storage::token_chunk>> lanes;
  std::vector<std::uint32_t> resets;  ///< lanes whose context is emptied before the pulse
  /// True if another pulse will come. If none does, an idle engine is not a stall.
  bool more_follow = true;
};
/// The pulses of one message, in the order of their ids.
using pulse_orders = std::vector<pulse_order>;
/// Result of a pulse. Times are sums over this process, by the monotonic clock.
struct pulse_done {
  /// Number of the pulse, as in `models::pulse::id`.
  std::uint64_t pulse_id = 0;
  /// Result that the model returned for the pulse.
  models::pulse_result result;
  /// Time inside kernels since the engine was made, all threads together.
  std::int64_t kernel_ns = 0;
  /// Time for which the engine was idle because no pulse was there; counted from the
  /// tenth pulse on.
  std::int64_t stall_ns = 0;
};
/// Results of several pulses in one message.
using pulses_done = std::vector<pulse_done>;

/// A copy of the model's state at a boundary between two pulses.
struct state_snapshot {
  std::uint64_t pulses = 0;  ///< number of pulses that were completed before the boundary
  byte_vector bytes;         ///< laid out as `model_info::sections` says
};

/// The model that the orchestrator builds, and the engine below it.
struct model_spec {
  /// Settings of the model.
  models::prose_config model;
  /// Settings of the engine.
  runtime::engine_options engine;
  std::uint32_t devices = 1;  ///< each device has a replica of the parameters
  /// State to begin with. Null: the state is initialised from the seed.
  std::shared_ptr<const storage::checkpoint> checkpoint;
};
/// The model that the orchestrator has built.
struct model_info {
  std::string kernel_set;                       ///< `models::prose::kernel_set`
  std::uint64_t parameters = 0;                 ///< number of parameters
  std::uint64_t layout = 0;                     ///< `models::prose::layout_hash`
  std::vector<models::state_section> sections;  ///< parts of a snapshot
};
/// Counters of the engine and digests of the model, taken while no task runs.
struct engine_report {
  /// Digest of the parameters.
  std::uint64_t parameter_hash = 0;
  /// Digest of the contexts of all lanes.
  std::uint64_t context_hash = 0;
  /// The memory with the largest norm.
  models::memory_norm largest_memory;
  /// Counters of the engine.
  runtime::engine_counters counters;
  std::vector<std::pair<std::string, std::int64_t>> memory;  ///< bytes by owner
  /// Typical time by which a snapshot delays the pulse behind it, in milliseconds.
  double checkpoint_stall_ms = 0;
  std::string trace_failure;  ///< why the trace could not be written; empty if it was
};
/// Order for the engine's report and its trace.
struct trace_order {
  std::string path;  ///< file of the trace; empty: no trace is written
  /// A stretch of time that is not a task, e.g. the writing of a checkpoint.
  struct span {
    std::string line;           ///< line of the trace that shows it
    std::string name;           ///< text on it
    std::int64_t start_ns = 0;  ///< start of the span, by the monotonic clock
    /// End of the span, by the monotonic clock.
    std::int64_t end_ns = 0;
  };
  std::vector<span> spans;  ///< added to the trace
};

/// The folder of checkpoints that the checkpointer opens.
struct store_spec {
  /// Path of the folder.
  std::string folder;
  bool may_exist = false;  ///< false: a folder that holds checkpoints is refused
};
/// Content of the folder that the checkpointer has opened.
struct store_info {
  std::shared_ptr<const storage::checkpoint> newest;  ///< null: there is no checkpoint
  std::vector<std::string> warnings;  ///< newer files that are damaged and were skipped
};
/// Everything that a checkpoint holds, as of one boundary between pulses.
struct save_order {
  /// Copy of the model's state at the boundary.
  std::shared_ptr<const state_snapshot> snapshot;
  std::vector<models::state_section> sections;  ///< parts of the snapshot
  /// Position of the context stream at the boundary.
  storage::stream_cursor cursor;
  byte_vector conductor;  ///< an encoded `conductor_record`
  byte_vector metrics;    ///< encoded `run_accounts`
  std::string config;     ///< lines of the settings that a resumed run cannot change
  std::string build;      ///< kernel set by which the state was computed
};
/// A checkpoint that is durable.
struct save_done {
  std::uint64_t generation = 0;  ///< number of the checkpoint
  std::uint64_t pulse_id = 0;    ///< number of pulses that it covers
  std::int64_t start_ns = 0;     ///< when the writing began, by the monotonic clock
  /// End of the writing, by the monotonic clock.
  std::int64_t end_ns = 0;
};

/// How the run stands; the Conductor sends one to the observer now and then.
struct run_sample {
  /// Phase that the run is in.
  models::pulse_phase phase = models::pulse_phase::build;
  std::uint64_t phase_tokens = 0;        ///< consumed in the phase so far
  std::uint64_t phase_budget = 0;        ///< tokens that the phase may consume
  std::uint64_t tokens = 0;              ///< consumed in all phases so far
  std::uint64_t pulses = 0;              ///< committed in all phases so far
  double bits = 0;                       ///< bits per byte since the last sample
  double cumulative_bits = 0;            ///< bits per byte of the phase so far
  std::uint64_t durable_generation = 0;  ///< last durable checkpoint; 0 if there is none
  std::uint64_t durable_tokens = 0;      ///< tokens that it covers
  std::int64_t time_ns = 0;              ///< time of the sample, by the Conductor's clock
};

/// Order to write the learning curve.
struct curve_order {
  std::string path;  ///< file that is replaced
  std::string name;  ///< name of the run, which goes into the message
  /// Points of the curve.
  std::vector<curve_point> points;
};

}  // namespace weir::actors
