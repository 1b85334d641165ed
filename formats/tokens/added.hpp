// SPDX-License-Identifier: Apache-2.0
/// @file
/// Search for added tokens in a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokens/index.hpp"
#include "weir/formats/tokens.hpp"

namespace weir::formats::tokens {

/// A part of a text: an added token with the white space that it takes along, or text
/// between added tokens.
struct text_part {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint32_t id = no_id;  ///< `no_id` for text
  bool open = false;         ///< text that may go on behind `end`
};

/// Set of added tokens that are looked for together: the leftmost match, and of the
/// matches at one place the longest.
/// @threads{immutable}
class added_set {
 public:
  /// Adds a token. @param content  Text to look for: of a normalized token, its normal
  /// form. It must not be empty.
  void add(const added_token& token, std::string content);
  /// Prepares the search; to be called once, after the last `add`.
  void prepare();

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  /// Returns whether a token must be a single word.
  [[nodiscard]] bool has_single_words() const noexcept { return single_words_; }
  /// Returns whether the search for tokens in a text can begin in its middle at all.
  [[nodiscard]] bool can_cut() const noexcept {
    return !(strips_right_ && begins_with_space_) &&
           !(single_words_ && begins_with_space_);
  }

  /// Cuts a text into parts.
  /// @param open  The text goes on behind its end. Then the last part is open text, and
  /// ends where a token could begin that depends on more text.
  /// @param hidden  Receives places [begin, end) of tokens that were rejected because
  /// they are no single words; a text must not be cut inside them.
  void split(std::string_view text, bool open, std::vector<text_part>& parts,
             std::vector<text_part>& hidden) const;

 private:
  struct entry {
    std::string content;  ///< text to look for
    added_token token;
  };
  [[nodiscard]] const entry* match_at(std::string_view text, std::size_t at) const;
  [[nodiscard]] std::size_t next_start(std::string_view text, std::size_t from) const;
  [[nodiscard]] static bool is_single(std::string_view text, std::size_t begin,
                                      std::size_t end);

  std::vector<entry> entries_;
  std::array<std::vector<std::uint32_t>, 256> by_byte_;  ///< longest first
  std::size_t longest_ = 0;
  int only_byte_ = -1;  ///< the first byte of all tokens, or -1 if they differ
  // Properties that any of the tokens has; `add` collects them.
  bool single_words_ = false;
  bool strips_left_ = false;
  bool strips_right_ = false;
  bool begins_with_space_ = false;
};

}  // namespace weir::formats::tokens
