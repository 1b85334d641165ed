// SPDX-License-Identifier: Apache-2.0
/// @file
/// The check whether a text is UTF-8.
#pragma once

#include <cstdint>
#include <string_view>

namespace weir::storage::hn4 {

/// Returns whether a text is UTF-8: shortest forms only, no surrogates, nothing above
/// U+10FFFF. @source{RFC 3629}
[[nodiscard]] inline bool is_utf8(std::string_view text) noexcept {
  constexpr std::uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    const std::size_t more = lead < 0x80             ? 0
                             : (lead & 0xE0) == 0xC0 ? 1
                             : (lead & 0xF0) == 0xE0 ? 2
                             : (lead & 0xF8) == 0xF0 ? 3
                                                     : 4;
    if (more == 4 || more > text.size() - i) {
      return false;
    }
    std::uint32_t point = more == 0 ? lead : lead & (0x3FU >> more);
    for (std::size_t k = 0; k < more; ++k) {
      const auto next = static_cast<unsigned char>(text[i++]);
      if ((next & 0xC0) != 0x80) {
        return false;
      }
      point = point << 6 | (next & 0x3FU);
    }
    if (point < least[more] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) {
      return false;
    }
  }
  return true;
}

}  // namespace weir::storage::hn4
