// SPDX-License-Identifier: Apache-2.0
/// @file
/// The calls `run` and `resume`: they start the actors of a run, wait for its end, and
/// write its results.
#include "weir/actors/run.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <filesystem>

#include "checkpointer/checkpointer.hpp"
#include "checkpointer/contents.hpp"
#include "observer/observer.hpp"
#include "orchestrator/orchestrator.hpp"
#include "run/settings.hpp"
#include "run/stored_config.hpp"
#include "run/supervised_system.hpp"
#include "sink/message_writer.hpp"
#include "source/rank.hpp"
#include "source/stream_hub.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"

namespace weir::actors {

namespace {

/// One call of `run` or `resume`. `execute` calls the other functions in the order of
/// their declarations.
class runner {
 public:
  runner(const run_config& config, const run_callbacks& callbacks, bool resuming)
      : config_(config), callbacks_(callbacks), resuming_(resuming) {
    control_ = callbacks.control != nullptr ? callbacks.control : &own_control_;
    events_ = std::make_shared<event_queue<run_event>>(*control_);
  }
  [[nodiscard]] result<run_report> execute();

 private:
  [[nodiscard]] result<void> prepare_folder() const;
  [[nodiscard]] result<void> open_store();
  [[nodiscard]] result<void> open_stream();
  [[nodiscard]] result<void> open_orchestrator();
  [[nodiscard]] result<conductor_actor> start_conductor();
  [[nodiscard]] result<conductor_end> wait_for_end(const conductor_actor& conductor);
  [[nodiscard]] result<run_report> report(conductor_end end);
  void note_failure(run_report& r, const std::string& text);
  void write_results(run_report& r);
  void fill_from_end(run_report& r, const conductor_end& end) const;
  void warn(const std::string& text);
  [[nodiscard]] std::string path_of(const char* name) const {
    return join_path(config_.folder, name);
  }

  run_config config_;
  const run_callbacks& callbacks_;
  bool resuming_;
  run_control own_control_;
  run_control* control_ = nullptr;
  std::int64_t start_ns_ = now_ns();
  std::shared_ptr<event_queue<run_event>> events_;
  std::unique_ptr<supervised_system> system_;
  std::vector<std::string> warnings_;

  std::shared_ptr<const storage::checkpoint> newest_;  ///< to be continued; null if new
  stored_run stored_;                                  ///< from `newest_`
  stream_info stream_;
  model_info model_;
  std::uint32_t vocab_ = 256;
  checkpointer_actor checkpointer_;
  stream_hub_actor hub_;
  orchestrator_actor orchestrator_;
  message_writer_actor writer_;
};

void runner::warn(const std::string& text) {
  warnings_.push_back(text);
  if (callbacks_.warning) {
    callbacks_.warning(text);
  }
}

/// Makes sure that the run folder exists. A new run creates it. A run that is resumed
/// must find it, because otherwise it would silently begin again.
result<void> runner::prepare_folder() const {
  std::error_code failure;
  const bool there = std::filesystem::is_directory(config_.folder, failure);
  if (!there && resuming_) {
    return error(errc::not_found,
                 fmt::format("resuming the run {} failed: expected a folder, found none",
                             config_.folder));
  }
  if (!there) {
    std::filesystem::create_directories(config_.folder, failure);
    if (failure) {
      return error(errc::io, fmt::format("creating the run folder {} failed: {}",
                                         config_.folder, failure.message()));
    }
  }
  return {};
}

/// Opens the folder of checkpoints, which takes its lock, and reads what the newest
/// checkpoint says about the run. The stored configuration must fit the given one. A
/// budget of one pass is taken from the checkpoint first, so that it does not differ from
/// the number that was resolved when the run began.
result<void> runner::open_store() {
  checkpointer_ = system_->spawn_io("checkpointer_io", stop_group::sink, checkpointer_io,
                                    checkpointer_config{});
  WEIR_TRY(const auto info,
           system_->ask<local<store_info>>(
               checkpointer_, "opening the checkpoints", open_atom_v,
               by_reference(store_spec{path_of("checkpoint"), resuming_})));
  for (const std::string& text : info->warnings) {
    warn(text);
  }
  // The lock of the folder is held from here on, so no other process writes in it.
  WEIR_CHECK(remove_unfinished(posix_file_system(), path_of("")));
  newest_ = info->newest;
  if (!newest_) {
    return {};
  }
  WEIR_TRY(stored_, read_run(*newest_));
  if (config_.phase.build.tokens == one_pass) {
    WEIR_TRY(config_.phase.build.tokens, number_in(stored_.config, "phase.build.tokens"));
  }
  WEIR_CHECK(compare_config(stored_.config, config_));
  stored_.accounts.resumed += 1;
  return {};
}

/// Opens the source of tokens, at the stored cursor if there is a checkpoint. A budget of
/// one pass becomes the number of tokens of the source, which therefore has to know its
/// length. A resumed run keeps the stored size of the vocabulary.
result<void> runner::open_stream() {
  hub_ =
      system_->spawn_io("stream_hub_io", stop_group::source, stream_hub_io, hub_config{});
  stream_spec spec{config_.paths, config_.eot, stream_of(config_), std::nullopt};
  if (newest_) {
    spec.cursor = newest_->cursor();
  }
  WEIR_TRY(const auto info,
           system_->ask<local<stream_info>>(hub_, "opening the stream", open_atom_v,
                                            by_reference(std::move(spec))));
  stream_ = *info;
  if (config_.phase.build.tokens == one_pass) {
    if (stream_.tokens == 0) {
      return error(
          errc::invalid_argument,
          "beginning a run failed for phase.build.tokens: expected a number, because the "
          "source does not say how long it is, found one pass");
    }
    config_.phase.build.tokens = stream_.tokens;
  }
  vocab_ = vocabulary_of(config_, stream_.corpus.size());
  if (newest_) {
    WEIR_TRY(const auto stored_vocab, number_in(stored_.config, "model.vocab"));
    vocab_ = static_cast<std::uint32_t>(stored_vocab);
  }
  return {};
}

/// Lets the orchestrator build the model, or restore it from the checkpoint. Other
/// kernels than those of the checkpoint are allowed, but only with a warning: they may
/// round differently, and then the run does not repeat bit for bit.
result<void> runner::open_orchestrator() {
  orchestrator_ = system_->spawn_io("orchestrator", stop_group::engine, orchestrator,
                                    orchestrator_config{});
  model_spec spec;
  spec.model = model_of(config_, vocab_);
  spec.engine.workers = config_.workers;
  spec.engine.trace.mode = config_.trace;
  spec.devices = config_.replicas == replica_policy::per_rank ? config_.stream.ranks : 1;
  spec.checkpoint = newest_;
  WEIR_TRY(const auto info,
           system_->ask<local<model_info>>(orchestrator_, "building the model",
                                           open_atom_v, by_reference(std::move(spec))));
  model_ = *info;
  if (newest_ && stored_.build != model_.kernel_set) {
    warn(fmt::format(
        "{}: the checkpoint was computed with kernels {}, this is {}; results may differ "
        "in their bits",
        name_of(errc::build_mismatch), stored_.build, model_.kernel_set));
  }
  return {};
}

/// Starts the remaining actors and connects them: a reader for each rank, the observer,
/// the writer of result files and, last, the conductor, which knows all the others. The
/// callbacks run on threads of the actor system and only push to `events_`. The thread
/// that called `execute` takes the events from there.
result<conductor_actor> runner::start_conductor() {
  const std::chrono::seconds deadline(config_.deadline_s);
  conductor_config c;
  c.settings = conductor_of(config_);
  if (newest_) {
    c.record = stored_.record;
    c.accounts = stored_.accounts;
    c.durable_generation = newest_->header().generation;
  } else {
    c.record.total_updates = total_updates_of(config_);
  }
  c.deadline = deadline;
  for (std::uint32_t rank = 0; rank < config_.stream.ranks; ++rank) {
    c.ranks.push_back(
        system_->spawn_io("rank_io", stop_group::source, rank_io,
                          rank_config{rank, config_.stream.ranks, hub_, deadline}));
  }
  c.hub = hub_;
  c.orchestrator = orchestrator_;
  c.checkpointer = checkpointer_;
  c.observer = system_->spawn("observer", stop_group::sink, observer,
                              observer_config{[events = events_](run_progress p) {
                                events->push(std::move(p));
                              }});
  writer_ = system_->spawn_io("message_writer_io", stop_group::sink, message_writer_io,
                              message_writer_config{});
  c.contents.sections = model_.sections;
  c.contents.config = config_text(config_, vocab_);
  c.contents.build = model_.kernel_set;
  c.ended = [events = events_](conductor_end end) { events->push(std::move(end)); };
  c.warning = [events = events_](std::string text) {
    events->push(warning_event{std::move(text)});
  };
  return system_->spawn("conductor", stop_group::conductor, conductor, std::move(c));
}

/// Lets the run begin, and passes on its events until it ends. A request to stop is
/// passed on once, and the wait goes on until the conductor has drained. The first
/// failure, of any actor, ends the wait.
result<conductor_end> runner::wait_for_end(const conductor_actor& conductor) {
  bool drained = false;
  system_->send(conductor, launch_atom_v);
  while (true) {
    if (control_->stop_requested() && !drained) {
      drained = true;
      system_->send(conductor, drain_atom_v);
    }
    for (run_event& e : events_->wait()) {
      if (auto* failed = std::get_if<error>(&e)) {
        return std::move(*failed);
      }
      if (auto* end = std::get_if<conductor_end>(&e)) {
        if (end->failure) {
          return *std::move(end->failure);
        }
        return std::move(*end);
      }
      if (auto* warning = std::get_if<warning_event>(&e)) {
        warn(warning->text);
      } else if (callbacks_.progress) {
        callbacks_.progress(std::get<run_progress>(e));
      }
    }
  }
}

/// Fills the parts of the report that the conductor knows. With one worker, all time of
/// the build phase that is not kernel time is overhead of the engine. With several, the
/// difference counts as idle time instead, because overhead and waiting cannot be told
/// apart.
void runner::fill_from_end(run_report& r, const conductor_end& end) const {
  const run_accounts& a = end.accounts;
  r.ended = end.ended;
  r.state_hash = state_hash_of(end.snapshot->bytes, *end.cursor);
  r.history_hash = end.cursor->history_hash;
  r.content_hash = end.cursor->content_hash;
  r.tokens = end.record.tokens;
  r.pulses = end.record.pulses;
  r.build_tokens = end.record.used[0].tokens;
  r.build_pulses = end.record.used[0].pulses;
  r.test_tokens = end.record.used[1].tokens;
  r.stream_tokens = end.record.used[2].tokens;
  r.bits_cumulative = a.build.bits_per_byte();
  r.bits_last_quarter = a.last_quarter.bits_per_byte();
  r.bits_test = a.test.bits_per_byte();
  r.build_seconds = static_cast<double>(a.build_ns) * 1e-9;
  r.kernel_seconds = static_cast<double>(a.kernel_ns) * 1e-9;
  r.stall_seconds = static_cast<double>(a.stall_ns) * 1e-9;
  if (a.build_ns > 0) {
    r.tokens_per_second = static_cast<double>(r.build_tokens) / r.build_seconds;
    r.engine_overhead = config_.workers == 1 ? 1 - r.kernel_seconds / r.build_seconds : 0;
    r.idle_seconds =
        config_.workers > 1 ? config_.workers * r.build_seconds - r.kernel_seconds : 0;
  }
  r.generation = end.generation;
  r.generations = a.generations;
  r.resumed = a.resumed;
  for (const curve_window& w : a.curve) {
    r.curve.push_back({w.tokens, w.sum.bits_per_byte()});
  }
}

/// Asks the orchestrator for the report of the engine, which also writes the trace, and
/// puts the report of the run together.
result<run_report> runner::report(conductor_end end) {
  trace_order trace;
  trace.path = config_.trace == runtime::trace_mode::off ? "" : path_of("trace.json");
  trace.spans.assign(end.spans.begin(), end.spans.end());
  WEIR_TRY(const auto engine, system_->ask<local<engine_report>>(
                                  orchestrator_, "waiting for the engine's report",
                                  report_atom_v, by_reference(std::move(trace))));
  run_report r;
  r.warnings = warnings_;
  note_failure(r, engine->trace_failure);
  r.folder = config_.folder;
  fill_from_end(r, end);
  r.parameter_hash = engine->parameter_hash;
  r.context_hash = engine->context_hash;
  r.largest_memory = engine->largest_memory;
  r.counters = engine->counters;
  r.memory = engine->memory;
  r.checkpoint_stall_ms = engine->checkpoint_stall_ms;
  r.workers = config_.workers;
  r.kernel_set = model_.kernel_set;
  r.parameters = model_.parameters;
  r.corpus = stream_.corpus;
  r.corpus_identity = stream_.identity;
  r.corpus_tokens = stream_.tokens;
  return r;
}

/// Warns of a failure after the last checkpoint, if its text is not empty.
void runner::note_failure(run_report& r, const std::string& text) {
  if (!text.empty()) {
    r.warnings.push_back(text);
    if (callbacks_.warning) {
      callbacks_.warning(text);
    }
  }
}

/// The last checkpoint is durable, so what cannot be written is a warning: `weir resume`
/// writes it again.
void runner::write_results(run_report& r) {
  const auto curve = system_->ask<std::uint64_t>(
      writer_, "writing the curve", write_atom_v,
      by_reference(curve_order{path_of("curve.tgm"), config_.name, r.curve}));
  note_failure(r, curve ? "" : curve.error().message());
  const auto metrics = write_file_atomically(posix_file_system(), path_of("metrics.json"),
                                             as_view(metrics_json(r)));
  note_failure(r, metrics ? "" : metrics.error().message());
}

/// Runs from beginning to end, in the only order that works: the folder and the store
/// first, because the checkpoint decides where the stream begins, then the stream,
/// because it decides the vocabulary of the model, then the model and the conductor.
result<run_report> runner::execute() {
  // These warnings go into the report only. A caller that wants to print them calls
  // `check_config` itself.
  WEIR_TRY(warnings_, check_config(config_));
  WEIR_CHECK(prepare_folder());
  WEIR_TRY(system_, supervised_system::open(
                        std::chrono::seconds(config_.deadline_s),
                        [events = events_](error e) { events->push(std::move(e)); }));
  WEIR_CHECK(open_store());
  WEIR_CHECK(open_stream());
  WEIR_CHECK(open_orchestrator());
  if (callbacks_.started) {
    run_start s{config_.folder,
                stream_.corpus,
                stream_.tokens,
                model_.kernel_set,
                model_.parameters,
                {},
                0};
    if (newest_) {
      s.resumed_from = newest_->header().generation;
      s.resumed_tokens = stored_.record.tokens;
    }
    callbacks_.started(s);
  }
  WEIR_TRY(auto conductor, start_conductor());
  newest_.reset();
  WEIR_TRY(auto end, wait_for_end(conductor));
  WEIR_TRY(auto r, report(std::move(end)));
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  r.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  r.wall_seconds = seconds_since(start_ns_);
  write_results(r);
  // An actor with its own thread lives as long as a handle refers to it, and the actor
  // system waits for all actors. All handles must therefore be dropped before `stop`.
  conductor = nullptr;
  checkpointer_ = nullptr;
  hub_ = nullptr;
  orchestrator_ = nullptr;
  writer_ = nullptr;
  for (const std::string& name : system_->stop()) {
    warn("actor " + name + " did not end in time");
  }
  return r;
}

}  // namespace

result<run_report> run(const run_config& config, const run_callbacks& callbacks) {
  return runner(config, callbacks, false).execute();
}

result<run_report> resume(const run_config& config, const run_callbacks& callbacks) {
  return runner(config, callbacks, true).execute();
}

}  // namespace weir::actors
