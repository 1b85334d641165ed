// SPDX-License-Identifier: Apache-2.0
/// @file
/// Refuses TOML whose keys are nested so deeply that the parser would use up the stack.
///
/// The parser limits how deeply arrays and inline tables enclose each other, but not the
/// number of parts of one key: `a.a.a ... = 1` makes a table for every part, and the
/// parser's functions call themselves once for each of them. This runs before the parser
/// and therefore knows only as much of TOML as it needs: strings, comments and the
/// characters that end a key.
#include <fmt/core.h>

#include <algorithm>

#include "config/values.hpp"

namespace weir::tools {

namespace {

/// Parts of one key. With the parser's limit of 256 nested values, tables have at most
/// 8,192 levels.
constexpr std::size_t max_key_parts = 32;

/// Returns the offset behind a string that begins at `begin`, or the size of the text if
/// the string has no end, which the parser reports.
std::size_t behind_string(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const bool long_form = text.substr(begin, 3) == std::string(3, quote);
  const std::string_view end = text.substr(begin, long_form ? 3 : 1);
  for (std::size_t i = begin + end.size(); i < text.size(); ++i) {
    // Only strings in double quotes have escapes.
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text.substr(i, end.size()) == end) {
      // One or two further quotes before the closing three belong to the string.
      for (int extra = 0; long_form && extra < 2 && text.substr(i + 1, 3) == end;
           ++extra) {
        ++i;
      }
      return i + end.size();
    } else if (text[i] == '\n' && !long_form) {
      return i;
    }
  }
  return text.size();
}

}  // namespace

result<void> check_key_depth(std::string_view text, const std::string& name) {
  std::size_t line = 1;
  std::size_t dots = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::size_t end = behind_string(text, i);
      line += static_cast<std::size_t>(
          std::count(text.begin() + static_cast<std::ptrdiff_t>(i),
                     text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
      i = end;
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    line += c == '\n' ? 1 : 0;
    // A key ends at each of these characters, and so does a number, whose point counts
    // like that of a key.
    dots = std::string_view("\n=,[]{}").find(c) != std::string_view::npos ? 0
           : c == '.'                                                     ? dots + 1
                                                                          : dots;
    if (dots == max_key_parts) {
      return error(errc::invalid_argument,
                   fmt::format("cannot read \"{}\": expected keys of at most {} parts, "
                               "found one with more",
                               name, max_key_parts))
          .located(fmt::format("{}:{}", name, line));
    }
    ++i;
  }
  return {};
}

}  // namespace weir::tools
