// SPDX-License-Identifier: Apache-2.0
/// @file
/// Use of a run's parameters outside of the run: they are stored in HN4 volumes and
/// loaded from them, and `speak` continues a prompt.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/models/prose.hpp"

namespace weir::actors {

/// The parameters of a model, with what is needed to build the model again.
struct parameter_set {
  /// One parameter.
  struct entry {
    std::string name;    ///< as in checkpoints, e.g. "block0.level2.query"
    shape_vector shape;  ///< [rows, columns] or [n]
    byte_vector bytes;   ///< fp32, row-major, little-endian
  };
  std::string model;           ///< shape of the model as "key = value" lines
  std::vector<entry> entries;  ///< in the order of the message
  std::uint64_t hash = 0;      ///< the `parameter_hash` of `metrics.json`
};

/// Reads the parameters of the newest valid checkpoint of a run. Also returns the errors
/// of `storage::load_checkpoint`.
/// @param folder  The run folder, or its folder of checkpoints.
/// @error{not_found, there is no such folder or no checkpoint in it}
/// @error{config_mismatch, the model was stored under other equations}
/// @threads{safe to call concurrently}
[[nodiscard]] result<parameter_set> parameters_of_run(const std::string& folder);

/// Encodes parameters as one Tensogram message with one object for each, under its name.
/// Equal parameters give equal bytes.
/// @error{invalid_argument, a shape does not fit its bytes}
/// @threads{safe to call concurrently}
[[nodiscard]] result<byte_vector> encode_parameters(const parameter_set& parameters);
/// Decodes parameters from a message. The error names the object that is wrong.
/// @param origin  Source of the message, for errors.
/// @error{corrupt, a hash, a name, a shape or a type is wrong}
/// @threads{safe to call concurrently}
[[nodiscard]] result<parameter_set> decode_parameters(bytes_view message,
                                                      const std::string& origin);

/// Stores the parameters of a run under a tag of an HN4 volume, which is created if it
/// does not exist. Also returns the errors of `parameters_of_run`.
/// @returns the hash of the parameters.
/// @error{no_space, the volume is full} @error{io, writing failed}
/// @threads{may be called from any thread; one writer of a volume at a time}
[[nodiscard]] result<std::uint64_t> store_parameters(const std::string& run_folder,
                                                     const std::string& volume,
                                                     const std::string& tag);
/// Loads the parameters that `store_parameters` has stored, and verifies every checksum.
/// Also returns the errors of `decode_parameters`.
/// @error{not_found, there is no such volume or tag}
/// @error{unsupported, the tag holds a model of another architecture; the message names
/// the command that uses it}
/// @threads{safe to call concurrently}
[[nodiscard]] result<parameter_set> load_parameters(const std::string& volume,
                                                    const std::string& tag);

/// Where `speak` takes its model from, and how it continues the prompt.
struct speak_request {
  /// A run folder, whose model has the context of the run, or a volume, whose model has
  /// an empty context.
  std::string source;
  std::string tag = "prose";   ///< tag of the parameters, if `source` is a volume
  std::string prompt;          ///< bytes that are processed first
  std::uint64_t tokens = 200;  ///< number of tokens to draw
  double temperature = 0.8;    ///< 0 always takes the likeliest token
  std::uint64_t seed = 1;      ///< seed of the random numbers that draw tokens
  /// Instruction set of the model's kernels: "auto", or one of
  /// `models::instruction_sets_here`.
  std::string kernels = "auto";
};

/// Result of `speak`.
struct speak_report {
  std::string text;          ///< without the prompt; end-of-text becomes a line feed
  std::uint64_t tokens = 0;  ///< number of tokens drawn
  /// Digest of the parameters.
  std::uint64_t parameter_hash = 0;
  std::uint64_t context_hash = 0;      ///< after the last token
  models::memory_norm largest_memory;  ///< after the last token
  bool with_context = false;           ///< true if the source was a run folder
  std::string instruction_set;         ///< that of the model's kernels
  double seconds = 0;                  ///< from the first token of the prompt on
};

/// Processes a prompt, then draws tokens and feeds each of them back, as the Stream
/// phase of a run does. Equal requests on equal states give equal text.
/// @param on_text  Gets each piece of text as it is drawn; returns false to end early.
/// @error{not_found, the source does not exist, or has no checkpoint or tag}
/// @error{invalid_argument, the temperature is negative; the prompt is empty and the
/// context has nothing to continue; or the processor lacks the instruction set}
/// @error{unsupported, the model reads ids of a tokenizer, or is of another architecture}
/// @error{corrupt, the checkpoint or the message is damaged}
/// @error{config_mismatch, the model was stored under other equations}
/// @threads{may be called from any thread}
[[nodiscard]] result<speak_report> speak(
    const speak_request& request,
    const std::function<bool(std::string_view)>& on_text = {});

}  // namespace weir::actors
