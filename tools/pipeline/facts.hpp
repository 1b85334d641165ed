// SPDX-License-Identifier: Apache-2.0
/// @file
/// Facts about pipelines as JSON: plans, stages that the program knows, and runs.
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "weir/actors/pipelines.hpp"

namespace weir::tools {

/// JSON whose objects keep the order of their keys.
using facts = nlohmann::ordered_json;

/// Returns facts as indented text that ends with a line feed.
[[nodiscard]] std::string facts_text(const facts& value);

/// Returns a face in words: "task", "late", "step loop", "source", "sink" or "blocking".
[[nodiscard]] std::string face_word(flow::face face);
/// Returns a guarantee in words: "none", "at least once" or "exactly once".
[[nodiscard]] std::string guarantee_words(flow::guarantee promise);

/// Returns the stages and edges of a plan with types, windows, bytes and notes.
[[nodiscard]] facts plan_facts(const flow::plan& p);

/// Returns the ports, settings and state of a stage that the program knows. The face is
/// null if nothing is known without settings.
[[nodiscard]] facts stage_facts(const flow::stage_info& info);

/// Returns the figures of a run, those of `plan_facts` and the counters of all stages and
/// edges: the content of metrics.json.
/// @param limiting  For each stage how often it was found to limit the rate.
[[nodiscard]] facts run_facts(const pipeline_report& report,
                              const std::map<std::string, std::uint64_t>& limiting);

}  // namespace weir::tools
