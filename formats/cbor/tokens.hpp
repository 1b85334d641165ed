// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads CBOR one token at a time without copying. Heads in their shortest form, which
/// are nearly all of them, are read by the inline functions here; libcbor reads the
/// others.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::formats {

/// Kinds of tokens. A tag and the start of a container are tokens of their own; their
/// contents follow. Kinds from `text_chunks` on open an item or end one, which
/// `decode.cpp` relies on.
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
  byte_chunks,  ///< an indefinite byte string
  array,
  map,
  tag,   ///< the tagged value follows
  stop,  ///< "break": ends an indefinite item
};

/// One token. The bytes of a string stay in the input, which must outlive the token.
struct cbor_token {
  token_kind kind = token_kind::null;
  bool indefinite = false;  ///< a string, array or map without a length
  bool boolean = false;     ///< value of a `boolean`
  /// Value of an integer; items of an array, pairs of a map, number of a tag; bytes of a
  /// string.
  std::uint64_t number = 0;
  double real = 0;           ///< value of a `real`, whatever its width
  std::string_view content;  ///< of a string
  std::size_t size = 0;      ///< bytes of the token, those of a string included
};

/// Reads the number that follows the initial byte `first` of a token. Sets `head` to the
/// size of the initial byte and the number together. Returns false if the input is cut
/// short or the number is wider than necessary (RFC 8949, 4.2.1).
[[nodiscard]] inline bool short_number(bytes_view rest, unsigned first,
                                       std::uint64_t& number,
                                       std::size_t& head) noexcept {
  // The smallest numbers that need 1, 2, 4 and 8 bytes.
  constexpr std::array<std::uint64_t, 4> least{24, 0x100, 0x1'0000, 0x1'0000'0000};
  const unsigned info = first & 31u;
  if (info < 24) {
    number = info;
    head = 1;
    return true;
  }
  // Values 28 to 31 are reserved or mean an indefinite length.
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

/// Reads an integer, text, array or map, the kinds that make up nearly all metadata.
/// Returns false for all other tokens, for one that is cut short and for one whose head
/// is not in its shortest form. `t` then is unchanged.
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
  // An empty input is treated like major type 7, which this function does not read.
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

/// Names the part of a token that is not encoded in the shortest form; empty if there is
/// none.
[[nodiscard]] std::string_view excess_of(const cbor_token& token) noexcept;

}  // namespace weir::formats
