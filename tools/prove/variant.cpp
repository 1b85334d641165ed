// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files, folders and processes of the variants.
///
/// A variant is a folder with a copy of the pipeline, a run folder, the outputs and, if
/// asked for, the records. The copy is started with `weir run` and continued with `weir
/// resume` in child processes, exactly as a user would.
#include "prove/variant.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <random>
#include <utility>

#include "cli/run_folder.hpp"
#include "pipeline/report.hpp"
#include "pipeline/run.hpp"
#include "prove/child.hpp"
#include "prove/tap.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/pipeline/paths.hpp"

namespace weir::tools {

namespace {

namespace fs = std::filesystem;

/// Share of the time of a run within which it is killed behind a checkpoint.
constexpr double soon = 0.02;
/// First line of what `read_pipeline` puts behind the text of the file.
/// Taps and sinks must stand in front of this line, because the assignments behind it
/// belong to a table of their own.
constexpr std::string_view assignments_begin = "[set]  # from the command line";

/// Returns whether a path exists and can neither be read twice nor be written elsewhere.
bool is_stream(const std::string& path) {
  std::error_code failure;
  // The status follows links, so a link to a pipe counts as a pipe.
  const fs::file_status status = fs::status(path, failure);
  // A path that does not exist yet is no stream. It will become a file.
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

/// Makes the error for a path that is no file, with the setting that would change it.
error not_provable(const flow::graph_stage& stage, const flow::path_setting& path) {
  const bool input = path.use == path_use::input;
  return error(
             errc::unsupported,
             fmt::format("cannot prove the pipeline: expected files in the stage \"{}\" "
                         "({}), found \"{}\" in the setting \"{}\", which {}",
                         stage.name, stage.info.name, path.path, path.setting,
                         input ? "can be read only once" : "cannot be redirected"))
      .hint(fmt::format("override it with --set {}.{}=PATH", stage.name, path.setting))
      .located(stage.place);
}

/// Returns the name of a stage that is not in the pipeline yet.
/// A dash is added until the name is free.
std::string new_name(const written_pipeline& in, std::string name) {
  while (std::ranges::find(in.stages, name, &written_stage::name) != in.stages.end()) {
    name += "-";
  }
  return name;
}

/// Returns the text of a sink in the form of the file. All values are quoted as TOML.
std::string sink_text(const std::string& name, std::string_view use,
                      const std::string& from, const std::string& path) {
  return fmt::format("\n[[stage]]\nname = {}\nuse = {}\nfrom = {}\npath = {}\n",
                     toml_text({name}), toml_text({std::string(use)}), toml_text({from}),
                     toml_text({path}));
}

/// Returns a path without its root and without steps upwards, so that it stays below the
/// folder in which it is put. Different paths may become equal here, as "../x" and "x"
/// do; see `stage_files`.
fs::path kept_part(const std::string& path) {
  fs::path kept;
  for (const fs::path& part : fs::path(path).lexically_normal().relative_path()) {
    if (part != ".." && part != "." && !part.empty()) {
      kept /= part;
    }
  }
  // A path such as "/" or ".." has nothing left.
  return kept.empty() ? fs::path("output") : kept;
}

/// Chooses the places of the files of one stage below the folder of the stage. Different
/// files have different places, and spellings of one file, such as "x" and "./x", have
/// one. The choice depends on the paths and on their order alone, so that it is the same
/// in all variants.
class stage_files {
 public:
  /// Returns the place of a path: the part of it that stays below the folder, in a
  /// numbered folder if another file has that place.
  [[nodiscard]] std::string place(const std::string& path) {
    const std::string file = fs::path(path).lexically_normal().string();
    const fs::path kept = kept_part(path);
    std::string at = kept.string();
    for (int number = 2; taken_.try_emplace(at, file).first->second != file; ++number) {
      at = (fs::path(std::to_string(number)) / kept).string();
    }
    return at;
  }

 private:
  std::map<std::string, std::string> taken_;  ///< files by their places
};

/// Returns the folder of a path, or the part of it that does not depend on the item.
/// A path may have a pattern such as {name}, which the sink replaces for each item.
std::string fixed_folder(const std::string& path) {
  return fs::path(path.substr(0, path.find('{'))).parent_path().string();
}

/// Makes the file, the folders and the redirected outputs of one variant.
class variant_folder {
 public:
  variant_folder(const proved_pipeline& all, const variant& one, std::string folder,
                 bool recorded)
      : all_(all), one_(one), folder_(std::move(folder)), recorded_(recorded) {}

  // Nothing of the pipeline is started here.
  result<void> make() {
    WEIR_CHECK(make_folders(outputs()));
    if (recorded_) {
      WEIR_CHECK(make_folders(records()));
    }
    // Existing outputs are copied, so that a sink that appends finds what it would find
    // in place.
    for (const output_setting& output : all_.outputs) {
      WEIR_CHECK(redirect(output));
    }
    const std::string text = file_text();
    return write_file_atomically(posix_file_system(), file(), as_view(text));
  }

  [[nodiscard]] std::string outputs() const { return join_path(folder_, "outputs"); }
  [[nodiscard]] std::string records() const { return join_path(folder_, "records"); }
  [[nodiscard]] std::string run() const { return join_path(folder_, "run"); }
  [[nodiscard]] std::string file() const { return join_path(folder_, "pipeline.toml"); }
  [[nodiscard]] std::string messages() const { return join_path(folder_, "messages"); }

  /// Returns the arguments that begin the run.
  [[nodiscard]] std::vector<std::string> begin_words() const {
    // The redirections come first and the assignments of the variant behind them. Both
    // override the file.
    std::vector<std::string> words{"run", file(), "--out", run()};
    for (const auto* sets : {&sets_, &one_.sets}) {
      for (const std::string& set : *sets) {
        words.insert(words.end(), {"--set", set});
      }
    }
    return words;
  }

 private:
  /// Redirects the paths of a setting. A file that exists is copied, because a stage may
  /// append to it.
  result<void> redirect(const output_setting& output) {
    const std::string folder = join_path(outputs(), output.stage);
    std::vector<std::string> texts;
    for (const std::string& path : output.paths) {
      // Below the folder of the stage, so two stages with equal paths do not share a
      // file.
      const std::string to = join_path(folder, files_[output.stage].place(path));
      WEIR_CHECK(make_folders(fixed_folder(to)));
      // The file may name it relative to its own folder.
      const std::string before = flow::path_in(all_.written.settings.files, path);
      std::error_code failure;
      if (fs::is_regular_file(before, failure)) {
        // A pattern for many files is no regular file and is not copied.
        fs::copy_file(before, to, fs::copy_options::overwrite_existing, failure);
        if (failure) {
          return error(errc::io, fmt::format("cannot copy \"{}\" to \"{}\": {}", before,
                                             to, failure.message()));
        }
      }
      texts.push_back(toml_text({to}));
    }
    // One value is written as a text, several as an array, as the file would have them.
    const std::string value =
        texts.size() == 1 ? texts.front() : fmt::format("[{}]", fmt::join(texts, ", "));
    sets_.push_back(fmt::format("{}.{}={}", output.stage, output.setting, value));
    return {};
  }

  /// Returns the file with the sinks that are not in it: those of failed items, which
  /// would be made beside the file of the user, and the taps.
  [[nodiscard]] std::string file_text() const {
    const std::string& copy = all_.written.copy;
    // Without assignments the line does not occur, and the sinks come at the end.
    const std::size_t end = std::min(copy.rfind(assignments_begin), copy.size());
    std::string added;
    const flow::graph& g = all_.plan.source;
    for (const flow::graph_edge& e : g.edges) {
      const flow::port_info& port = g.stages[e.from].info.ports[e.outlet];
      // A sink was implied if it is named after the stage and the outlet of failed items.
      const bool implied = port.dead_letter &&
                           g.stages[e.to].name == g.stages[e.from].name + "." + port.name;
      if (implied) {
        const std::string name = g.stages[e.from].name + "-" + port.name;
        added += sink_text(new_name(all_.written, name), "tgm.write",
                           g.stages[e.from].name + "." + port.name,
                           join_path(outputs(), name + ".tgm"));
      }
    }
    // Every outlet that an edge uses gets a tap, also if other stages take its items.
    for (const tapped_outlet& one : all_.outlets) {
      if (recorded_) {
        added += sink_text(new_name(all_.written, "tap-" + one.file), tap_name,
                           g.stages[one.stage].name + "." + one.outlet,
                           join_path(records(), one.file));
      }
    }
    return copy.substr(0, end) + added + copy.substr(end);
  }

  const proved_pipeline& all_;
  const variant& one_;
  std::string folder_;
  bool recorded_;
  std::vector<std::string> sets_;
  std::map<std::string, stage_files> files_;  ///< by the name of the stage
};

/// Returns the number of the newest checkpoint of a run folder; 0 if there is none.
/// Names of files are enough. The checkpoint itself is opened by the child that resumes.
std::uint64_t newest_checkpoint(const std::string& folder) {
  std::uint64_t newest = 0;
  const auto names = posix_file_system().list(join_path(folder, "checkpoint"));
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    constexpr std::string_view begin = "ck-";
    constexpr std::string_view end = ".weir";
    std::uint64_t number = 0;
    if (name.starts_with(begin) && name.ends_with(end)) {
      // Reads up to the first character that is no digit.
      std::from_chars(name.data() + begin.size(), name.data() + name.size(), number);
    }
    newest = std::max(newest, number);
  }
  return newest;
}

/// Returns the last line of what a process has printed.
/// The message of an error is the last one. Its prefix is cut, as it gets into a new one.
std::string last_line(const std::string& file) {
  const auto content = read_file(posix_file_system(), file);
  if (!content) {
    return content.error().message();
  }
  std::string text(as_text(*content));
  text.erase(text.find_last_not_of("\n") + 1);
  // An error may have several lines, so the search is for its beginning.
  const std::size_t begin = text.rfind("weir: ");
  return text.substr(begin == std::string::npos ? text.rfind('\n') + 1 : begin + 6);
}

}  // namespace

result<std::vector<output_setting>> find_outputs(const flow::plan& plan,
                                                 const std::string& files) {
  std::vector<output_setting> all;
  for (const flow::graph_stage& stage : plan.source.stages) {
    for (const flow::path_setting& path : stage.info.paths) {
      if (path.use == path_use::none) {
        continue;
      }
      // Standard input and output cannot be used by several runs.
      if (path.path == "-" || is_stream(flow::path_in(files, path.path))) {
        return not_provable(stage, path);
      }
      // Inputs are checked above, but they are read in place and not redirected.
      if (path.use != path_use::output) {
        continue;
      }
      // Paths of one setting follow each other in the list.
      const bool another = !all.empty() && all.back().stage == stage.name &&
                           all.back().setting == path.setting;
      if (!another) {
        all.push_back({stage.name, path.setting, {}});
      }
      all.back().paths.push_back(path.path);
    }
  }
  return all;
}

std::vector<tapped_outlet> find_outlets(const flow::plan& plan) {
  std::vector<tapped_outlet> all;
  // The order of the plan: each stage comes behind the stages that feed it.
  for (const std::uint32_t stage : plan.order) {
    std::vector<std::uint32_t> ports;
    for (const flow::graph_edge& e : plan.source.edges) {
      // An outlet with several edges is recorded once.
      if (e.from == stage && std::ranges::count(ports, e.outlet) == 0) {
        ports.push_back(e.outlet);
      }
    }
    // Ports in the order of their definition.
    std::ranges::sort(ports);
    for (const std::uint32_t port : ports) {
      all.push_back({stage, plan.source.stages[stage].info.ports[port].name,
                     fmt::format("{}.{}", stage, port)});
    }
  }
  return all;
}

result<performed_variant> perform_variant(const proved_pipeline& all, const variant& one,
                                          const std::string& folder, bool recorded,
                                          double expected_s) {
  variant_folder at(all, one, join_path(all.scratch, folder), recorded);
  WEIR_CHECK(at.make());
  performed_variant done;
  done.outputs = at.outputs();
  done.records = recorded ? at.records() : "";
  // Equal seeds give equal instants, although not equal kills, as the child runs in real
  // time.
  std::mt19937_64 random(one.seed);
  std::uniform_real_distribution<double> instant(0, expected_s);
  while (true) {
    // A run that was killed early may have left no file to resume.
    const bool begun = holds_pipeline(at.run());
    const auto words =
        begun ? std::vector<std::string>{"resume", at.run()} : at.begin_words();
    // Counted before the child is started: it may go on from this checkpoint.
    const std::uint64_t before = newest_checkpoint(at.run());
    done.continued += begun && before != 0 ? 1 : 0;
    std::optional<kill_plan> kill;
    if (done.kills < one.kills) {
      // The first kill may come at any time of the run, even before its first checkpoint.
      kill.emplace().after_s = instant(random);
      // A kill before the first checkpoint shows nothing about checkpoints, so all kills
      // but the first wait for a new one.
      if (done.kills != 0) {
        kill->ready = [&] { return newest_checkpoint(at.run()) > before; };
        // Soon behind a new checkpoint most of the work since then is lost, and the run
        // still makes progress between kills.
        kill->after_s *= soon;
      }
    }
    WEIR_TRY(const child_end end, run_child(words, at.messages(), kill));
    // Times of all processes add up, with the time for starting them.
    done.seconds += end.seconds;
    // Either it ended before its kill, or no kill was left.
    if (!end.killed) {
      if (end.code == 0) {
        // Without metrics the number of items stays zero, which makes checkpoints
        // frequent.
        if (const auto metrics = read_pipeline_metrics(at.run())) {
          done.items = metrics->value("items", std::uint64_t{0});
        }
        return done;
      }
      // A failure is no difference. The pipeline must work before it can be proved.
      return error(errc::kernel_failed,
                   fmt::format("cannot prove the pipeline: expected that the variant "
                               "\"{}\" succeeds, found exit code {}: {}",
                               one.name, end.code, last_line(at.messages())))
          .hint(fmt::format("its files are in {}", all.scratch));
    }
    ++done.kills;
  }
}

}  // namespace weir::tools
