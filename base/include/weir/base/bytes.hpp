// SPDX-License-Identifier: Apache-2.0
/// @file
/// Byte views, shapes and endian loads and stores. Everything counts in bytes unless a
/// name says otherwise.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weir {

using bytes_view = std::span<const std::byte>;
using mutable_bytes = std::span<std::byte>;
using byte_vector = std::vector<std::byte>;
/// Extents of a tensor in elements, outermost first; empty for a scalar.
using shape_vector = std::vector<std::int64_t>;

[[nodiscard]] inline bytes_view as_view(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}
[[nodiscard]] inline std::string_view as_text(bytes_view bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline void append(byte_vector& to, bytes_view bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

template <std::unsigned_integral T>
[[nodiscard]] constexpr T byteswap(T value) noexcept {
  T out = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out = static_cast<T>((out << 8) | ((value >> (8 * i)) & 0xFF));
  }
  return out;
}

/// Reads a little- or big-endian unsigned integer; `from` may be unaligned and must have
/// sizeof(T) bytes.
template <std::unsigned_integral T, std::endian E>
[[nodiscard]] inline T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return E == std::endian::native ? value : byteswap(value);
}
template <std::unsigned_integral T, std::endian E>
inline void store(std::byte* to, T value) noexcept {
  if constexpr (E != std::endian::native) {
    value = byteswap(value);
  }
  std::memcpy(to, &value, sizeof(T));
}
template <std::unsigned_integral T>
[[nodiscard]] inline T load_le(const std::byte* from) noexcept {
  return load<T, std::endian::little>(from);
}
template <std::unsigned_integral T>
[[nodiscard]] inline T load_be(const std::byte* from) noexcept {
  return load<T, std::endian::big>(from);
}
template <std::unsigned_integral T>
inline void store_le(std::byte* to, T value) noexcept {
  store<T, std::endian::little>(to, value);
}
template <std::unsigned_integral T>
inline void store_be(std::byte* to, T value) noexcept {
  store<T, std::endian::big>(to, value);
}

/// Reverses every `unit` bytes in place; `bytes.size()` must be a multiple of `unit`.
inline void swap_units(mutable_bytes bytes, std::size_t unit) noexcept {
  if (unit < 2) {
    return;
  }
  for (std::size_t i = 0; i + unit <= bytes.size(); i += unit) {
    std::reverse(bytes.data() + i, bytes.data() + i + unit);
  }
}

template <std::integral T>
[[nodiscard]] constexpr T align_up(T value, T unit) noexcept {
  return (value + unit - 1) / unit * unit;
}
template <std::integral T>
[[nodiscard]] constexpr T align_down(T value, T unit) noexcept {
  return value / unit * unit;
}

/// a + b or a * b, or false on overflow.
template <std::integral T>
[[nodiscard]] inline bool checked_add(T a, T b, T& out) noexcept {
  return !__builtin_add_overflow(a, b, &out);
}
template <std::integral T>
[[nodiscard]] inline bool checked_mul(T a, T b, T& out) noexcept {
  return !__builtin_mul_overflow(a, b, &out);
}

/// Number of elements of a shape, or -1 if it is negative anywhere or exceeds 2^63-1.
[[nodiscard]] inline std::int64_t element_count(
    std::span<const std::int64_t> shape) noexcept {
  std::int64_t count = 1;
  for (std::int64_t n : shape) {
    if (n < 0 || !checked_mul(count, n, count)) {
      return -1;
    }
  }
  return count;
}

}  // namespace weir
