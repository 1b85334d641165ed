// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plain values that actors send each other: orders, replies and samples. Messages name
/// them by reference; they never change once sent.
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

/// Tokens wanted of one lane.
struct chunk_order {
  std::uint32_t lane = 0;
  std::uint64_t tokens = 0;  ///< at least 1
  friend bool operator==(const chunk_order&, const chunk_order&) = default;
};
using chunk_orders = std::vector<chunk_order>;

/// Answer to one order: the chunk, or nothing because the lane has ended.
struct chunk_reply {
  chunk_order order;
  std::optional<storage::token_chunk> chunk;
};
using chunk_replies = std::vector<chunk_reply>;

/// What the hub opens.
struct stream_spec {
  std::vector<std::string> paths;
  bool eot = true;
  storage::stream_config config;
  std::optional<storage::stream_cursor>
      cursor;  ///< continues there after comparing the history
};
/// What it found.
struct stream_info {
  std::vector<std::string> corpus;
  std::uint64_t tokens = 0;  ///< 0 if unknown
  std::uint64_t identity = 0;
  std::string warning;
  bool seekable = true;
};
/// Marks of committed chunks, and the pulse to stamp into their cursor.
struct cursor_order {
  std::vector<storage::chunk_mark> marks;
  std::uint64_t pulse_id = 0;
};

/// One pulse with what it consumes. Immutable: forward, backward, step and observers see
/// this one.
struct pulse_order {
  models::pulse pulse;
  std::vector<std::optional<storage::token_chunk>> lanes;  ///< by lane; none: 0 tokens
  std::vector<std::uint32_t> resets;  ///< lanes whose context is emptied before
  bool more_follow =
      true;  ///< false: the engine may rest after it without that being a stall
};
/// Pulses that one message carries, in the order of their ids.
using pulse_orders = std::vector<pulse_order>;
/// What became of a pulse. Times are of this process, from the monotonic clock.
struct pulse_done {
  std::uint64_t pulse_id = 0;
  models::pulse_result result;
  std::int64_t kernel_ns = 0;  ///< inside kernels since the engine began, all threads
  std::int64_t stall_ns =
      0;  ///< engine idle for want of a pulse since it began, after pulse 10
};
using pulses_done = std::vector<pulse_done>;

/// State of the model at a boundary between pulses.
struct state_snapshot {
  std::uint64_t pulses = 0;  ///< completed before the boundary
  byte_vector bytes;
};

/// What the orchestrator builds.
struct model_spec {
  models::prose_config model;
  runtime::engine_options engine;
  std::uint32_t devices = 1;  ///< with a replica of the parameters each
  std::shared_ptr<const storage::checkpoint>
      checkpoint;  ///< null: initialised from the seed
};
struct model_info {
  std::string kernel_set;
  std::uint64_t parameters = 0;
  std::uint64_t layout = 0;
  std::vector<models::state_section> sections;
};
/// Numbers of the engine and digests of the model, at rest.
struct engine_report {
  std::uint64_t parameter_hash = 0;
  std::uint64_t context_hash = 0;
  models::memory_norm largest_memory;
  runtime::engine_counters counters;
  std::vector<std::pair<std::string, std::int64_t>> memory;
  double checkpoint_stall_ms = 0;
};
/// Where to write the trace, and spans that are no tasks.
struct trace_order {
  std::string path;  ///< empty: nowhere
  struct span {
    std::string line;
    std::string name;
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
  };
  std::vector<span> spans;
};

/// What the checkpointer opens.
struct store_spec {
  std::string folder;
  bool may_exist = false;  ///< false: a folder with checkpoints is refused
};
struct store_info {
  std::shared_ptr<const storage::checkpoint> newest;  ///< null: there is none
  std::vector<std::string> warnings;                  ///< newer files that do not count
};
/// Everything a checkpoint holds, as of one boundary.
struct save_order {
  std::shared_ptr<const state_snapshot> snapshot;
  std::vector<models::state_section> sections;  ///< of the snapshot
  storage::stream_cursor cursor;
  byte_vector conductor;  ///< behind the pulse
  byte_vector metrics;
  std::string config;  ///< frozen keys
  std::string build;   ///< kernel set
};
struct save_done {
  std::uint64_t generation = 0;
  std::uint64_t pulse_id = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

/// What the conductor tells the observer now and then.
struct run_sample {
  models::pulse_phase phase = models::pulse_phase::build;
  std::uint64_t phase_tokens = 0;
  std::uint64_t phase_budget = 0;
  std::uint64_t tokens = 0;
  std::uint64_t pulses = 0;
  double bits = 0;             ///< bits per byte since the last sample
  double cumulative_bits = 0;  ///< of the phase
  std::uint64_t durable_generation = 0;
  std::uint64_t durable_tokens = 0;
  std::int64_t time_ns = 0;
};

/// Points of the learning curve and where to write them.
struct curve_order {
  std::string path;
  std::string name;
  std::vector<curve_point> points;
};

}  // namespace weir::actors
