// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pipeline as one line of text, such as `tgm.read path=a.tgm ! tgm.write path=b.tgm`.
///
/// Stages are separated by `!`. Behind the name of a stage stand its keys as KEY=VALUE: a
/// text in quotes (`"..."` with escapes as in TOML, `'...'` as it is), an array or a
/// table of TOML, or a word, which is read as TOML and otherwise as a string. A backslash
/// in a word takes the next character as it is. `-` at the start reads Tensogram messages
/// from standard input, and at the end writes them to standard output.
/// @threads{all functions: safe to call concurrently}
/// @source{docs/pipelines.md}
#pragma once

#include <span>
#include <string>

#include "pipeline/file.hpp"

namespace weir::tools {

/// A line as the tree and the text of a file.
struct parsed_line {
  toml_item root;    ///< tree, whose places are columns of the line
  std::string text;  ///< the same pipeline as a file
};

/// Joins the words of a command line. A word KEY=VALUE with blanks in its value, from
/// which a shell has removed the quotes, gets quotes again.
[[nodiscard]] std::string join_words(std::span<const std::string> words);

/// Reads a line.
/// @error{invalid_argument, the line is no pipeline; the message gives the column}
[[nodiscard]] result<parsed_line> parse_line(const std::string& line);

}  // namespace weir::tools
