// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir check`, `weir graph`, `weir stages` and `weir inspect`: commands that look at
/// pipelines and stages and run nothing.
///
/// `check` and `graph` load a file, which reads plug-ins and makes the stages, and plan
/// the pipeline; no stage is opened, so no file of data is read. `stages` and `inspect`
/// use the descriptions that the catalog has of its stages.
#include <fmt/format.h>

#include <algorithm>

#include "config/reference.hpp"
#include "facts.hpp"
#include "file.hpp"
#include "picture.hpp"
#include "report.hpp"
#include "stage_page.hpp"
#include "verbs.hpp"
#include "weir/actors/plugins.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/pipeline/paths.hpp"

namespace weir::tools {

namespace {

/// Returns the time between checkpoints in words.
std::string interval_words(const weir::run_options& options) {
  std::vector<std::string> limits;
  // Zero means that this kind of limit is not set.
  if (options.every_items > 0) {
    limits.push_back(counted(options.every_items, "item"));
  }
  if (options.every_seconds > 0) {
    limits.push_back(fmt::format("{:g} s", options.every_seconds));
  }
  // Both limits may be set, and then the first one that is reached counts.
  return limits.empty() ? "at the end alone"
                        : fmt::format("every {}", fmt::join(limits, " or "));
}

/// Returns the ports of a stage, inlets first, one on a line.
std::string ports_text(const std::vector<flow::port_info>& ports) {
  std::string out;
  // Two passes keep the order of the ports within each kind.
  for (const bool inlet : {true, false}) {
    for (const flow::port_info& p : ports) {
      if (p.inlet == inlet) {
        out += fmt::format("  {} {}: {}\n", inlet ? "inlet " : "outlet", p.name,
                           p.type.text());
      }
    }
  }
  // The ports of some stages follow from their settings.
  return out.empty() ? "  known only with settings\n" : out;
}

/// Indents each line by two spaces; empty lines stay empty.
std::string indented(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    // The last line may have no line feed.
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    out += (end == begin ? "" : "  ") + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return out;
}

/// Returns the face of a stage; "-" if nothing is known without settings.
std::string known_face(const flow::stage_info& info) {
  return info.ports.empty() && info.example.empty() ? "-" : face_word(info.face);
}

/// Returns the settings of a stage with their defaults, as `settings_text` takes them. A
/// setting without a known default is shown as unknown.
setting_list settings_of(const flow::stage_info& info) {
  setting_list all;
  for (std::size_t i = 0; i < info.settings.size(); ++i) {
    all.push_back(
        // A description without all defaults is one of a stage that cannot be made
        // without settings.
        {&info.settings[i], i < info.defaults.size()
                                ? info.defaults[i]
                                : setting_value{setting_value::foreign{"unknown"}}});
  }
  return all;
}

/// Returns what checkpoints hold for a stage, one part on a line.
std::string state_text(const flow::stage_info& info) {
  std::string out;
  for (const flow::state_info& one : info.state) {
    out += fmt::format("  {} ({})\n", one.name, one.tensor ? "tensor" : "value");
  }
  // The flow keeps the first items of a call until the last one has come.
  if (info.takes > 1) {
    out += "  the items of a group that is not complete\n";
  }
  return out;
}

/// Returns the behaviour of a stage in sentences, apart from its ports.
std::string behaviour_text(const flow::stage_info& info) {
  std::string out;
  // A source has numbers of its own in any case, which is not worth a sentence.
  if (info.own_numbering && info.face != flow::face::source) {
    out += fmt::format("  takes {} and gives up to {}, which have numbers of their own\n",
                       counted(info.takes, "item"), info.gives);
  }
  if (info.face == flow::face::looping) {
    out += "  works on an item in steps, each after the tasks of the step before\n";
  }
  if (info.face == flow::face::blocking) {
    // Stages of plug-ins in Python run in a child process; the catalog knows how it is
    // started.
    const auto home = flow::stages().home_of(info.name);
    out += home && !home->command.empty() ? "  runs in a child process\n"
                                          : "  runs on a thread of its own\n";
  }
  if (info.holds > 0) {
    out += fmt::format("  keeps back {}\n", counted(info.holds, "item"));
  }
  // The usual stage is not called if one of its inlets has no item.
  if (info.gaps == flow::gap_policy::pass) {
    out += "  is called for numbers that some of its inlets have no item for\n";
  }
  if (info.stateless) {
    out +=
        "  has no state, so failed items may be skipped (on_error = \"skip\" or "
        "\"dead_letter\")\n";
  }
  // The guarantees of other stages follow from what they are.
  if (info.face == flow::face::source || info.face == flow::face::sink) {
    out += fmt::format("  guarantees: {}\n", guarantee_words(info.promise));
  }
  return out;
}

}  // namespace

command_result check_command(const graph_options& options, output& out) {
  WEIR_TRY(const loaded_pipeline loaded,
           // A file for a job that learns from text is expanded to the stages of that
           // job.
           load_any_pipeline(options.file, {options.sets, options.plugins}));
  WEIR_TRY(const flow::plan plan, loaded.stages->check());
  // Two stages must not write one file.
  WEIR_CHECK(flow::check_outputs(plan.source, loaded.options.files));
  facts warnings = facts::array();
  // Missing files are warnings here and errors of `weir run`, because a pipeline may be
  // checked on another machine.
  for (const error& one : flow::missing_inputs(plan.source, loaded.options.files)) {
    warnings.push_back(one.text());
  }
  if (!options.json) {
    // The description is that of the library, so programs can print the same.
    out.write(flow::describe(plan));
    out.print("checkpoints: {}\nworkers: {}\n", interval_words(loaded.options),
              loaded.options.workers);
    for (const facts& one : warnings) {
      out.print("warning: {}\n", one.get<std::string>());
    }
    return 0;
  }
  // The JSON has the plan and the options of the run that the file gives.
  facts all = plan_facts(plan);
  all["warnings"] = std::move(warnings);
  all["workers"] = loaded.options.workers;
  all["checkpoint_items"] = loaded.options.every_items;
  all["checkpoint_seconds"] = loaded.options.every_seconds;
  out.write(facts_text(all));
  return 0;
}

namespace {

/// Returns the facts of the pipeline in a file, or of a run.
result<facts> drawn_facts(const graph_options& options) {
  // Exactly one of the two must be given.
  if (options.file.empty() == options.run.empty()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot draw: expected a file or a run folder, found {}",
                             options.file.empty() ? "neither" : "both"))
        .hint("weir graph FILE, or weir graph --run DIR");
  }
  if (!options.run.empty()) {
    // The facts of a run are those of its plan, and its counters.
    return read_pipeline_metrics(options.run);
  }
  WEIR_TRY(const loaded_pipeline loaded,
           load_any_pipeline(options.file, {options.sets, options.plugins}));
  WEIR_TRY(const flow::plan plan, loaded.stages->check());
  // Without a run, the drawing has neither rates nor depths.
  return plan_facts(plan);
}

}  // namespace

command_result graph_command(const graph_options& options, output& out) {
  WEIR_TRY(const facts all, drawn_facts(options));
  const graph_picture picture = picture_of(all);
  // Both forms have the same picture.
  const std::string drawing = options.dot ? picture_dot(picture) : picture_svg(picture);
  // The drawing is written first: if that fails, nothing is printed.
  if (options.drawing != "-") {
    WEIR_CHECK(
        write_file_atomically(posix_file_system(), options.drawing, as_view(drawing)));
  }
  if (options.json) {
    // Facts go to standard output, even if the drawing goes to a file.
    out.write(facts_text(all));
  } else if (options.drawing == "-") {
    out.write(drawing);
  } else {
    // The name of the file, so that a script can open it.
    out.print("{}\n", options.drawing);
  }
  return 0;
}

namespace {

/// Makes the stages of the program and those of plug-ins known.
result<void> add_stages_and_plugins(const stages_options& options) {
  add_standard_stages();
  for (const std::string& plugin : options.plugins) {
    // A plug-in adds its stages to the same catalog.
    WEIR_CHECK(load_plugin(flow::stages(), plugin));
  }
  return {};
}

}  // namespace

command_result stages_command(const stages_options& options, output& out) {
  WEIR_CHECK(add_stages_and_plugins(options));
  std::vector<flow::stage_info> known;
  std::size_t width = 0;
  std::size_t face_width = 0;
  // The widths are known only when all stages are, so the lines are printed at the end.
  for (const std::string& name : flow::stages().names()) {
    WEIR_TRY(flow::stage_info info, flow::stages().describe(name));
    // The catalog may know a stage under another name than its own description.
    info.name = name;
    width = std::max(width, name.size());
    face_width = std::max(face_width, known_face(info).size());
    known.push_back(std::move(info));
  }
  if (options.markdown) {
    // Fails if an example of a stage does not hold what it says.
    WEIR_TRY(const std::string page, stages_page(known));
    out.write(page);
    return 0;
  }
  if (options.json) {
    facts all = facts::array();
    for (const flow::stage_info& info : known) {
      all.push_back(stage_facts(info));
    }
    out.write(facts_text(all));
    return 0;
  }
  // Three columns: name, face and one sentence.
  for (const flow::stage_info& info : known) {
    out.print("{:<{}}  {:<{}}  {}\n", info.name, width, known_face(info), face_width,
              info.documentation);
  }
  return 0;
}

command_result inspect_command(const stages_options& options, output& out) {
  // A misspelt name is answered with the nearest one.
  WEIR_CHECK(add_stages_and_plugins(options));
  // The error suggests the nearest name and the command that lists all.
  const auto known = flow::stages().describe(options.stage);
  if (!known) {
    return pointing_to_stages(known.error());
  }
  const flow::stage_info& info = *known;
  // The ports of some stages depend on settings. For these the ports of the example are
  // shown, and the output says so.
  WEIR_TRY(const flow::stage_info shown, as_in_example(info));
  // Ports that do not depend on settings are those of the description.
  const bool differ = info.ports.empty() && !shown.ports.empty();
  if (options.json) {
    facts all = stage_facts(info);
    // What may depend on settings is that of the example. Everything else is general.
    const facts of_example = stage_facts(shown);
    all["ports_of_example"] = differ;
    for (const char* key :
         {"ports", "state", "takes", "gives", "holds", "own_numbering", "stateless"}) {
      all[key] = of_example[key];
    }
    out.write(facts_text(all));
    return 0;
  }
  out.print("{} ({})\n  {}\n\nports\n{}{}", info.name, known_face(info),
            info.documentation,
            differ ? "  depend on settings; those of the example:\n" : "",
            ports_text(differ ? shown.ports : info.ports));
  if (!info.settings.empty()) {
    out.print("\nsettings\n{}", indented(settings_text(settings_of(info))));
  }
  // State comes from the example, too, as it may depend on settings.
  if (const std::string state = state_text(shown); !state.empty()) {
    out.print("\nstate in checkpoints\n{}", state);
  }
  // Parts without content have no heading.
  if (const std::string more = behaviour_text(info); !more.empty()) {
    out.print("\nbehaviour\n{}", more);
  }
  if (!info.details.empty()) {
    out.print("\ndetails\n{}", indented(info.details));
  }
  if (!info.example.empty()) {
    out.print("\nexample\n{}", indented(info.example));
  }
  return 0;
}

}  // namespace weir::tools
