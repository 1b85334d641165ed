// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir run`, `weir resume` and `weir report`: the commands that write a run folder.
///
/// A run folder holds config.toml from before the first step, a lock file while a process
/// works in it, the log, the checkpoints, and at the end metrics and report. A run can
/// therefore be resumed however it ended.
///
/// The order of the steps matters: the configuration is checked before a folder is made,
/// the folder is locked before anything in it is written, and config.toml is written
/// before the first step.
#include "weir/actors/run.hpp"

#include <filesystem>
#include <functional>
#include <optional>

#include "announcer.hpp"
#include "commands.hpp"
#include "config/config.hpp"
#include "pipeline/report.hpp"
#include "pipeline/run.hpp"
#include "report/report.hpp"
#include "run_folder.hpp"
#include "time_slice.hpp"
#include "weir/actors/preset.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/models/instruction_sets.hpp"

namespace weir::tools {

namespace {

namespace fs = std::filesystem;
using actors::run_config;
using actors::run_report;

/// Returns the files of text in short: the first, the last and their number.
std::string corpus_text(const actors::run_start& start) {
  std::string out = start.corpus.empty() ? "none" : start.corpus.front();
  if (start.corpus.size() > 1) {
    out += fmt::format(" ... {} ({} files)", start.corpus.back(), start.corpus.size());
  }
  // The number of tokens is zero while it is not known, as for standard input.
  return start.corpus_tokens == 0
             ? out
             : fmt::format("{}, {} tokens", out, start.corpus_tokens);
}

/// Returns the loss of a phase as text. No token is scored if each lane had only one,
/// since the first token of a context has no prediction.
std::string score_text(double bits_per_byte) {
  return bits_per_byte > 0 ? fmt::format("{:.3f} bits/byte", bits_per_byte)
                           : "no token was scored";
}

/// The file is replaced as a whole, so a crash leaves the old one or the new one.
result<void> write_config(const run_config& config) {
  const std::string text =
      "# Configuration of this run; `weir resume` reads it.\n" + to_toml(config);
  return write_file_atomically(posix_file_system(),
                               join_path(config.folder, "config.toml"), as_view(text));
}

// Writes the settings of a resumed run that its history records.
// The others keep the values that the run began with, which are read from the file again:
// `config` has the values of this process for all of them.
result<void> record_config(const run_config& config) {
  WEIR_TRY(run_config kept, load_resume_config(config.folder, {}));
  for (const auto& s : actors::run_settings().entries()) {
    if (actors::rule_of_change(s.name) == actors::change_rule::recorded) {
      s.set(kept, s.get(config));
    }
  }
  // Sources and the folder are no settings of the table, so they are copied separately.
  kept.sources = config.sources;
  kept.folder = config.folder;
  return write_config(kept);
}

// Reports the events of a run to the terminal (lines and the line of progress) and to the
// log.
class run_reporter : public announcer {
 public:
  using announcer::announcer;

  // Called once, when the text has been found and the model is built.
  void start(const actors::run_start& start) {
    say(fmt::format("corpus     {}", corpus_text(start)));
    say(fmt::format("model      {} parameters, kernels {}", start.parameters,
                    start.kernel_set));
    // Says from where the run goes on. The kernels stand in the log, because results of
    // different kernel sets may differ in the last bits.
    if (start.resumed_from) {
      say(fmt::format("resumed    from generation {} at {} tokens", *start.resumed_from,
                      start.resumed_tokens));
      log().info(fmt::format("resumed from generation {} at {} tokens, kernels {}",
                             *start.resumed_from, start.resumed_tokens,
                             start.kernel_set));
    } else {
      log().info(fmt::format("started, corpus {}, kernels {}", corpus_text(start),
                             start.kernel_set));
    }
  }

  // A run may read several sources one after the other.
  void next_source(const std::string& name, std::uint64_t token) {
    const std::string text =
        fmt::format("source     {} goes on at token {}", name, token);
    say(text);
    log().info(text);
  }

  /// Later resumes begin with the changed settings, so the file gets those that the
  /// history records. Others were given for this process alone.
  void changed(const std::vector<storage::run_change>& changes,
               const run_config& config) {
    for (const storage::run_change& one : changes) {
      // An empty text is a setting that is not set, such as a list without members.
      const auto shown = [](const std::string& value) {
        return value.empty() ? std::string("nothing") : value;
      };
      const std::string text =
          fmt::format("changed    {} from {} to {} at pulse {}", one.key, shown(one.from),
                      shown(one.to), one.pulse);
      say(text);
      log().info(text);
    }
    // Failing to write is a warning, because the run itself has the new values.
    if (const auto written = record_config(config); !written) {
      warning(written.error().message());
    }
  }

  void progress(const actors::run_progress& p) {
    // The line changes several times a second, and the log gets only what is durable.
    line().show(p);
    if (p.durable_generation > logged_generation_) {
      logged_generation_ = p.durable_generation;
      log().info(fmt::format("generation {} is durable at {} tokens, {} so far",
                             p.durable_generation, p.durable_tokens,
                             score_text(p.cumulative_bits_per_byte)));
    }
  }

  // Prints one line for each part of the run that had tokens.
  void finish(const run_report& r) {
    line().clear();
    if (r.build_tokens > 0) {
      // A text that ends early, or a run that was stopped, did not reach the last
      // quarter.
      const std::string quarter =
          r.bits_last_quarter > 0
              ? fmt::format(", last quarter {:.3f}", r.bits_last_quarter)
              : "";
      say(fmt::format("build      {} tokens, {:.0f} tokens/s, {}{}", r.build_tokens,
                      r.tokens_per_second, score_text(r.bits_cumulative), quarter));
    }
    if (r.test_tokens > 0) {
      say(fmt::format("test       {} tokens, {}", r.test_tokens,
                      score_text(r.bits_test)));
    }
    if (r.stream_tokens > 0) {
      say(fmt::format("stream     {} tokens, {}", r.stream_tokens,
                      score_text(r.bits_stream)));
    }
    // Two runs with equal hashes did the same, whatever the number of threads was.
    say(fmt::format("hashes     state {}, context {}, parameters {}", hex64(r.state_hash),
                    hex64(r.context_hash), hex64(r.parameter_hash)));
    log().info(fmt::format("ended: {}, {} tokens, generation {}, state {}", r.ended,
                           r.tokens, r.generation, hex64(r.state_hash)));
  }

 private:
  // Zero is no generation; the first one has number 1.
  std::uint64_t logged_generation_ = 0;
};

using run_call = std::function<result<run_report>(const actors::run_callbacks&)>;

// Calls `actors::run` or `actors::resume` and reports on it. The caller holds the lock of
// the folder.
command_result perform(const run_call& call, const run_config& config, bool as_json,
                       output& out) {
  // A second check, this time for its warnings. The caller has checked the configuration
  // before anything was written.
  WEIR_TRY(const auto warnings, actors::check_config(config));
  WEIR_TRY(run_log log, run_log::open(config.folder));
  run_reporter reporter(out, as_json, log);
  reporter.say(fmt::format("run folder {}", config.folder));
  for (const std::string& warning : warnings) {
    reporter.warning(warning);
  }
  // A signal asks the run to stop. The handlers are removed when `signals` is destroyed.
  actors::run_control control;
  const actors::signal_scope signals(control);
  actors::run_callbacks callbacks;
  // The callbacks run on the thread that performs the run, so the reporter needs no lock.
  callbacks.started = [&](const actors::run_start& start) { reporter.start(start); };
  callbacks.progress = [&](const actors::run_progress& p) { reporter.progress(p); };
  callbacks.warning = [&](const std::string& text) { reporter.warning(text); };
  callbacks.next_source = [&](const std::string& name, std::uint64_t token) {
    reporter.next_source(name, token);
  };
  callbacks.changed = [&](const std::vector<storage::run_change>& changes) {
    reporter.changed(changes, config);
  };
  callbacks.control = &control;
  // Fewer switches between threads that share a core.
  prefer_long_time_slices();
  const auto report = call(callbacks);
  if (!report) {
    // The log gets the error here. The caller prints it and chooses the exit status.
    reporter.failure(report.error());
    return error(report.error());
  }
  reporter.finish(*report);
  // The page is a by-product. The results are durable without it.
  if (const auto page = write_report(config.folder); page) {
    reporter.say(fmt::format("report     {}", page->path));
  } else {
    reporter.warning(page.error().message());
  }
  if (report->ended == "interrupted") {
    reporter.say(
        fmt::format("interrupted; continue with: weir resume {}", config.folder));
  }
  // The same text as metrics.json.
  if (as_json) {
    out.write(actors::metrics_json(*report));
  }
  out.reader_may_leave();  // the results are durable
  out.flush();
  return 0;
}

// Returns what a user should know before a run is continued; empty if nothing.
std::string note_of_resume(const run_config& config) {
  const bool once = config.source.paths == std::vector<std::string>{"-"} &&
                    config.source.log.empty();  // its bytes cannot be read again
  if (!holds_checkpoint(config.folder)) {
    return fmt::format("the folder holds no checkpoint, so the run begins anew{}",
                       once ? "; what it has read of standard input is lost" : "");
  }
  return once ? "standard input must go on behind the tokens of the checkpoint; they "
                "cannot be compared"
              : "";
}

}  // namespace

/// Refuses plug-ins for a job that learns from text, which would not use them.
result<void> refuse_plugins(const std::vector<std::string>& plugins,
                            const std::string& of) {
  if (plugins.empty()) {
    return {};
  }
  return error(errc::invalid_argument,
               fmt::format("cannot use the plug-in \"{}\": expected a pipeline of "
                           "stages, found the job \"{}\", which learns from text",
                           plugins.front(), of));
}

/// Begins a run. Nothing is written before the configuration has been checked, and
/// nothing in the folder before its lock is held.
command_result run_command(const run_options& options, output& out) {
  // A folder is a frequent mistake: `weir run` in place of `weir resume`.
  if (std::error_code ignored; fs::is_directory(options.file, ignored)) {
    const bool is_run = holds_pipeline(options.file) || holds_checkpoint(options.file);
    return error(
               errc::invalid_argument,
               fmt::format("cannot run \"{}\": expected a file in TOML, found a folder{}",
                           options.file, is_run ? " of a run" : ""))
        .hint(is_run ? fmt::format("continue it with `weir resume {}`", options.file)
                     : "");
  }
  // Files of pipelines have tables of stages. All others configure a job that learns from
  // text.
  if (describes_pipeline(options.file)) {
    return run_pipeline(options, out);
  }
  WEIR_CHECK(refuse_plugins(options.plugins, options.file));
  WEIR_TRY(run_config config, load_config(options.file, options.sets));
  // The check comes before any folder is made. It needs some folder name, and any will
  // do.
  config.folder = options.out.empty() ? "runs" : options.out;
  WEIR_CHECK(actors::preset_of(config));  // also looks for the text
  WEIR_CHECK(models::check_instruction_set(config.kernels.instruction_set));
  // Without `--out`, a new numbered folder is made, which cannot hold anything.
  if (options.out.empty()) {
    WEIR_TRY(config.folder, next_run_folder(config.name));
  } else {
    WEIR_CHECK(make_folders(config.folder));
  }
  // Held until this function returns. Another process that tries the same folder fails.
  WEIR_TRY(const file_lock lock, lock_folder(config.folder));
  // Checked under the lock. Without it, a run that just begins might be overlooked.
  if (holds_checkpoint(config.folder)) {
    return error(
               errc::already_exists,
               fmt::format(
                   "cannot begin a run in \"{}\": expected a folder without checkpoints, "
                   "found some",
                   config.folder))
        .hint(fmt::format("continue it with `weir resume {}`, or choose another --out",
                          config.folder));
  }
  WEIR_CHECK(write_config(config));
  return perform([&](const actors::run_callbacks& c) { return actors::run(config, c); },
                 config, options.json, out);
}

/// Continues a run with the configuration in its folder, apart from settings that may
/// change.
command_result resume_command(const resume_options& options, output& out) {
  std::error_code ignored;
  if (!fs::is_directory(options.folder, ignored)) {
    // The opposite mistake: a file of a run that has not begun.
    const bool is_file = fs::is_regular_file(options.folder, ignored);
    return error(errc::not_found,
                 fmt::format("cannot resume \"{}\": expected a run folder, found "
                             "{}",
                             options.folder, is_file ? "a file" : "none"))
        .hint(is_file
                  ? fmt::format("begin a run of it with `weir run {}`", options.folder)
                  : "");
  }
  if (holds_pipeline(options.folder)) {
    return resume_pipeline(options, out);
  }
  WEIR_CHECK(refuse_plugins(options.plugins, options.folder));
  WEIR_TRY(run_config config, load_resume_config(options.folder, options.sets));
  config.folder = options.folder;
  // Checked before the lock, so that a wrong `--set` changes nothing.
  WEIR_CHECK(actors::check_config(config));
  WEIR_TRY(const file_lock lock, lock_folder(config.folder));
  // Ranges of the text that the user wants to leave out, from `--skip`.
  std::vector<flow::item_range> skip;
  for (const std::string& text : options.skips) {
    WEIR_TRY(skip.emplace_back(), parse_range(text));
  }
  return perform(
      [&](actors::run_callbacks c) {
        // The callbacks are a copy, so setting this affects this call only.
        c.skip = skip;
        if (const std::string note = note_of_resume(config); !note.empty()) {
          c.warning(note);
        }
        return actors::resume(config, c, options.generation);
      },
      config, options.json, out);
}

/// Makes the report of a finished run once more and prints its path or its figures.
command_result report_command(const report_options& options, output& out) {
  if (holds_pipeline(options.folder)) {
    return report_pipeline(options, out);
  }
  // The page is made from this file. A run that failed early has none.
  if (!posix_file_system().exists(join_path(options.folder, "metrics.json"))) {
    return missing_metrics(options.folder);
  }
  WEIR_TRY(const written_report page, write_report(options.folder));
  if (!options.json) {
    out.print("{}\n", page.path);
    if (!page.verdict.empty()) {
      out.print("{}\n", page.verdict);
    }
    return 0;
  }
  // Sizes in bits per byte that general compressors reach on the same text.
  out.print("{{\"report\": {}, \"verdict\": {}, \"gzip\": {:.6f}, \"orders\": [",
            json_quote(page.path), json_quote(page.verdict), page.gzip);
  for (std::size_t i = 0; i < page.orders.size(); ++i) {
    out.print("{}{:.6f}", i == 0 ? "" : ", ", page.orders[i]);
  }
  out.write("]}\n");
  return 0;
}

}  // namespace weir::tools
