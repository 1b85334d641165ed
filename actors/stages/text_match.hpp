// SPDX-License-Identifier: Apache-2.0
/// @file
/// Patterns of names with `*` and `?`.
#pragma once

#include <string_view>

namespace weir::actors {

/// Returns whether a text matches a pattern: `*` stands for any text, `?` for one
/// character. When the text differs behind a `*`, the `*` takes one more character.
/// Takes time proportional to the product of the lengths at worst, and no memory.
[[nodiscard]] inline bool text_matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t taken_by_star = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken_by_star = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken_by_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace weir::actors
