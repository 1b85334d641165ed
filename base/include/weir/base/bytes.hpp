// SPDX-License-Identifier: Apache-2.0
/// @file
/// Views of bytes, loads and stores of integers in a given byte order, and the arithmetic
/// of sizes: alignment, checked sums and products, element counts.
/// @units{sizes and offsets, bytes}
/// @threads{all functions: safe to call concurrently}
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

/// A view of bytes for reading. It does not own the bytes, which must outlive it.
using bytes_view = std::span<const std::byte>;
/// A view of bytes for reading and writing. It does not own the bytes.
using mutable_bytes = std::span<std::byte>;
/// A vector that owns its bytes.
using byte_vector = std::vector<std::byte>;
/// Extents of a tensor in elements, outermost first; empty for a scalar.
using shape_vector = std::vector<std::int64_t>;

/// Returns the bytes of a text, which must outlive the view.
[[nodiscard]] inline bytes_view as_view(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}
/// Returns bytes as text, without a check of their encoding. The bytes must outlive it.
[[nodiscard]] inline std::string_view as_text(bytes_view bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
/// Appends bytes to a vector. The bytes must not be part of that vector.
inline void append(byte_vector& out, bytes_view bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

/// Returns an integer with its bytes in reverse order.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T byteswap(T value) noexcept {
  T out = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out = static_cast<T>((out << 8) | ((value >> (8 * i)) & 0xFF));
  }
  return out;
}

/// Reads an unsigned integer of byte order `E`.
/// @param from  sizeof(T) readable bytes; they need no alignment.
template <std::unsigned_integral T, std::endian E>
[[nodiscard]] inline T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return E == std::endian::native ? value : byteswap(value);
}
/// Writes an unsigned integer in byte order `E`.
/// @param destination  sizeof(T) writable bytes; they need no alignment.
template <std::unsigned_integral T, std::endian E>
inline void store(std::byte* destination, T value) noexcept {
  if constexpr (E != std::endian::native) {
    value = byteswap(value);
  }
  std::memcpy(destination, &value, sizeof(T));
}
/// Reads a little-endian integer; see `load`.
template <std::unsigned_integral T>
[[nodiscard]] inline T load_le(const std::byte* from) noexcept {
  return load<T, std::endian::little>(from);
}
/// Reads a big-endian integer; see `load`.
template <std::unsigned_integral T>
[[nodiscard]] inline T load_be(const std::byte* from) noexcept {
  return load<T, std::endian::big>(from);
}
/// Writes a little-endian integer; see `store`.
template <std::unsigned_integral T>
inline void store_le(std::byte* destination, T value) noexcept {
  store<T, std::endian::little>(destination, value);
}
/// Writes a big-endian integer; see `store`.
template <std::unsigned_integral T>
inline void store_be(std::byte* destination, T value) noexcept {
  store<T, std::endian::big>(destination, value);
}

/// Changes the byte order of an array in place: reverses each group of `unit` bytes.
/// Bytes behind the last whole group stay as they are.
inline void swap_units(mutable_bytes bytes, std::size_t unit) noexcept {
  if (unit < 2) {
    return;
  }
  for (std::size_t i = 0; i + unit <= bytes.size(); i += unit) {
    std::reverse(bytes.data() + i, bytes.data() + i + unit);
  }
}

/// Returns the smallest multiple of `unit` that is not below `value`.
/// @pre `value` is not negative, `unit` > 0, and the result fits into T
template <std::integral T>
[[nodiscard]] constexpr T align_up(T value, T unit) noexcept {
  return (value + unit - 1) / unit * unit;
}
/// Returns the largest multiple of `unit` that is not above `value`.
/// @pre `value` is not negative and `unit` > 0
template <std::integral T>
[[nodiscard]] constexpr T align_down(T value, T unit) noexcept {
  return value / unit * unit;
}

/// Stores a + b in `out`.
/// @returns Whether the sum fits into T; if not, `out` holds its lowest bits.
template <std::integral T>
[[nodiscard]] inline bool checked_add(T a, T b, T& out) noexcept {
  return !__builtin_add_overflow(a, b, &out);
}
/// Stores a * b in `out`.
/// @returns Whether the product fits into T; if not, `out` holds its lowest bits.
template <std::integral T>
[[nodiscard]] inline bool checked_mul(T a, T b, T& out) noexcept {
  return !__builtin_mul_overflow(a, b, &out);
}

/// Returns the number of elements of a shape: 1 for the empty shape of a scalar.
/// @returns -1 if an extent is negative or the number exceeds 2^63-1.
/// @units{shape, elements}
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
