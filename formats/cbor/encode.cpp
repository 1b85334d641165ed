// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encoding of CBOR in its deterministic form (RFC 8949, 4.2.1): the shortest head, the
/// shortest float that keeps the value, sorted keys. The maps of this library are sorted
/// by construction, so the encoder only walks them.
///
/// libcbor writes the heads, and chooses their shortest form. Reals are written here,
/// because libcbor keeps the width that it is asked for. `decode.cpp` is the counterpart.
#include <cbor.h>

#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "weir/formats/cbor.hpp"

namespace weir::formats {

namespace {

/// The longest head: an initial byte and a number of 8 bytes.
using head_buffer = std::array<unsigned char, 9>;

/// Appends a head that one of libcbor's primitives, which choose the shortest form, has
/// written. `write` gets a buffer and its size, and returns the number of bytes that it
/// has written.
template <class Write>
void append_head(byte_vector& to, Write write) {
  head_buffer buffer{};
  const std::size_t size = write(buffer.data(), buffer.size());
  append(to, std::as_bytes(std::span(buffer.data(), size)));
}

/// Returns the bits of the half-precision number that equals `value` exactly, or nothing
/// if there is none.
/// The exponent of a half goes from -14 to 15 and its fraction has 10 bits, 13 fewer than
/// that of a float. Below 2^-14 a half is subnormal: its last bit is worth 2^-24.
std::optional<std::uint16_t> exact_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // The sign is the topmost bit in both widths.
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const int exponent = static_cast<int>((bits >> 23) & 0xFFu);
  const std::uint32_t fraction = bits & 0x7F'FFFFu;
  if (exponent == 0xFF) {  // infinity; NaN never comes here
    return static_cast<std::uint16_t>(sign | 0x7C00u);
  }
  // Zero of either sign.
  if (exponent == 0 && fraction == 0) {
    return sign;
  }
  const int unbiased = exponent - 127;
  // The lowest 13 bits would be lost, so they must be zero.
  if (unbiased >= -14 && unbiased <= 15 && (fraction & 0x1FFFu) == 0) {
    return static_cast<std::uint16_t>(
        sign | (static_cast<unsigned>(unbiased + 15) << 10) | (fraction >> 13));
  }
  if (unbiased >= -24 &&
      unbiased < -14) {  // subnormal half: the leading one becomes explicit
    const std::uint32_t full = fraction | 0x80'0000u;
    const int shift = -1 - unbiased;  // 14 .. 23 places below the half's last bit
    if ((full & ((1u << shift) - 1u)) == 0) {
      return static_cast<std::uint16_t>(sign | (full >> shift));
    }
  }
  // Too large, too small, or too many bits.
  return std::nullopt;
}

/// Writes the initial byte and the bits of a real in big-endian order, as RFC 8949, 3,
/// demands.
template <std::unsigned_integral T>
void append_float(byte_vector& to, unsigned char initial, T bits) {
  std::array<std::byte, 1 + sizeof(T)> buffer{};
  buffer[0] = std::byte{initial};
  store_be(buffer.data() + 1, bits);
  append(to, buffer);
}

/// Writes a real in the shortest of the three widths that keeps its value. Every NaN
/// becomes the canonical one, 0xF97E00.
void encode_real(double value, byte_vector& to) {
  // A NaN has no width of its own.
  if (std::isnan(value)) {
    append_float<std::uint16_t>(to, 0xF9, 0x7E00);
    return;
  }
  // A value beyond the range of float becomes infinite here and so differs from `value`.
  const auto single = static_cast<float>(value);
  if (static_cast<double>(single) != value) {
    append_float(to, 0xFB, std::bit_cast<std::uint64_t>(value));
  } else if (const auto half = exact_half(single)) {
    // Exact as a half, so two bytes are enough.
    append_float(to, 0xF9, *half);
  } else {
    append_float(to, 0xFA, std::bit_cast<std::uint32_t>(single));
  }
}

}  // namespace

/// Returns the size that `encode_real` will write.
/// The size is 3, 5 or 9 bytes: the initial byte and 2, 4 or 8 bytes of the number.
std::size_t cbor_real_size(double value) noexcept {
  // The same decisions as above, without writing.
  const auto single = static_cast<float>(value);
  if (!std::isnan(value) && static_cast<double>(single) != value) {
    return 9;
  }
  return std::isnan(value) || exact_half(single) ? 3 : 5;
}

namespace {

/// Writes a value that contains no others.
void encode_scalar(const cbor_value& value, byte_vector& to) {
  switch (value.kind()) {
    case cbor_kind::boolean:
      // A boolean is a head without content.
      append_head(
          to, [&](auto* p, auto n) { return cbor_encode_bool(*value.boolean(), p, n); });
      break;
    case cbor_kind::integer:
      append_head(to, [&](auto* p, auto n) {
        const cbor_integer& i = *value.integer();
        // The bits of a negative number are those of -1 - value.
        return i.negative ? cbor_encode_negint(i.bits, p, n)
                          : cbor_encode_uint(i.bits, p, n);
      });
      break;
    case cbor_kind::real: encode_real(*value.real(), to); break;
    case cbor_kind::text:
      append_head(to, [&](auto* p, auto n) {
        return cbor_encode_string_start(value.text()->size(), p, n);
      });
      append(to, as_view(*value.text()));
      break;
    case cbor_kind::bytes:
      append_head(to, [&](auto* p, auto n) {
        return cbor_encode_bytestring_start(value.bytes()->size(), p, n);
      });
      append(to, *value.bytes());
      break;
    // Null; all other kinds are handled above or contain others.
    default: append_head(to, [](auto* p, auto n) { return cbor_encode_null(p, n); });
  }
}

}  // namespace

/// The recursion is bounded for decoded values, whose depth decode_cbor() limits.
void encode_cbor(const cbor_value& value, byte_vector& to) {
  // The head of a container has its number of items. The items follow.
  if (const cbor_array* array = value.array()) {
    append_head(to, [&](auto* p, auto n) {
      return cbor_encode_array_start(array->size(), p, n);
    });
    for (const cbor_value& item : *array) {
      encode_cbor(item, to);
    }
  } else if (const cbor_map* map = value.map()) {
    append_head(
        to, [&](auto* p, auto n) { return cbor_encode_map_start(map->size(), p, n); });
    for (const cbor_entry& entry : *map) {
      encode_cbor(entry.key, to);
      encode_cbor(entry.value, to);
    }
  } else if (const cbor_tag* tag = value.tag()) {
    // A tag has exactly one value.
    WEIR_EXPECT(tag->content.size() == 1);
    append_head(to, [&](auto* p, auto n) { return cbor_encode_tag(tag->number, p, n); });
    encode_cbor(tag->content.front(), to);
  } else {
    encode_scalar(value, to);
  }
}

byte_vector encode_cbor(const cbor_value& value) {
  // Encoding cannot fail except for want of memory.
  byte_vector out;
  encode_cbor(value, out);
  return out;
}

/// Mirrors the widths that libcbor's encoders choose, so that sizes can be computed
/// without encoding.
std::size_t cbor_head_size(std::uint64_t value) noexcept {
  // Small values stand in the initial byte itself.
  if (value < 24) {
    return 1;
  }
  if (value <= 0xFF) {
    return 2;
  }
  if (value <= 0xFFFF) {
    return 3;
  }
  return value <= 0xFFFF'FFFF ? 5 : 9;
}

}  // namespace weir::formats
