// SPDX-License-Identifier: Apache-2.0
/// @file
/// The file metrics.json of a run folder, which a program other than Weir may have
/// changed.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "weir/base/container/json_depth.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// Parses the metrics of a run.
/// @param path  For messages.
/// @tparam Json  Type of nlohmann's library for the result.
/// @error{corrupt, the text is no JSON object, or has more than 100 nested values}
template <class Json>
[[nodiscard]] result<Json> parse_metrics(std::string_view text, const std::string& path) {
  if (const std::size_t depth = json_depth(text); depth > max_json_depth) {
    return error(errc::corrupt,
                 fmt::format("cannot read \"{}\": expected at most {} nested values, "
                             "found {}",
                             path, max_json_depth, depth));
  }
  // Without exceptions, damaged JSON becomes a value that is no object.
  Json metrics = Json::parse(text, nullptr, false);
  if (!metrics.is_object()) {
    return error(errc::corrupt,
                 fmt::format("cannot read \"{}\": expected a JSON object, found "
                             "something else",
                             path));
  }
  return metrics;
}

}  // namespace weir::tools
