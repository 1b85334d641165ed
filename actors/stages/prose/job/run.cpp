// SPDX-License-Identifier: Apache-2.0
/// @file
/// The calls `run` and `resume`: they run the pipeline of a configuration, and make their
/// report of its last checkpoint.
#include "weir/actors/run.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include "run/pipeline_run.hpp"
#include "stages/prose/corpus.hpp"
#include "stages/prose/job/curve.hpp"
#include "stages/prose/job/first_version.hpp"
#include "stages/prose/job/progress.hpp"
#include "stages/prose/job/settings.hpp"
#include "stages/prose/job/stored_config.hpp"
#include "stages/prose/job/stored_model.hpp"
#include "weir/actors/preset.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"

namespace weir::actors {

namespace {

/// Returns whether a phase has used its budget.
bool used_up(const phase_budget& budget, const phase_use& used) {
  return used.tokens >= budget.tokens ||
         (budget.pulses != 0 && used.pulses >= budget.pulses);
}

/// One call of `run` or `resume`. `execute` calls the other functions in the order of
/// their declarations.
class runner {
 public:
  runner(const run_config& config, const run_callbacks& callbacks, bool resuming,
         std::uint64_t generation)
      : config_(config), callbacks_(callbacks), resuming_(resuming) {
    options_.folder = config.folder;
    options_.generation = generation;
    options_.keep = config.keep;
    options_.skip = callbacks.skip;
    options_.control = callbacks.control;
    options_.warning = [this](const std::string& text) { warn(text); };
  }
  [[nodiscard]] result<run_report> execute();

 private:
  [[nodiscard]] result<void> open_folder();
  [[nodiscard]] result<void> resolve();
  [[nodiscard]] result<preset> make_preset();
  [[nodiscard]] result<run_origin> origin_of(const preset& made);
  [[nodiscard]] result<run_report> report(const pipeline_report& ended);
  [[nodiscard]] result<void> fill_from_checkpoint(run_report& r);
  void fill_from_stages(run_report& r, const pipeline_report& ended) const;
  [[nodiscard]] result<void> report_finished_before(run_report& r);
  void start(run_start s);
  void write_results(run_report& r);
  void warn(const std::string& text);
  [[nodiscard]] std::string path_of(const char* name) const {
    return join_path(config_.folder, name);
  }

  run_config config_;
  const run_callbacks& callbacks_;
  bool resuming_;
  run_options options_;
  std::int64_t start_ns_ = now_ns();
  std::vector<std::string> warnings_;
  run_checkpoints found_;
  std::optional<stored_run> stored_;  ///< run that is continued; empty: a new one
  std::uint32_t vocab_ = 0;
};

void runner::warn(const std::string& text) {
  warnings_.push_back(text);
  if (callbacks_.warning) {
    callbacks_.warning(text);
  }
}

/// Makes the folder and takes its lock, so that no other process writes in it.
result<void> runner::open_folder() {
  WEIR_TRY(found_, open_checkpoints(options_, resuming_));
  WEIR_CHECK(remove_unfinished(posix_file_system(), path_of("")));
  if (found_.at) {
    WEIR_TRY(stored_, read_run(std::move(*found_.at)));
  }
  return {};
}

/// Replaces what the configuration leaves open. A run that is continued has the budget
/// and the vocabulary of its checkpoint; the stored configuration must fit otherwise.
result<void> runner::resolve() {
  if (!stored_) {
    if (config_.phase.build.tokens == one_pass &&
        config_.source.paths == std::vector<std::string>{"-"}) {
      return error(errc::invalid_argument,
                   "beginning a run failed for phase.build.tokens: expected a number, "
                   "because the source does not say how long it is, found one pass");
    }
    return {};
  }
  if (config_.phase.build.tokens == one_pass) {
    WEIR_TRY(config_.phase.build.tokens,
             number_in(stored_->config, "phase.build.tokens"));
  }
  WEIR_CHECK(compare_config(stored_->config, config_));
  WEIR_TRY(const auto vocab, number_in(stored_->config, "model.vocab"));
  vocab_ = static_cast<std::uint32_t>(vocab);
  return {};
}

result<preset> runner::make_preset() {
  WEIR_TRY(auto made, stored_ ? preset_of(config_, vocab_) : preset_of(config_));
  made.options.generation = options_.generation;
  made.options.skip = options_.skip;
  made.options.control = options_.control;
  made.options.warning = options_.warning;
  if (found_.store) {
    found_.store->describe(made.options.description);
  }
  return made;
}

result<run_origin> runner::origin_of(const preset& made) {
  run_origin origin;
  origin.store = found_.store;
  origin.resuming = resuming_;
  origin.made_folder = found_.made_folder;
  origin.made_checkpoints = found_.made_checkpoints;
  if (!stored_) {
    return origin;
  }
  origin.generation = stored_->file.header().generation;
  if (stored_->first_version) {
    WEIR_TRY(const auto planned, made.stages->check());
    WEIR_TRY(auto image, image_of_run(*stored_, planned.source, config_.name));
    origin.from = std::make_shared<const flow::image>(std::move(image));
  } else {
    WEIR_TRY(auto stored, epoch_in(stored_->file));
    origin.from = std::make_shared<const flow::image>(std::move(stored.state));
  }
  return origin;
}

void runner::start(run_start s) {
  if (stored_) {
    s.resumed_from = stored_->file.header().generation;
    s.resumed_tokens = stored_->record.tokens;
  }
  if (callbacks_.started) {
    callbacks_.started(s);
  }
}

/// The state at the end is that of the last checkpoint.
result<void> runner::fill_from_checkpoint(run_report& r) {
  WEIR_TRY(auto file, found_.store->read(0));
  WEIR_TRY(const auto last, read_run(std::move(file)));
  WEIR_TRY(const auto cursor, storage::decode_cursor(last.cursor));
  const run_accounts& a = last.accounts;
  const phase_uses& used = last.record.used;
  r.state_hash = last.state_hash();
  r.history_hash = cursor.history_hash;
  r.content_hash = cursor.content_hash;
  r.tokens = last.record.tokens;
  r.pulses = last.record.pulses;
  r.build_tokens = used[0].tokens;
  r.build_pulses = used[0].pulses;
  r.test_tokens = used[1].tokens;
  r.stream_tokens = used[2].tokens;
  r.bits_cumulative = a.build.bits_per_byte();
  r.bits_last_quarter = a.last_quarter.bits_per_byte();
  r.bits_test = a.test.bits_per_byte();
  r.build_seconds = static_cast<double>(a.build_ns) * 1e-9;
  r.kernel_seconds = static_cast<double>(a.kernel_ns) * 1e-9;
  r.resumed = a.resumed;
  r.generation = last.file.header().generation;
  r.generations = r.generation;
  for (const curve_window& w : a.curve) {
    r.curve.push_back({w.tokens, w.sum.bits_per_byte()});
  }
  phase_budget build = config_.phase.build;
  build.tokens = last.build_budget;
  if (r.ended == "finished" &&
      !(used_up(build, used[0]) && used_up(config_.phase.test, used[1]) &&
        used_up(config_.phase.stream, used[2]))) {
    r.ended = "end of stream";
  }
  WEIR_TRY(const auto stored, model_of_run(last));
  WEIR_TRY(r.parameter_hash, stored.model->parameter_hash());
  WEIR_TRY(r.context_hash, stored.model->context_hash());
  WEIR_TRY(r.largest_memory, stored.model->largest_memory());
  r.kernel_set = stored.model->kernel_set();
  r.parameters = stored.model->parameter_count();
  return {};
}

/// With one worker, all time of the build phase that is not kernel time is overhead of
/// the engine. With several, the difference counts as idle time instead, because overhead
/// and waiting cannot be told apart.
void runner::fill_from_stages(run_report& r, const pipeline_report& ended) const {
  r.workers = config_.workers;
  if (r.build_seconds > 0) {
    r.tokens_per_second = static_cast<double>(r.build_tokens) / r.build_seconds;
    r.engine_overhead = config_.workers == 1 ? 1 - r.kernel_seconds / r.build_seconds : 0;
    r.idle_seconds =
        config_.workers > 1 ? config_.workers * r.build_seconds - r.kernel_seconds : 0;
  }
  r.counters = ended.engine;
  r.memory = ended.memory;
  const stage_reports stages(ended.planned.source, ended.stages);
  r.stall_seconds = stages.get<double>(stage_names::learn, "stall_seconds");
  r.checkpoint_stall_ms = stages.get<double>(stage_names::learn, "checkpoint_stall_ms");
  r.corpus = stages.get<std::vector<std::string>>(stage_names::text, "files");
  r.corpus_identity = stages.get<std::uint64_t>(stage_names::text, "corpus_identity");
  r.corpus_tokens = stages.get<std::uint64_t>(stage_names::text, "corpus_tokens");
}

/// No stage of a run that had finished before was opened, so the corpus is opened here,
/// and the curve is written again in case that failed before.
result<void> runner::report_finished_before(run_report& r) {
  WEIR_TRY(const auto cursor, storage::decode_cursor(stored_->cursor));
  WEIR_TRY(
      const auto corpus,
      continue_corpus(posix_file_system(),
                      {config_.source, config_.sources, stream_of(config_)}, cursor));
  r.corpus = corpus.files;
  r.corpus_identity = corpus.identity;
  r.corpus_tokens = corpus.tokens;
  start({config_.folder, r.corpus, r.corpus_tokens, r.kernel_set, r.parameters, {}, 0});
  if (!r.curve.empty()) {
    WEIR_TRY(const auto message, encode_curve(r.curve, config_.name));
    const auto written =
        write_file_atomically(posix_file_system(), path_of(curve_text::file), message);
    if (!written) {
      warn(written.error().message());
    }
  }
  return {};
}

result<run_report> runner::report(const pipeline_report& ended) {
  run_report r;
  r.folder = config_.folder;
  r.ended = ended.ended;
  WEIR_CHECK(fill_from_checkpoint(r));
  fill_from_stages(r, ended);
  if (ended.finished_before) {
    WEIR_CHECK(report_finished_before(r));
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  r.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  r.wall_seconds = seconds_since(start_ns_);
  return r;
}

/// The last checkpoint is durable, so metrics that cannot be written are a warning:
/// `weir resume` writes them again.
void runner::write_results(run_report& r) {
  r.warnings = warnings_;
  const auto metrics = write_file_atomically(posix_file_system(), path_of("metrics.json"),
                                             as_view(metrics_json(r)));
  if (!metrics) {
    warn(metrics.error().message());
    r.warnings = warnings_;
  }
}

/// Runs from beginning to end: the checkpoint first, because it decides budget and
/// vocabulary, and then the stages.
result<run_report> runner::execute() {
  // These warnings go into the report only. A caller that wants to print them calls
  // `check_config` itself.
  WEIR_TRY(warnings_, check_config(config_));
  WEIR_CHECK(open_folder());
  WEIR_CHECK(resolve());
  WEIR_TRY(auto made, make_preset());
  WEIR_TRY(auto origin, origin_of(made));
  progress_meter meter(config_, made.stages->built(), stored_ ? &*stored_ : nullptr);
  made.options.progress = [&](const pipeline_progress& p) {
    if (auto begun = meter.started(p)) {
      start(std::move(*begun));
    }
    auto now = meter.take(p);
    if (now && callbacks_.progress) {
      callbacks_.progress(*now);
    }
  };
  WEIR_TRY(const auto ended, run_from(*made.stages, made.options, std::move(origin)));
  WEIR_TRY(auto r, report(ended));
  write_results(r);
  return r;
}

}  // namespace

result<run_report> run(const run_config& config, const run_callbacks& callbacks) {
  return runner(config, callbacks, false, 0).execute();
}

result<run_report> resume(const run_config& config, const run_callbacks& callbacks,
                          std::uint64_t generation) {
  return runner(config, callbacks, true, generation).execute();
}

}  // namespace weir::actors
