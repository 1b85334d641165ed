// SPDX-License-Identifier: Apache-2.0
/// @file
/// The expansion of a run's settings to stages.
///
/// A configuration of a run is a pipeline of four or five stages with fixed names: `text`
/// -> `learn` -> `accounts` -> `curve`, and `predictions` if the Stream phase has an
/// output. Each stage gets the settings of its part. Settings that have their defaults
/// are left out where that keeps the identity of older pipelines.
#include "weir/actors/preset.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "stages/prose/job/curve.hpp"
#include "stages/prose/job/settings.hpp"
#include "stages/prose/job/stored_config.hpp"
#include "stages/prose/job/stored_run.hpp"
#include "weir/base/file.hpp"
#include "weir/base/settings.hpp"

namespace weir::actors {
namespace {

/// Returns texts as the value of a list.
given_value text_list(const std::vector<std::string>& texts) {
  setting_value::list items;
  for (const std::string& one : texts) {
    items.push_back({one});
  }
  return given_value(setting_value{std::move(items)});
}

/// Adds the values of all settings of a table but those left out.
template <class Part>
void expand_table(given_settings& to, const settings_table<Part>& table,
                  const Part& values, const std::vector<std::string_view>& left_out) {
  for (const setting<Part>& one : table.entries()) {
    if (std::find(left_out.begin(), left_out.end(), one.name) == left_out.end()) {
      to.emplace(one.name, given_value(one.get(values)));
    }
  }
}

/// Adds the budget of a phase under the names of the stage `text.pulses`.
void expand_budget(given_settings& to, const std::string& phase,
                   const phase_budget& budget) {
  to.emplace(phase + "_tokens",
             budget.tokens == one_pass ? given_value("all") : given_value(budget.tokens));
  to.emplace(phase + "_pulses", budget.pulses);
}

/// Adds the settings of a source that differ from their defaults.
void expand_source(given_settings& to, const std::string& prefix,
                   const source_settings& source) {
  const source_settings untouched{};
  for (const auto& one : source_table().entries()) {
    if (one.get(source) != one.get(untouched)) {
      to.emplace(prefix + one.name, given_value(one.get(source)));
    }
  }
}

/// Returns the settings of `text.pulses`. @param replan  The run continues with changed
/// budgets, so the stage plans its phases anew.
given_settings expand_text(const run_config& config, bool replan) {
  given_settings text;
  expand_source(text, "", config.source);
  // A run calls it `path`, the stage `files`.
  if (const auto path = text.find("path"); path != text.end()) {
    text.emplace("files", path->second);
    text.erase(path);
  }
  for (const auto& [name, source] : config.sources) {
    expand_source(text, fmt::format("{}{}.", source_prefix, name), source);
  }
  expand_table(text, storage::stream_settings(), config.stream, {"ranks", "frequencies"});
  expand_budget(text, "build", config.phase.build);
  expand_budget(text, "test", config.phase.test);
  expand_budget(text, "stream", config.phase.stream);
  if (!config.chain.empty()) {
    text.emplace("chain", text_list(config.chain));
  }
  // The default order is not stored, as in runs of older versions.
  if (config.phase.order != run_phases().order) {
    text.emplace("order", text_list(config.phase.order));
  }
  for (const auto& [key, name] : {std::pair{"build_source", &config.phase.build_source},
                                  {"test_source", &config.phase.test_source},
                                  {"stream_source", &config.phase.stream_source}}) {
    if (!name->empty()) {
      text.emplace(key, *name);
    }
  }
  text.emplace("grown", config.resume_text == text_policy::grown);
  text.emplace("replan", replan);
  const auto& settings = run_settings();
  text.emplace("contexts", given_value(settings.find("resume.contexts")->get(config)));
  return text;
}

/// With one worker a second pulse in the engine fills no gaps.
given_settings expand_learn(const run_config& config, std::uint32_t vocab) {
  given_settings learn;
  expand_table(learn, models::prose_settings(), model_of(config, vocab), {"seed"});
  learn.emplace("ahead", config.workers == 1 ? 1 : 3);
  learn.emplace("devices",
                config.replicas == replica_policy::per_rank ? config.stream.ranks : 1);
  learn.emplace("predictions", !config.phase.stream_output.empty());
  return learn;
}

/// Returns the path of the predictions.
// A relative path begins at the run folder, and not at that of the configuration.
std::string output_path(const run_config& config) {
  const std::string& path = config.phase.stream_output;
  return path.starts_with('/') ? path : join_path(config.folder, path);
}

/// The message of the curve is in every checkpoint, so a file that cannot be written does
/// not stop the run.
given_settings expand_curve(const run_config& config) {
  return {{"path", join_path(config.folder, curve_text::file)},
          {"objects", text_list({curve_text::tokens, curve_text::bits})},
          {"units", text_list({curve_text::tokens_unit, curve_text::bits_unit})},
          {"about",
           text_list({std::string("title=") + curve_text::title, "run=" + config.name})},
          {"must_write", false}};
}

}  // namespace

/// Returns the number of ids that the sources can have, at least those of the main
/// source.
result<std::uint32_t> needed_vocabulary(const run_config& config) {
  WEIR_CHECK(check_sources(config.source, config.sources));
  std::uint32_t needed = 0;
  for (const source_settings* source : sources_of(config)) {
    WEIR_TRY(const std::uint32_t ids, vocabulary_of(config, *source));
    needed = std::max(needed, ids);
  }
  return needed;
}

result<preset> preset_of(const run_config& config) {
  WEIR_TRY(const std::uint32_t vocab, needed_vocabulary(config));
  return preset_of(config, vocab);
}

/// Makes the pipeline and the options of its run. Nothing is opened.
result<preset> preset_of(const run_config& config, std::uint32_t vocab, bool replan) {
  WEIR_TRY([[maybe_unused]] const auto warnings, check_config(config));
  add_standard_stages();
  preset made;
  // The name of the run may change, so it is not the name of the pipeline.
  made.stages = std::make_unique<pipeline>("run");
  pipeline& p = *made.stages;
  auto text = p.add(stage_names::text, "text.pulses", expand_text(config, replan));
  auto learn = p.add(stage_names::learn, "prose.learn", expand_learn(config, vocab));
  // The window of the model is the number of pulses that are read ahead, of which an edge
  // holds so many at most. The setting changes no result.
  constexpr std::uint64_t max_ahead = 4096;
  const auto ahead = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(config.prefetch, 1, max_ahead));
  learn.window(ahead);
  auto accounts = p.add(stage_names::accounts, "prose.accounts");
  auto curve = p.add(stage_names::curve, "tgm.replace", expand_curve(config));
  // A point of the curve needs 8 bytes; a curve has up to 257 of them.
  curve.window(2, 16'384);
  text >> learn;
  learn["score"] >> accounts;
  accounts[curve_text::tokens] >> curve[curve_text::tokens];
  accounts[curve_text::bits] >> curve[curve_text::bits];
  if (!config.phase.stream_output.empty()) {
    auto output = p.add(stage_names::predictions, "prose.predictions",
                        {{"path", output_path(config)}});
    learn["predictions"] >> output["predictions"];
  }

  run_options& o = made.options;
  o.folder = config.folder;
  o.workers = config.workers;
  o.kernels = config.kernels.instruction_set;
  o.seed = config.seed;
  o.stall_s = config.deadline_s;
  o.trace = config.trace;
  o.keep = config.keep;
  o.description = config_text(config, vocab);
  o.every_seconds = config.every_seconds;
  // Checkpoints stand between pulses, so tokens become pulses, rounded down.
  if (config.every_tokens != 0) {
    const std::uint64_t pulse_tokens = config.stream.chunk * config.stream.lanes;
    o.every_items = std::max<std::uint64_t>(1, config.every_tokens / pulse_tokens);
  }
  return made;
}

}  // namespace weir::actors
