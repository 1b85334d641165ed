// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whether bytes are UTF-8.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace weir::formats {

/// Shortest forms only, no surrogates, nothing above U+10FFFF. @source{RFC 3629}
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// The same; sooner of short ASCII, which nearly every key is.
[[nodiscard]] inline bool is_text(std::string_view text) noexcept {
  const auto word_at = [&]<class Word>(Word word, std::size_t at) {
    std::memcpy(&word, text.data() + at, sizeof word);
    return std::uint64_t{word};
  };
  std::uint64_t seen = 0;
  const std::size_t size = text.size();
  if (size > 16) {
    return is_utf8(text);
  }
  // Two looks, which may overlap, see all of it.
  if (size >= 8) {
    seen = word_at(std::uint64_t{}, 0) | word_at(std::uint64_t{}, size - 8);
  } else if (size >= 4) {
    seen = word_at(std::uint32_t{}, 0) | word_at(std::uint32_t{}, size - 4);
  } else if (size > 0) {
    seen = word_at(std::uint8_t{}, 0) | word_at(std::uint8_t{}, size / 2) |
           word_at(std::uint8_t{}, size - 1);
  }
  return (seen & 0x8080'8080'8080'8080u) == 0 || is_utf8(text);
}

}  // namespace weir::formats
