// SPDX-License-Identifier: Apache-2.0
/// @file
/// The program `weir`: parses the command line, performs one command, and turns its
/// failure into a message and an exit code.
///
/// Each verb fills its options and stores in `chosen` the call to make. The call is made
/// after the whole line has been accepted.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <new>

#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/refusal.hpp"
#include "hn4/verbs.hpp"
#include "model/verbs.hpp"
#include "module/verbs.hpp"
#include "pipe/pipe.hpp"
#include "pipeline/verbs.hpp"
#include "prove/prove.hpp"
#include "texts/verbs.hpp"
#include "tgm/register.hpp"
#include "tokens/verbs.hpp"

namespace {

using namespace weir::tools;
using action = std::function<command_result(output&)>;

/// Options of the verbs that are registered in this file. The parser writes into them, so
/// they live as long as the program.
struct all_options {
  run_options run;
  resume_options resume;
  settings_options settings;
  speak_options speak;
  sessions_options sessions;
  store_options store;
  report_options report;
  folder_options checkpoint;
  std::unique_ptr<tgm_verbs> tgm_more;
  trace_options trace;
  doctor_options doctor;
  std::string shell;
};

// Adds a verb with its description and an example, which `--help` prints at the end.
CLI::App* verb(CLI::App& parent, const char* name, const char* description,
               const char* example, const std::string& more = "") {
  CLI::App* app = parent.add_subcommand(name, description);
  app->footer(std::string("Example:\n  ") + example +
              (more.empty() ? "" : "\n\n" + more));
  return app;
}

/// Adds the option --json.
void json_flag(CLI::App* app, bool& json) {
  app->add_flag("--json", json, "Print facts as JSON");
}

/// Adds the option --set, which may be given several times.
void sets_option(CLI::App* app, std::vector<std::string>& sets) {
  app->add_option("--set", sets,
                  "Set a key: the value as TOML, else as a string; repeatable")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
}

// Adds run, resume, settings and report.
void add_run_verbs(CLI::App& app, all_options& o, action& chosen) {
  auto* run = verb(app, "run", "Run a pipeline and leave one run folder",
                   "weir run demos/prose/prose.toml --set phase.build.tokens=100000",
                   settings_help(false));
  run->add_option("FILE", o.run.file, "Configuration in TOML")->required();
  sets_option(run, o.run.sets);
  run->add_option("--out", o.run.out, "Run folder; without it runs/NAME-N")
      ->type_name("DIR");
  add_plugin_option(*run, o.run.plugins);
  json_flag(run, o.run.json);
  // The callback only notes what to do, since later words of the line may be wrong.
  run->callback([&] { chosen = [&](output& out) { return run_command(o.run, out); }; });

  auto* resume = verb(app, "resume", "Continue a run from its newest valid checkpoint",
                      "weir resume runs/demo --set run.workers=1", settings_help(true));
  resume->add_option("DIR", o.resume.folder, "Run folder")->required();
  resume->add_option("--generation", o.resume.generation,
                     "Checkpoint to continue from (default: the newest valid one)");
  resume
      ->add_option("--skip", o.resume.skips,
                   "Items that are read and not processed, from number FROM to TO - 1 "
                   "(pulses of a job that learns from text); may be given several times")
      ->type_name("FROM:TO")
      // Without this, words behind the value would be taken as further ranges.
      ->allow_extra_args(false);
  sets_option(resume, o.resume.sets);
  add_plugin_option(*resume, o.resume.plugins);
  json_flag(resume, o.resume.json);
  resume->callback(
      [&] { chosen = [&](output& out) { return resume_command(o.resume, out); }; });

  auto* settings = verb(app, "settings", "Say what the settings of a run are and take",
                        "weir settings model.heads");
  settings->add_option("KEY", o.settings.key, "Key, or first part of keys; all without");
  auto* markdown = settings->add_flag("--markdown", o.settings.markdown,
                                      "Print the reference page docs/settings.md");
  settings->add_flag("--json", o.settings.json, "Print facts as JSON")
      ->excludes(markdown);
  settings->callback(
      [&] { chosen = [&](output& out) { return settings_command(o.settings, out); }; });

  auto* report =
      verb(app, "report", "Write report.html of a run again and print its path",
           "weir report runs/demo");
  report->add_option("DIR", o.report.folder, "Run folder")->required();
  json_flag(report, o.report.json);
  report->callback(
      [&] { chosen = [&](output& out) { return report_command(o.report, out); }; });
}

// Adds sessions.
void add_sessions(CLI::App& app, all_options& o, action& chosen) {
  auto* sessions =
      verb(app, "sessions", "Answer turns of several sessions that share the parameters",
           "weir sessions runs/talk --from runs/demo <turns.jsonl",
           "Each line of standard input is a turn, a JSON object:\n"
           "  session      its name, required\n"
           "  text, ids    bytes or token ids that the session reads\n"
           "  tokens       tokens of the answer (default 0)\n"
           "  temperature  0 takes the likeliest token (default 0.8)\n"
           "  seed         of a new session (default 1)\n"
           "  turn         number of the turn; the last turn may be asked again\n"
           "  reset        true empties the context instead\n"
           "  close        true ends the session instead\n"
           "An answer is printed once a checkpoint holds it.");
  sessions->add_option("DIR", o.sessions.folder, "Folder of the sessions")->required();
  sessions->add_option("--from", o.sessions.from,
                       "Run folder or HN4 volume with the parameters, to begin");
  sessions->add_option("--tag", o.sessions.tag, "Tag of the volume (default \"prose\")");
  sessions->add_option("--limit", o.sessions.limit,
                       "Largest number of sessions at a time (default 16)");
  add_kernels_option(*sessions, o.sessions.kernels);
  sessions->callback(
      [&] { chosen = [&](output& out) { return sessions_command(o.sessions, out); }; });
}

// Adds speak and store.
void add_speak_verbs(CLI::App& app, all_options& o, action& chosen) {
  auto* speak =
      verb(app, "speak", "Continue a text with the parameters of a run or volume",
           "weir speak runs/demo --prompt 'The function' --tokens 200 --temperature 0.7");
  speak->add_option("FROM", o.speak.from, "Run folder, or HN4 volume")->required();
  speak
      ->add_option("--prompt", o.speak.prompt,
                   "Text to continue, or \"-\" for standard input")
      ->required();
  speak->add_option("--tokens", o.speak.tokens, "Tokens to add")->required();
  speak->add_option("--temperature", o.speak.temperature,
                    "0 takes the likeliest token (default 0.8)");
  speak->add_option("--seed", o.speak.seed, "Of the random numbers (default 1)");
  speak->add_option("--tag", o.speak.tag, "Tag of the volume (default \"prose\")");
  add_kernels_option(*speak, o.speak.kernels);
  json_flag(speak, o.speak.json);
  speak->callback(
      [&] { chosen = [&](output& out) { return speak_command(o.speak, out); }; });

  auto* store =
      verb(app, "store", "Store the parameters of a run under one tag of a volume",
           "weir store runs/demo parameters.hn4");
  store->add_option("DIR", o.store.folder, "Run folder")->required();
  store->add_option("VOLUME", o.store.volume, "HN4 volume; made if it is not there")
      ->required();
  store->add_option("--tag", o.store.tag, "Tag (default \"prose\")");
  json_flag(store, o.store.json);
  store->callback(
      [&] { chosen = [&](output& out) { return store_command(o.store, out); }; });
}

/// Adds the verbs about checkpoints, which differ in their command alone.
void add_checkpoint_verbs(CLI::App& app, all_options& o, action& chosen) {
  auto* group = app.add_subcommand("checkpoint", "Look at the checkpoints of a run");
  group->require_subcommand(1);
  const auto add = [&](const char* name, const char* description, const char* example,
                       auto command) {
    auto* v = verb(*group, name, description, example);
    v->add_option("DIR", o.checkpoint.folder, "Run folder")->required();
    json_flag(v, o.checkpoint.json);
    // The command is copied, because it is a parameter of this function.
    v->callback([&, command] {
      chosen = [&, command](output& out) { return command(o.checkpoint, out); };
    });
  };
  add("ls", "List generations; succeeds only if one is valid",
      "weir checkpoint ls runs/demo", &checkpoint_ls);
  add("verify", "Read every byte of every generation; fails if any is bad",
      "weir checkpoint verify runs/demo", &checkpoint_verify);
  add("show", "Show the newest valid checkpoint, and the changes of the run so far",
      "weir checkpoint show runs/demo", &checkpoint_show);
}

/// Adds the verbs about Tensogram files. They keep a pointer to their options, so the
/// object lives with the others.
void add_tgm_verbs(CLI::App& app, all_options& o, action& chosen) {
  auto* group = app.add_subcommand("tgm", "Look into Tensogram files, and change them");
  group->require_subcommand(1);
  o.tgm_more = std::make_unique<tgm_verbs>(*group, chosen);
  o.tgm_more->add_all();
}

/// Adds trace.
void add_trace(CLI::App& app, all_options& o, action& chosen) {
  auto* trace =
      verb(app, "trace", "Show critical path, workers and waits of a run's trace",
           "weir trace runs/demo");
  trace->add_option("FILE", o.trace.file, "trace.json, a run folder, or \"-\"")
      ->required();
  json_flag(trace, o.trace.json);
  trace->callback(
      [&] { chosen = [&](output& out) { return trace_command(o.trace, out); }; });
}

/// Adds doctor.
void add_doctor(CLI::App& app, all_options& o, action& chosen) {
  auto* doctor =
      verb(app, "doctor", "Say what this build is and what it finds on this machine",
           "weir doctor --json",
           "Started as ranks, it judges how they were started:\n"
           "  mpirun.openmpi -n 2 weir doctor --workers 4");
  doctor
      ->add_option(
          "--workers", o.doctor.workers,
          "Workers of each rank, which are compared with its processors (default: "
          "one for each processor of its share)")
      ->check(CLI::Range(1, 1'000'000));
  json_flag(doctor, o.doctor.json);
  doctor->callback(
      [&] { chosen = [&](output& out) { return doctor_command(o.doctor, out); }; });
}

/// Adds completion. The script is made from the parser itself, when all verbs are known.
void add_completion(CLI::App& app, all_options& o, action& chosen) {
  auto* completion =
      verb(app, "completion", "Print a script that completes this command",
           "weir completion bash >~/.local/share/bash-completion/completions/weir");
  completion->add_option("SHELL", o.shell, "bash, zsh or fish")->required();
  completion->callback([&] {
    chosen = [&](output& out) -> command_result {
      WEIR_TRY(const std::string script, completion_script(app, o.shell));
      out.write(script);
      return 0;
    };
  });
}

// Returns the name that the Context Stream specification gives to a refusal to resume;
// empty for other failures.
std::string_view refusal_name(weir::errc code) {
  using weir::errc;
  switch (code) {
    case errc::config_mismatch: return "ConfigMismatch: ";
    case errc::stream_model_mismatch: return "StreamModelMismatch: ";
    case errc::history_mismatch: return "HistoryMismatch: ";
    case errc::missing_cursor: return "MissingCursor: ";
    case errc::position_out_of_bounds: return "PositionOutOfBounds: ";
    case errc::rng_mismatch: return "RngMismatch: ";
    case errc::lane_mismatch: return "LaneMismatch: ";
    case errc::build_mismatch: return "BuildMismatch: ";
    default: return "";
  }
}

// Prints an error and returns its exit code.
int fail(const weir::error& e) {
  fmt::print(stderr, "weir: {}{}\n", refusal_name(e.code()), e.message());
  return weir::exit_code_of(e.code());
}

// Performs the chosen command. A failed write to standard output is a failure, too.
int perform_action(const action& chosen) {
  output out;
  const command_result code = chosen(out);
  // The output is closed in both cases, so that what a failed command had printed still
  // appears.
  const auto closed = out.close();
  if (!code) {
    return fail(code.error());
  }
  return closed ? *code : fail(closed.error());
}

}  // namespace

int main(int argc, char** argv) {
  all_options options;
  action chosen;
  CLI::App app{
      "Weir: dataflow of actors and tensors; learns, stops, resumes and speaks bit for "
      "bit"};
  // The name in messages, whatever the path of the program is.
  app.name("weir");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("weir ") + WEIR_VERSION);
  app.footer(
      "Exit codes: 0 well, 1 a check found something, 2 usage, 3 not there or there "
      "already, 4 damaged data, 5 system, 6 run failed, 70 a fault of weir itself");
  // The order is that of the help.
  add_run_verbs(app, options, chosen);
  add_pipeline_verbs(app, chosen);
  add_pipe_verb(app, chosen);
  add_prove_verb(app, chosen);
  add_speak_verbs(app, options, chosen);
  add_sessions(app, options, chosen);
  add_checkpoint_verbs(app, options, chosen);
  add_hn4_verbs(app, chosen);
  add_tgm_verbs(app, options, chosen);
  add_module_verbs(app, chosen);
  add_tokens_verbs(app, chosen);
  add_model_verbs(app, chosen);
  add_text_verbs(app, chosen);
  add_trace(app, options, chosen);
  add_doctor(app, options, chosen);
  add_completion(app, options, chosen);
  // All options are known now.
  refuse_negative_numbers(app);
  // Also thrown for --help and --version, which are no failures.
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return refuse(app, e);
  }
  try {
    return perform_action(chosen);
  } catch (const std::bad_alloc&) {
    // Libraries throw this if memory runs out. Weir itself returns errors.
    fmt::print(stderr, "weir: cannot go on: expected enough memory, found too little\n");
    return weir::exit_code_of(weir::errc::out_of_memory);
  } catch (const std::exception& e) {
    // No exception is expected here. The message says so, and the exit code is that of a
    // fault of the program.
    fmt::print(stderr, "weir: cannot go on: expected no exception, found \"{}\"\n",
               e.what());
    return weir::exit_code_of(weir::errc::internal);
  }
}
