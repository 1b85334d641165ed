// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a pipeline of one line.
///
/// Without a folder, the run leaves nothing: no checkpoints, no log, no report. With one,
/// it is an ordinary run. In both cases messages for people go to standard error.
#include "pipe/pipe.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "cli/time_slice.hpp"
#include "pipe/line.hpp"
#include "pipeline/reporter.hpp"
#include "pipeline/run.hpp"
#include "pipeline/verbs.hpp"
#include "weir/pipeline/paths.hpp"

namespace weir::tools {

namespace {

/// Returns whether standard output is a pipe that nobody reads any more.
/// A reader such as `head` leaves when it has enough.
bool reader_has_left() {
  pollfd standard{STDOUT_FILENO, POLLOUT, 0};
  // Without waiting. The kernel reports an error for a pipe without a reader.
  return ::poll(&standard, 1, 0) == 1 && (standard.revents & POLLERR) != 0;
}

/// Lets stages that write to standard output pass each message on at once, because a run
/// that leaves nothing has no checkpoint to wait for.
void write_at_once(written_pipeline& all) {
  const setting_value standard{std::string("-")};
  for (written_stage& stage : all.stages) {
    const auto given = [&](std::string_view key) {
      return std::ranges::find(stage.settings, key, &config_entry::key);
    };
    // A value that the line gives stays, and so does every other path.
    const auto path = given("path");
    if (stage.use == "tgm.write" && path != stage.settings.end() &&
        path->value == standard && given("hold") == stage.settings.end()) {
      // Zero holds back nothing.
      stage.settings.push_back({"hold", {std::int64_t{0}}, stage.where});
    }
  }
}

/// Reads the line as a pipeline with the options of the command line.
result<written_pipeline> read_line(const pipe_options& options) {
  const std::string line = join_words(options.words);
  // The places in the errors are columns of this line.
  WEIR_TRY(const parsed_line parsed, parse_line(line));
  std::error_code ignored;
  file_overrides overrides;
  overrides.plugins = options.plugins;
  if (options.workers != 1) {
    overrides.sets.push_back(fmt::format("run.workers={}", options.workers));
  }
  // Paths in the line start from the working folder, not from the folder of a file.
  return read_pipeline(parsed.root, parsed.text, "pipe",
                       std::filesystem::current_path(ignored).string(), overrides);
}

/// Runs a pipeline that leaves nothing.
command_result run_without_folder(loaded_pipeline& loaded) {
  actors::run_control control;
  const actors::signal_scope signals(control);
  progress_line line;
  loaded.options.control = &control;
  // Nothing is written about the run, so neither its text nor its trace is needed.
  loaded.options.description.clear();
  loaded.options.trace = runtime::trace_mode::off;
  // The line of progress appears only if standard error is a terminal.
  loaded.options.progress = [&](const pipeline_progress& p) {
    line.show(progress_words(p));
  };
  loaded.options.warning = [&](const std::string& text) {
    line.clear();
    fmt::print(stderr, "warning: {}\n", text);
  };
  prefer_long_time_slices();
  const auto report = weir::run(*loaded.stages, loaded.options);
  line.clear();
  // If the reader has left, the write has failed, and this is how the run ends. It is no
  // failure for the user.
  if (report || (loaded.writes_standard_output && reader_has_left())) {
    return 0;
  }
  return report.error();
}

}  // namespace

command_result pipe_command(const pipe_options& options, output& out) {
  WEIR_TRY(written_pipeline written, read_line(options));
  // Before anything is loaded, so a line can be converted without its files.
  if (options.toml) {
    out.write(written.copy);
    return 0;
  }
  // A run with a folder waits for its checkpoints before it passes messages on.
  if (options.folder.empty()) {
    write_at_once(written);
  }
  WEIR_TRY(loaded_pipeline loaded, make_loaded(written));
  if (!options.folder.empty()) {
    // Lines of the run must not mix with messages on standard output.
    output messages(STDERR_FILENO);
    return run_loaded(loaded, options.folder, false, messages);
  }
  // Inputs that do not exist are reported before the run begins.
  WEIR_CHECK(check_files(loaded));
  return run_without_folder(loaded);
}

void add_pipe_verb(CLI::App& app, std::function<command_result(output&)>& chosen) {
  // Shared with the callback, which outlives this function.
  const auto options = std::make_shared<pipe_options>();
  CLI::App* verb = app.add_subcommand("pipe", "Run a pipeline of one line");
  verb->footer(
      "Example:\n"
      "  weir pipe 'tgm.read path=a.tgm ! elementwise type=f32[64] op=multiply operand=2 "
      "! tgm.write "
      "path=b.tgm'\n\n"
      "Stages are separated by \" ! \" and have keys as KEY=VALUE, see `weir inspect`. "
      "The first and the last\nstage may be \"-\", for Tensogram messages on standard "
      "input and output.");
  verb->add_option("LINE", options->words, "Stages, separated by \" ! \"")->required();
  verb->add_flag("--toml", options->toml, "Print the pipeline as a file for `weir run`");
  verb->add_option("--workers", options->workers, "Threads that run tasks (default 1)")
      ->check(CLI::Range(1, 256));
  verb->add_option("--folder", options->folder,
                   "Run folder with checkpoints; without it the run leaves nothing")
      ->type_name("DIR");
  add_plugin_option(*verb, options->plugins);
  verb->callback([&chosen, options] {
    chosen = [options](output& out) { return pipe_command(*options, out); };
  });
}

}  // namespace weir::tools
