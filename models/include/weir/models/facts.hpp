// SPDX-License-Identifier: Apache-2.0
/// @file
/// Facts about a model: its architecture, its sizes and the constants of its equations,
/// from the keys of a GGUF file or from a `config.json` of Hugging Face.
///
/// A property that the layers of this project do not compute is an error that names it,
/// because a model that is almost the right one gives wrong answers without a sign.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weir/base/bytes.hpp"
#include "weir/base/container/gguf_metadata.hpp"
#include "weir/base/error.hpp"

namespace weir::models {

/// Families of models.
enum class architecture : std::uint8_t {
  llama,  ///< decoder: RMS norms, grouped queries, rotary positions, gated feed-forward
  bert,   ///< encoder: layer norms behind the sums, learned positions, erf GELU
};
/// Returns the name of an architecture: "llama" or "bert".
/// @threads{safe to call concurrently}
[[nodiscard]] std::string_view name_of(architecture family) noexcept;

/// How the rows of an encoder become one embedding.
enum class pooling : std::uint8_t {
  none,   ///< the file does not say
  mean,   ///< mean of all rows
  first,  ///< the row of the first token
};
/// Returns the name of a pooling: "none", "mean" or "first".
/// @threads{safe to call concurrently}
[[nodiscard]] std::string_view name_of(pooling kind) noexcept;

/// Facts about a model. All sizes count elements.
struct stored_facts {
  architecture family = architecture::llama;   ///< architecture
  std::string name;                            ///< name of the model; may be empty
  std::uint32_t layers = 0;                    ///< number of layers
  std::uint32_t width = 0;                     ///< features of a row
  std::uint32_t feed_forward = 0;              ///< features inside the feed-forward part
  std::uint32_t heads = 0;                     ///< heads of queries
  std::uint32_t kv_heads = 0;                  ///< heads of keys and values
  std::uint32_t head_width = 0;                ///< features of one head
  std::uint32_t vocabulary = 0;                ///< token ids
  std::uint32_t context_limit = 0;             ///< largest number of tokens of a context
  std::uint32_t token_types = 0;               ///< types of tokens of an encoder, else 0
  float rope_base = 0;                         ///< base of rotary positions, else 0
  float norm_epsilon = 0;                      ///< constant of the norms
  bool tied_embedding = false;                 ///< the token embedding is the output, too
  pooling pool = pooling::none;                ///< pooling of an encoder
  std::optional<std::uint32_t> begin_token{};  ///< id before a text, if the file has one
  std::optional<std::uint32_t> end_token{};    ///< id that ends an answer, if known

  friend bool operator==(const stored_facts&, const stored_facts&) = default;
};

/// Name and shape of one tensor of a file.
struct named_tensor {
  std::string name;         ///< name in the file
  std::string type;         ///< name of its element type in the file, such as F32 or Q4_1
  shape_vector shape;       ///< elements, outermost first
  std::uint64_t bytes = 0;  ///< length of its data
};

/// Reads the facts from the keys of a GGUF file.
/// @param tensors  The tensors of the file.
/// @error{unsupported, the architecture or a property of it is not known; named}
/// @error{corrupt, a key is missing, or has a wrong type or an impossible value}
/// @threads{safe to call concurrently}
/// @source{GGUF specification, standardized key-value pairs; llama.cpp's names}
[[nodiscard]] result<stored_facts> facts_of_gguf(const gguf_metadata& keys,
                                                 std::span<const named_tensor> tensors);

/// Reads the facts from the text of a `config.json`.
/// @param name  Name of the file for error messages.
/// @error{unsupported, the architecture or a property of it is not known; named}
/// @error{corrupt, no JSON, or a member is missing or has an impossible value}
/// @threads{safe to call concurrently}
/// @source{Hugging Face transformers 5, LlamaConfig and BertConfig}
[[nodiscard]] result<stored_facts> facts_of_config(bytes_view json,
                                                   const std::string& name);
/// Writes a `config.json` with which Hugging Face transformers load the weights.
/// @param type  Name of the element type of the weights there, such as "float32".
/// @threads{safe to call concurrently}
[[nodiscard]] std::string config_of(const stored_facts& facts, std::string_view type);
/// Adds the keys of the facts to the header of a GGUF file.
/// @threads{safe to call concurrently for different headers}
void add_gguf_keys(const stored_facts& facts, gguf_maker& to);

/// Writes facts as a JSON object. `facts_of_json` reads it.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string json_of(const stored_facts& facts);
/// Reads facts that `json_of` has written.
/// @error{corrupt, not such an object, or the facts contradict each other}
/// @threads{safe to call concurrently}
[[nodiscard]] result<stored_facts> facts_of_json(std::string_view json);

/// Checks that the sizes are possible and fit together.
/// @error{corrupt, they do not; the message names the first such size}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> check_facts(const stored_facts& facts);

}  // namespace weir::models
