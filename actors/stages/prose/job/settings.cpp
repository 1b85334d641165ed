// SPDX-License-Identifier: Apache-2.0
/// @file
/// The table of a run's settings, the check of a configuration, and the configurations of
/// model and stream that are derived from it.
///
/// The table is the only place that knows the settings of a run: the reader of TOML
/// files, the command line, the documentation and the comparison of a resumed run all go
/// through it. Parts that belong to other modules (source, stream, model) are included
/// from their tables.
#include "stages/prose/job/settings.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "stages/prose/chunk_plan.hpp"
#include "stages/prose/job/curve.hpp"
#include "stages/prose/source/open_source.hpp"
#include "weir/base/settings.hpp"

namespace weir::actors {

namespace {

/// All settings, with the members of `run_config` that hold them.
using run_table = settings_table<run_config>;

/// Returns whether a name can be the name of a folder on every system.
bool is_folder_name(const std::string& name) {
  // ASCII alone, whatever the locale.
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_' || c == '.';
  };
  // A name that begins with a dot would be hidden, or be the folder above.
  return !name.empty() && name.size() <= 100 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_plain);
}

/// Adds the settings of the run as a whole.
void add_run(run_table& t) {
  using c = run_config;
  using runtime::trace_mode;
  // The name is only a name, so a resumed run may have another one.
  t.add("name", &c::name, "Name of the run; without --out its folder is runs/NAME-N")
      .rule("1 to 100 letters, digits, \"-\", \"_\" and \".\", the first one no \".\"",
            is_folder_name)
      .may_change();
  // The seed decides about results and may not change.
  t.add("seed", &c::seed, "Seed of every random number: equal seeds give equal bits");
  t.add("run.workers", &c::workers, "Threads that run tasks; never changes a result")
      .range(1, 256)
      .may_change();
  t.include("run.", &c::kernels, models::kernel_settings_table());
  t.add(
       "run.replicas", &c::replicas,
       {{"one", replica_policy::one}, {"per_rank", replica_policy::per_rank}},
       "Sets of parameters: one, or one on each of stream.ranks devices, whose gradients "
       "meet in an all-reduce; never changes a result")
      .may_change();
  t.add("run.trace", &c::trace,
        {{"off", trace_mode::off},
         {"window", trace_mode::window},
         {"all", trace_mode::all}},
        "Tasks in trace.json: none, the first and last 2 s and every 100th pulse, or all")
      .may_change();
  t.add("run.deadline", &c::deadline_s,
        "Seconds after which a silent part of the run counts as stuck")
      .range(1, 86'400)
      .unit("s")
      .may_change();
}

/// Adds the settings of the text and of its way to the model.
/// The settings of the source stand beside those of the stream, under one prefix.
void add_stream(run_table& t) {
  using c = run_config;
  t.include("stream.", &c::source, source_table());
  t.add("stream.prefetch", &c::prefetch,
        "Chunks read ahead per lane; never changes a result")
      .range(0, 65'536)
      .unit("chunks")
      .may_change();
  // The model gives the frequencies; see `stream_of`.
  t.include("stream.", &c::stream, storage::stream_settings(), {"frequencies"});
  t.add("stream.chain", &c::chain,
        "Names of the sources that follow one after another, if stream.end is \"chain\"");
}

/// Adds the two settings of a phase's budget. `budget` returns the member of a
/// configuration.
template <class Budget>
void add_phase(run_table& t, const std::string& name, Budget budget,
               const std::string& documentation) {
  // Two functions that work for constant and other configurations.
  const auto tokens = [budget](auto& config) -> auto& {
    return budget(config).tokens;
  };
  const auto pulses = [budget](auto& config) -> auto& {
    return budget(config).pulses;
  };
  t.add("phase." + name + ".tokens", tokens, documentation)
      // The word "all" stands for the largest number.
      .range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max())
      .word("all", one_pass)
      .unit("tokens");
  t.add("phase." + name + ".pulses", pulses, "Most pulses of the phase; 0 is no limit")
      .unit("pulses");
}

/// Adds phases, checkpoints and the output.
void add_phases(run_table& t) {
  const auto build = [](auto& config) -> auto& {
    return config.phase.build;
  };
  const auto test = [](auto& config) -> auto& {
    return config.phase.test;
  };
  const auto stream = [](auto& config) -> auto& {
    return config.phase.stream;
  };
  add_phase(t, "build", build,
            "Tokens to learn from, all lanes; 0 skips the phase, \"all\" is one pass");
  add_phase(t, "test", test, "Tokens to predict without learning, after Build");
  add_phase(t, "stream", stream, "Tokens to process without an end in view, after Test");
  // Members of members need a function; a pointer to a member cannot name them.
  const auto order = [](auto& config) -> auto& {
    return config.phase.order;
  };
  t.add("phase.order", order,
        "Phases in the order in which they follow each other; each has its budget every "
        "time")
      .rule("only build, test and stream", are_phases);
  // A pointer to a member chooses the source of the phase.
  const auto add_source = [&t](const std::string& phase, std::string run_phases::*name) {
    const auto member = [name](auto& config) -> auto& {
      return config.phase.*name;
    };
    t.add("phase." + phase + ".source", member,
          "Name of the source that the phase reads; empty: that of the stream");
  };
  add_source("build", &run_phases::build_source);
  add_source("test", &run_phases::test_source);
  add_source("stream", &run_phases::stream_source);
  const auto output = [](auto& config) -> auto& {
    return config.phase.stream_output;
  };
  t.add("phase.stream.output", output,
        "File for the predictions and scores of the phase, as Tensogram messages; empty: "
        "none")
      // The curve has a file of that name in the same folder.
      .rule("empty, or a path other than curve.tgm", [](const std::string& path) {
        return path != curve_text::file && !path.ends_with('/');
      });
  // Checkpoints never change a result, so all of these may change.
  t.add("checkpoint.every_tokens", &run_config::every_tokens,
        "Tokens between checkpoints; 0 writes one at the end only")
      .unit("tokens")
      .may_change();
  t.add("checkpoint.every_seconds", &run_config::every_seconds,
        "Seconds between checkpoints, for sources that may be quiet; 0 counts no time")
      .range(0, 1e6)
      .unit("s")
      .may_change();
  t.add("checkpoint.keep", &run_config::keep,
        "Newest checkpoints that stay in the run folder")
      // With a single one, a damaged checkpoint would end the run.
      .range(2, 100'000)
      .unit("checkpoints")
      .may_change();
}

/// Adds the policies of `resume`.
// They concern a single call of `resume`, so they may always change.
void add_resume(run_table& t) {
  t.add("resume.text", &run_config::resume_text,
        {{"same", text_policy::same}, {"grown", text_policy::grown}},
        "Text of a resumed run: the same, or with more behind its end")
      .may_change();
  t.add("resume.contexts", &run_config::resume_contexts,
        {{"keep", context_policy::keep},
         {"fresh", context_policy::fresh},
         {"clone", context_policy::clone},
         {"drop", context_policy::drop}},
        "Contexts of a run resumed with other lanes or chunks: kept (same lanes only), "
        "emptied, copied to all lanes in turn, or kept and empty in further lanes")
      .may_change();
}

/// Adds the settings of the model. Those that the run derives are not settings of the
/// run; their ranges narrow the settings from which they are derived.
void add_model(run_table& t) {
  const auto& model = models::prose_settings();
  // The names are left out of the table and set by `model_of`.
  std::vector<std::string_view> names;
  for (const derived_setting& derived : derived_settings) {
    names.push_back(derived.name);
    // The range of the model also holds for the setting of the run.
    if (t.find(derived.key) != nullptr) {
      t.narrow(derived.key, *model.find(derived.name));
    }
  }
  t.narrow("stream.ranks", *t.find("stream.lanes"));  // each rank has at least one lane
  t.include("model.", &run_config::model, model, names);
}

/// Returns the settings that name sources.
/// The check then finds names of sources that do not exist.
std::vector<source_use> uses_of(const run_config& config) {
  std::vector<source_use> uses;
  for (const std::string& name : config.chain) {
    uses.push_back({"stream.chain", name});
  }
  const run_phases& p = config.phase;
  // In the order of the phases.
  for (const auto& [phase, name] : {std::pair{"build", &p.build_source},
                                    {"test", &p.test_source},
                                    {"stream", &p.stream_source}}) {
    if (!name->empty()) {
      uses.push_back({fmt::format("phase.{}.source", phase), *name});
    }
  }
  return uses;
}

/// Checks that the ranks can share the lanes, if each has a replica of the parameters.
result<void> check_replicas(const run_config& config) {
  if (config.replicas == replica_policy::one) {
    return {};
  }
  // The model decides which numbers of devices are possible.
  const std::uint32_t ranks = config.stream.ranks;
  if (auto run = models::lanes_per_device(config.stream.lanes, ranks); !run) {
    return error(errc::invalid_argument,
                 fmt::format("cannot use setting \"stream.ranks\" of the run: expected a "
                             "number of devices that can share the lanes, found {}",
                             ranks))
        .because(std::move(run).error());
  }
  return {};
}

}  // namespace

/// Made at the first call. The order of the settings is that of the stored configuration,
/// so new ones are added where they do not disturb it.
const settings_table<run_config>& run_settings() {
  // Initialised once, also if several threads ask at the same time.
  static const run_table all = [] {
    run_table t("the run");
    add_run(t);
    add_stream(t);
    add_phases(t);
    add_resume(t);
    add_model(t);
    return t;
  }();
  return all;
}

/// Settings of named sources are not in the table, because their names are free.
result<void> assign_setting(run_config& config, std::string_view key,
                            const setting_value& value) {
  // The prefix cannot begin a setting of the table.
  return key.starts_with(source_prefix) ? assign_source(config.sources, key, value)
                                        : run_settings().assign(config, key, value);
}

/// Checks each setting, and then what several settings say together. Returns warnings.
result<std::vector<std::string>> check_config(const run_config& config) {
  // Ranges and rules of single settings come first, so that the rest can rely on them.
  WEIR_CHECK(run_settings().check(config));
  WEIR_CHECK(check_sources(config.source, config.sources));
  WEIR_CHECK(check_uses("the run", uses_of(config), config.sources));
  if (config.folder.empty()) {
    return error(errc::invalid_argument,
                 "cannot use the run folder: expected a path, found an empty one");
  }
  // The checks of stream and model are those of their modules.
  // The stream can be possible and still unwise.
  WEIR_TRY(const std::string warning, storage::check_config(stream_of(config)));
  WEIR_CHECK(models::check_config(model_of(config, storage::byte_vocabulary)));
  WEIR_CHECK(check_replicas(config));
  std::vector<std::string> warnings;
  if (!warning.empty()) {
    warnings.push_back(warning);
  }
  return warnings;
}

/// Returns the settings of all sources that the run reads, the main one first.
std::vector<const source_settings*> sources_of(const run_config& config) {
  std::vector<const source_settings*> all = {&config.source};
  const run_phases& p = config.phase;
  std::vector<std::string> names = {p.build_source, p.test_source, p.stream_source};
  if (config.stream.end == storage::end_policy::chain) {
    names.insert(names.end(), config.chain.begin(), config.chain.end());
  }
  // An empty name stands for the main source, which is there already.
  for (const std::string& name : names) {
    const auto found = config.sources.find(name);
    if (found != config.sources.end()) {
      all.push_back(&found->second);
    }
  }
  return all;
}

/// An end-of-text token counts if the stream does not end with its source.
result<std::uint32_t> vocabulary_of(const run_config& config,
                                    const source_settings& source) {
  return vocabulary_of(posix_file_system(), source, config.sources,
                       config.stream.end != storage::end_policy::stop);
}

/// Settings that the run derives are set here; see `derived_settings`.
models::prose_config model_of(const run_config& config, std::uint32_t vocab) {
  // All other settings of the model are the user's.
  models::prose_config model = config.model;
  model.vocab = vocab;
  model.lanes = config.stream.lanes;
  model.max_chunk = static_cast<std::uint32_t>(config.stream.chunk);
  model.seed = config.seed;
  return model;
}

/// The levels of the model decide about the places of chunks.
storage::stream_config stream_of(const run_config& config) {
  // The stream has no setting of its own for them.
  storage::stream_config stream = config.stream;
  stream.frequencies = config.model.frequencies;
  return stream;
}

}  // namespace weir::actors
