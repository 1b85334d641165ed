// SPDX-License-Identifier: Apache-2.0
/// @file
/// Element types of weights, views of weights and the digest of their values.
/// @source{GGUF specification; llama.cpp, block_q8_0 and block_q4_1}
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "weir/base/small_floats.hpp"
#include "weir/base/text.hpp"
#include "weir/models/rotary_rows.hpp"
#include "weir/models/weights.hpp"

namespace weir::models {

namespace {

/// A type: `elements` elements take `bytes` bytes. Types of one element have blocks of
/// one.
struct type_row {
  std::string_view name;
  std::uint32_t number;
  std::uint32_t elements;
  std::uint32_t bytes;
};
/// In the order of the enumeration. The numbers are those of GGUF.
constexpr std::array type_rows{
    type_row{"F32", 0, 1, 4}, type_row{"F16", 1, 1, 2}, type_row{"BF16", 30, 1, 2},
    type_row{"Q8_0", 8, block_elements, 34}, type_row{"Q4_1", 3, block_elements, 20}};

/// The type is a value of the enumeration.
const type_row& row_of_type(stored_type type) {
  return type_rows[static_cast<std::size_t>(type)];
}

/// The address need not be aligned.
float fp16_at(const std::byte* from) {
  return fp16_to_float(load_le<std::uint16_t>(from));
}

/// A block has an fp16 scale and 32 signed codes.
void decode_q8_0(bytes_view row, std::span<float> to) {
  const std::byte* block = row.data();
  for (std::size_t i = 0; i < to.size(); i += block_elements, block += 34) {
    const float scale = fp16_at(block);
    for (std::size_t j = 0; j < block_elements; ++j) {
      to[i + j] = scale * static_cast<float>(static_cast<std::int8_t>(block[2 + j]));
    }
  }
}

// The low halves of the bytes are the first 16 elements, the high halves the others. The
// product is exact, so that only the sum is rounded. A block has a scale, a minimum and
// 16 bytes of codes.
void decode_q4_1(bytes_view row, std::span<float> to) {
  constexpr std::size_t half = block_elements / 2;
  const std::byte* block = row.data();
  for (std::size_t i = 0; i < to.size(); i += block_elements, block += 20) {
    const float scale = fp16_at(block);
    const float minimum = fp16_at(block + 2);
    for (std::size_t j = 0; j < half; ++j) {
      const auto pair = static_cast<unsigned>(block[4 + j]);
      to[i + j] = scale * static_cast<float>(pair & 0xF) + minimum;
      to[i + half + j] = scale * static_cast<float>(pair >> 4) + minimum;
    }
  }
}

}  // namespace

/// The names are those that both families of files print.
std::string_view name_of(stored_type type) noexcept {
  return row_of_type(type).name;
}

/// Names are compared exactly; other types of GGUF are refused.
result<stored_type> stored_type_named(std::string_view name) {
  for (std::size_t i = 0; i < type_rows.size(); ++i) {
    if (type_rows[i].name == name) {
      return static_cast<stored_type>(i);
    }
  }
  return error(errc::unsupported,
               fmt::format("cannot use a weight: expected type F32, F16, BF16, Q8_0 or "
                           "Q4_1, found {}",
                           json_quote(name)));
}

/// The number stands in the description of a tensor.
std::uint32_t gguf_number(stored_type type) noexcept {
  return row_of_type(type).number;
}

/// Returns none if blocks would be cut or the size has no 64 bits.
std::optional<std::uint64_t> row_bytes(stored_type type, std::uint64_t columns) noexcept {
  const type_row& row = row_of_type(type);
  std::uint64_t bytes = 0;
  if (columns % row.elements != 0 ||
      !checked_mul<std::uint64_t>(columns / row.elements, row.bytes, bytes)) {
    return std::nullopt;
  }
  return bytes;
}

/// The row has the bytes of as many elements as `to` has.
void decode_row(stored_type type, bytes_view row, std::span<float> to) noexcept {
  switch (type) {
    case stored_type::f32:
      for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = std::bit_cast<float>(load_le<std::uint32_t>(row.data() + 4 * i));
      }
      return;
    case stored_type::f16:
      for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = fp16_at(row.data() + 2 * i);
      }
      return;
    case stored_type::bf16:
      for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = bf16_to_float(load_le<std::uint16_t>(row.data() + 2 * i));
      }
      return;
    case stored_type::q8_0: return decode_q8_0(row, to);
    case stored_type::q4_1: return decode_q4_1(row, to);
  }
}

/// The codes are those of the reference implementation, which rounds halves away from
/// zero.
void encode_q8_0(std::span<const float> from, mutable_bytes to) noexcept {
  std::byte* block = to.data();
  for (std::size_t i = 0; i < from.size(); i += block_elements, block += 34) {
    float largest = 0;
    for (std::size_t j = 0; j < block_elements; ++j) {
      largest = std::max(largest, std::fabs(from[i + j]));
    }
    const float scale = largest / 127.0F;
    const float inverse = scale != 0 ? 1.0F / scale : 0.0F;
    // The scale is stored in half precision, but the codes are made with the full one.
    store_le(block, float_to_fp16(scale));
    for (std::size_t j = 0; j < block_elements; ++j) {
      const float steps = std::round(from[i + j] * inverse);
      // The comparison is false for NaN, which becomes 0.
      const float inside = steps >= -127.0F ? std::min(steps, 127.0F) : -127.0F;
      block[2 + j] = static_cast<std::byte>(
          static_cast<std::int8_t>(steps == steps ? inside : 0.0F));
    }
  }
}

/// The view has checked bytes, so errors here are errors of the caller.
weight_view::weight_view(const weight_info& info, stored_type type, weight_files files,
                         bytes_view bytes)
    : type_(type),
      rows_(info.rows),
      columns_(info.columns),
      stride_(row_bytes(type, info.columns).value_or(0)),
      // Only GGUF has the rows of query and key in pairs.
      pairs_(files == weight_files::gguf ? info.rotary_width : 0),
      bytes_(bytes) {
  WEIR_EXPECT(stride_ != 0 && bytes.size() / stride_ == rows_ &&
              bytes.size() % stride_ == 0);
}

/// The order of the rows is that of Hugging Face, whatever the file has.
std::uint64_t weight_view::row_in_file(std::uint64_t row) const noexcept {
  return pairs_ == 0 ? row : row_of_pairs(row, pairs_);
}

bytes_view weight_view::row(std::uint64_t row) const noexcept {
  // The bytes of a row as they stand in the file.
  return bytes_.subspan(static_cast<std::size_t>(row_in_file(row) * stride_),
                        static_cast<std::size_t>(stride_));
}

/// Computes the values, whatever the type is.
void weight_view::read(std::uint64_t row, std::span<float> to) const noexcept {
  decode_row(type_, this->row(row), to);
}

/// Files with equal values have equal digests, whatever their types and their order of
/// rows are.
void weights_digest::add(const weight_info& info, const weight_view& view) {
  const std::array<std::uint64_t, 4> head = {static_cast<std::uint64_t>(info.role),
                                             info.layer, view.rows(), view.columns()};
  std::array<std::byte, sizeof(head)> bytes{};
  for (std::size_t i = 0; i < head.size(); ++i) {
    store_le(bytes.data() + 8 * i, head[i]);
  }
  hash_.update(bytes);
  std::vector<float> values(static_cast<std::size_t>(view.columns()));
  for (std::uint64_t row = 0; row < view.rows(); ++row) {
    view.read(row, values);
    // The digest is that of little-endian values.
    if constexpr (std::endian::native == std::endian::big) {
      swap_units(std::as_writable_bytes(std::span(values)), sizeof(float));
    }
    hash_.update(std::as_bytes(std::span(values)));
  }
}

}  // namespace weir::models
