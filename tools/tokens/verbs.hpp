// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir tokens`: their options, and the functions that perform them.
///
/// All verbs fail with `not_found` or `io` if a file cannot be read, with the errors of
/// `formats::tokenizer::from_json` if the tokenizer is refused, and with `io` or
/// `no_space` if an output cannot be written.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace CLI {
class App;
}

namespace weir::tools {

/// Options of all verbs of `weir tokens`.
struct tokens_options {
  std::vector<std::string> files;  ///< for verbs with several inputs
  std::string file;                ///< for verbs with one input; "-" for standard input
  std::string tokenizer;           ///< path of tokenizer.json or a GGUF file
  std::string out = "-";           ///< output, "-" for standard output
  std::string format;         ///< text, bin, llmc or npy; empty for the one of the name
  std::string end_of_text;    ///< for `pack`: token behind each file
  bool plain = false;         ///< without the ids that the post-processor adds
  bool keep_special = false;  ///< for `decode`: with special tokens
  bool replace = false;       ///< U+FFFD in place of bytes that are not UTF-8
  bool json = false;          ///< print facts as JSON
};

/// `encode`: writes the ids of a text.
/// @error{corrupt, the text is not UTF-8 and `replace` is not set}
/// @error{invalid_argument, the format needs a file}
[[nodiscard]] command_result tokens_encode(const tokens_options& options, output& out);
/// `decode`: writes the text of ids.
/// @error{corrupt, torn, the file does not hold ids}
/// @error{out_of_range, an id is not in the vocabulary}
[[nodiscard]] command_result tokens_decode(const tokens_options& options, output& out);
/// `count`: prints the number of ids of texts.
/// @error{corrupt, a text is not UTF-8 and `replace` is not set}
[[nodiscard]] command_result tokens_count(const tokens_options& options, output& out);
/// `pack`: writes the ids of many texts to one file, with an end-of-text id behind each.
/// @error{not_found, the vocabulary has no such token, or there is no text}
/// @error{corrupt, a text is not UTF-8 and `replace` is not set}
[[nodiscard]] command_result tokens_pack(const tokens_options& options, output& out);

/// Adds the command `tokens` and its verbs to the parser.
/// @param chosen  Receives the call that performs the verb of the command line.
void add_tokens_verbs(CLI::App& app, std::function<command_result(output&)>& chosen);

}  // namespace weir::tools
