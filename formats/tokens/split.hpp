// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pre-tokenizers: levels that cut a text into pieces, one level inside the pieces of the
/// level before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tokens/pattern.hpp"
#include "tokens/unicode.hpp"
#include "weir/base/error.hpp"

namespace weir::formats::tokens {

/// What becomes of a match and of the text between matches.
enum class split_behavior : std::uint8_t {
  removed,               ///< matches vanish
  isolated,              ///< each match is a piece
  merged_with_previous,  ///< a match ends the piece before it
  merged_with_next,      ///< a match begins the piece behind it
  contiguous,            ///< neighbouring matches form one piece
};

/// One level of a pre-tokenizer. @threads{immutable}
struct split_level {
  enum class kind : std::uint8_t {
    whole,      ///< does not split
    search,     ///< matches of a pattern
    literal,    ///< occurrences of a text
    predicate,  ///< each character with a property is a match
    words,  ///< matches are runs of word characters, and of characters that are neither
            ///< word characters nor white space
  };
  kind type = kind::whole;                        ///< what counts as a match
  std::optional<pattern> regex{};                 ///< for `search`
  std::string text{};                             ///< for `literal`
  bool (*property)(char32_t) noexcept = nullptr;  ///< for `predicate`
  bool invert = false;  ///< swaps matches and the text between them
  split_behavior behavior = split_behavior::isolated;  ///< what becomes of matches
  bool prefix_space = false;  ///< puts a space before a text that begins with none

  /// Returns whether cutting a text inside a piece that this level makes of matches can
  /// give other matches in the second part.
  [[nodiscard]] bool matches_are_whole() const noexcept {
    return type == kind::search || type == kind::literal;
  }
};

/// A piece of a text.
struct piece {
  std::size_t begin = 0;  ///< in bytes of the text that is split
  std::size_t end = 0;    ///< in bytes; behind the piece
  bool open = false;      ///< the piece may go on behind the end of the text
  bool can_cut = false;   ///< the level splits alike if the text begins inside the piece
};

/// Cuts a text into pieces, from its front.
class splitter {
 public:
  /// @param open  The text goes on behind its end. Then the last pieces may be missing.
  /// The text and the level must outlive the splitter.
  splitter(const split_level& level, std::string_view text, bool open,
           pattern_memory& memory)
      : level_(level), text_(text), open_(open), memory_(memory) {}

  /// Returns the next piece, which is not empty, or nothing behind the last one. An open
  /// piece is the last one.
  /// @error{out_of_range, a limit of matching is exceeded}
  [[nodiscard]] result<std::optional<piece>> next();

 private:
  /// A match, or text between matches.
  struct event {
    std::size_t begin;  ///< in bytes of the text
    std::size_t end;    ///< behind its last byte
    bool match;         ///< after inversion
    bool open;          ///< it may go on behind the end of the text
    bool can_cut;       ///< see `piece`
  };
  // Steps of `next`; see split.cpp.
  [[nodiscard]] result<std::optional<event>> next_event();
  [[nodiscard]] result<occurrence> find();
  [[nodiscard]] occurrence find_word() const;
  [[nodiscard]] event made(std::size_t begin, std::size_t end, bool match, bool open);

  const split_level& level_;           ///< what matches, and what becomes of it
  std::string_view text_;              ///< what is split
  bool open_;                          ///< the text goes on behind its end
  pattern_memory& memory_;             ///< working memory of patterns
  std::size_t at_ = 0;                 ///< text before it has been returned as events
  bool ended_ = false;                 ///< no event follows
  std::optional<occurrence> found_{};  ///< match whose text before it was returned
  std::optional<event> held_{};        ///< event that begins the next piece
};

}  // namespace weir::formats::tokens
