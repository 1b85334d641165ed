// SPDX-License-Identifier: Apache-2.0
/// @file
/// Patterns of the files that a sink writes, one for each item.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace weir::flow {

/// A path in which names in braces stand for facts of an item: `{item}` for its number,
/// `{item:N}` for the number with at least N digits, `{NAME}` for an attribute. A path
/// without the number of the item names one file, and its braces stand for themselves.
/// @threads{const members are safe to call concurrently}
class output_pattern {
 public:
  explicit output_pattern(std::string_view path);
  /// Returns whether the path has the number of the item.
  [[nodiscard]] bool has_number() const noexcept { return has_number_; }
  /// Returns whether some items and attributes give a file that both patterns name. The
  /// names in braces are taken as independent of each other.
  [[nodiscard]] bool may_meet(const output_pattern& other) const;

 private:
  enum class kind : std::uint8_t { character, digit, text };
  /// Characters of a name: one, or any number of them.
  struct piece {
    kind is = kind::character;
    char character = 0;
    bool repeats = false;
  };
  static bool share_a_character(const piece& a, const piece& b) noexcept;
  void add_text(std::string_view text);
  bool add_name(std::string_view name);

  std::vector<piece> pieces_;
  bool has_number_ = false;
};

}  // namespace weir::flow
