// SPDX-License-Identifier: Apache-2.0
/// @file
/// The UTF-8 check: one character at a time, and eight at a time while a text is ASCII.
#include "weir/base/utf8.hpp"

namespace weir {

namespace {

/// Range of the second byte. The general range is 0x80 to 0xBF; four first bytes narrow
/// it, because the full range would hold longer forms of smaller code points (0xE0,
/// 0xF0), surrogates (0xED) or code points beyond U+10FFFF (0xF4).
bool is_second_byte(unsigned char first, unsigned char second) noexcept {
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return second >= low && second <= high;
}

}  // namespace

/// A sequence that is cut off is no sequence: callers that read in pieces keep the bytes.
std::size_t utf8_sequence_length(std::string_view text) noexcept {
  if (text.empty()) {
    return 0;
  }
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = announced_utf8_length(text[0]);
  if (length < 2) {
    return length;
  }
  if (text.size() < length || !is_second_byte(byte(0), byte(1))) {
    return 0;
  }
  // The third and the fourth byte have the general range.
  for (std::size_t i = 2; i < length; ++i) {
    if (!continues_utf8(text[i])) {
      return 0;
    }
  }
  return length;
}

bool utf8_detail::is_utf8_of_any_length(std::string_view text) noexcept {
  while (!text.empty()) {
    // The highest bit of every byte is 0 in ASCII.
    const bool eight_of_ascii = text.size() >= sizeof(std::uint64_t) &&
                                (word_at<std::uint64_t>(text.data()) & high_bits) == 0;
    const std::size_t length =
        eight_of_ascii ? sizeof(std::uint64_t) : utf8_sequence_length(text);
    if (length == 0) {
      return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace weir
