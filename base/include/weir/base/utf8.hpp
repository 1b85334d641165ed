// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks that bytes are UTF-8: metadata, names and JSON of files that others wrote.
/// Finds the places between characters where a text can be cut.
///
/// Well-formed means: shortest forms only, no surrogates (U+D800 to U+DFFF) and nothing
/// above U+10FFFF.
/// @source{RFC 3629, section 4; Unicode 15, table 3-7}
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace weir {

/// Returns the length of the character with which a text begins.
/// @returns Bytes of the well-formed UTF-8 sequence at the start, 1 to 4; 0 if the text
/// is empty or begins with anything else.
/// @units{return value, bytes}
/// @threads{safe to call concurrently}
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text) noexcept;

/// Returns whether a byte continues a character of UTF-8, so that no character begins
/// with it: 0x80 to 0xBF.
/// @threads{safe to call concurrently}
[[nodiscard]] constexpr bool continues_utf8(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Returns the length that the first byte of a character announces, whatever follows it.
///
/// 0xC0 and 0xC1 would begin a longer form of an ASCII character, 0xF5 and above a code
/// point beyond U+10FFFF.
/// @returns 1 to 4; 0 if no character begins with the byte.
/// @units{return value, bytes}
/// @threads{safe to call concurrently}
[[nodiscard]] constexpr std::size_t announced_utf8_length(char first) noexcept {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) {
    return 1;
  }
  if (byte < 0xC2 || byte > 0xF4) {
    return 0;
  }
  return byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Returns the largest position up to `position` at which a character begins or the text
/// ends, so that no character is cut there.
///
/// Bytes that are not UTF-8 are accepted; the result is then only a position that no byte
/// continues.
/// @param position  At most the size of the text.
/// @units{position and return value, bytes from the start of the text}
/// @threads{safe to call concurrently}
[[nodiscard]] constexpr std::size_t utf8_boundary(std::string_view text,
                                                  std::size_t position) noexcept {
  while (position > 0 && position < text.size() && continues_utf8(text[position])) {
    --position;
  }
  return position;
}

namespace utf8_detail {

/// Bit 7 of each of eight bytes. A word without any of these bits is ASCII.
inline constexpr std::uint64_t high_bits = 0x8080'8080'8080'8080U;

/// Loads an unsigned integer of type `Word` from memory of any alignment.
template <class Word>
[[nodiscard]] inline std::uint64_t word_at(const char* bytes) noexcept {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// Returns the bitwise or of all bytes of a text of up to 16 bytes, in any byte of the
/// word: enough to see whether one of them is not ASCII. Two reads of the same width,
/// which may overlap, cover every length of a range without a loop.
[[nodiscard]] inline std::uint64_t united_bytes(std::string_view text) noexcept {
  const char* const begin = text.data();
  const std::size_t size = text.size();
  if (size >= 8) {
    return word_at<std::uint64_t>(begin) | word_at<std::uint64_t>(begin + size - 8);
  }
  if (size >= 4) {
    return word_at<std::uint32_t>(begin) | word_at<std::uint32_t>(begin + size - 4);
  }
  return size == 0
             ? 0
             : word_at<std::uint8_t>(begin) | word_at<std::uint8_t>(begin + size / 2) |
                   word_at<std::uint8_t>(begin + size - 1);
}

/// The check for texts of any length and content.
[[nodiscard]] bool is_utf8_of_any_length(std::string_view text) noexcept;

}  // namespace utf8_detail

/// Returns whether all of a text is well-formed UTF-8. The empty text is.
///
/// Short ASCII texts, which nearly all keys of metadata are, take one test without a
/// call.
/// @threads{safe to call concurrently}
[[nodiscard]] inline bool is_utf8(std::string_view text) noexcept {
  constexpr std::size_t short_text = 16;
  return (text.size() <= short_text &&
          (utf8_detail::united_bytes(text) & utf8_detail::high_bits) == 0) ||
         utf8_detail::is_utf8_of_any_length(text);
}

}  // namespace weir
