// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir embed` and `weir generate`: their options, and the functions that perform them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace CLI {
class App;
}

namespace weir::tools {

/// What both verbs have: the model, the form of the input, and the output.
struct text_options {
  std::string volume;         ///< HN4 volume
  std::string tag;            ///< tag of the model; may be empty if there is one model
  std::string field;          ///< string of JSON lines; empty for lines of text
  std::string skip_bad;       ///< file for the list of bad lines; empty: they are errors
  std::string out;            ///< file to write
  std::uint32_t workers = 0;  ///< threads; 0: one for each processor
  std::uint32_t batch = 32;   ///< texts that are computed together
  bool truncate = false;      ///< cuts texts that are too long
  bool json = false;          ///< print facts as JSON
};

/// Options of `weir embed`.
struct embed_options : text_options {
  std::vector<std::string> files;  ///< files of texts
};

/// Options of `weir generate`.
struct generate_options : text_options {
  std::string prompts;                  ///< file of prompts
  std::uint64_t max_tokens = 256;       ///< tokens of the longest answer
  double temperature = 0;               ///< 0 takes the likeliest token
  std::uint64_t seed = 1;               ///< seed of the first line
  std::uint64_t context_tokens = 8192;  ///< tokens of a batch for which there is memory
};

/// Performs `weir embed`: writes the embeddings of texts as Tensogram messages.
/// @error{corrupt, a line is no document and may not be skipped}
/// @error{unsupported, the model is no encoder}
/// @error{io, no_space, a file cannot be read or written}
/// Errors of `load_model` are passed on.
[[nodiscard]] command_result embed_command(const embed_options& options, output& out);

/// Performs `weir generate`: writes the answers to prompts as lines of JSON.
/// @error{corrupt, a line is no prompt and may not be skipped}
/// @error{unsupported, the model is no decoder}
/// @error{out_of_memory, the memory of a batch is too small for one prompt}
/// @error{io, no_space, a file cannot be read or written}
/// Errors of `load_model` are passed on.
[[nodiscard]] command_result generate_command(const generate_options& options,
                                              output& out);

/// Adds the commands `embed` and `generate` to the parser.
/// @param chosen  Receives the call that performs the command of the command line.
void add_text_verbs(CLI::App& app, std::function<command_result(output&)>& chosen);

}  // namespace weir::tools
