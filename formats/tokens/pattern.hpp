// SPDX-License-Identifier: Apache-2.0
/// @file
/// Patterns of pre-tokenizers: PCRE2 with Unicode properties, compiled to machine code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "weir/base/error.hpp"

namespace weir::formats::tokens {

/// Working memory of `pattern::find` for one thread.
class pattern_memory {
 public:
  pattern_memory();
  ~pattern_memory();
  pattern_memory(const pattern_memory&) = delete;
  pattern_memory& operator=(const pattern_memory&) = delete;

 private:
  friend class pattern;
  // Handles of PCRE2; the type keeps its header out of this one.
  struct handles;
  std::unique_ptr<handles> handles_;
};

/// Where a pattern was found.
struct occurrence {
  enum class kind : std::uint8_t {
    none,   ///< not in the text, whatever follows the text
    whole,  ///< at [begin, end); bytes behind the text cannot change that
    open,   ///< begins at `begin` or later, but it depends on bytes behind the text
  };
  kind found = kind::none;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A compiled pattern. @threads{immutable}
class pattern {
 public:
  /// Compiles a pattern in the syntax of the reference's library (Oniguruma).
  /// @error{unsupported, the syntax has another meaning in PCRE2, or the pattern matches
  /// the empty text}
  [[nodiscard]] static result<pattern> compile(const std::string& text);

  /// Finds the first match at or behind `from`.
  /// @param open  The text goes on behind its end.
  /// @error{out_of_range, a limit of matching is exceeded}
  [[nodiscard]] result<occurrence> find(std::string_view text, std::size_t from,
                                        bool open, pattern_memory& memory) const;

  /// Returns whether a match depends on text before its start, so that a stream must not
  /// begin in the middle of a text.
  [[nodiscard]] bool looks_back() const noexcept { return looks_back_; }
  /// Returns the text of the pattern.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  pattern() = default;
  std::string text_;            ///< as the reference spells it
  std::shared_ptr<void> code_;  ///< compiled code of PCRE2, shared by copies
  bool looks_back_ = false;
};

}  // namespace weir::formats::tokens
