// SPDX-License-Identifier: Apache-2.0
/// @file
/// The table of the settings of `text.pulses`.
///
/// The settings of the stage are those of a run without its model. Values are added to
/// the description of the stage, because they count for the identity of the pipeline; see
/// `is_later`.
#include "stages/prose/text_settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include "stages/source_parts.hpp"
#include "weir/base/settings.hpp"

namespace weir::actors {
namespace {

/// Adds the budget of a phase in tokens and pulses.
void add_phase_budget(settings_table<pulses_settings>& table, std::size_t phase,
                      const std::string& name, const std::string& documentation) {
  // Two functions that reach the members, for constant and other settings.
  const auto tokens = [phase](auto& s) -> auto& {
    return s.budgets[phase].tokens;
  };
  const auto pulses = [phase](auto& s) -> auto& {
    return s.budgets[phase].pulses;
  };
  auto budget = table.add(name + "_tokens", tokens, documentation);
  // The word "all" stands for the largest number.
  budget.range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()).unit("tokens");
  // Only the Build phase can be one pass over the text.
  if (phase == 0) {
    budget.word("all", one_pass);
  }
  table.add(name + "_pulses", pulses, "most pulses of the phase; 0 is no limit")
      .unit("pulses");
}

/// The order of the settings is that of the documentation.
settings_table<pulses_settings> pulses_table() {
  // A table of its own, because the names differ from those of a run.
  settings_table<pulses_settings> table("the source text.pulses");
  const auto files = [](auto& s) -> auto& {
    return s.source.paths;
  };
  table
      .add("files", files,
           "files, folders and patterns in the order of reading; those of a folder or "
           "pattern by their paths; - is standard input")
      .single();
  // The path is called `files` here.
  table.include("", &pulses_settings::source, source_table(), {"path"});
  // Ranks and frequencies belong to the model, which this stage does not have.
  table.include("", &pulses_settings::stream, storage::stream_settings(),
                {"ranks", "frequencies"});
  // Each phase has two settings.
  add_phase_budget(
      table, 0, "build",
      "tokens of the Build phase, of all lanes; 0 skips it, \"all\" is one pass");
  add_phase_budget(table, 1, "test", "tokens of the Test phase, which follows Build");
  add_phase_budget(table, 2, "stream", "tokens of the Stream phase, which follows Test");
  // The stage has an order of its own, so that a run of several phases is one source.
  table.add("chain", &pulses_settings::chain,
            "names of the sources that follow `files` if `end` is \"chain\"");
  table
      .add("order", &pulses_settings::order,
           "phases in the order in which they follow each other; each has its budget "
           "every time")
      .rule("only build, test and stream", are_phases);
  table.add("build_source", &pulses_settings::build_source,
            "name of the source that Build reads; empty: that of `files`");
  table.add("test_source", &pulses_settings::test_source,
            "name of the source that Test reads; empty: that of `files`");
  table.add("stream_source", &pulses_settings::stream_source,
            "name of the source that Stream reads; empty: that of `files`");
  // The last settings only count for a resumed run.
  table
      .add("grown", &pulses_settings::grown,
           "a resumed run goes on with a text to whose end more was added")
      .may_change();
  table
      .add("replan", &pulses_settings::replan,
           "a resumed run works out its number of pulses anew from its budgets")
      .may_change();
  table
      .add("contexts", &pulses_settings::contexts,
           {{"keep", context_policy::keep},
            {"fresh", context_policy::fresh},
            {"clone", context_policy::clone},
            {"drop", context_policy::drop}},
           "contexts of the model behind a resume with another number of lanes, which "
           "decide at which positions lanes begin; with \"keep\" there is none")
      .may_change();
  return table;
}

/// Settings that came after the first version count as values of a resumed run only if
/// they differ from their defaults, so that older checkpoints can be continued.
bool is_later(const setting_info& info) {
  // `eot` is older than the other settings of sources.
  return (source_table().find(info.name) != nullptr && info.name != "eot") ||
         info.name == "order" || info.name == "chain" || info.name.ends_with("_source");
}

/// Returns the name of the source of a phase.
const std::string& source_of(const pulses_settings& settings, std::size_t phase) {
  // In the order of the numbers of phases.
  const std::array all = {&settings.build_source, &settings.test_source,
                          &settings.stream_source};
  return *all[phase];
}

/// Returns the settings that name sources.
/// They are checked against the sources that exist.
std::vector<source_use> uses_in(const pulses_settings& settings) {
  std::vector<source_use> uses;
  // A chain may name a source several times.
  for (const std::string& name : settings.chain) {
    uses.push_back({"chain", name});
  }
  for (const auto& [key, name] : {std::pair{"build_source", &settings.build_source},
                                  {"test_source", &settings.test_source},
                                  {"stream_source", &settings.stream_source}}) {
    if (!name->empty()) {
      uses.push_back({key, *name});
    }
  }
  return uses;
}

}  // namespace

/// Streams are numbered by first use; 0 is the main one.
// The phases are those of the setting `order`.
planned_steps steps_of(const pulses_settings& settings) {
  planned_steps out;
  for (const std::string& name : settings.order) {
    const std::size_t phase = number_of_phase(name);
    const std::string& source = source_of(settings, phase);
    // A source that several phases read has one stream, so it goes on where it stood.
    std::size_t stream = 0;
    if (!source.empty()) {
      const auto known = std::find(out.sources.begin(), out.sources.end(), source);
      stream = static_cast<std::size_t>(known - out.sources.begin()) + 1;
      if (known == out.sources.end()) {
        out.sources.push_back(source);
      }
    }
    out.steps.push_back({phase, stream});
  }
  return out;
}

/// Reads the settings and adds their values to `info`.
result<pulses_settings> read_pulses_settings(flow::stage_info& info,
                                             const given_settings& given) {
  const auto table = pulses_table();
  flow::add_settings(info, table);
  pulses_settings settings;
  // Keys of named sources are not in the table.
  for (const auto& [name, one] : given) {
    // The name of such a key begins with the prefix.
    WEIR_CHECK(name.starts_with(source_prefix)
                   ? assign_source(settings.sources, name, one.value)
                   : table.assign(settings, name, one.value));
  }
  WEIR_CHECK(table.check(settings));
  // A text must come from somewhere.
  if (settings.source.paths.empty() && settings.source.mix.sources.empty() &&
      !is_live(settings.source)) {
    return refused_setting("the source text.pulses", *table.find("files"),
                           {setting_value::foreign{"none"}});
  }
  WEIR_CHECK(check_sources(settings.source, settings.sources));
  // Values are compared with those of settings that nobody has touched.
  const pulses_settings untouched{};
  // Values in the order of the table, without later ones that have their default.
  for (const auto& one : table.entries()) {
    const auto value = one.get(settings);
    if (!is_later(one) || value != one.get(untouched)) {
      flow::add_value(info, one, value);
    }
  }
  // Values of named sources, as far as they are given.
  for (const auto& [name, source] : settings.sources) {
    for (const auto& one : source_table().entries()) {
      setting_info named = one;
      named.name = std::string(source_prefix) + name + "." + one.name;
      if (const auto value = one.get(source); value != one.get(source_settings())) {
        flow::add_value(info, named, value);
      }
    }
  }
  // Last, because the sources are known only now.
  WEIR_CHECK(check_uses("the source text.pulses", uses_in(settings), settings.sources));
  return settings;
}

}  // namespace weir::actors
