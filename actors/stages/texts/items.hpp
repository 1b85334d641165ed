// SPDX-License-Identifier: Apache-2.0
/// @file
/// What travels between the stages of texts: lines of a file, and texts as token ids.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/texts/lines.hpp"
#include "weir/base/error.hpp"
#include "weir/runtime/tensor.hpp"

namespace weir::actors {

/// Type of the items that hold lines.
inline constexpr std::string_view line_item_type = "u64[?]";
/// Type of the items that hold texts as token ids.
inline constexpr std::string_view token_item_type = "u32[?]";

/// Where the lines of an item come from.
struct item_origin {
  std::uint64_t file = 0;  ///< number of the file, from 0
  bool ends_file = false;  ///< no later item has lines of the file
  std::string name;        ///< name of the file
};

/// Some lines of a file.
struct line_item {
  item_origin from;
  std::vector<text_line> lines;
};

/// Returns the elements of the item that `read_line_item` reads.
[[nodiscard]] std::vector<std::uint64_t> encode_line_item(const line_item& item);
/// Reads an item of lines. @error{corrupt, the tensor is no such item}
[[nodiscard]] result<line_item> read_line_item(const runtime::tensor& x);

/// A text as token ids, with the special ids of the tokenizer.
struct token_text {
  std::uint64_t line = 0;              ///< number of its line
  std::uint64_t offset = 0;            ///< of the first byte of its line
  std::span<const std::uint32_t> ids;  ///< at least one
};

/// Some texts of a file as token ids.
struct token_item {
  item_origin from;
  std::uint64_t model = 0;  ///< digest of the weights for which the ids are
  std::vector<token_text> texts;

  /// Returns the number of all ids.
  [[nodiscard]] std::size_t tokens() const noexcept;
};

/// Returns the elements of the item that `read_token_item` reads.
[[nodiscard]] std::vector<std::uint32_t> encode_token_item(const token_item& item);
/// Reads an item of texts. Its ids refer to the memory of the tensor.
/// @error{corrupt, the tensor is no such item}
[[nodiscard]] result<token_item> read_token_item(const runtime::tensor& x);

}  // namespace weir::actors
