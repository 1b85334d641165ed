// SPDX-License-Identifier: Apache-2.0
/// @file
/// The depth of JSON, found without parsing it.
#pragma once

#include <cstddef>
#include <string_view>

namespace weir {

/// Depth to which programs of Weir read JSON that they did not write. The files that they
/// know have fewer than 20 levels.
inline constexpr std::size_t max_json_depth = 100;

/// Returns how many arrays and objects enclose the deepest value of a text.
///
/// A JSON library reads any depth, but functions that walk over its values call
/// themselves once for each level. A short file with 100,000 brackets would then use up
/// the stack and end the program. Readers of foreign files compare this depth with
/// `max_json_depth` before they walk.
/// @param text  JSON, or anything else: brackets outside of strings are counted.
/// @threads{pure}
[[nodiscard]] constexpr std::size_t json_depth(std::string_view text) noexcept {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      // An escaped quotation mark does not end the string.
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++depth;
      deepest = depth > deepest ? depth : deepest;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace weir
