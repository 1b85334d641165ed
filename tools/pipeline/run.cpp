// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs and resumes pipelines, and writes their folders.
///
///   run      check, make the folder, lock it, write pipeline.toml, run
///   resume   lock the folder, read pipeline.toml, run from the last checkpoint
///
/// A run that could not begin leaves nothing behind: no folder that would look like a
/// run. "Begun" means that the stages were opened.
#include "run.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "cli/run_folder.hpp"
#include "cli/time_slice.hpp"
#include "file.hpp"
#include "report.hpp"
#include "reporter.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/models/instruction_sets.hpp"
#include "weir/pipeline/paths.hpp"

namespace weir::tools {

namespace {

namespace fs = std::filesystem;

/// Its presence makes a folder that of a pipeline.
constexpr const char* file_name = "pipeline.toml";

/// `weir::run` or `weir::resume`.
using pipeline_call = result<pipeline_report> (*)(pipeline&, const weir::run_options&);

/// The end of a call: its exit code or its error, and whether the run had begun.
struct performed {
  command_result code;
  bool began = true;
};

/// Runs or resumes a pipeline whose folder is locked and has its file. The log is opened
/// for appending, so a resumed run continues it.
performed perform_pipeline(pipeline_call call, loaded_pipeline& loaded, bool json,
                           output& out) {
  // The plan is needed for its guarantee and its notes. It was checked before.
  auto plan = loaded.stages->check();
  if (!plan) {
    return {std::move(plan.error()), false};
  }
  const std::string& folder = loaded.options.folder;
  auto log = run_log::open(folder);
  if (!log) {
    return {std::move(log.error()), false};
  }
  // Signals ask the run to stop, from the first line of output on.
  actors::run_control control;
  pipeline_reporter reports(out, json, *log, folder, *plan, control);
  const actors::signal_scope signals(control);  // a reader may leave at the first line
  reports.begin();
  // The functions refer to `reports`, which outlives the call.
  loaded.options.control = &control;
  loaded.options.resumed = [&](const pipeline_start& from) { reports.resumed(from); };
  loaded.options.progress = [&](const pipeline_progress& p) { reports.progress(p); };
  loaded.options.warning = [&](const std::string& text) { reports.warning(text); };
  // See cli/time_slice.hpp.
  prefer_long_time_slices();
  const auto report = call(*loaded.stages, loaded.options);
  if (!report) {
    reports.fail(report.error());
    // A run that failed after it had begun keeps its folder.
    return {report.error(), reports.began()};
  }
  reports.finish(*report);
  // Without a guarantee the source cannot go back.
  if (report->ended == "interrupted") {
    reports.say(plan->promise == flow::guarantee::none
                    ? std::string("interrupted; the input cannot be read again, so that "
                                  "the run cannot be continued")
                    : fmt::format("interrupted; continue with: weir resume {}", folder));
  }
  // JSON comes last and alone, as lines go to standard error then.
  if (json) {
    out.write(facts_text(reports.metrics()));
  }
  out.reader_may_leave();  // the results are durable
  out.flush();
  return {0};
}

/// Refuses a folder that holds a run, or anything else that is not of a run that could
/// not begin.
/// The file of a pipeline is written under a temporary name first, so such names are
/// those of a run that was killed before it began.
result<void> check_new_folder(const std::string& folder) {
  if (holds_pipeline(folder) || holds_checkpoint(folder)) {
    return error(errc::already_exists,
                 fmt::format("cannot begin a run in \"{}\": expected a folder without a "
                             "run, found one",
                             folder))
        .hint(fmt::format("continue it with `weir resume {}`, or choose another --out",
                          folder));
  }
  WEIR_TRY(const auto names, posix_file_system().list(folder));
  const auto is_foreign = [](const std::string& name) {
    // The lock has just been made by this process.
    return name != "lock" && !name.starts_with(std::string(file_name) + ".");
  };
  const auto foreign = std::ranges::find_if(names, is_foreign);
  if (foreign == names.end()) {
    return {};
  }
  return error(errc::already_exists,
               fmt::format("cannot begin a run in \"{}\": expected a new or an empty "
                           "folder, found \"{}\" in it",
                           folder, *foreign))
      .hint("choose another --out");
}

/// Begins a run in a folder.
/// The lock is held for the whole run, so that no other process writes to the folder.
performed begin_in(const std::string& folder, loaded_pipeline& loaded, bool json,
                   output& out) {
  // A folder that is not of this run gets no file.
  const bool had_lock = posix_file_system().exists(join_path(folder, "lock"));
  const auto lock = lock_folder(folder);
  if (!lock) {
    return {lock.error()};
  }
  // Checked under the lock, so that no other process can begin at the same time.
  if (auto fits = check_new_folder(folder); !fits) {
    if (!had_lock) {
      static_cast<void>(posix_file_system().remove(join_path(folder, "lock")));
    }
    return {std::move(fits.error())};
  }
  // From here on the folder is that of a pipeline.
  auto written = write_file_atomically(posix_file_system(), join_path(folder, file_name),
                                       as_view(loaded.options.description));
  if (!written) {
    return {std::move(written.error())};
  }
  performed done = perform_pipeline(&weir::run, loaded, json, out);
  // The folder itself is removed by the caller if it is empty.
  if (!done.began) {
    // Exactly the files that a run makes before it begins.
    for (const char* name : {file_name, "log", "lock"}) {
      static_cast<void>(posix_file_system().remove(join_path(folder, name)));
    }
  }
  return done;
}

}  // namespace

/// Both ends are numbers of items; the second one is not skipped.
result<flow::item_range> parse_range(const std::string& text) {
  flow::item_range range;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  // A colon must follow the first number directly.
  const bool colon = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
  if (colon) {
    const auto last = std::from_chars(first.ptr + 1, end, range.last);
    // An empty range is most likely a mistake.
    if (last.ec == std::errc() && last.ptr == end && range.first < range.last) {
      return range;
    }
  }
  return error(errc::invalid_argument,
               fmt::format("cannot skip items: expected FROM:TO with FROM below TO, such "
                           "as 100:120, found \"{}\"",
                           text));
}

/// A file that cannot be read is no pipeline; the reader of jobs reports why.
bool describes_pipeline(const std::string& path) {
  // Reading the whole file is cheap, and it is read again anyway.
  const auto content = read_file(posix_file_system(), path);
  return content && describes_stages(as_text(*content));
}

bool holds_pipeline(const std::string& folder) {
  // The file alone decides, whatever is in it.
  std::error_code ignored;
  return fs::exists(join_path(folder, file_name), ignored);
}

/// The file is loaded, which checks it, before a folder is made.
command_result run_pipeline(const run_options& options, output& out) {
  WEIR_TRY(loaded_pipeline loaded,
           load_pipeline(options.file, {options.sets, options.plugins}));
  return run_loaded(loaded, options.out, options.json, out);
}

/// Done before the folder exists, so that a refused pipeline leaves none.
result<void> check_files(const loaded_pipeline& loaded) {
  WEIR_TRY(const flow::plan plan, loaded.stages->check());
  WEIR_CHECK(flow::check_outputs(plan.source, loaded.options.files));
  WEIR_CHECK(models::check_instruction_set(loaded.options.kernels));
  // The first missing input is enough for an error.
  const auto missing = flow::missing_inputs(plan.source, loaded.options.files);
  return missing.empty() ? result<void>() : result<void>(missing.front());
}

command_result run_loaded(loaded_pipeline& loaded, const std::string& folder, bool json,
                          output& out) {
  WEIR_CHECK(check_files(loaded));
  // Makes the folder only after everything else has been checked.
  WEIR_TRY(const made_folder made, make_run_folder(folder, loaded.stages->built().name));
  loaded.options.folder = made.path;
  const performed done = begin_in(made.path, loaded, json, out);
  if (!done.code) {
    // The folder may have been made for this run.
    remove_if_empty(made);
  }
  return done.code;
}

command_result resume_pipeline(const resume_options& options, output& out) {
  // The lock comes first: another process may be writing pipeline.toml.
  WEIR_TRY(const file_lock lock, lock_folder(options.folder));
  WEIR_TRY(loaded_pipeline loaded, load_pipeline(join_path(options.folder, file_name),
                                                 {options.sets, options.plugins}));
  loaded.options.folder = options.folder;
  // Zero stands for the newest checkpoint.
  loaded.options.generation = options.generation;
  // Skipped items are not in the file; they apply to this resume alone.
  for (const std::string& text : options.skips) {
    WEIR_TRY(loaded.options.skip.emplace_back(), parse_range(text));
  }
  return perform_pipeline(&weir::resume, loaded, options.json, out).code;
}

command_result report_pipeline(const report_options& options, output& out) {
  // Fails if there are no metrics yet.
  WEIR_TRY(const std::string path, write_pipeline_report(options.folder));
  if (options.json) {
    out.print("{{\"report\": {}}}\n", json_quote(path));
  } else {
    out.print("{}\n", path);
  }
  return 0;
}

}  // namespace weir::tools
