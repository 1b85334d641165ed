// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a run has learned, outside of it: parameters to and from HN4 volumes, and the
/// Stream phase that continues a prompt.
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

/// Parameters of a model with what is needed to build it again.
struct parameter_set {
  struct entry {
    std::string name;  ///< as in checkpoints, "block0.level2.query"
    shape_vector shape;
    byte_vector bytes;  ///< fp32, row-major, little-endian
  };
  std::string model;           ///< "key = value" lines, the model's shape
  std::vector<entry> entries;  ///< in the order of the message
  std::uint64_t hash = 0;      ///< the `parameter_hash` of metrics.json
};

/// Parameters of the newest valid checkpoint of a run folder (or of its checkpoint
/// folder).
/// @error{not_found, no folder or no checkpoint} @error{as `storage::load_checkpoint`}
[[nodiscard]] result<parameter_set> parameters_of_run(const std::string& folder);

/// One Tensogram message, one object per parameter under its name. Equal parameters give
/// equal bytes.
[[nodiscard]] result<byte_vector> encode_parameters(const parameter_set& parameters);
/// @error{corrupt, a hash, shape or type is wrong; names the object}
[[nodiscard]] result<parameter_set> decode_parameters(bytes_view message,
                                                      const std::string& where);

/// Stores a message of parameters under a tag of an HN4 volume, which it creates if there
/// is none.
/// @return the parameter hash. @error{as `parameters_of_run`; no_space, io, from the
/// volume}
[[nodiscard]] result<std::uint64_t> store_parameters(const std::string& run_folder,
                                                     const std::string& volume,
                                                     const std::string& tag);
/// Reads them back, every CRC verified. @error{not_found, no such volume or tag}
/// @error{corrupt, as above}
[[nodiscard]] result<parameter_set> load_parameters(const std::string& volume,
                                                    const std::string& tag);

/// Where `speak` takes its model from, and how it continues.
struct speak_request {
  std::string
      source;  ///< a run folder (with its context) or a volume (with an empty context)
  std::string tag = "prose";  ///< in a volume
  std::string prompt;
  std::uint64_t tokens = 200;
  double temperature = 0.8;  ///< 0 takes the likeliest token
  std::uint64_t seed = 1;
};

/// What was said, and by whom.
struct speak_report {
  std::string text;  ///< without the prompt; end-of-text is a line feed
  std::uint64_t tokens = 0;
  std::uint64_t parameter_hash = 0;
  std::uint64_t context_hash = 0;      ///< after the last token
  models::memory_norm largest_memory;  ///< after the last token
  bool with_context = false;           ///< whether the source had one
  double seconds = 0;                  ///< from the prompt's first token on
};

/// The Stream phase: processes the prompt, then draws tokens and feeds them back. Equal
/// requests on equal state give equal text. `on_text` gets each piece as it comes; false
/// ends early.
/// @error{not_found, invalid_argument, corrupt, as the source says}
/// @threads{may be called from any thread}
[[nodiscard]] result<speak_report> speak(
    const speak_request& request,
    const std::function<bool(std::string_view)>& on_text = {});

}  // namespace weir::actors
