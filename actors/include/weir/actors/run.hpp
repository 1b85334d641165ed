// SPDX-License-Identifier: Apache-2.0
/// @file
/// A run: its configuration, the calls that begin or continue it, and what it reports at
/// the end.
///
/// A run is a folder: `config.toml` and `log` (written by the command line),
/// `checkpoint/ck-N.weir`, `metrics.json`, `trace.json` and `curve.tgm` (written here).
/// Killed at any instant it can be resumed, bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/models/prose.hpp"
#include "weir/runtime/engine.hpp"
#include "weir/runtime/trace.hpp"
#include "weir/storage/context.hpp"

namespace weir {
template <class Owner>
class settings_table;
}

namespace weir::actors {

/// Tokens of a phase that say "all that the source has"; fixed as a number when the run
/// begins.
inline constexpr std::uint64_t one_pass = ~std::uint64_t{0};

/// When a phase ends. Tokens count all lanes and are met exactly: the last chunk is
/// shorter.
struct phase_budget {
  std::uint64_t tokens = 0;  ///< 0: the phase is skipped
  std::uint64_t pulses = 0;  ///< 0: no limit
  friend bool operator==(const phase_budget&, const phase_budget&) = default;
};

/// Sets of parameters in a run: one that all lanes use, or one for each rank of the
/// stream, which then is a device of a mesh.
enum class replica_policy : std::uint8_t { one, per_rank };

/// Budgets of the phases, in the order in which they follow each other.
struct run_phases {
  phase_budget build;
  phase_budget test;
  phase_budget stream;
  friend bool operator==(const run_phases&, const run_phases&) = default;
};

/// Every setting of a run. `run_settings` gives each member its key, and says what it
/// takes and whether a resumed run may have another value.
struct run_config {
  std::string name = "run";
  std::string folder;  ///< the run folder, created if it is not there; no setting

  unsigned workers = 1;
  replica_policy replicas = replica_policy::one;
  runtime::trace_mode trace = runtime::trace_mode::window;
  std::int64_t deadline_s = 600;  ///< of every request between actors

  std::vector<std::string> paths;  ///< "-" is standard input
  bool eot = true;
  std::uint64_t prefetch = 16;
  storage::stream_config stream;  ///< the run sets `frequencies`, from the model
  run_phases phase;
  std::uint64_t every_tokens = 100'000;
  std::uint64_t seed = 1;
  models::prose_config model;  ///< the run sets `vocab`, `lanes`, `max_chunk` and `seed`
};

/// The settings of a run by their keys in a configuration file, those of the stream and
/// of the model included. Include "weir/base/settings.hpp" to use the table.
/// @threads{safe to call concurrently}
[[nodiscard]] const settings_table<run_config>& run_settings();

/// How a run stands. @threads{a value}
struct run_progress {
  std::string phase;               ///< "build", "test" or "stream"
  std::uint64_t phase_tokens = 0;  ///< of the phase so far
  std::uint64_t phase_budget = 0;  ///< tokens the phase has; 0: no limit
  std::uint64_t tokens = 0;        ///< of all phases so far
  std::uint64_t pulses = 0;        ///< of all phases so far
  double tokens_per_second = 0;    ///< over the last few seconds
  double bits_per_byte =
      0;  ///< of the last window of tokens; 0 before anything was scored
  double cumulative_bits_per_byte = 0;
  double seconds_left = 0;  ///< of the phase at the present rate; 0 if unknown
  std::uint64_t durable_generation = 0;  ///< of the last durable checkpoint; 0: none yet
  std::uint64_t durable_tokens = 0;      ///< tokens that it covers
};

/// What a run is made of, known before its first pulse.
struct run_start {
  std::string folder;               ///< the run folder
  std::vector<std::string> corpus;  ///< files (or "stdin"), in order
  std::uint64_t corpus_tokens = 0;  ///< 0 if unknown
  std::string kernel_set;
  std::uint64_t parameters = 0;
  std::optional<std::uint64_t>
      resumed_from;                  ///< generation of the checkpoint that is continued
  std::uint64_t resumed_tokens = 0;  ///< tokens that it covers
};

/// Asks runs to end. One object may serve several runs, one after the other.
/// @threads{all members are safe from any thread; request_stop also from a signal
/// handler}
class run_control {
 public:
  run_control();
  ~run_control();
  run_control(const run_control&) = delete;
  run_control& operator=(const run_control&) = delete;

  /// Ends the run at the next pulse boundary, with a last checkpoint. Async-signal-safe.
  void request_stop() noexcept;
  [[nodiscard]] bool stop_requested() const noexcept;
  /// Becomes readable when `request_stop` was called or something else wants attention.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Wakes who waits on the descriptor.
  void wake() noexcept;

 private:
  int descriptor_ = -1;
  struct flags;
  std::unique_ptr<flags> flags_;
};

/// While it lives, the first SIGINT or SIGTERM asks `control` to stop and a second one
/// ends the process at once with code 130. @invariant at most one object at a time
class signal_scope {
 public:
  explicit signal_scope(run_control& control);
  ~signal_scope();
  signal_scope(const signal_scope&) = delete;
  signal_scope& operator=(const signal_scope&) = delete;

 private:
  struct saved;
  std::unique_ptr<saved> saved_;
};

/// Called on the thread that called `run` or `resume`; empty ones are left out.
struct run_callbacks {
  std::function<void(const run_start&)> started;
  std::function<void(const run_progress&)>
      progress;                                     ///< at most about ten times a second
  std::function<void(const std::string&)> warning;  ///< one line
  run_control* control = nullptr;                   ///< not owned; may be null
};

/// A point of the learning curve: Build tokens so far and the bits per byte of the window
/// that ends there.
struct curve_point {
  std::uint64_t tokens = 0;
  double bits_per_byte = 0;
};

/// Result of a run, and content of `metrics.json`. What is said of Build continues over
/// resumes.
struct run_report {
  std::string ended;  ///< "finished", "end of stream" or "interrupted"
  std::string folder;
  std::uint64_t state_hash = 0;  ///< parameters, moments, error buffers, context and
                                 ///< cursor; nothing of time or place
  std::uint64_t context_hash = 0;
  std::uint64_t parameter_hash = 0;
  models::memory_norm largest_memory;  ///< of the contexts at the end
  std::uint64_t history_hash = 0;      ///< of all tokens consumed
  std::uint64_t content_hash = 0;      ///< of the last tokens consumed
  std::uint64_t tokens = 0;            ///< all phases, all lanes
  std::uint64_t pulses = 0;
  std::uint64_t build_tokens = 0;
  std::uint64_t build_pulses = 0;
  std::uint64_t test_tokens = 0;
  std::uint64_t stream_tokens = 0;
  double bits_cumulative = 0;    ///< bits per byte of Build
  double bits_last_quarter = 0;  ///< of the last quarter of Build's budget; 0 before it
  double bits_test = 0;          ///< bits per byte of the Test phase
  double build_seconds = 0;
  double tokens_per_second = 0;  ///< of Build
  double kernel_seconds = 0;     ///< inside kernels during Build, all threads
  double engine_overhead = 0;    ///< 1 - kernel_seconds / build_seconds; with 1 worker
  double idle_seconds =
      0;  ///< workers * build_seconds - kernel_seconds; with more workers
  double stall_seconds =
      0;  ///< of Build after pulse 10: engine idle, credit there, no chunk
  std::uint64_t generation = 0;   ///< of the last durable checkpoint
  std::uint64_t generations = 0;  ///< checkpoints written by this run, resumes included
  double checkpoint_stall_ms =
      0;  ///< longest time for which a snapshot kept one thread, in ms
  std::uint64_t resumed = 0;  ///< times this run was resumed
  std::uint64_t peak_rss_bytes = 0;
  double wall_seconds = 0;  ///< of this process, from the call to the report
  unsigned workers = 1;
  std::string kernel_set;
  std::uint64_t parameters = 0;
  std::vector<std::string> corpus;
  std::uint64_t corpus_identity =
      0;  ///< digest of names, sizes and content of the corpus
  std::uint64_t corpus_tokens = 0;
  std::vector<curve_point> curve;
  std::vector<std::pair<std::string, std::int64_t>> memory;  ///< bytes by owner
  runtime::engine_counters counters;                         ///< of this process
  std::vector<std::string> warnings;
};

/// Begins a run in `config.folder`.
/// @error{already_exists, the folder holds a checkpoint; resume it instead}
/// @error{invalid_argument, a setting that cannot be} @error{source_unavailable, the
/// corpus}
/// @error{locked, another process runs there} @error{io, no_space, from the file system}
/// @error{whatever failed in a kernel or actor, with its causes}
/// @threads{one run at a time per folder; may be called from any thread}
[[nodiscard]] result<run_report> run(const run_config& config,
                                     const run_callbacks& callbacks = {});

/// Continues the run in `config.folder` from its newest valid checkpoint; starts over if
/// there is none. Rewrites the metrics of a finished run. @error{not_found, no such
/// folder}
/// @error{config_mismatch, a frozen key differs; names it and both values}
/// @error{history_mismatch, the corpus is not what was consumed} @error{as `run`}
[[nodiscard]] result<run_report> resume(const run_config& config,
                                        const run_callbacks& callbacks = {});

/// The text of `metrics.json`.
[[nodiscard]] std::string metrics_json(const run_report& report);

/// Checks every setting, and what the stream and the model ask of several settings
/// together, without touching any file. @return warnings for the log
/// @error{invalid_argument, names the setting, what was expected and what was found}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<std::string>> check_config(const run_config& config);

}  // namespace weir::actors
