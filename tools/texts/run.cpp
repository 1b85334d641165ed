// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the pipelines of `weir embed` and `weir generate` in TOML, and runs them.
///
/// `embed` and `generate` are written as pipelines in TOML, exactly as a user would write
/// them; `--toml` prints that text. The text is read again by the reader of pipelines, so
/// that both ways use the same checks. There are two ways to run it: in a run folder,
/// which `weir resume` can continue, or without one, in which case outputs are written
/// under temporary names and renamed at the end. A command that fails therefore leaves
/// the earlier output in place.
#include "texts/run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/time_slice.hpp"
#include "config/values.hpp"
#include "model/verbs.hpp"
#include "pipeline/file.hpp"
#include "pipeline/run.hpp"
#include "texts/load.hpp"
#include "texts/progress.hpp"
#include "weir/actors/control.hpp"
#include "weir/base/file.hpp"
#include "weir/base/system/processors.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

/// Stands for standard input or output instead of a file.
constexpr std::string_view standard_stream = "-";

/// Returns the name under which a run without a folder writes an output.
/// Only regular files and new names are replaced. A device or a pipe, such as /dev/null,
/// is written directly, because renaming would put a file in its place. The number of the
/// process keeps two commands apart.
std::string unfinished_name(const std::string& output) {
  std::error_code failed;
  const auto status = std::filesystem::status(output, failed);
  const bool replaced =
      !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  return output == standard_stream || !replaced
             ? output
             : fmt::format("{}.{}.tmp", output, ::getpid());
}

/// Refuses outputs that are one of the inputs, because they would replace it.
/// The files are compared, not their names, so that links are seen.
result<void> refuse_output_over(const std::string& input, const text_options& options) {
  for (const std::string& written : {options.out, options.skip_bad}) {
    std::error_code failed;  // neither path need exist
    if (std::filesystem::equivalent(input, written, failed)) {
      return error(errc::invalid_argument,
                   fmt::format("cannot write {}: expected a file that is no input, found "
                               "{}",
                               json_quote(written), json_quote(input)));
    }
  }
  return {};
}

/// Refuses outputs in folders that do not exist, before a model is loaded.
result<void> expect_folders(const std::vector<std::string>& outputs) {
  for (const std::string& one : outputs) {
    const std::string folder = folder_of(one);
    std::error_code failed;  // of a folder that this process cannot see
    if (!one.empty() && one != standard_stream &&
        !std::filesystem::is_directory(folder, failed)) {
      return error(errc::not_found,
                   fmt::format("cannot write {}: expected the folder {}, found none",
                               json_quote(one), json_quote(folder)))
          .hint("make the folder, or choose another file");
    }
  }
  return {};
}

/// Outputs under their temporary names. Those that were not kept are removed.
class unfinished_outputs {
 public:
  explicit unfinished_outputs(const std::vector<std::string>& outputs)
      : outputs_(outputs) {
    // The list of bad lines is optional.
    std::erase(outputs_, std::string());  // an output that was not asked for
  }
  unfinished_outputs(const unfinished_outputs&) = delete;
  unfinished_outputs& operator=(const unfinished_outputs&) = delete;
  ~unfinished_outputs() {
    for (const std::string& one : outputs_) {
      // The result of `unfinished_name` must be the same as before the run: the output
      // itself was not touched in between.
      if (const std::string name = unfinished_name(one); name != one) {
        (void)posix_file_system().remove(name);  // it may not exist
      }
    }
  }
  /// Gives the outputs their names. Their content is durable.
  result<void> keep() {
    // An output that has its name leaves the list, so that the destructor does not remove
    // it if a later one fails.
    for (; !outputs_.empty(); outputs_.pop_back()) {
      const std::string& one = outputs_.back();
      if (const std::string name = unfinished_name(one); name != one) {
        WEIR_CHECK(posix_file_system().rename(name, one));
        WEIR_CHECK(posix_file_system().sync_folder(folder_of(one)));
      }
    }
    return {};
  }
  /// Returns an error with the names that the user has given in the place of temporary
  /// names.
  [[nodiscard]] error with_own_names(const error& failed) const {
    std::string text = failed.text();
    std::string location = failed.location();
    for (const std::string& one : outputs_) {
      const std::string name = unfinished_name(one);
      for (std::string* said : {&text, &location}) {
        for (std::size_t at = name == one ? std::string::npos : said->find(name);
             at != std::string::npos; at = said->find(name, at + one.size())) {
          said->replace(at, name.size(), one);
        }
      }
    }
    return error(failed.code(), std::move(text))
        .located(std::move(location))
        .hint(failed.hint());
  }

 private:
  std::vector<std::string> outputs_;
};

/// Relative paths of the pipeline begin at the current folder, as they do on the command
/// line. Errors name no place in the text, because the user has given options and no
/// file.
result<loaded_pipeline> load_text(const pipeline_text& text) {
  std::error_code ignored;
  const std::string here = std::filesystem::current_path(ignored).string();
  auto written = read_pipeline(text.text(), "pipeline.toml", here, {});
  if (!written) {
    return std::move(written).error().located("");
  }
  // The places are used by errors of the plan and of the run, too.
  for (written_stage& stage : written->stages) {
    stage.where.clear();
    for (written_edge& edge : stage.edges) {
      edge.where.clear();
    }
  }
  auto loaded = make_loaded(*written);
  if (!loaded) {
    return std::move(loaded).error().located("");
  }
  return loaded;
}

/// Returns the number of a stage in a plan, or the number of stages.
std::size_t stage_number(const flow::graph& graph, std::string_view name) {
  const auto found = std::ranges::find(graph.stages, name, &flow::graph_stage::name);
  return static_cast<std::size_t>(found - graph.stages.begin());
}

/// Returns a figure of a stage, or the default of its type if the stage or the figure is
/// not there.
template <class T = std::uint64_t>
T figure_of(const std::vector<figures>& stages, std::size_t stage,
            std::string_view name) {
  const T* found = stage < stages.size() ? stages[stage].find<T>(name) : nullptr;
  return found == nullptr ? T() : *found;
}

}  // namespace

// The volume is closed again. The stages of the pipeline open it themselves.
result<actors::model_record> record_of_model(const std::string& volume,
                                             const std::string& tag,
                                             models::architecture family) {
  WEIR_TRY(const storage::hn4_volume mapped, map_model_volume(volume));
  WEIR_TRY(const std::string chosen, actors::choose_model(mapped, tag));
  WEIR_TRY(const auto stored, actors::model_in_volume::open(mapped, chosen));
  WEIR_CHECK(expect_family(stored.record(), family));
  return stored.record();
}

// The number of workers is written out, so that a resumed run has as many as the first
// one. A trace is of no use for these commands.
pipeline_text::pipeline_text(const std::string& name, const text_options& options) {
  text_ += fmt::format("name = {}\n\n[run]\n", toml_text({name}));
  // The largest number that a pipeline accepts.
  constexpr unsigned max_workers = 256;
  const unsigned workers = options.workers > 0 ? options.workers : allowed_processors();
  key("workers", {std::int64_t{std::clamp(workers, 1U, max_workers)}});
  if (options.kernels != "auto") {
    key("kernels", {options.kernels});
  }
  key("trace", {std::string("off")});
  text_ += "\n[checkpoint]\n";
  key("every", {options.every});
}

void pipeline_text::stage(const std::string& name, const std::string& use) {
  text_ += "\n[[stage]]\n";
  key("name", {name});
  key("use", {use});
}

// Values are written by the writer of configurations, which escapes texts.
void pipeline_text::key(std::string_view name, const setting_value& value) {
  text_ += fmt::format("{} = {}\n", name, toml_text(value));
}

void pipeline_text::model(const std::string& volume, const std::string& tag) {
  key("volume", {volume});
  key("tag", {tag});
}

// `bad = "list"` gives bad lines to an outlet; `stop` makes the first one an error.
void pipeline_text::add_tokens(const text_options& options, const std::string& tag,
                               const std::vector<std::string>& files,
                               std::uint32_t bytes) {
  stage("lines", "text.lines");
  // A line of TOML has a limit, and there may be many files.
  text_ += "files = [\n";
  for (const std::string& one : files) {
    text_ += fmt::format("  {},\n", toml_text({one}));
  }
  text_ += "]\n";
  key("lines", {std::int64_t{options.batch}});
  key("bytes", {std::int64_t{bytes}});
  stage("tokens", "text.tokens");
  model(options.volume, tag);
  key("field", {options.field});
  key("truncate", {options.truncate});
  key("bad", {std::string(options.skip_bad.empty() ? "stop" : "list")});
}

void pipeline_text::add_bad_lines(const text_options& options, const std::string& path,
                                  const std::string& outlet) {
  if (!options.skip_bad.empty()) {
    stage("skipped", "json.write");
    key("path", {path});
    key("form", {std::string("lines")});
    key("from", {outlet});
  }
}

std::uint64_t text_report::figure(std::string_view stage, std::string_view name) const {
  return figure_of(run.stages, stage_number(run.planned.source, stage), name);
}

// A run that is too short for its clock has rates of 0.
std::string rates_text(std::string_view things, std::uint64_t count, std::uint64_t tokens,
                       double seconds) {
  const auto rate = [&](std::uint64_t number) {
    const double value = seconds > 0 ? static_cast<double>(number) / seconds : 0;
    return value > 0 && value < 100 ? fmt::format("{:.1f}", value) : grouped(value);
  };
  return fmt::format("{} {}/s, {} tokens/s", rate(count), things, rate(tokens));
}

std::string text_report::text(std::string_view stage, std::string_view name) const {
  return figure_of<std::string>(run.stages, stage_number(run.planned.source, stage),
                                name);
}

namespace {

/// Runs a pipeline without a folder. Its outputs have temporary names, and get their own
/// names in the end.
result<text_report> run_texts(const pipeline_text& text,
                              const std::vector<std::string>& outputs,
                              const text_job& job) {
  WEIR_TRY(loaded_pipeline loaded, load_text(text));
  unfinished_outputs unfinished(outputs);
  if (const auto checked = check_files(loaded); !checked) {
    return unfinished.with_own_names(checked.error());
  }
  actors::run_control control;
  const actors::signal_scope signals(control);
  text_progress progress(job.things);
  loaded.options.control = &control;
  // A run without a folder has no place for checkpoints.
  loaded.options.every_items = 0;
  loaded.options.every_seconds = 0;
  const std::size_t stage = stage_number(loaded.stages->built(), job.counted);
  loaded.options.progress = [&](const pipeline_progress& p) {
    progress.show(figure_of(p.stages, stage, job.things),
                  figure_of(p.stages, stage, "tokens"));
  };
  // A task that loses its processor delays all tasks that wait for it.
  prefer_long_time_slices();
  // The pipeline wraps the error of a stage into others; the user sees the innermost one.
  auto report = weir::run(*loaded.stages, loaded.options);
  if (!report) {
    return unfinished.with_own_names(report.error().root());
  }
  if (report->ended == "interrupted") {
    return error(errc::interrupted,
                 "cannot write the outputs: expected a run to its end, found a signal")
        .hint("with --run FOLDER, `weir resume FOLDER` goes on behind what was done");
  }
  if (const auto kept = unfinished.keep(); !kept) {
    return unfinished.with_own_names(kept.error());
  }
  return text_report{std::move(*report)};
}

/// Runs a pipeline in a run folder. The error of a bad line is that of a run without a
/// folder, with the advice that fits a run that can be resumed.
command_result run_in_folder(const pipeline_text& text, const text_options& options,
                             output& out) {
  WEIR_TRY(loaded_pipeline loaded, load_text(text));
  command_result done = run_loaded(loaded, options.run, options.json, out);
  if (done) {
    return done;
  }
  error cause = done.error().root();
  // A run that has begun cannot be told to list bad lines.
  if (cause.hint().find("--skip-bad") == std::string::npos) {
    return cause;
  }
  return cause.code() == errc::out_of_memory
             ? std::move(cause).hint(fmt::format("shorten the prompt, then `weir resume "
                                                 "{0}`, or `weir resume {0} --set "
                                                 "answers.kv_memory=BYTES`",
                                                 options.run))
             : std::move(cause).hint(
                   fmt::format("repair the line, then `weir resume {}`", options.run));
}

}  // namespace

// The inputs are protected before anything is written, also with `--run` and `--toml`. A
// summary is not printed if the answers themselves go to standard output.
command_result perform_texts(const text_job& job, const text_options& options,
                             output& out) {
  for (const std::string& path : job.inputs) {
    WEIR_CHECK(refuse_output_over(path, options));
  }
  WEIR_CHECK(refuse_output_over(options.volume, options));
  // With the names that the user has given: for `--toml`, and for a run folder.
  const pipeline_text named = job.pipeline_to(options.out, options.skip_bad);
  if (options.toml) {
    out.write(named.text());
    return 0;
  }
  WEIR_CHECK(expect_folders({options.out, options.skip_bad}));
  if (!options.run.empty()) {
    return run_in_folder(named, options, out);
  }
  WEIR_TRY(const text_report report,
           run_texts(job.pipeline_to(unfinished_name(options.out),
                                     unfinished_name(options.skip_bad)),
                     {options.out, options.skip_bad}, job));
  if (options.out != standard_stream) {
    job.print_summary(report);
  }
  return 0;
}

}  // namespace weir::tools
