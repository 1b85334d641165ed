// SPDX-License-Identifier: Apache-2.0
/// @file
/// CBOR token by token, without a copy of anything: heads as short as can be here, all
/// others by libcbor.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::formats {

enum class token_kind : std::uint8_t {
  null,
  undefined,
  boolean,
  unsigned_integer,
  negative_integer,
  real,
  text,
  bytes,
  text_chunks,  ///< an indefinite string: its pieces follow
  byte_chunks,
  array,
  map,
  tag,
  stop,  ///< "break": ends an indefinite item
};

/// One token; a string lies in what it was read from.
struct cbor_token {
  token_kind kind = token_kind::null;
  bool indefinite = false;
  bool boolean = false;
  /// Value of an integer; items of an array, pairs of a map, number of a tag; bytes of a
  /// string.
  std::uint64_t number = 0;
  double real = 0;
  std::string_view content;  ///< of a string
  std::size_t size = 0;      ///< bytes of the token, those of a string included
};

/// The number of a head behind its first byte `first`, if it is there and as short as can
/// be; `head` becomes the bytes of both.
[[nodiscard]] inline bool short_number(bytes_view rest, unsigned first,
                                       std::uint64_t& number,
                                       std::size_t& head) noexcept {
  constexpr std::array<std::uint64_t, 4> least{24, 0x100, 0x1'0000, 0x1'0000'0000};
  const unsigned info = first & 31u;
  if (info < 24) {
    number = info;
    head = 1;
    return true;
  }
  head = info < 28 ? 1 + (std::size_t{1} << (info - 24)) : 0;
  if (head == 0 || rest.size() < head) {
    return false;
  }
  number = 0;
  for (std::size_t i = 1; i < head; ++i) {
    number = number << 8 | std::to_integer<std::uint64_t>(rest[i]);
  }
  return number >= least[info - 24];
}

/// Reads an integer, text, array or map: nearly every token of metadata is one. False for
/// all others, and for one that is cut short or wider than need be.
[[nodiscard]] inline bool short_token(bytes_view rest, cbor_token& t) noexcept {
  constexpr auto none = token_kind::stop;
  constexpr std::array kinds{token_kind::unsigned_integer,
                             token_kind::negative_integer,
                             none,
                             token_kind::text,
                             token_kind::array,
                             token_kind::map,
                             none,
                             none};
  const unsigned first = rest.empty() ? 0xFFu : std::to_integer<unsigned>(rest[0]);
  const token_kind kind = kinds[first >> 5];
  std::uint64_t number = 0;
  std::size_t head = 0;
  if (kind == none || !short_number(rest, first, number, head)) {
    return false;
  }
  const std::uint64_t content = kind == token_kind::text ? number : 0;
  if (rest.size() - head < content) {
    return false;
  }
  t.kind = kind;
  t.number = number;
  t.content = as_text(rest.subspan(head, content));
  t.size = head + content;
  return true;
}

/// Reads the token at the start of `rest`. @error{corrupt, cut short or malformed}
[[nodiscard]] result<cbor_token> next_token(bytes_view rest);

/// What of a token is wider than need be; empty if it is as short as can be.
[[nodiscard]] std::string_view excess_of(const cbor_token& token) noexcept;

}  // namespace weir::formats
