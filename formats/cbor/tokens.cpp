// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tokens by libcbor's streaming decoder.
///
/// libcbor calls one callback for each token, with a pointer to the token that is to be
/// filled. It works on one token at a time, so no state of it survives a call, and
/// nesting is the business of `decode.cpp`.
#include "cbor/tokens.hpp"

#include <cbor.h>
#include <fmt/core.h>

#include "weir/formats/cbor.hpp"

namespace weir::formats {

namespace {

/// Callbacks of libcbor get the token to be filled as their context.
cbor_token& as_token(void* context) {
  return *static_cast<cbor_token*>(context);
}

/// Fills a token that consists of a kind and a number.
void take_number(void* context, token_kind kind, std::uint64_t v) {
  cbor_token& t = as_token(context);
  t.kind = kind;
  t.number = v;
}
/// The widths of the encoding are not kept; `size` tells them if need be.
void take_unsigned(void* context, std::uint64_t v) {
  take_number(context, token_kind::unsigned_integer, v);
}
void take_negative(void* context, std::uint64_t v) {
  // The number is -1 - v.
  take_number(context, token_kind::negative_integer, v);
}
void take_real(void* context, double v) {
  cbor_token& t = as_token(context);
  t.kind = token_kind::real;
  t.real = v;
}
/// Fills a string. The view refers to the input; nothing is copied.
void take_string(void* context, token_kind kind, cbor_data from, std::size_t n) {
  take_number(context, kind, n);
  as_token(context).content = {reinterpret_cast<const char*>(from), n};
}
/// Fills the beginning of an item of indefinite length; a "break" will end it.
void take_indefinite(void* context, token_kind kind) {
  cbor_token& t = as_token(context);
  t.kind = kind;
  t.indefinite = true;
}

/// All callbacks. None of them keeps state, so one table serves all threads.
cbor_callbacks make_callbacks() {
  // Callbacks that are not set do nothing.
  cbor_callbacks c = cbor_empty_callbacks;
  c.uint8 = [](void* x, std::uint8_t v) { take_unsigned(x, v); };
  c.uint16 = [](void* x, std::uint16_t v) { take_unsigned(x, v); };
  c.uint32 = [](void* x, std::uint32_t v) { take_unsigned(x, v); };
  c.uint64 = [](void* x, std::uint64_t v) { take_unsigned(x, v); };
  c.negint8 = [](void* x, std::uint8_t v) { take_negative(x, v); };
  c.negint16 = [](void* x, std::uint16_t v) { take_negative(x, v); };
  c.negint32 = [](void* x, std::uint32_t v) { take_negative(x, v); };
  c.negint64 = [](void* x, std::uint64_t v) { take_negative(x, v); };
  // All three widths become a double, which holds each of them exactly.
  c.float2 = [](void* x, float v) { take_real(x, static_cast<double>(v)); };
  c.float4 = [](void* x, float v) { take_real(x, static_cast<double>(v)); };
  c.float8 = [](void* x, double v) { take_real(x, v); };
  c.null = [](void* x) { as_token(x).kind = token_kind::null; };
  c.undefined = [](void* x) { as_token(x).kind = token_kind::undefined; };
  c.boolean = [](void* x, bool v) {
    as_token(x).kind = token_kind::boolean;
    as_token(x).boolean = v;
  };
  c.string = [](void* x, cbor_data from, std::size_t n) {
    take_string(x, token_kind::text, from, n);
  };
  c.byte_string = [](void* x, cbor_data from, std::size_t n) {
    take_string(x, token_kind::bytes, from, n);
  };
  // The chunks follow as tokens of their own, up to the "break".
  c.string_start = [](void* x) { take_indefinite(x, token_kind::text_chunks); };
  c.byte_string_start = [](void* x) { take_indefinite(x, token_kind::byte_chunks); };
  c.array_start = [](void* x, std::size_t n) { take_number(x, token_kind::array, n); };
  c.map_start = [](void* x, std::size_t n) { take_number(x, token_kind::map, n); };
  c.indef_array_start = [](void* x) { take_indefinite(x, token_kind::array); };
  c.indef_map_start = [](void* x) { take_indefinite(x, token_kind::map); };
  // Ends the innermost item of indefinite length.
  c.indef_break = [](void* x) { as_token(x).kind = token_kind::stop; };
  return c;
}

/// Returns an error without a place; the decoder adds the offset.
error malformed(std::string_view expected, std::string_view found) {
  return error(errc::corrupt,
               fmt::format("cannot decode CBOR: expected {}, found {}", expected, found));
}
/// Returns the first byte for a message.
std::string first_byte(bytes_view rest) {
  return fmt::format("byte 0x{:02x}", std::to_integer<unsigned>(rest[0]));
}

/// Reads the head of a tag.
/// The lower five bits of the first byte are the number, or say how many bytes have it.
result<cbor_token> next_tag(bytes_view rest) {
  const unsigned info = std::to_integer<unsigned>(rest[0]) & 31u;
  // 28 to 30 are reserved, and 31 has no meaning for a tag.
  if (info > 27) {
    return malformed("a tag", first_byte(rest));
  }
  // Values from 24 to 27 say that 1, 2, 4 or 8 bytes follow with the number (RFC 8949,
  // 3).
  const std::size_t extra = info < 24 ? 0 : std::size_t{1} << (info - 24);
  if (rest.size() < 1 + extra) {
    return malformed("a whole tag", "the end");
  }
  cbor_token t;
  t.kind = token_kind::tag;
  // Replaced below if the number follows in bytes of its own.
  t.number = info;
  for (std::size_t i = 0; i < extra; ++i) {
    // The bytes of the number are in big-endian order.
    t.number = (i == 0 ? 0 : t.number << 8) | std::to_integer<std::uint64_t>(rest[1 + i]);
  }
  t.size = 1 + extra;
  return t;
}

}  // namespace

/// Reads one token of any kind. Errors say whether the input ends too early or is
/// malformed.
result<cbor_token> next_token(bytes_view rest) {
  // Whoever calls this expects an item.
  if (rest.empty()) {
    return malformed("another item", "the end");
  }
  // libcbor 0.8 refuses tags 6 to 20 in their short form, so tags are read here.
  if (std::to_integer<unsigned>(rest[0]) >> 5 == 6) {
    return next_tag(rest);
  }
  // Made at the first use, and never changed.
  static const cbor_callbacks callbacks = make_callbacks();
  cbor_token t;
  const auto* data = reinterpret_cast<cbor_data>(rest.data());
  const cbor_decoder_result r = cbor_stream_decode(data, rest.size(), &callbacks, &t);
  // The head, or the content of a string, goes beyond the end.
  if (r.status == CBOR_DECODER_NEDATA) {
    return malformed("a whole item", "the end");
  }
  // Reserved encodings, which libcbor does not know.
  if (r.status != CBOR_DECODER_FINISHED || r.read == 0) {
    return malformed("a known item", first_byte(rest));
  }
  t.size = r.read;
  return t;
}

/// Names the deviation from the shortest form: an indefinite length, "undefined", or a
/// head or a float that is wider than necessary.
std::string_view excess_of(const cbor_token& t) noexcept {
  if (t.indefinite) {
    return "an item of indefinite length";
  }
  switch (t.kind) {
    case token_kind::undefined: return "undefined";
    // Compared with the shortest float that keeps the value.
    case token_kind::real:
      return cbor_real_size(t.real) != t.size ? "a float wider than need be"
                                              : std::string_view();
    case token_kind::null:
    case token_kind::boolean:
    // One byte in every case.
    case token_kind::stop: return {};
    // The size includes the content, which is no part of the head.
    default:
      return cbor_head_size(t.number) + t.content.size() != t.size
                 ? "an integer or length wider than need be"
                 : std::string_view();
  }
}

}  // namespace weir::formats
