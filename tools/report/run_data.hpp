// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a run folder holds, read for its report.
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

/// Everything that a report shows. A part that could not be read is empty and named in
/// `missing`.
struct run_data {
  std::string folder;
  nlohmann::json metrics;
  actors::run_config config;
  std::string config_text;
  std::string log;
  std::vector<std::pair<double, double>>
      curve;  ///< tokens, bits per byte of the window that ends there
  std::optional<trace_data> trace;
  std::optional<corpus_comparison> corpus;
  std::vector<std::string> missing;  ///< one sentence each
};

/// @error{not_found, no folder or no metrics.json} @error{corrupt, metrics.json is not
/// JSON}
[[nodiscard]] result<run_data> read_run(const std::string& folder);

/// A number of metrics.json by its dotted key, `otherwise` if it is not there.
[[nodiscard]] double number_at(const nlohmann::json& metrics, const std::string& key,
                               double otherwise = 0);
[[nodiscard]] std::string text_at(const nlohmann::json& metrics, const std::string& key);

}  // namespace weir::tools
