// SPDX-License-Identifier: Apache-2.0
/// @file
/// Walks over the header of GGUF files.
///
/// The walker has an offset and two limits: the bytes at hand (`head_`) and the size of
/// the file (`size_`). A step that needs bytes beyond the file is wrong; one that needs
/// bytes beyond those at hand sets `ran_out_`, and the caller reads more and begins
/// again.
#include <array>

#include "weir/base/container/gguf_walker.hpp"

namespace weir {

namespace {

/// The bytes "GGUF" as a little-endian number.
constexpr std::uint32_t gguf_magic = 0x46554747;  // "GGUF"

/// A type of values. Values of the types without a fixed size have 0 bytes here.
struct value_type {
  std::string_view name;
  std::uint64_t bytes;
};
/// In the order of `gguf_value`.
constexpr std::array<value_type, 13> value_types{{{"uint8", 1},
                                                  {"int8", 1},
                                                  {"uint16", 2},
                                                  {"int16", 2},
                                                  {"uint32", 4},
                                                  {"int32", 4},
                                                  {"float32", 4},
                                                  {"boolean", 1},
                                                  {"text", 0},
                                                  {"list", 0},
                                                  {"uint64", 8},
                                                  {"int64", 8},
                                                  {"float64", 8}}};

/// Returns the row of a type, or a null pointer for an unknown one.
const value_type* find(gguf_value type) noexcept {
  const auto row = static_cast<std::uint32_t>(type);
  return row < value_types.size() ? &value_types[row] : nullptr;
}

}  // namespace

std::string_view name_of(gguf_value type) noexcept {
  // Also for numbers that are no type.
  const value_type* row = find(type);
  return row == nullptr ? "unknown" : row->name;
}

/// The first comparison must come first: a length beyond the file is wrong however many
/// bytes are at hand.
bool gguf_walker::skip(std::uint64_t n) noexcept {
  if (n > size_ - offset_) {
    return false;
  }
  if (n > head_.size() - offset_) {
    ran_out_ = true;
    return false;
  }
  offset_ += n;
  return true;
}

/// The limit of a text is far below 2^64, so the sum of offset and length cannot
/// overflow.
bool gguf_walker::text(std::string_view& to) noexcept {
  std::uint64_t n = 0;
  // The number is checked before it is added to the offset.
  if (!number(n) || n > max_text_bytes || !skip(n)) {
    return false;
  }
  to = as_text(
      head_.subspan(static_cast<std::size_t>(offset_ - n), static_cast<std::size_t>(n)));
  return true;
}

bool gguf_walker::start(gguf_start& to) noexcept {
  // The version is for the caller to check.
  std::uint32_t magic = 0;
  return number(magic) && magic == gguf_magic && number(to.version) &&
         number(to.tensors) && number(to.entries);
}

/// Lists of lists are not used by any writer and would make depth unbounded.
bool gguf_walker::list(gguf_value& item, std::uint64_t& count) noexcept {
  std::uint32_t type = 0;
  if (!number(type) || !number(count) || count > max_items) {
    return false;
  }
  item = gguf_value{type};
  // The type of the items must have a name.
  return find(item) != nullptr && item != gguf_value::list;
}

bool gguf_walker::value(gguf_value type) noexcept {
  // The content does not matter here.
  std::string_view ignored;
  if (type == gguf_value::text) {
    return text(ignored);
  }
  // Numbers are skipped by their size.
  if (type != gguf_value::list) {
    const value_type* row = find(type);
    return row != nullptr && skip(row->bytes);
  }
  gguf_value item{};
  std::uint64_t count = 0;
  if (!list(item, count)) {
    return false;
  }
  // The product is at most 2^32 times 8.
  if (item != gguf_value::text) {
    return skip(count * find(item)->bytes);
  }
  // Texts have lengths of their own and are passed one by one.
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!text(ignored)) {
      return false;
    }
  }
  return true;
}

bool is_gguf(bytes_view head) noexcept {
  // The version is not looked at.
  return head.size() >= 4 && load_le<std::uint32_t>(head.data()) == gguf_magic;
}

}  // namespace weir
