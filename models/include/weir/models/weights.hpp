// SPDX-License-Identifier: Apache-2.0
/// @file
/// The weights of models: their roles, their names in GGUF and safetensors files, their
/// element types, and views of them that do not depend on the file they came from.
///
/// Terms: a *weight* is one tensor of a model. A matrix has one row per output and one
/// column per input. A *block* is a group of 32 elements of a row that share a scale.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/base/hash.hpp"
#include "weir/models/facts.hpp"

namespace weir::models {

/// Element types of weights.
enum class stored_type : std::uint8_t {
  f32,   ///< 4 bytes an element
  f16,   ///< 2 bytes an element
  bf16,  ///< 2 bytes an element
  q8_0,  ///< block of 34 bytes: fp16 scale, 32 signed bytes
  q4_1,  ///< block of 20 bytes: fp16 scale, fp16 minimum, 16 bytes of two elements each
};
/// Number of elements of a block.
inline constexpr std::uint32_t block_elements = 32;

/// Returns the name of a type in files, such as "F32" or "Q8_0".
/// @threads{safe to call concurrently}
[[nodiscard]] std::string_view name_of(stored_type type) noexcept;
/// Finds a type by its name in files.
/// @error{unsupported, no such type; the message has the name}
/// @threads{safe to call concurrently}
[[nodiscard]] result<stored_type> stored_type_named(std::string_view name);
/// Returns the number of a type in GGUF files.
/// @threads{safe to call concurrently} @source{GGUF specification, ggml_type}
[[nodiscard]] std::uint32_t gguf_number(stored_type type) noexcept;
/// Returns the bytes of a row, or nothing if a row of so many elements does not consist
/// of whole blocks or is too long.
/// @threads{safe to call concurrently}
[[nodiscard]] std::optional<std::uint64_t> row_bytes(stored_type type,
                                                     std::uint64_t columns) noexcept;

/// Decodes a row to fp32. Decoding is exact but for one rounding of Q4_1, whose element
/// is the exact product of scale and number plus the minimum.
/// @param row  `row_bytes(type, to.size())` bytes.
/// @threads{safe to call concurrently}
void decode_row(stored_type type, bytes_view row, std::span<float> to) noexcept;
/// Encodes a row as Q8_0, with the scale of each block chosen so that its largest
/// magnitude becomes 127.
/// @param from  A multiple of `block_elements` elements.
/// @param to    `row_bytes(stored_type::q8_0, from.size())` bytes.
/// @threads{safe to call concurrently}
/// @source{llama.cpp, quantize_row_q8_0_ref}
void encode_q8_0(std::span<const float> from, mutable_bytes to) noexcept;

/// Task of a weight in a model. The order is that of `weight_list`.
enum class weight_role : std::uint8_t {
  token_embedding,
  position_embedding,
  type_embedding,
  embedding_norm,
  embedding_norm_bias,
  attention_norm,  ///< llama: before the attention; bert: behind its sum
  attention_norm_bias,
  query,
  query_bias,
  key,
  key_bias,
  value,
  value_bias,
  attention_output,
  attention_output_bias,
  feed_forward_norm,  ///< llama: before the feed-forward part; bert: behind its sum
  feed_forward_norm_bias,
  gate,
  up,
  up_bias,
  down,
  down_bias,
  final_norm,
  output,
};
/// Returns the name of a role, such as "attention_output".
/// @threads{safe to call concurrently}
[[nodiscard]] std::string_view name_of(weight_role role) noexcept;

/// Families of files of weights.
enum class weight_files : std::uint8_t {
  gguf,         ///< names of llama.cpp; queries and keys of Llama in pairs
  safetensors,  ///< names of Hugging Face; queries and keys in halves
};

/// One weight that a model has.
struct weight_info {
  weight_role role = weight_role::token_embedding;  ///< its task
  std::uint32_t layer = 0;    ///< layer, 0 for weights outside of layers
  bool in_layer = false;      ///< it belongs to a layer
  std::uint64_t rows = 1;     ///< outputs; 1 for vectors
  std::uint64_t columns = 0;  ///< inputs
  bool vector = false;        ///< it has one dimension in files
  std::string gguf_name;      ///< name in GGUF files
  std::string hf_name;        ///< name in safetensors files of Hugging Face
  /// Features of a head if its rows are those of queries or keys with rotary positions,
  /// else 0. GGUF files hold such rows in another order.
  std::uint32_t rotary_width = 0;
};
/// Returns all weights of a model in a fixed order.
/// @pre The facts fulfil `check_facts`.
/// @threads{safe to call concurrently}
[[nodiscard]] std::vector<weight_info> weight_list(const stored_facts& facts);

/// A weight and the tensor of a file that holds it.
struct bound_weight {
  weight_info info;                     ///< the weight
  stored_type type = stored_type::f32;  ///< element type of the tensor
  std::size_t tensor = 0;               ///< number of the tensor in its file
};
/// Finds the tensor of every weight.
///
/// Tensors that a model may have and that the layers do not need are ignored: the pooler
/// and the heads of encoders, position ids, and the output of tied embeddings.
/// @error{corrupt, a tensor is missing or has another shape; named}
/// @error{unsupported, a tensor has a type or a name that is not known; named}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<bound_weight>> bind_weights(
    const stored_facts& facts, weight_files files, std::span<const named_tensor> tensors);

/// The bytes of a weight as a file has them, read row by row in the order of the model.
/// @threads{immutable; safe to use concurrently}
class weight_view {
 public:
  /// @param bytes  Data of the tensor, which must outlive the view.
  /// @pre `bytes` has as many bytes as rows and columns ask for
  weight_view(const weight_info& info, stored_type type, weight_files files,
              bytes_view bytes);

  /// Returns the element type.
  [[nodiscard]] stored_type type() const noexcept { return type_; }
  /// Returns the number of rows.
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  /// Returns the number of columns.
  [[nodiscard]] std::uint64_t columns() const noexcept { return columns_; }
  /// Returns the number of the row in the file that holds row `row` of the model.
  /// @pre `row` is below `rows()`
  [[nodiscard]] std::uint64_t row_in_file(std::uint64_t row) const noexcept;
  /// Returns the bytes of a row of the model.
  /// @pre `row` is below `rows()`
  [[nodiscard]] bytes_view row(std::uint64_t row) const noexcept;
  /// Decodes a row of the model to fp32.
  /// @pre `row` is below `rows()`, and `to` has `columns()` elements
  void read(std::uint64_t row, std::span<float> to) const noexcept;

 private:
  stored_type type_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  std::uint64_t stride_;     ///< bytes of a row
  std::uint32_t pairs_ = 0;  ///< features of a head whose rows are in pairs, else 0
  bytes_view bytes_;
};

/// Digest of the values of the weights.
///
/// The digest is a function of the decoded fp32 values in the order of the model. Files
/// of different formats therefore have equal digests if their weights are equal, and so
/// has a quantised file and its decoded copy.
/// @threads{thread-compatible}
class weights_digest {
 public:
  /// Adds a weight. The weights of a model are added in the order of `weight_list`.
  void add(const weight_info& info, const weight_view& view);
  /// Returns the digest of what was added.
  [[nodiscard]] std::uint64_t value() const noexcept { return hash_.digest(); }

 private:
  xxh3_stream hash_;
};

}  // namespace weir::models
