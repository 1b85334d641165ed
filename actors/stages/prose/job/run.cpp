// SPDX-License-Identifier: Apache-2.0
/// @file
/// The calls `run` and `resume`: they run the pipeline of a configuration, and make their
/// report of its last checkpoint.
///
/// The pipeline knows nothing of text. This file puts around it what a run of text needs:
/// the folder and its lock, the comparison of the configuration with that of the
/// checkpoint, changes and their history, and the report, which is made of the last
/// checkpoint and the figures of the stages.
#include "weir/actors/run.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "run/pipeline_run.hpp"
#include "stages/prose/corpus.hpp"
#include "stages/prose/job/curve.hpp"
#include "stages/prose/job/first_version.hpp"
#include "stages/prose/job/progress.hpp"
#include "stages/prose/job/resume/changes.hpp"
#include "stages/prose/job/resume/contexts.hpp"
#include "stages/prose/job/resume/output.hpp"
#include "stages/prose/job/settings.hpp"
#include "stages/prose/job/stored_config.hpp"
#include "stages/prose/job/stored_model.hpp"
#include "weir/actors/preset.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"
#include "weir/pipeline/host/identity.hpp"

namespace weir::actors {

namespace {

/// Returns whether a phase has used its budget.
bool used_up(const phase_budget& budget, const phase_use& used) {
  return used.tokens >= budget.tokens ||
         (budget.pulses != 0 && used.pulses >= budget.pulses);
}

/// Returns the order to open the text of a run.
/// The same order opens the text for a check here and in the stage.
corpus_order order_of(const run_config& config) {
  return {config.source,          config.sources,
          stream_of(config),      config.resume_text == text_policy::grown,
          config.resume_contexts, config.chain};
}

/// Returns whether a source can be opened once more without a loss: it reads files, and
/// neither standard input nor what another process writes at the moment.
bool consists_of_files(const source_settings& source) {
  // Standard input, pipes, devices and sockets give their bytes once.
  const auto is_live = [](const std::string& path) {
    std::error_code ignored;
    const auto kind = std::filesystem::status(path, ignored).type();
    return path == "-" || kind == std::filesystem::file_type::fifo ||
           kind == std::filesystem::file_type::character ||
           kind == std::filesystem::file_type::socket;
  };
  return !source.paths.empty() &&
         std::none_of(source.paths.begin(), source.paths.end(), is_live);
}

/// Returns whether the source of the stream and those behind it in a chain are files.
bool chains_files(const run_config& config) {
  const bool chained = config.stream.end == storage::end_policy::chain;
  return consists_of_files(config.source) &&
         (!chained || std::ranges::all_of(config.chain, [&](const std::string& name) {
           return consists_of_files(config.sources.at(name));
         }));
}

/// Notes that a text is longer than it was. Ranges that are left out do not count: a
/// source keeps the number of its tokens without them in its state.
// `key` names the text in the history.
result<void> note_growth(std::vector<storage::run_change>& changes, std::string key,
                         const storage::stream_cursor& cursor,
                         const opened_corpus& corpus) {
  WEIR_TRY(const auto before, storage::source_tokens(cursor.source_state));
  const std::uint64_t now = corpus.stream->source().identity().tokens;
  if (before != storage::unknown_size && before != now) {
    changes.push_back(
        {0, 0, std::move(key), fmt::to_string(before), fmt::to_string(now)});
  }
  return {};
}

/// Gives an image the identity of the pipeline that continues it. The settings that may
/// not differ were compared before.
/// Otherwise the pipeline would refuse the image of a changed configuration.
void identify(flow::image& image, const flow::graph& graph) {
  const std::string text = flow::identity_of(graph);
  for (flow::image_section& one : image.sections) {
    if (one.name == flow::identity_section) {
      const bytes_view bytes = as_view(text);
      one.data.assign(bytes.begin(), bytes.end());
      one.shape = {static_cast<std::int64_t>(bytes.size())};
    }
  }
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
  [[nodiscard]] result<void> accept_text();
  [[nodiscard]] result<void> accept_other_texts();
  [[nodiscard]] result<void> check_sources_read();
  [[nodiscard]] result<void> accept_changes();
  [[nodiscard]] result<preset> make_preset();
  [[nodiscard]] result<run_origin> origin_of(const preset& made);
  [[nodiscard]] result<run_report> report(const pipeline_report& ended);
  [[nodiscard]] bool is_complete(const stored_run& last) const;
  [[nodiscard]] result<void> fill_from_checkpoint(run_report& r);
  void fill_from_stages(run_report& r, const pipeline_report& ended) const;
  [[nodiscard]] result<std::vector<lane_report>> lanes_since(
      const std::vector<storage::lane_state>& end) const;
  [[nodiscard]] result<void> report_finished_before(run_report& r);
  void start(run_start s);
  void write_results(run_report& r);
  /// Warnings go into the report and to the caller.
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
  std::vector<storage::run_change> changes_;  ///< with which the run is resumed
};

void runner::warn(const std::string& text) {
  warnings_.push_back(text);
  if (callbacks_.warning) {
    callbacks_.warning(text);
  }
}

/// Makes the folder and takes its lock, so that no other process writes in it.
result<void> runner::open_folder() {
  // A new run begins the folder; a resumed one needs it.
  WEIR_TRY(found_, open_checkpoints(options_, resuming_));
  // A file that an earlier process was writing is left from a crash.
  WEIR_CHECK(remove_unfinished(posix_file_system(), path_of("")));
  if (found_.at) {
    WEIR_TRY(stored_, read_run(std::move(*found_.at)));
  }
  return {};
}

/// Replaces what the configuration leaves open. A run that is continued has the budget
/// and the vocabulary of its checkpoint; the stored configuration must fit otherwise.
result<void> runner::resolve() {
  // A new run needs a number of tokens; one pass over a pipe has no length.
  if (!stored_) {
    if (config_.phase.build.tokens == one_pass && is_live(config_.source)) {
      return error(errc::invalid_argument,
                   "beginning a run failed for phase.build.tokens: expected a number, "
                   "because the source does not say how long it is, found one pass");
    }
    return {};
  }
  // The first version stored the number of tokens for which "all" stood.
  if (config_.phase.build.tokens == one_pass && stored_->first_version) {
    WEIR_TRY(config_.phase.build.tokens,
             number_in(stored_->config, "phase.build.tokens"));
  }
  // Settings that may not differ are an error here; the others are changes.
  WEIR_TRY(changes_, compare_config(stored_->config, config_));
  WEIR_TRY(const auto vocab, number_in(stored_->config, "model.vocab"));
  vocab_ = static_cast<std::uint32_t>(vocab);
  return {};
}

/// Opens the text behind the cursor, as the stage will do, to find out whether it is
/// refused and whether it has grown.
result<void> runner::accept_text() {
  WEIR_TRY(const auto cursor, storage::decode_cursor(stored_->cursor));
  WEIR_TRY(const auto corpus,
           continue_corpus(posix_file_system(), order_of(config_), cursor));
  WEIR_TRY(const auto needed, needed_vocabulary(config_));
  // One id more than the model knows can only be the end-of-text token; see below.
  if (needed > vocab_ + 1) {
    return error(
               errc::config_mismatch,
               fmt::format("resuming the run failed for its sources: expected ids below "
                           "{}, which the model knows, found ids below {}",
                           vocab_, needed))
        .hint("the settings vocabulary and tokenizer of a source say which ids it has");
  }
  if (needed > vocab_) {
    return error(errc::config_mismatch,
                 fmt::format("resuming the run failed for stream.path: expected a text "
                             "without end-of-text tokens, because the model knows {} "
                             "tokens, found {} files",
                             vocab_, corpus.files.size()))
        .hint("stream.eot = false joins the files to one text");
  }
  return note_growth(changes_, std::string(grown_text_key), cursor, corpus);
}

/// Opens the texts of named sources behind their cursors, as `accept_text` does.
result<void> runner::accept_other_texts() {
  // Phases with a source of their own have a cursor for it.
  for (const auto& [name, bytes] : stored_->other_cursors) {
    // A pipe cannot be opened twice; the stage opens it.
    const auto source = config_.sources.find(name);
    if (source == config_.sources.end() || !consists_of_files(source->second)) {
      continue;
    }
    corpus_order order = order_of(config_);
    order.source = source->second;
    order.chain.clear();
    WEIR_TRY(const auto cursor, storage::decode_cursor(bytes));
    WEIR_TRY(const auto corpus, continue_corpus(posix_file_system(), order, cursor));
    WEIR_CHECK(note_growth(changes_, fmt::format("{}{}.tokens", source_prefix, name),
                           cursor, corpus));
  }
  return {};
}

/// Checks that a phase still reads each source of which text was read. A lane has one
/// clock for all its sources, so none of them may be left out.
result<void> runner::check_sources_read() {
  const run_phases& phases = config_.phase;
  for (const auto& other : stored_->other_cursors) {
    const std::string& name = other.first;
    WEIR_TRY(const auto cursor, storage::decode_cursor(other.second));
    const bool reads = std::ranges::any_of(phases.order, [&](const std::string& phase) {
      const std::array sources = {&phases.build_source, &phases.test_source,
                                  &phases.stream_source};
      return *sources[number_of_phase(phase)] == name;
    });
    if (cursor.dataset_index > 0 && !reads) {
      return error(errc::config_mismatch,
                   fmt::format("resuming the run failed for the sources of its phases: "
                               "expected a phase that reads \"{}\", of which {} tokens "
                               "were read, found none",
                               name, cursor.dataset_index))
          .hint("give the source that is to follow to another phase of phase.order");
    }
  }
  return {};
}

/// Checks the changes with which a run is resumed, before anything is written, and adds
/// them to its history. A pipe can be opened only once, so its text is checked later.
result<void> runner::accept_changes() {
  if (!stored_) {
    return {};
  }
  WEIR_CHECK(check_contexts(changes_, config_));
  WEIR_CHECK(check_order(changes_, stored_->steps));
  WEIR_CHECK(check_sources_read());
  // Without a change, the stage checks the text when it opens it.
  const bool looks = !changes_.empty() || options_.generation != 0 ||
                     config_.resume_text == text_policy::grown;
  if (looks && chains_files(config_)) {
    WEIR_CHECK(accept_text());
  }
  if (looks) {
    WEIR_CHECK(accept_other_texts());
  }
  // The policy for contexts is part of the change and gets into the history with it.
  if (needs_contexts(changes_, config_)) {
    const auto& policy = *run_settings().find("resume.contexts");
    const auto word = [&](const run_config& of) {
      return std::get<std::string>(policy.get(of).data);
    };
    changes_.push_back({0, 0, policy.name, word({}), word(config_)});
  }
  // The place of the changes is known only now.
  for (storage::run_change& one : changes_) {
    one.pulse = stored_->record.pulses;
    one.token = stored_->record.tokens;
    stored_->history.push_back(one);
  }
  // The history is written with every checkpoint from now on.
  if (!stored_->history.empty()) {
    found_.store->remember(storage::encode_history(stored_->history));
  }
  return {};
}

/// Makes the pipeline. The vocabulary of a stored run stays, whatever its sources need
/// now.
result<preset> runner::make_preset() {
  WEIR_TRY(auto made,
           stored_ ? preset_of(config_, vocab_, replans(changes_)) : preset_of(config_));
  made.options.generation = options_.generation;
  made.options.skip = options_.skip;
  made.options.control = options_.control;
  made.options.warning = options_.warning;
  // Checkpoints of the resumed run hold the new configuration.
  if (found_.store) {
    found_.store->describe(made.options.description);
  }
  return made;
}

/// Returns where the pipeline begins: at its first item, or at the image of a checkpoint,
/// which is adapted to the changes.
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
  WEIR_TRY(const auto planned, made.stages->check());
  flow::image image;
  // Images of the first version are made of its sections.
  if (stored_->first_version) {
    WEIR_TRY(image, image_of_run(*stored_, planned.source, config_.name));
  } else {
    WEIR_TRY(auto stored, epoch_in(stored_->file));
    image = std::move(stored.state);
    identify(image, planned.source);
    // After a change a finished run has more to do.
    image.finished = image.finished && changes_.empty();
  }
  // A new output begins empty.
  replace_output(image, changes_, config_);
  if (needs_contexts(changes_, config_)) {
    WEIR_TRY(const auto lanes, stored_->lanes());
    WEIR_CHECK(replace_contexts(image, lanes, config_, vocab_));
  }
  origin.from = std::make_shared<const flow::image>(std::move(image));
  return origin;
}

/// Tells the caller that the run has begun, and from where.
void runner::start(run_start s) {
  if (stored_) {
    s.resumed_from = stored_->file.header().generation;
    s.resumed_tokens = stored_->record.tokens;
  }
  if (callbacks_.started) {
    callbacks_.started(s);
  }
}

/// Returns the tokens of each lane since the checkpoint that is continued.
result<std::vector<lane_report>> runner::lanes_since(
    const std::vector<storage::lane_state>& end) const {
  std::vector<std::uint64_t> from(end.size(), 0);
  if (stored_) {
    WEIR_TRY(const auto begin, stored_->lanes());
    // With other lanes, some of them have begun at another position.
    const bool same = begin.size() == end.size();
    from = first_positions(same ? context_policy::keep : config_.resume_contexts, begin,
                           static_cast<std::uint32_t>(end.size()));
  }
  std::vector<lane_report> lanes;
  for (std::size_t l = 0; l < end.size(); ++l) {
    lanes.push_back({end[l].position - from[l], 0});
  }
  return lanes;
}

/// Returns whether all steps have used their budgets.
bool runner::is_complete(const stored_run& last) const {
  phase_budgets budgets = {config_.phase.build, config_.phase.test, config_.phase.stream};
  budgets[0].tokens = last.build_budget;
  const std::vector<std::string>& order = config_.phase.order;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const phase_use used = i < last.steps.size() ? last.steps[i] : phase_use();
    if (!used_up(budgets[number_of_phase(order[i])], used)) {
      return false;
    }
  }
  return true;
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
  r.bits_stream = a.stream.bits_per_byte();
  r.build_seconds = static_cast<double>(a.build_ns) * 1e-9;
  r.kernel_seconds = static_cast<double>(a.kernel_ns) * 1e-9;
  r.resumed = a.resumed;
  // Generations count from 1, so the last one is also their number.
  r.generation = last.file.header().generation;
  r.generations = r.generation;
  r.history = last.history;
  WEIR_TRY(const auto lanes, last.lanes());
  WEIR_TRY(r.lanes, lanes_since(lanes));
  for (const curve_window& w : a.curve) {
    r.curve.push_back({w.tokens, w.sum.bits_per_byte()});
  }
  if (r.ended == "finished" && !is_complete(last)) {
    r.ended = "end of stream";
  }
  // The hashes are computed by a model that is built from the checkpoint.
  // It is the same model as in the run.
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
  // Medians and tails of the time per pulse.
  r.next = {stages.get<double>(stage_names::text, "next_p50_seconds"),
            stages.get<double>(stage_names::text, "next_p99_seconds")};
  r.pulse = {stages.get<double>(stage_names::learn, "pulse_p50_seconds"),
             stages.get<double>(stage_names::learn, "pulse_p99_seconds")};
  for (lane_report& one : r.lanes) {
    const double seconds = stages.get<double>(stage_names::learn, "pulse_seconds");
    one.tokens_per_second = seconds > 0 ? static_cast<double>(one.tokens) / seconds : 0;
  }
  if (!ended.counters.edges.empty()) {
    r.queue_deepest = ended.counters.edges.front().deepest;  // from the text to the model
  }
  r.corpus = stages.get<std::vector<std::string>>(stage_names::text, "files");
  r.corpus_identity = stages.get<std::uint64_t>(stage_names::text, "corpus_identity");
  r.corpus_tokens = stages.get<std::uint64_t>(stage_names::text, "corpus_tokens");
  r.mix = stages.get<std::vector<std::string>>(stage_names::text, "mix");
}

/// No stage of a run that had finished before was opened, so the corpus is opened here,
/// and the curve is written again in case that failed before.
result<void> runner::report_finished_before(run_report& r) {
  WEIR_TRY(const auto cursor, storage::decode_cursor(stored_->cursor));
  WEIR_TRY(const auto corpus,
           continue_corpus(posix_file_system(), order_of(config_), cursor));
  r.corpus = corpus.files;
  r.corpus_identity = corpus.identity;
  r.corpus_tokens = corpus.tokens;
  r.mix = shares_of(*corpus.stream);
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

/// Makes the report after the end of the pipeline.
result<run_report> runner::report(const pipeline_report& ended) {
  run_report r;
  r.folder = config_.folder;
  r.ended = ended.ended;
  WEIR_CHECK(fill_from_checkpoint(r));
  fill_from_stages(r, ended);
  if (ended.finished_before) {
    WEIR_CHECK(report_finished_before(r));
  }
  // The peak of this process alone.
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  // The system counts in kilobytes.
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
  WEIR_CHECK(models::check_instruction_set(config_.kernels.instruction_set));
  WEIR_CHECK(open_folder());
  WEIR_CHECK(resolve());
  WEIR_CHECK(accept_changes());
  WEIR_TRY(auto made, make_preset());
  WEIR_TRY(auto origin, origin_of(made));
  progress_meter meter(config_, made.stages->built(), stored_ ? &*stored_ : nullptr);
  made.options.progress = [&](const pipeline_progress& p) {
    if (auto begun = meter.started(p)) {
      // The stages are open, so nothing refuses the changes any more.
      if (!changes_.empty() && callbacks_.changed) {
        callbacks_.changed(changes_);
      }
      start(std::move(*begun));
    }
    auto now = meter.take(p);
    for (const chained_source& part : meter.take_begun()) {
      if (callbacks_.next_source) {
        callbacks_.next_source(part.name, part.first);
      }
    }
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
