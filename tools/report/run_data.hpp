// SPDX-License-Identifier: Apache-2.0
/// @file
/// The content of a run folder, as its report needs it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comparison.hpp"
#include "drawing/trace_data.hpp"
#include "weir/actors/run.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// The content of a report. A part that could not be read is empty, and `missing` says
/// why.
struct run_data {
  std::string folder;         ///< path of the run folder
  nlohmann::json metrics;     ///< content of metrics.json
  actors::run_config config;  ///< settings, or their defaults
  std::string config_text;    ///< content of config.toml as text
  std::string log;            ///< log of all processes of the run
  /// Learning curve: number of tokens, and bits per byte of the window that ends there.
  std::vector<std::pair<double, double>> curve;
  std::optional<trace_data> trace;          ///< tasks of the run; absent without a trace
  std::optional<corpus_comparison> corpus;  ///< absent if the corpus cannot be compared
  std::vector<std::string> missing;         ///< one sentence each
};

/// Reads a run folder.
/// @error{not_found, the folder or its metrics.json does not exist}
/// @error{corrupt, metrics.json is not a JSON object} @error{io, it cannot be read}
[[nodiscard]] result<run_data> read_run(const std::string& folder);

/// Returns a number of metrics.json.
/// @param key        Dotted key, such as "phases.build.tokens".
/// @param otherwise  Returned if there is no number under the key.
[[nodiscard]] double number_at(const nlohmann::json& metrics, const std::string& key,
                               double otherwise = 0);
/// Returns a text of metrics.json, or an empty one if there is none under the key.
[[nodiscard]] std::string text_at(const nlohmann::json& metrics, const std::string& key);

}  // namespace weir::tools
