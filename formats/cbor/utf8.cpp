// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whether bytes are UTF-8.
#include "cbor/utf8.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weir::formats {

namespace {

/// Bytes that follow a first byte, or -1 if none may start with it.
int followers(unsigned first) noexcept {
  if (first < 0x80) {
    return 0;
  }
  if (first < 0xC2) {
    return -1;
  }
  if (first < 0xE0) {
    return 1;
  }
  if (first < 0xF0) {
    return 2;
  }
  return first < 0xF5 ? 3 : -1;
}

/// Whether the eight characters at `at` are there and of ASCII: they are looked at
/// together.
bool eight_of_ascii(std::string_view text, std::size_t at) noexcept {
  std::uint64_t word = 0;
  if (text.size() - at < sizeof word) {
    return false;
  }
  std::memcpy(&word, text.data() + at, sizeof word);
  return (word & 0x8080'8080'8080'8080u) == 0;
}

bool code_point_ok(unsigned code, int extra) noexcept {
  if (extra == 2) {
    return code >= 0x800 && (code < 0xD800 || code > 0xDFFF);
  }
  return extra != 3 || (code >= 0x1'0000 && code <= 0x10'FFFF);
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (eight_of_ascii(text, i)) {
      i += 7;
      continue;
    }
    const auto first = static_cast<unsigned char>(text[i]);
    const int extra = followers(first);
    if (extra == 0) {
      continue;
    }
    if (extra < 0 || text.size() - i <= static_cast<std::size_t>(extra)) {
      return false;
    }
    unsigned code = first & (0x3Fu >> extra);
    for (int k = 0; k < extra; ++k) {
      const auto next = static_cast<unsigned char>(text[++i]);
      if ((next & 0xC0u) != 0x80u) {
        return false;
      }
      code = code << 6 | (next & 0x3Fu);
    }
    if (!code_point_ok(code, extra)) {
      return false;
    }
  }
  return true;
}

}  // namespace weir::formats
