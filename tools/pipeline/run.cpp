// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs and resumes pipelines, and writes their folders.
#include "run.hpp"

#include <fmt/core.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <utility>

#include "cli/announcer.hpp"
#include "cli/run_folder.hpp"
#include "cli/time_slice.hpp"
#include "facts.hpp"
#include "file.hpp"
#include "report.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "pipeline.toml";

/// Returns the line of progress: items, rate, the stage that limits it, checkpoints.
std::string progress_words(const pipeline_progress& p) {
  std::string out = fmt::format("{} items", grouped(static_cast<double>(p.items)));
  if (p.items_per_second > 0) {
    out += fmt::format("  {} items/s", grouped(p.items_per_second));
  }
  if (!p.bottleneck.empty()) {
    out += fmt::format("  limited by {}", p.bottleneck);
  }
  out += p.durable_items > 0
             ? fmt::format("  durable {}", grouped(static_cast<double>(p.durable_items)))
             : std::string("  no checkpoint yet");
  return out;
}

// Reports the events of a run to the terminal and to the log.
class reporter : public announcer {
 public:
  using announcer::announcer;

  void start(const flow::plan& p) {
    say(fmt::format("pipeline   {}: {}, {}", p.source.name,
                    counted(p.source.stages.size(), "stage"),
                    counted(p.source.edges.size(), "edge")));
    say(fmt::format("memory     at most {} bytes of items ({})", p.memory_bound,
                    human_bytes(static_cast<std::uint64_t>(p.memory_bound))));
    say(fmt::format("guarantee  {}", guarantee_words(p.promise)));
    log().info(fmt::format("begins: pipeline {}, {}", p.source.name,
                           counted(p.source.stages.size(), "stage")));
    for (const std::string& note : p.notes) {
      log().info("note: " + note);
    }
  }

  void progress(const pipeline_progress& p) {
    line().show(progress_words(p));
    if (!p.bottleneck.empty()) {
      ++limiting_[p.bottleneck];
    }
    // Checkpoints may follow each other faster than a reader of the log can bear.
    if (p.durable_items > logged_items_ && now_ns() - logged_at_ > log_interval_ns) {
      logged_items_ = p.durable_items;
      logged_at_ = now_ns();
      log().info(fmt::format("the items before number {} are durable", p.durable_items));
    }
  }

  void finish(const pipeline_report& r) {
    if (r.resumed_item > 0) {
      say(fmt::format("resumed    at item {}", r.resumed_item));
      log().info(fmt::format("had resumed at item {}", r.resumed_item));
    }
    say(fmt::format(
        "{:<10} {} in {}, {} items/s", r.ended, counted(r.items, "item"),
        human_seconds(r.seconds),
        grouped(r.seconds > 0 ? static_cast<double>(r.items) / r.seconds : 0)));
    say(r.generation == 0 ? std::string("durable    without a checkpoint")
                          : fmt::format("durable    {}, the last is generation {}",
                                        counted(r.epochs, "checkpoint"), r.generation));
    log().info(fmt::format("ended: {}, {}, generation {}", r.ended,
                           counted(r.items, "item"), r.generation));
  }

  [[nodiscard]] const std::map<std::string, std::uint64_t>& limiting() const {
    return limiting_;
  }

 private:
  static constexpr std::int64_t log_interval_ns = 10'000'000'000;
  std::uint64_t logged_items_ = 0;
  std::int64_t logged_at_ = now_ns();
  std::map<std::string, std::uint64_t> limiting_;  ///< observations of each stage
};

using pipeline_call = result<pipeline_report> (*)(pipeline&, const weir::run_options&);

// Writes metrics.json and report.html. The run has ended well, so that a failure here is
// a warning.
void write_results(const std::string& folder, const facts& metrics, reporter& to) {
  const std::string text = facts_text(metrics);
  const auto written = write_file_atomically(
      posix_file_system(), join_path(folder, "metrics.json"), as_view(text));
  if (!written) {
    to.warning(written.error().message());
    return;
  }
  if (const auto page = write_pipeline_report(folder); page) {
    to.say(fmt::format("report     {}", *page));
  } else {
    to.warning(page.error().message());
  }
}

/// Returns whether a resumed run had finished before and left its results.
bool had_finished(const pipeline_report& r, const std::string& folder) {
  std::error_code ignored;
  return r.ended == "finished" && r.items == 0 && r.resumed_item > 0 &&
         fs::exists(join_path(folder, "metrics.json"), ignored);
}

command_result perform(pipeline_call call, loaded_pipeline& loaded, bool json,
                       output& out) {
  WEIR_TRY(const flow::plan plan, loaded.stages->check());
  const std::string& folder = loaded.options.folder;
  WEIR_TRY(run_log log, run_log::open(folder));
  reporter reports(out, json, log);
  reports.say(fmt::format("run folder {}", folder));
  reports.start(plan);
  actors::run_control control;
  const actors::signal_scope signals(control);
  loaded.options.control = &control;
  loaded.options.progress = [&](const pipeline_progress& p) { reports.progress(p); };
  loaded.options.warning = [&](const std::string& text) { reports.warning(text); };
  prefer_long_time_slices();
  const auto report = call(*loaded.stages, loaded.options);
  if (!report) {
    reports.failure(report.error());
    return error(report.error());
  }
  reports.finish(*report);
  const facts metrics = run_facts(*report, reports.limiting());
  if (had_finished(*report, folder)) {
    reports.say("nothing to do: the run had finished before");
  } else {
    write_results(folder, metrics, reports);
  }
  if (report->ended == "interrupted") {
    reports.say(plan.promise == flow::guarantee::none
                    ? std::string("interrupted; the input cannot be read again, so that "
                                  "the run cannot be continued")
                    : fmt::format("interrupted; continue with: weir resume {}", folder));
  }
  if (json) {
    out.write(facts_text(metrics));
  }
  return 0;
}

}  // namespace

result<flow::item_range> parse_range(const std::string& text) {
  flow::item_range range;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  const bool colon = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
  if (colon) {
    const auto last = std::from_chars(first.ptr + 1, end, range.last);
    if (last.ec == std::errc() && last.ptr == end && range.first < range.last) {
      return range;
    }
  }
  return error(errc::invalid_argument,
               fmt::format("cannot skip items: expected FROM:TO with FROM below TO, such "
                           "as 100:120, found \"{}\"",
                           text));
}

bool describes_pipeline(const std::string& path) {
  const auto content = read_file(posix_file_system(), path);
  return content && describes_stages(as_text(*content));
}

bool holds_pipeline(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(join_path(folder, file_name), ignored);
}

command_result run_pipeline(const run_options& options, output& out) {
  WEIR_TRY(loaded_pipeline loaded, load_pipeline(options.file, options.sets));
  WEIR_CHECK(loaded.stages->check());
  std::string& folder = loaded.options.folder;
  folder = options.out;
  if (folder.empty()) {
    WEIR_TRY(folder, next_run_folder(loaded.stages->built().name));
  } else {
    WEIR_CHECK(make_folders(folder));
  }
  WEIR_TRY(const file_lock lock, lock_folder(folder));
  if (holds_pipeline(folder) || holds_checkpoint(folder)) {
    return error(errc::already_exists,
                 fmt::format("cannot begin a run in \"{}\": expected a folder without a "
                             "run, found one",
                             folder))
        .hint(fmt::format("continue it with `weir resume {}`, or choose another --out",
                          folder));
  }
  WEIR_CHECK(write_file_atomically(posix_file_system(), join_path(folder, file_name),
                                   as_view(loaded.options.description)));
  return perform(&weir::run, loaded, options.json, out);
}

command_result resume_pipeline(const resume_options& options, output& out) {
  WEIR_TRY(const file_lock lock, lock_folder(options.folder));
  WEIR_TRY(loaded_pipeline loaded,
           load_pipeline(join_path(options.folder, file_name), options.sets));
  loaded.options.folder = options.folder;
  loaded.options.generation = options.generation;
  for (const std::string& text : options.skips) {
    WEIR_TRY(loaded.options.skip.emplace_back(), parse_range(text));
  }
  return perform(&weir::resume, loaded, options.json, out);
}

command_result report_pipeline(const report_options& options, output& out) {
  WEIR_TRY(const std::string path, write_pipeline_report(options.folder));
  if (options.json) {
    out.print("{{\"report\": {}}}\n", json_quote(path));
  } else {
    out.print("{}\n", path);
  }
  return 0;
}

}  // namespace weir::tools
