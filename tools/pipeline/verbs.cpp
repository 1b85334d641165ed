// SPDX-License-Identifier: Apache-2.0
/// @file
/// Adds the verbs about pipelines and their options to the command line.
///
/// The parser of the command line fills a structure of options for each verb. The
/// structure outlives this function through the callbacks that share it.
#include "verbs.hpp"

#include <CLI/CLI.hpp>
#include <memory>

namespace weir::tools {

namespace {

using action = std::function<command_result(output&)>;

/// Adds a verb whose options it returns. When the verb is chosen on the command line,
/// `run` is called with the options.
template <class Options>
CLI::App* add(CLI::App& app, action& chosen, const char* name, const char* help,
              const char* example, command_result (*run)(const Options&, output&),
              std::shared_ptr<Options> options) {
  CLI::App* verb = app.add_subcommand(name, help);
  verb->footer(std::string("Example:\n  ") + example);
  verb->add_flag("--json", options->json, "Print facts as JSON");
  // CLI11 calls this after the whole command line has been parsed, so all options are
  // set. The verb is not run here: an exception of the parser may still follow, and the
  // program opens its output first.
  verb->callback([&chosen, run, options] {
    chosen = [run, options](output& out) { return run(*options, out); };
  });
  return verb;
}

/// Adds what `check` and `graph` have in common: the file, changes of its keys, and
/// plugins.
void add_file(CLI::App* verb, graph_options& options, bool required) {
  verb->add_option("FILE", options.file, "Pipeline in TOML")->required(required);
  verb->add_option("--set", options.sets,
                   // `take_all` allows `--set a=1 --set b=2`. Without extra arguments, a
                   // word that follows a value is not taken as a second one but as the
                   // file.
                   "Set a key such as run.workers or STAGE.KEY; repeatable")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  add_plugin_option(*verb, options.plugins);
}

}  // namespace

void add_plugin_option(CLI::App& verb, std::vector<std::string>& plugins) {
  verb.add_option("--plugin", plugins,
                  "Shared object or Python file with stages; repeatable")
      ->type_name("PATH")
      ->take_all()
      ->allow_extra_args(false);
}

void add_pipeline_verbs(CLI::App& app, action& chosen) {
  const auto checked = std::make_shared<graph_options>();
  add_file(add(app, chosen, "check",
               "Check a pipeline: types, windows, memory, guarantee; runs nothing",
               "weir check two.toml --json", &check_command, checked),
           *checked, true);

  const auto drawn = std::make_shared<graph_options>();
  CLI::App* graph = add(app, chosen, "graph", "Draw a pipeline as SVG",
                        "weir graph two.toml -o two.svg", &graph_command, drawn);
  // The file is not required, because `--run` may name a run folder in its place.
  add_file(graph, *drawn, false);
  graph
      ->add_option("--run", drawn->run,
                   "Draw the pipeline of this run folder, with rates and depths")
      ->type_name("DIR");
  graph->add_option("-o,--output", drawn->drawing,
                    "File for the drawing (default \"-\": standard output)");
  // A drawing is no set of facts, so the two forms exclude each other.
  graph->add_flag("--dot", drawn->dot, "Write text for Graphviz instead of SVG")
      ->excludes("--json");

  const auto listed = std::make_shared<stages_options>();
  CLI::App* list = add(app, chosen, "stages", "List the stages that pipelines may use",
                       "weir stages --json", &stages_command, listed);
  add_plugin_option(*list, listed->plugins);
  list->add_flag("--markdown", listed->markdown, "Print the page docs/stages.md")
      ->excludes("--json");

  const auto inspected = std::make_shared<stages_options>();
  CLI::App* inspect =
      add(app, chosen, "inspect", "Say which ports, settings and state a stage has",
          "weir inspect tgm.read", &inspect_command, inspected);
  add_plugin_option(*inspect, inspected->plugins);
  inspect
      ->add_option("STAGE", inspected->stage, "Full name of a stage, see `weir stages`")
      ->required();
}

}  // namespace weir::tools
