// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a pipeline of one line.
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
bool reader_has_left() {
  pollfd standard{STDOUT_FILENO, POLLOUT, 0};
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
    const auto path = given("path");
    if (stage.use == "tgm.write" && path != stage.settings.end() &&
        path->value == standard && given("hold") == stage.settings.end()) {
      stage.settings.push_back({"hold", {std::int64_t{0}}, stage.where});
    }
  }
}

result<written_pipeline> read_line(const pipe_options& options) {
  const std::string line = join_words(options.words);
  WEIR_TRY(const parsed_line parsed, parse_line(line));
  std::error_code ignored;
  file_overrides overrides;
  overrides.plugins = options.plugins;
  if (options.workers != 1) {
    overrides.sets.push_back(fmt::format("run.workers={}", options.workers));
  }
  return read_pipeline(parsed.root, parsed.text, "pipe",
                       std::filesystem::current_path(ignored).string(), overrides);
}

/// Runs a pipeline that leaves nothing.
command_result run_without_folder(loaded_pipeline& loaded) {
  actors::run_control control;
  const actors::signal_scope signals(control);
  progress_line line;
  loaded.options.control = &control;
  loaded.options.description.clear();
  loaded.options.trace = runtime::trace_mode::off;
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
  if (report || (loaded.writes_standard_output && reader_has_left())) {
    return 0;
  }
  return report.error();
}

}  // namespace

command_result pipe_command(const pipe_options& options, output& out) {
  WEIR_TRY(written_pipeline written, read_line(options));
  if (options.toml) {
    out.write(written.copy);
    return 0;
  }
  if (options.folder.empty()) {
    write_at_once(written);
  }
  WEIR_TRY(loaded_pipeline loaded, make_loaded(written));
  if (!options.folder.empty()) {
    output messages(STDERR_FILENO);
    return run_loaded(loaded, options.folder, false, messages);
  }
  WEIR_CHECK(check_files(loaded));
  return run_without_folder(loaded);
}

void add_pipe_verb(CLI::App& app, std::function<command_result(output&)>& chosen) {
  const auto options = std::make_shared<pipe_options>();
  CLI::App* verb = app.add_subcommand("pipe", "Run a pipeline of one line");
  verb->footer(
      "Example:\n"
      "  weir pipe 'tgm.read path=a.tgm ! elementwise op=multiply operand=2 ! tgm.write "
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
