// SPDX-License-Identifier: Apache-2.0
/// @file
/// Weights of dense layers in the order in which the kernels read them.
///
/// A matrix of weights has one row of `inputs` weights for each output, as in files. A
/// *panel* holds the rows of 16 outputs with equal inputs beside each other, so that one
/// or two vector registers hold the weights of all 16 outputs for one input:
///
/// | type | panel |
/// | --- | --- |
/// | f32 | [inputs][16] fp32 |
/// | q8_0 | for each block of 32 inputs: 16 scales as fp16, then [32][16] int8 |
/// | q4_1 | for each block: 16 scales and 16 minima as fp16, then [16][16] bytes |
///
/// A byte of q4_1 holds input k of its block in the low four bits and input k + 16 in the
/// high ones, as in files. Panels have as many bytes as the rows that they replace. If
/// the number of outputs is no multiple of 16, the last panel ends with outputs of weight
/// zero. All numbers are little-endian.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::models {

/// Types in which weights are stored and multiplied.
enum class weight_type : std::uint8_t {
  f32,   ///< fp32
  q8_0,  ///< scale * int8; one fp16 scale for 32 weights; 34 bytes
  q4_1   ///< scale * (4 bits) + minimum; both fp16, for 32 weights; 20 bytes
};
/// Returns the name of a type: "f32", "q8_0" or "q4_1".
/// @threads{pure}
[[nodiscard]] std::string_view name_of(weight_type type) noexcept;

/// Outputs of a panel.
inline constexpr std::uint64_t panel_outputs = 16;
/// Weights that share a scale in the quantised types, along the inputs.
inline constexpr std::uint64_t block_inputs = 32;

/// Type and extents of a matrix of weights.
struct panel_shape {
  weight_type type = weight_type::f32;  ///< type of every weight
  std::uint64_t outputs = 0;            ///< number of rows in a file
  std::uint64_t inputs = 0;             ///< weights of a row

  /// Returns the number of panels, of which the last may have fewer outputs than 16.
  [[nodiscard]] std::uint64_t panels() const noexcept {
    return (outputs + panel_outputs - 1) / panel_outputs;
  }
  /// Returns the bytes of one row in a file.
  /// @pre `check_shape` accepts the shape.
  [[nodiscard]] std::uint64_t row_bytes() const noexcept;
  /// Returns the bytes of one panel.
  /// @pre `check_shape` accepts the shape.
  [[nodiscard]] std::uint64_t panel_bytes() const noexcept {
    return row_bytes() * panel_outputs;
  }
  /// Returns the bytes of all panels.
  /// @pre `check_shape` accepts the shape.
  [[nodiscard]] std::uint64_t packed_bytes() const noexcept {
    return panels() * panel_bytes();
  }
  friend bool operator==(const panel_shape&, const panel_shape&) = default;
};

/// Checks that a matrix of this shape can be stored as panels.
/// @param name  Name of the matrix in messages.
/// @error{invalid_argument, an extent is 0, or the inputs of a quantised matrix are no
/// multiple of 32}
/// @error{out_of_range, an extent is 2^31 or larger}
/// @threads{pure}
[[nodiscard]] result<void> check_shape(std::string_view name, const panel_shape& shape);

/// Packs panels from the rows of a matrix.
/// @param name  Name of the matrix in messages.
/// @param shape  Type and extents of the matrix.
/// @param rows  All rows as in files: fp32, or blocks of GGUF's types Q8_0 and Q4_1.
/// @param pair_rows  0: output i is row i. Otherwise the width of a head whose rows lie
/// in pairs that RoPE turns, as in GGUF files of Llama; the outputs are then in the order
/// of Hugging Face, first halves of the pairs first. See `row_of_pairs`.
/// @param first_panel  Number of the first panel to pack.
/// @param panels  Destination of whole panels from `first_panel` on.
/// @error{invalid_argument, `check_shape` refuses the shape; `rows` has another length
/// than the shape; `panels` is no whole number of panels of the matrix; `pair_rows` is
/// odd or does not divide the outputs}
/// @threads{safe to call concurrently for different destinations}
[[nodiscard]] result<void> pack_panels(std::string_view name, const panel_shape& shape,
                                       bytes_view rows, std::uint64_t pair_rows,
                                       std::uint64_t first_panel, mutable_bytes panels);

/// Whole panels that follow each other in memory.
struct panel_run {
  std::uint64_t first = 0;  ///< number of the first panel
  bytes_view bytes;         ///< the panels; a multiple of `panel_shape::panel_bytes`
};

/// The panels of a matrix. A matrix that is stored in several places has several runs.
/// It does not own its bytes.
struct panel_matrix {
  panel_shape shape;            ///< type and extents
  std::vector<panel_run> runs;  ///< all panels, in their order
};

/// Checks that the runs of a matrix hold all its panels, each once and in order.
/// @param name  Name of the matrix in messages.
/// @error{invalid_argument, `check_shape` refuses the shape}
/// @error{corrupt, a run has no whole number of panels, or does not begin where the run
/// before it ends, or the runs end before or after the last panel}
/// @threads{pure}
[[nodiscard]] result<void> check_matrix(std::string_view name,
                                        const panel_matrix& matrix);

/// Returns the bytes of a panel.
/// @pre `check_matrix` accepts the matrix, and `panel` is below `panel_shape::panels`.
/// @threads{pure}
[[nodiscard]] const std::byte* panel_address(const panel_matrix& matrix,
                                             std::uint64_t panel) noexcept;

/// Writes the weights of one output as fp32. A quantised weight is the product of scale
/// and integer, to which q4_1 adds the minimum with one rounding.
/// @pre `check_matrix` accepts the matrix, and `output` is below its outputs.
/// @shape{weights: [inputs]}
/// @threads{safe to call concurrently}
void read_output(const panel_matrix& matrix, std::uint64_t output,
                 std::span<float> weights) noexcept;

/// Where a model gets its weights from. Names are those of the model's files at Hugging
/// Face, e.g. "model.layers.0.mlp.up_proj.weight".
/// @threads{thread-compatible}
class weight_source {
 public:
  virtual ~weight_source() = default;
  /// Returns a matrix. Its bytes live as long as this object.
  /// @error{not_found, there is no such matrix}
  [[nodiscard]] virtual result<panel_matrix> matrix(std::string_view name) const = 0;
  /// Returns a vector, such as the weights of a norm or a bias. It lives as long as this
  /// object.
  /// @error{not_found, there is no such vector}
  [[nodiscard]] virtual result<std::span<const float>> vector(
      std::string_view name) const = 0;
};

}  // namespace weir::models
