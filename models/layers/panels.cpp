// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packs, checks and reads panels.
#include "weir/models/panels.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "weir/base/small_floats.hpp"
#include "weir/models/rotary_rows.hpp"

namespace weir::models {

namespace {

/// Bytes of a block of a row, as files have it.
constexpr std::uint64_t q8_row_block = 34;
constexpr std::uint64_t q4_row_block = 20;
/// Kernels count in 32-bit integers.
constexpr std::uint64_t max_extent = (std::uint64_t{1} << 31) - 1;
/// Bytes of an fp16.
constexpr std::uint64_t half_bytes = 2;
/// Bytes of the scales, or of the minima, of a block of a panel.
constexpr std::uint64_t scales_bytes = half_bytes * panel_outputs;

/// Copies one row of a file to its place in a panel. The destination of output `lane`
/// begins at `panel`; panels of q8_0 and q4_1 interleave parts of a block.
///
/// The row is read once from the beginning to the end.
void place_row(weight_type type, const std::byte* row, std::uint64_t inputs,
               std::uint64_t lane, std::byte* panel) {
  if (type == weight_type::f32) {
    for (std::uint64_t k = 0; k < inputs; ++k) {
      std::memcpy(panel + (k * panel_outputs + lane) * sizeof(float),
                  row + k * sizeof(float), sizeof(float));
    }
    return;
  }
  const bool q8 = type == weight_type::q8_0;
  // The codes of one input stand side by side for all outputs of the panel.
  const std::uint64_t halves = q8 ? 1 : 2;  // scale; or scale and minimum
  const std::uint64_t codes = q8 ? block_inputs : block_inputs / 2;
  for (std::uint64_t b = 0; b < inputs / block_inputs; ++b) {
    for (std::uint64_t h = 0; h < halves; ++h) {
      std::memcpy(panel + h * scales_bytes + lane * half_bytes, row, half_bytes);
      row += half_bytes;
    }
    panel += halves * scales_bytes;
    // Pairs of codes stay together in a byte.
    for (std::uint64_t k = 0; k < codes; ++k) {
      panel[k * panel_outputs + lane] = row[k];
    }
    row += codes;
    panel += codes * panel_outputs;
  }
}

/// Returns the fp16 at index `lane` of the scales or minima at an address. Addresses
/// need not be aligned.
float half_at(const std::byte* halves, std::uint64_t lane) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, halves + lane * half_bytes, half_bytes);
  return fp16_to_float(bits);
}

/// One output of a block, for tests and lookups.
void read_q8(const std::byte* block, std::uint64_t lane, float* weights) {
  const float scale = half_at(block, lane);
  const std::byte* codes = block + scales_bytes;
  for (std::uint64_t k = 0; k < block_inputs; ++k) {
    const auto code = static_cast<std::int8_t>(codes[k * panel_outputs + lane]);
    weights[k] = scale * static_cast<float>(code);
  }
}

/// The same arithmetic as the decoding of rows, so results are equal.
void read_q4(const std::byte* block, std::uint64_t lane, float* weights) {
  const float scale = half_at(block, lane);
  const float minimum = half_at(block + scales_bytes, lane);
  const std::byte* codes = block + 2 * scales_bytes;
  constexpr std::uint64_t half = block_inputs / 2;
  for (std::uint64_t k = 0; k < half; ++k) {
    const auto pair = static_cast<std::uint32_t>(codes[k * panel_outputs + lane]);
    weights[k] = scale * static_cast<float>(pair & 15U) + minimum;
    weights[k + half] = scale * static_cast<float>(pair >> 4) + minimum;
  }
}

/// Packing may be done piece by piece, so the space is a range of panels.
result<void> check_pack(std::string_view name, const panel_shape& shape, bytes_view rows,
                        std::uint64_t pair_rows, std::uint64_t first_panel,
                        std::uint64_t bytes) {
  WEIR_CHECK(check_shape(name, shape));
  if (rows.size() != shape.outputs * shape.row_bytes()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot pack the weights \"{}\": expected {} bytes of rows, "
                             "found {}",
                             name, shape.outputs * shape.row_bytes(), rows.size()));
  }
  if (pair_rows != 0 && (pair_rows % 2 != 0 || shape.outputs % pair_rows != 0)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot pack the weights \"{}\": expected an even width of "
                             "heads that divides {} outputs, found {}",
                             name, shape.outputs, pair_rows));
  }
  // The comparisons cannot overflow.
  const std::uint64_t count = bytes / shape.panel_bytes();
  if (bytes % shape.panel_bytes() != 0 || first_panel > shape.panels() ||
      count > shape.panels() - first_panel) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot pack the weights \"{}\": expected space for whole "
                    "panels of {} bytes among {}, found {} bytes from panel {} on",
                    name, shape.panel_bytes(), shape.panels(), bytes, first_panel));
  }
  return {};
}

}  // namespace

/// The names are those of messages.
std::string_view name_of(weight_type type) noexcept {
  switch (type) {
    case weight_type::f32: return "f32";
    case weight_type::q8_0: return "q8_0";
    case weight_type::q4_1: return "q4_1";
  }
  return "unknown";
}

/// The number of inputs is a multiple of the block.
std::uint64_t panel_shape::row_bytes() const noexcept {
  switch (type) {
    case weight_type::f32: return inputs * sizeof(float);
    case weight_type::q8_0: return inputs / block_inputs * q8_row_block;
    case weight_type::q4_1: return inputs / block_inputs * q4_row_block;
  }
  return 0;
}

/// Extents are limited first, so that products of them fit.
result<void> check_shape(std::string_view name, const panel_shape& shape) {
  if (shape.outputs > max_extent || shape.inputs > max_extent) {
    return error(errc::out_of_range,
                 fmt::format("shape of the weights \"{}\": expected extents up to {}, "
                             "found {} x {}",
                             name, max_extent, shape.outputs, shape.inputs));
  }
  const bool blocks = shape.type != weight_type::f32;
  if (shape.outputs == 0 || shape.inputs == 0 ||
      (blocks && shape.inputs % block_inputs != 0)) {
    return error(
        errc::invalid_argument,
        fmt::format("shape of the weights \"{}\": expected at least one output and "
                    "{} inputs for the type {}, found {} x {}",
                    name, blocks ? "a multiple of 32" : "one of the", name_of(shape.type),
                    shape.outputs, shape.inputs));
  }
  return {};
}

/// The last panel may have fewer outputs than it has room for.
result<void> pack_panels(std::string_view name, const panel_shape& shape, bytes_view rows,
                         std::uint64_t pair_rows, std::uint64_t first_panel,
                         mutable_bytes panels) {
  WEIR_CHECK(check_pack(name, shape, rows, pair_rows, first_panel, panels.size()));
  // Outputs that the matrix lacks are zero.
  std::fill(panels.begin(), panels.end(), std::byte{0});
  const std::uint64_t count = panels.size() / shape.panel_bytes();
  for (std::uint64_t p = 0; p < count; ++p) {
    std::byte* panel = panels.data() + p * shape.panel_bytes();
    const std::uint64_t first = (first_panel + p) * panel_outputs;
    const std::uint64_t lanes = std::min(panel_outputs, shape.outputs - first);
    for (std::uint64_t lane = 0; lane < lanes; ++lane) {
      // Files with pairs have the rows of a head in another order.
      const std::uint64_t row =
          pair_rows == 0 ? first + lane : row_of_pairs(first + lane, pair_rows);
      place_row(shape.type, rows.data() + row * shape.row_bytes(), shape.inputs, lane,
                panel);
    }
  }
  return {};
}

/// The runs must follow each other without a gap.
result<void> check_matrix(std::string_view name, const panel_matrix& matrix) {
  WEIR_CHECK(check_shape(name, matrix.shape));
  std::uint64_t next = 0;
  for (const panel_run& run : matrix.runs) {
    const std::uint64_t count = run.bytes.size() / matrix.shape.panel_bytes();
    if (run.first != next || run.bytes.size() % matrix.shape.panel_bytes() != 0 ||
        // A run of no bytes is allowed.
        count > matrix.shape.panels() - next) {
      return error(
          errc::corrupt,
          fmt::format("panels of the weights \"{}\": expected a run of whole "
                      "panels from {} to at most {}, found one from {} of {} bytes",
                      name, next, matrix.shape.panels(), run.first, run.bytes.size()));
    }
    next += count;
  }
  // The last run must end with the matrix.
  if (next != matrix.shape.panels()) {
    return error(errc::corrupt, fmt::format("panels of the weights \"{}\": expected {} "
                                            "panels, found {}",
                                            name, matrix.shape.panels(), next));
  }
  return {};
}

/// The runs are sorted, and the panel is one of the matrix.
const std::byte* panel_address(const panel_matrix& matrix, std::uint64_t panel) noexcept {
  const auto behind =
      std::upper_bound(matrix.runs.begin(), matrix.runs.end(), panel,
                       [](std::uint64_t p, const panel_run& r) { return p < r.first; });
  const panel_run& run = *std::prev(behind);
  return run.bytes.data() + (panel - run.first) * matrix.shape.panel_bytes();
}

/// Undoes the packing of one output.
void read_output(const panel_matrix& matrix, std::uint64_t output,
                 std::span<float> weights) noexcept {
  const std::byte* panel = panel_address(matrix, output / panel_outputs);
  const std::uint64_t lane = output % panel_outputs;
  if (matrix.shape.type == weight_type::f32) {
    for (std::uint64_t k = 0; k < matrix.shape.inputs; ++k) {
      std::memcpy(&weights[k], panel + (k * panel_outputs + lane) * sizeof(float),
                  sizeof(float));
    }
    return;
  }
  // Blocks of an output stand one panel block apart.
  const bool q8 = matrix.shape.type == weight_type::q8_0;
  const std::uint64_t block = (q8 ? q8_row_block : q4_row_block) * panel_outputs;
  for (std::uint64_t b = 0; b < matrix.shape.inputs / block_inputs; ++b) {
    float* to = weights.data() + b * block_inputs;
    if (q8) {
      read_q8(panel + b * block, lane, to);
    } else {
      read_q4(panel + b * block, lane, to);
    }
  }
}

}  // namespace weir::models
