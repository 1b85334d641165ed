// SPDX-License-Identifier: Apache-2.0
/// @file
/// A run that learns from a text and predicts it: its configuration, the calls that begin
/// and continue it, and the report at its end. It is a pipeline, see `preset.hpp`.
///
/// A run is a folder. The command line writes `config.toml` and `log` into it; the calls
/// here write `checkpoint/ck-N.weir`, `metrics.json`, `trace.json` and `curve.tgm`. A run
/// that was killed at any instant can be resumed, and ends with the bits that it would
/// have had without the interruption.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/actors/control.hpp"
#include "weir/actors/source_settings.hpp"
#include "weir/base/error.hpp"
#include "weir/models/instruction_sets.hpp"
#include "weir/models/prose.hpp"
#include "weir/pipeline/host/image.hpp"
#include "weir/runtime/engine.hpp"
#include "weir/runtime/trace.hpp"
#include "weir/storage/context.hpp"
#include "weir/storage/run_history.hpp"

namespace weir {
template <class Owner>
class settings_table;
}

namespace weir::actors {

/// Number of tokens that stands for "all". For the Build phase it means all tokens of the
/// source, once: the run replaces it by their number when it begins.
inline constexpr std::uint64_t one_pass = ~std::uint64_t{0};

/// The limits at which a phase ends.
struct phase_budget {
  /// Tokens of all lanes together; 0: the phase is skipped. The phase consumes exactly as
  /// many, so its last chunk may be shorter than the others.
  std::uint64_t tokens = 0;
  std::uint64_t pulses = 0;  ///< largest number of pulses; 0: no limit
  friend bool operator==(const phase_budget&, const phase_budget&) = default;
};

/// Number of replicas of the parameters: one for all lanes, or one for every rank of the
/// stream, which is then a device of a mesh. The results are equal.
enum class replica_policy : std::uint8_t { one, per_rank };

/// Budgets of the phases, in the order in which the phases follow each other.
struct run_phases {
  /// Budget of the Build phase.
  phase_budget build;
  /// Budget of the Test phase.
  phase_budget test;
  /// Budget of the Stream phase.
  phase_budget stream;
  /// Names of phases in the order in which they follow each other. A phase that stands
  /// there several times has its budget each time.
  std::vector<std::string> order = {"build", "test", "stream"};
  std::string build_source;   ///< name of the source of Build; empty: that of the stream
  std::string test_source;    ///< name of the source of Test; empty: that of the stream
  std::string stream_source;  ///< name of the source of Stream; empty: that of the stream
  /// File to which Stream appends its predictions as Tensogram messages; empty: none.
  /// Relative paths begin at the run folder.
  std::string stream_output;
  friend bool operator==(const run_phases&, const run_phases&) = default;
};

/// How a resumed run treats a text that has further tokens behind those that it had.
enum class text_policy : std::uint8_t {
  same,   ///< refuses it
  grown,  ///< goes on with the text as it is now, if the tokens before are unchanged
};
/// Contexts with which a run goes on if it is resumed with another geometry.
enum class context_policy : std::uint8_t {
  keep,   ///< every lane keeps its own; another number of lanes is refused
  fresh,  ///< all are empty
  clone,  ///< lane l has a copy of that of lane l mod L, where L is the number before
  drop,   ///< lanes keep their own; those of further lanes are empty
};

/// How a resumed run treats another value of a setting.
enum class change_rule : std::uint8_t {
  free,      ///< accepts it
  recorded,  ///< accepts it and records it in the history of the run, if it can be done
  fixed,     ///< refuses it
};
/// Returns the rule of a setting of the run.
/// @threads{safe to call concurrently}
[[nodiscard]] change_rule rule_of_change(std::string_view key);

/// Every setting of a run. `run_settings` has for each member its key, its range, its
/// documentation, and whether a resumed run may have another value.
struct run_config {
  /// Name of the run, for reports.
  std::string name = "run";
  /// The run folder, created if it does not exist. It is not a setting, as a folder may
  /// be moved.
  std::string folder;

  unsigned workers = 1;             ///< threads that run tasks
  models::kernel_settings kernels;  ///< instruction set of the kernels of the model
  /// Number of replicas of the parameters.
  replica_policy replicas = replica_policy::one;
  /// Tasks that the trace records.
  runtime::trace_mode trace = runtime::trace_mode::window;
  std::int64_t deadline_s = 600;  ///< for every request between actors, in seconds

  source_settings source;  ///< where the tokens come from
  named_sources sources;   ///< sources to which others refer by their names
  std::vector<std::string>
      chain;                      ///< sources that follow, if the stream's end is `chain`
  std::uint64_t prefetch = 16;    ///< chunks that are read ahead in each lane
  storage::stream_config stream;  ///< the run sets `frequencies`, from the model
  /// Budgets of the phases.
  run_phases phase;
  std::uint64_t every_tokens = 100'000;  ///< tokens between two checkpoints
  double every_seconds = 0;              ///< seconds between two checkpoints; 0: no limit
  std::uint32_t keep = 2;  ///< newest checkpoints that stay in the run folder
  /// Text with which a resumed run goes on.
  text_policy resume_text = text_policy::same;
  /// Contexts with which a resumed run goes on.
  context_policy resume_contexts = context_policy::keep;
  /// Seed of all random numbers of the run.
  std::uint64_t seed = 1;
  models::prose_config model;  ///< the run sets `vocab`, `lanes`, `max_chunk` and `seed`
};

/// Returns the settings of a run by their keys in a configuration file, with those of the
/// stream and of the model, but without named sources: see `assign_setting`. Include
/// "weir/base/settings.hpp" to use the table.
/// @threads{safe to call concurrently}
[[nodiscard]] const settings_table<run_config>& run_settings();
/// Sets one setting by its key, which may be one of a named source: "source.NAME.KEY".
/// @error{unknown_key, there is no such setting; the message suggests the nearest one}
/// @error{invalid_argument, the setting does not accept the value}
/// @threads{thread-compatible}
[[nodiscard]] result<void> assign_setting(run_config& config, std::string_view key,
                                          const setting_value& value);

/// How a run stands at the moment.
/// @threads{a value}
struct run_progress {
  std::string phase;               ///< "build", "test" or "stream"
  std::uint64_t phase_tokens = 0;  ///< consumed in the phase so far
  std::uint64_t phase_budget = 0;  ///< tokens that the phase may consume
  std::uint64_t tokens = 0;        ///< consumed in all phases so far
  std::uint64_t pulses = 0;        ///< committed in all phases so far
  double tokens_per_second = 0;    ///< over the last few seconds
  double bits_per_byte = 0;        ///< since the last report; 0 before the first score
  double cumulative_bits_per_byte = 0;  ///< mean over the phase so far
  double seconds_left = 0;  ///< until the phase ends, at this rate; 0 if unknown
  double pulse_p99_seconds =
      0;                     ///< 99 of 100 pulses of this process took at most so long
  double stall_seconds = 0;  ///< as in `run_report`
  std::uint64_t queue_depth = 0;         ///< pulses that are read and wait for the model
  std::uint64_t durable_generation = 0;  ///< last durable checkpoint; 0 if there is none
  std::uint64_t durable_tokens = 0;      ///< tokens that it covers
  /// Achieved shares of a mixture, "NAME: 66.67 %" for each source; empty without one.
  std::vector<std::string> mix;
};

/// Information about a run before its first pulse.
struct run_start {
  std::string folder;               ///< the run folder
  std::vector<std::string> corpus;  ///< files in the order of reading, or "stdin"
  std::uint64_t corpus_tokens = 0;  ///< 0 if unknown
  std::string kernel_set;           ///< see `models::prose::kernel_set`
  std::uint64_t parameters = 0;     ///< number of parameters
  /// Generation of the checkpoint that the run continues. Empty if it begins anew.
  std::optional<std::uint64_t> resumed_from;
  std::uint64_t resumed_tokens = 0;  ///< tokens that this checkpoint covers
};

/// Functions that `run` and `resume` call, on the thread that called them. Functions that
/// are empty are not called.
struct run_callbacks {
  std::function<void(const run_start&)> started;  ///< before the first pulse
  std::function<void(const run_progress&)>
      progress;                                     ///< about ten times a second at most
  std::function<void(const std::string&)> warning;  ///< with one line of text
  /// The changes with which a run is resumed, once all checks have accepted them and
  /// before `started`. Not called if there are none.
  std::function<void(const std::vector<storage::run_change>&)> changed{};
  run_control* control = nullptr;  ///< not owned; may be null
  /// Name of a source with which the stream goes on, and its first token.
  std::function<void(const std::string& name, std::uint64_t token)> next_source{};
  /// Pulses whose tokens are read and not processed. Checkpoints hold the ranges, so a
  /// resumed run knows them. A lane that goes on behind them begins with an empty
  /// context.
  std::vector<flow::item_range> skip{};
};

/// A point of the learning curve.
struct curve_point {
  std::uint64_t tokens = 0;  ///< Build tokens consumed at the end of the window
  double bits_per_byte = 0;  ///< within the window that ends there
};

/// Durations of many like operations. @units{seconds}
struct run_durations {
  double p50 = 0;  ///< median; 0 if there was no operation
  double p99 = 0;  ///< 99 of 100 took at most so long
};

/// One lane of a run. @threads{a value}
struct lane_report {
  std::uint64_t tokens = 0;      ///< consumed by this process
  double tokens_per_second = 0;  ///< from the first pulse of this process to the last one
};

/// Result of a run, and the content of `metrics.json`. Figures of the Build phase, the
/// checkpoints and the curve include the run before it was resumed; times of the process,
/// counters and memory do not.
struct run_report {
  std::string ended;  ///< "finished", "end of stream" or "interrupted"
  /// The run folder.
  std::string folder;
  /// Digest of parameters, moments, error buffers, contexts and cursor. It does not
  /// depend on time, machine or number of interruptions.
  std::uint64_t state_hash = 0;
  /// Digest of the contexts of all lanes.
  std::uint64_t context_hash = 0;
  /// Digest of the parameters.
  std::uint64_t parameter_hash = 0;
  models::memory_norm largest_memory;  ///< among the contexts at the end
  std::uint64_t history_hash = 0;      ///< digest of all tokens consumed
  std::uint64_t content_hash = 0;      ///< digest of the last tokens consumed
  std::uint64_t tokens = 0;            ///< consumed in all phases and lanes
  std::uint64_t pulses = 0;            ///< committed in all phases
  /// Tokens consumed by Build.
  std::uint64_t build_tokens = 0;
  /// Pulses of Build.
  std::uint64_t build_pulses = 0;
  /// Tokens consumed by Test.
  std::uint64_t test_tokens = 0;
  /// Tokens consumed by Stream.
  std::uint64_t stream_tokens = 0;
  double bits_cumulative = 0;  ///< bits per byte of Build
  double bits_last_quarter =
      0;                   ///< bits per byte of the last quarter of Build; 0 before it
  double bits_test = 0;    ///< bits per byte of Test
  double bits_stream = 0;  ///< bits per byte of Stream
  /// Duration of Build, in seconds.
  double build_seconds = 0;
  double tokens_per_second = 0;  ///< mean rate of Build
  double kernel_seconds = 0;     ///< inside kernels during Build, all threads together
  /// 1 - kernel_seconds / build_seconds, with one worker; 0 with more.
  double engine_overhead = 0;
  /// workers * build_seconds - kernel_seconds, with several workers; 0 with one.
  double idle_seconds = 0;
  /// Time of this process in Build, from its tenth pulse on, for which the model had no
  /// pulse because no chunk was there.
  double stall_seconds = 0;
  /// Durations of reading the chunks of a pulse, in this process.
  run_durations next;
  /// Durations from the submission of a pulse to its end, in this process.
  run_durations pulse;
  /// Rates of the lanes, in their order.
  std::vector<lane_report> lanes;
  std::uint64_t queue_deepest = 0;  ///< most pulses between text and model at a time
  std::uint64_t generation = 0;     ///< last durable checkpoint
  std::uint64_t generations = 0;    ///< checkpoints of the run, up to the last one
  double checkpoint_stall_ms = 0;   ///< median delay of a pulse behind a snapshot, in ms
  std::uint64_t resumed = 0;        ///< number of times that the run was resumed
  /// Largest resident memory of the process, in bytes.
  std::uint64_t peak_rss_bytes = 0;
  double wall_seconds = 0;  ///< duration of this process, from the call to the report
  /// Number of threads that ran tasks.
  unsigned workers = 1;
  /// Kernel set that computed the run, see `models::prose::kernel_set`.
  std::string kernel_set;
  std::uint64_t parameters = 0;       ///< number of parameters
  std::vector<std::string> corpus;    ///< files in the order of reading, or "stdin"
  std::uint64_t corpus_identity = 0;  ///< digest of names, sizes and content of the files
  std::uint64_t corpus_tokens = 0;    ///< 0 if unknown
  std::vector<std::string> mix;       ///< shares of a mixture, one line per source
  std::vector<storage::run_change> history;  ///< changes of the run at its resumes
  /// Points of the learning curve.
  std::vector<curve_point> curve;
  std::vector<std::pair<std::string, std::int64_t>> memory;  ///< bytes by owner
  /// Counters of the engine.
  runtime::engine_counters counters;
  /// Warnings for the user.
  std::vector<std::string> warnings;
};

/// Begins a run in `config.folder` and returns when it has ended. A task or an actor that
/// fails ends the run with its error and causes.
/// @error{already_exists, the folder holds a checkpoint: resume the run instead}
/// @error{invalid_argument, a setting is out of range, see `check_config`, or the
/// processor lacks the instruction set}
/// @error{source_unavailable, the corpus is missing or cannot be read}
/// @error{locked, another process has a run in the folder}
/// @error{io, reading or writing a file failed} @error{no_space, the disk is full}
/// @error{timeout, a part of the run did not answer within `config.deadline_s`}
/// @error{kernel_failed, a number that must be finite is not}
/// @threads{may be called from any thread; one run at a time in a folder}
[[nodiscard]] result<run_report> run(const run_config& config,
                                     const run_callbacks& callbacks = {});

/// Continues the run in `config.folder` from its newest valid checkpoint, or begins it
/// anew if there is none. For a run that has finished, it writes the metrics again. Also
/// returns the errors of `run`.
///
/// Settings may differ from those with which the run began, see `rule_of_change`. Changes
/// are checked before anything is written, and checkpoints record them.
/// @error{not_found, the folder does not exist}
/// @error{config_mismatch, a setting that cannot change has another value}
/// @error{history_mismatch, the corpus is not the one that was consumed}
/// @error{corrupt, no checkpoint is valid}
/// @threads{may be called from any thread; one run at a time in a folder}
[[nodiscard]] result<run_report> resume(const run_config& config,
                                        const run_callbacks& callbacks = {},
                                        std::uint64_t generation = 0);

/// Returns the text of `metrics.json`.
/// @threads{pure}
[[nodiscard]] std::string metrics_json(const run_report& report);

/// Checks every setting, and the settings of the stream and of the model together,
/// without touching a file.
/// @returns warnings for the log.
/// @error{invalid_argument, a setting is out of range, or settings exclude each other}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<std::string>> check_config(const run_config& config);

}  // namespace weir::actors
