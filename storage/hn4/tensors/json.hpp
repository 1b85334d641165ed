// SPDX-License-Identifier: Apache-2.0
/// @file
/// The little JSON that headers of safetensors files are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::storage::hn4 {

/// Walks over JSON text; every step is false where the text is not what it should be.
/// @threads{thread-compatible}
class json_walker {
 public:
  explicit json_walker(std::string_view text) : text_(text) {}

  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  /// Skips blanks; true if nothing follows.
  bool ended();
  /// Takes this character, after blanks.
  bool take(char c);
  /// A string with its escapes resolved; `to` is UTF-8.
  bool string(std::string& to);
  bool number(std::uint64_t& to);
  /// Any value, at most 64 levels deep.
  bool skip(unsigned depth = 0);

 private:
  void blanks();
  bool escape(std::string& to);
  bool hex4(std::uint32_t& to);
  bool members(char close, bool named, unsigned depth);

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace weir::storage::hn4
