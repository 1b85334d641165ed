// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir embed`, `weir generate` and `weir chat`: their options, and the functions that
/// perform them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace CLI {
class App;
}

namespace weir::tools {

/// What `embed` and `generate` have: the model, the form of the input, and the output.
struct text_options {
  std::string volume;          ///< HN4 volume
  std::string tag;             ///< tag of the model; may be empty if there is one model
  std::string field;           ///< string of JSON lines; empty for lines of text
  std::string skip_bad;        ///< file for the list of bad lines; empty: they are errors
  std::string out;             ///< file to write
  std::uint32_t workers = 0;   ///< threads; 0: one for each processor
  std::uint32_t batch = 32;    ///< texts that are computed together
  std::string run;             ///< run folder; empty: the run cannot be resumed
  std::string every = "10 s";  ///< items or time between two checkpoints
  std::string kernels = "auto";  ///< instruction set
  bool toml = false;             ///< print the pipeline instead of running it
  bool truncate = false;         ///< cuts texts that are too long
  bool json = false;             ///< print facts as JSON
};

/// Options of `weir embed`.
struct embed_options : text_options {
  std::vector<std::string> files;  ///< files of texts
  std::uint32_t stages = 1;        ///< stages that share the layers
};

/// Options of `weir generate`.
struct generate_options : text_options {
  std::string prompts;             ///< file of prompts
  std::uint64_t max_tokens = 256;  ///< tokens of the longest answer
  double temperature = 0;          ///< 0 takes the likeliest token
  std::uint64_t seed = 1;          ///< seed of the first line
  /// Tokens of a batch for which there is memory; 0: as many as `kv_memory` holds.
  std::uint64_t context_tokens = 0;
  std::uint64_t kv_memory = 0;  ///< bytes of keys and values; 0: the default
};

/// Options of `weir chat`.
struct chat_options {
  std::string volume;                  ///< HN4 volume
  std::string tag;                     ///< tag of the model; may be empty
  std::optional<std::string> system;   ///< instruction; unset: that of the template
  std::string chat_template = "auto";  ///< "auto", "chatml", "llama3" or "none"
  std::uint64_t max_tokens = 512;      ///< tokens of the longest answer
  /// Tokens of a conversation; 0: as many as `kv_memory` holds and the model takes.
  std::uint64_t context_tokens = 0;
  std::uint64_t kv_memory = 0;        ///< bytes of keys and values; 0: the default
  double temperature = 0.2;           ///< 0 takes the likeliest token
  double top_p = 0.9;                 ///< probability of the tokens that count
  std::uint32_t top_k = 0;            ///< tokens that count; 0: all
  std::optional<std::uint64_t> seed;  ///< unset: drawn at the start
  std::uint32_t workers = 0;          ///< threads; 0: one for each processor
  std::string kernels = "auto";       ///< instruction set
};

/// Performs `weir embed`: writes the embeddings of texts as Tensogram messages.
/// @error{corrupt, a line is no document and may not be skipped}
/// @error{unsupported, the model is no encoder}
/// @error{io, no_space, a file cannot be read or written}
/// Errors of `record_of_model` and `weir::run` are passed on.
[[nodiscard]] command_result embed_command(const embed_options& options, output& out);

/// Performs `weir generate`: writes the answers to prompts as lines of JSON.
/// @error{corrupt, a line is no prompt and may not be skipped}
/// @error{unsupported, the model is no decoder}
/// @error{out_of_memory, the memory of a batch is too small for one prompt, which may not
/// be skipped}
/// @error{io, no_space, a file cannot be read or written}
/// Errors of `record_of_model` and `weir::run` are passed on.
[[nodiscard]] command_result generate_command(const generate_options& options,
                                              output& out);

/// Performs `weir chat`: a conversation at the terminal, up to the end of the input.
/// @error{unsupported, the model is no decoder, or its chat template is not known}
/// @error{out_of_memory, there is too little memory for the conversation}
/// Errors of `load_decoder` are passed on.
[[nodiscard]] command_result chat_command(const chat_options& options, output& out);

/// Adds the option `--kernels` to a verb that computes a model.
/// @param kernels  Receives the instruction set; keeps its default without the option.
void add_kernels_option(CLI::App& verb, std::string& kernels);

/// Adds the commands `embed`, `generate` and `chat` to the parser.
/// @param chosen  Receives the call that performs the command of the command line.
void add_text_verbs(CLI::App& app, std::function<command_result(output&)>& chosen);

}  // namespace weir::tools
