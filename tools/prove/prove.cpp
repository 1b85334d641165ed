// SPDX-License-Identifier: Apache-2.0
/// @file
/// Proves that the outputs of a pipeline depend on its inputs alone.
///
/// The pipeline runs as a whole in several variants, each in a child process and in a
/// folder of its own, with its outputs redirected there. The first variant is the
/// reference. At the first difference both variants run again with a tap at every outlet;
/// the first outlet in the order of the graph whose items differ names the stage that is
/// to blame.
#include "prove/prove.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "cli/run_folder.hpp"
#include "pipeline/facts.hpp"
#include "pipeline/run.hpp"
#include "pipeline/stage_keys.hpp"
#include "pipeline/verbs.hpp"
#include "prove/difference.hpp"
#include "prove/variant.hpp"
#include "weir/actors/control.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"

namespace weir::tools {

namespace {

namespace fs = std::filesystem;

/// Recorded runs in which a difference is searched.
constexpr int max_searches = 3;
/// Times that one run is killed.
constexpr std::uint32_t kills_of_a_run = 3;

/// A difference and what it was traced to.
struct found_difference {
  std::string where;  ///< in words
  facts details = facts::object();
};

/// Makes the folder for all variants: the one of the command line, or a temporary one.
result<std::string> make_scratch(const std::string& wanted) {
  if (!wanted.empty()) {
    WEIR_CHECK(make_folders(wanted));
    // The variants write whole folders, so a folder with content is refused.
    WEIR_TRY(const auto names, posix_file_system().list(wanted));
    if (!names.empty()) {
      return error(errc::already_exists,
                   fmt::format("cannot use \"{}\": expected a new or an empty folder, "
                               "found \"{}\" in it",
                               wanted, names.front()));
    }
    return fs::absolute(wanted).string();
  }
  // `mkdtemp` replaces the six letters and creates the folder for this user alone.
  std::error_code failed;
  const fs::path folder = fs::temp_directory_path(failed);
  if (failed) {
    return error(errc::io, fmt::format("cannot make a folder for the proof: expected "
                                       "TMPDIR to name a folder, found: {}",
                                       failed.message()))
        .hint("or name a folder with --folder");
  }
  std::string name = (folder / "weir-prove-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    return error(errc::io, fmt::format("cannot make the folder \"{}\"", name));
  }
  return name;
}

/// Reads and checks the pipeline without running it, and finds out what it writes.
result<proved_pipeline> load_proved(const prove_options& options) {
  WEIR_TRY(const byte_vector content, read_file(posix_file_system(), options.file));
  // A file without stages describes a job that learns from text.
  if (!describes_stages(as_text(content))) {
    return error(errc::unsupported,
                 fmt::format("cannot prove \"{}\": expected a pipeline with [[stage]], "
                             "found none",
                             options.file));
  }
  std::error_code ignored;
  // Relative paths in the file start from its folder, as for `weir run`.
  const std::string folder =
      fs::absolute(options.file, ignored).parent_path().lexically_normal().string();
  proved_pipeline all;
  WEIR_TRY(all.written, read_pipeline(as_text(content), options.file, folder,
                                      {options.sets, options.plugins}));
  WEIR_TRY(const loaded_pipeline loaded, make_loaded(all.written));
  // Inputs that do not exist are reported now, and not by the first child.
  WEIR_CHECK(check_files(loaded));
  WEIR_TRY(all.plan, loaded.stages->check());
  WEIR_TRY(all.outputs, find_outputs(all.plan, all.written.settings.files));
  // The sinks of failed items that the file does not name get paths in its text.
  // `file_text` of a variant adds them, so they need no assignment.
  std::erase_if(all.outputs, [&](const output_setting& one) {
    return std::ranges::find(all.written.stages, one.stage, &written_stage::name) ==
           all.written.stages.end();
  });
  all.outlets = find_outlets(all.plan);
  return all;
}

/// Returns notes on what the proof does not show.
std::vector<std::string> notes_on(const proved_pipeline& all) {
  std::vector<std::string> notes;
  for (const flow::graph_stage& stage : all.plan.source.stages) {
    const bool writes = std::ranges::any_of(
        all.outputs, [&](const output_setting& one) { return one.stage == stage.name; });
    // A stage of the plan that the file does not have is a sink of failed items.
    const bool implied =
        std::ranges::find(all.written.stages, stage.name, &written_stage::name) ==
        all.written.stages.end();
    // A sink may print, send or draw. Nothing of this can be compared.
    if (stage.info.face == flow::face::sink && !writes && !implied) {
      notes.push_back(
          fmt::format("\"{}\" ({}) names no file that it writes, so its "
                      "output is not compared",
                      stage.name, stage.info.name));
    }
  }
  return notes;
}

/// Returns the assignments for windows of one item.
/// With windows of one item, stages run in lockstep, which changes the order of all
/// events.
std::vector<std::string> narrow(const proved_pipeline& all) {
  std::vector<std::string> sets;
  for (const written_stage& stage : all.written.stages) {
    sets.push_back(stage.name + ".window=1 items");
  }
  return sets;
}

/// Returns the assignments that move each stage to a host of its own: `own`, a thread, or
/// `process`, a child. Stages of Python stay in their children.
std::vector<std::string> apart(const proved_pipeline& all, const std::string& host) {
  std::vector<std::string> sets;
  for (const written_stage& stage : all.written.stages) {
    written_stage other = stage;
    // The stage may be unknown to the catalog of this process, as those of Python are.
    const auto home = flow::stages().home_of(stage.use);
    const bool may_move = home && home->command.empty();  // others need a child process
    // Setting the key on a copy tells whether the stage allows this host at all.
    if (may_move && set_stage_key(other, {"host", {host}, ""})) {
      sets.push_back(stage.name + ".host=" + host);
    }
  }
  return sets;
}

/// Returns all variants; all others are compared with the first one.
/// The second has more workers, the third the smallest windows, then come other hosts,
/// and at last the killed ones. Each changes one thing, so a difference points to its
/// cause.
std::vector<variant> variants_of(const proved_pipeline& all,
                                 const prove_options& options) {
  std::vector<variant> made{{"1 worker", {"run.workers=1"}},
                            {"2 workers", {"run.workers=2"}},
                            {"window 1", narrow(all)}};
  if (auto sets = apart(all, "own"); !sets.empty()) {
    made.push_back({"own hosts", std::move(sets)});
    made.push_back({"children", apart(all, "process")});
  }
  // Without this guarantee a resumed run may repeat items, so killing it proves nothing.
  if (all.plan.promise == flow::guarantee::exactly_once) {
    for (std::uint32_t i = 0; i < options.runs; ++i) {
      made.push_back({fmt::format("killed {}", i + 1),
                      // Killed runs have one and two workers in turn.
                      {fmt::format("run.workers={}", 1 + i % 2)},
                      kills_of_a_run,
                      options.seed + i});
    }
  }
  // Each variant fills the memory of items with another byte before stages write to it. A
  // stage that reads what it has not written then gives other outputs. The step goes
  // through all values, since it has the full period of 256.
  int fill = 0x5A;
  for (variant& one : made) {
    one.sets.push_back(fmt::format("run.fill={}", fill));
    // Traces take time and are not compared.
    one.sets.emplace_back("run.trace=off");
    fill = (fill * 73 + 41) % 256;
  }
  return made;
}

/// Runs the variants one by one and keeps what the end needs to print.
class prover {
 public:
  prover(const prove_options& options, output& out) : options_(options), out_(out) {}

  command_result prove() {
    WEIR_TRY(all_, load_proved(options_));
    WEIR_TRY(all_.scratch, make_scratch(options_.folder));
    // A signal reaches the children, too, since they are in the same group. This process
    // only has to stop after the current one.
    const actors::signal_scope signals(control_);
    command_result done = prove_variants();
    // Nothing of an interrupted proof is worth keeping. Behind other errors the files of
    // the variants tell more.
    if (control_.stop_requested() && options_.folder.empty()) {
      static_cast<void>(remove_all(all_.scratch));
    }
    return done;
  }

 private:
  /// Runs and compares the variants until one differs.
  command_result prove_variants() {
    const std::vector<variant> variants = variants_of(all_, options_);
    for (const variant& one : variants) {
      WEIR_TRY(const bool equal, compare(one));
      if (!equal) {
        // The search is worth its time only at a difference, and the first one is enough.
        WEIR_TRY(const found_difference found, search(variants.front(), one));
        return end(&found, one.name);
      }
    }
    return end(nullptr, "");
  }

  /// Runs a variant and compares its outputs with those of the first one.
  result<bool> compare(const variant& wanted) {
    variant one = wanted;
    // The interval depends on the number of items, which the first variant has shown.
    if (one.kills > 0) {
      one.sets.push_back(often());
    }
    WEIR_TRY(const performed_variant done,
             // Folders are numbered like the rows of the table.
             perform(one, fmt::format("{}", rows_.size() + 1), false));
    bool equal = true;
    // The first variant is the reference for all others, and its time and number of items
    // are used for the instants of kills and the intervals of checkpoints.
    if (first_.empty()) {
      first_ = done.outputs;
      seconds_ = done.seconds;
      items_ = done.items;
    } else {
      WEIR_TRY(const auto other, compare_folders(first_, done.outputs));
      equal = !other.has_value();
      // Equal outputs are removed at once, because they may be large. Those that differ
      // stay for the user.
      WEIR_CHECK(remove_all(equal ? done.outputs : ""));
    }
    continued_ += done.continued;
    rows_.push_back({{"variant", one.name},
                     {"seconds", done.seconds},
                     {"kills", done.kills},
                     {"continued", done.continued},
                     {"equal", equal}});
    // A line appears as soon as its variant has ended.
    if (!options_.json) {
      out_.print("{:<12} {:>7.2f} s{}{}\n", one.name, done.seconds,
                 done.kills > 0 ? fmt::format("  {} kills, {} checkpoints continued",
                                              done.kills, done.continued)
                                : "",
                 rows_.size() == 1 ? ""
                 : equal           ? "  equal"
                                   : "  differs");
      out_.flush();
    }
    return equal;
  }

  // Runs a variant and turns a request to stop into an error. The request is asked for
  // behind the run, so the error of an interrupted child does not hide it.
  result<performed_variant> perform(const variant& one, const std::string& folder,
                                    bool recorded) {
    auto done = perform_variant(all_, one, folder, recorded, seconds_);
    if (control_.stop_requested()) {
      return error(errc::interrupted,
                   "cannot prove the pipeline: expected to run all variants, found a "
                   "request to stop");
    }
    return done;
  }

  // Removes a folder and all below it; an empty path removes nothing.
  static result<void> remove_all(const std::string& folder) {
    std::error_code failure;
    if (!folder.empty()) {
      fs::remove_all(folder, failure);
    }
    return failure ? result<void>(error(errc::io, fmt::format("cannot remove \"{}\": {}",
                                                              folder, failure.message())))
                   : result<void>();
  }

  /// Returns the assignment of checkpoints that are frequent enough for a killed run to
  /// have some, however short it is.
  [[nodiscard]] std::string often() const {
    constexpr std::uint64_t checkpoints = 20;
    return fmt::format("checkpoint.every={} items",
                       std::max<std::uint64_t>(1, items_ / checkpoints));
  }

  /// Runs two variants again with every outlet recorded, and returns the first stage and
  /// item that differ.
  result<found_difference> search(const variant& first, const variant& second) {
    for (int i = 1; i <= max_searches; ++i) {
      variant again = second;
      // A new seed, so that a killed run is killed at other instants.
      again.seed += 1000 * static_cast<std::uint64_t>(i);
      if (again.kills > 0) {
        again.sets.push_back(often());
      }
      WEIR_TRY(const auto a, perform(first, fmt::format("first-{}", i), true));
      WEIR_TRY(const auto b, perform(again, fmt::format("second-{}", i), true));
      // Items are compared before files, since they come earlier in the pipeline.
      WEIR_TRY(auto item, other_item(a, b));
      if (!item.where.empty()) {
        return item;
      }
      // Items may be equal although files differ, if the sink itself is to blame.
      WEIR_TRY(auto file, other_file(a, b));
      if (!file.where.empty()) {
        return file;
      }
    }
    // The difference has not come back.
    found_difference found;
    found.where = fmt::format(
        "the outputs differ, but not in {} further pairs of runs that were recorded, so "
        "the difference depends on time or chance",
        max_searches);
    return found;
  }

  // Compares the records of two variants, outlet by outlet, in the order of the graph.
  result<found_difference> other_item(const performed_variant& a,
                                      const performed_variant& b) {
    found_difference found;
    for (const tapped_outlet& one : all_.outlets) {
      // A stage comes before those that it feeds, so the first outlet that differs
      // belongs to the stage that caused it.
      WEIR_TRY(const auto first, read_tap(join_path(a.records, one.file)));
      WEIR_TRY(const auto second, read_tap(join_path(b.records, one.file)));
      if (const auto seq = first_other_item(first, second)) {
        const flow::graph_stage& stage = all_.plan.source.stages[one.stage];
        found.where = fmt::format(
            "the first stage that differs is \"{}\" ({}): item {} at its outlet \"{}\"",
            stage.name, stage.info.name, *seq, one.outlet);
        found.details = {{"stage", stage.name},
                         {"use", stage.info.name},
                         {"outlet", one.outlet},
                         {"item", *seq}};
        break;
      }
    }
    return found;
  }

  // Compares the outputs of two variants. The first part of a path is the name of the
  // sink.
  static result<found_difference> other_file(const performed_variant& a,
                                             const performed_variant& b) {
    found_difference found;
    WEIR_TRY(const auto other, compare_folders(a.outputs, b.outputs));
    if (other) {
      const std::string stage = other->file.substr(0, other->file.find('/'));
      found.where = fmt::format(
          "all items are equal, but what the sink \"{}\" writes differs: {}", stage,
          other->missing ? fmt::format("one run has no file {}", other->file)
                         : fmt::format("byte {} of {}", other->offset, other->file));
      found.details = {{"stage", stage}, {"file", other->file}, {"byte", other->offset}};
    }
    return found;
  }

  // Prints the result and returns the exit code: 1 if outputs differ.
  command_result end(const found_difference* found, const std::string& name) {
    std::vector<std::string> notes = notes_on(all_);
    // Notes about what was not proved come only if nothing differs; a difference says
    // enough.
    if (found == nullptr && all_.plan.promise != flow::guarantee::exactly_once) {
      notes.push_back(fmt::format(
          "no run was killed, because the stage \"{}\" does not promise that a "
          "resumed run gives the same output",
          all_.plan.weakest));
    } else if (found == nullptr && options_.runs != 0 && continued_ == 0) {
      // The runs were killed, but each began anew.
      notes.push_back(
          "no run that was killed had a checkpoint from which it could go on, because "
          "the "
          "pipeline ends too soon; use a longer input to prove that it can be resumed");
    }
    if (options_.json) {
      facts all{{"equal", found == nullptr}, {"variants", rows_}, {"notes", notes}};
      // The files of both variants stay, and their folder is named.
      if (found != nullptr) {
        all["difference"] = found->details;
        all["difference"]["variants"] = {rows_.front()["variant"], name};
        all["difference"]["text"] = found->where;
        all["folder"] = all_.scratch;
      }
      out_.write(facts_text(all));
    } else {
      for (const std::string& note : notes) {
        out_.print("note: {}\n", note);
      }
      if (found != nullptr) {
        out_.print("differs: \"{}\" and \"{}\": {}\nfiles of the variants: {}\n",
                   rows_.front()["variant"].get<std::string>(), name, found->where,
                   all_.scratch);
      } else {
        out_.print("proved: the outputs of {} variants are equal\n", rows_.size());
      }
    }
    if (found != nullptr) {
      return 1;
    }
    // A folder of the user stays in any case, as the help of the option says.
    WEIR_CHECK(remove_all(options_.folder.empty() ? all_.scratch : ""));
    return 0;
  }

  const prove_options& options_;
  output& out_;
  actors::run_control control_;
  proved_pipeline all_;
  facts rows_ = facts::array();
  std::string first_;            ///< folder of the outputs of the first variant
  double seconds_ = 1;           ///< time of the first variant
  std::uint64_t items_ = 0;      ///< items of the first variant
  std::uint32_t continued_ = 0;  ///< times that a variant went on from a checkpoint
};

}  // namespace

command_result prove_command(const prove_options& options, output& out) {
  return prover(options, out).prove();
}

/// The options live as long as the callbacks that share them.
void add_prove_verb(CLI::App& app, std::function<command_result(output&)>& chosen) {
  const auto options = std::make_shared<prove_options>();
  CLI::App* verb = app.add_subcommand(
      "prove", "Prove that the outputs of a pipeline depend on its inputs alone");
  verb->footer(
      "Example:\n"
      "  weir prove two.toml --runs 10\n\n"
      "The pipeline runs with 1 and 2 workers, with windows of 1 item, with each stage "
      "on a thread of its own\nand in a child process, and killed and resumed. Outputs "
      "go into a scratch folder. The exit code is 1\nif any differ.");
  verb->add_option("FILE", options->file, "Pipeline in TOML")->required();
  verb->add_option("--set", options->sets,
                   "Set a key such as run.workers or STAGE.KEY; repeatable")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  add_plugin_option(*verb, options->plugins);
  verb->add_option("--runs", options->runs,
                   "Runs that are killed and resumed (default 3)")
      ->check(CLI::Range(0, 1000));
  verb->add_option("--seed", options->seed,
                   "Of the instants at which runs are killed (default 1)");
  verb->add_option("--folder", options->folder,
                   "Empty folder for the variants, which stays")
      ->type_name("DIR");
  verb->add_flag("--json", options->json, "Print facts as JSON");
  verb->callback([&chosen, options] {
    chosen = [options](output& out) { return prove_command(*options, out); };
  });
}

}  // namespace weir::tools
