// SPDX-License-Identifier: Apache-2.0
/// @file
/// Properties of characters and normal forms, as the reference implementation sees them.
///
/// The reference takes its properties from several versions of Unicode. utf8proc has one;
/// unicode.cpp lists the characters on which a property differs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::formats::tokens {

/// One character and the bytes that it takes.
struct character {
  char32_t code = 0;        ///< a Unicode scalar value
  std::uint32_t bytes = 1;  ///< length of its UTF-8
};

/// Returns the first character of a text that is not empty and is well-formed UTF-8.
[[nodiscard]] inline character first_character(const char* text) noexcept {
  const auto byte = [text](int i) { return static_cast<unsigned char>(text[i]); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1};
  }
  const auto low = [&](int i) { return static_cast<std::uint32_t>(byte(i) & 0x3F); };
  if (lead < 0xE0) {
    return {(lead & 0x1F) << 6 | low(1), 2};
  }
  if (lead < 0xF0) {
    return {(lead & 0x0F) << 12 | low(1) << 6 | low(2), 3};
  }
  return {(lead & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3), 4};
}

/// Returns the last character of a text that is not empty and is well-formed UTF-8.
[[nodiscard]] character last_character(std::string_view text) noexcept;

/// Appends a character as UTF-8.
void append_character(std::string& text, char32_t code);

/// Returns whether a character is white space.
[[nodiscard]] bool is_space(char32_t code) noexcept;
/// Returns whether a character is numeric: category Nd, Nl or No.
[[nodiscard]] bool is_numeric(char32_t code) noexcept;
/// Returns whether a character is punctuation: ASCII punctuation or a category P.
[[nodiscard]] bool is_punctuation(char32_t code) noexcept;
/// Returns whether a character is part of a word (`\w` of the reference).
[[nodiscard]] bool is_word(char32_t code) noexcept;
/// Returns whether BERT's cleaning removes a character: categories Cc, Cf, Co.
[[nodiscard]] bool is_control(char32_t code) noexcept;
/// Returns whether a character has category Mn.
[[nodiscard]] bool is_accent(char32_t code) noexcept;
/// Returns whether BERT's normalizer puts spaces around a character.
[[nodiscard]] bool is_chinese(char32_t code) noexcept;
/// Returns whether a normal form of a text equals the forms of its part before and its
/// part from this character on, joined, for any text before it.
[[nodiscard]] bool starts_normal_form(char32_t code);

/// Appends a character in lower case.
void append_lower(std::string& text, char32_t code);

/// Unicode normal forms.
enum class normal_form : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// Appends a text in a normal form.
/// @param text  Well-formed UTF-8.
void append_normal_form(std::string& out, std::string_view text, normal_form form);

}  // namespace weir::formats::tokens
