// SPDX-License-Identifier: Apache-2.0
/// @file
/// Element types of tensors: the 13 types of the Tessera ABI under the ids of that ABI,
/// and the types that only Tensogram has.
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weir/base/error.hpp"

namespace weir {

/// Type of one element. The numbers are ids of the ABI and of files: they never change.
/// @source{Tessera Runtime & ABI, appendix B, for 1..13; Tensogram v3 data types
/// for 32..36}
enum class dtype : std::uint8_t {
  fp8_e4m3 = 1,
  fp8_e5m2 = 2,
  fp16 = 3,
  bf16 = 4,
  fp32 = 5,
  fp64 = 6,
  int8 = 7,
  int16 = 8,
  int32 = 9,
  int64 = 10,
  boolean = 11,
  complex64 = 12,
  complex128 = 13,
  uint8 = 32,
  uint16 = 33,
  uint32 = 34,
  uint64 = 35,
  bitmask = 36,  ///< one bit per element, most significant bit first
};

/// Names and sizes of a type.
struct dtype_info {
  dtype id;                    ///< the type that the entry describes
  std::string_view tessera;    ///< name in the Tessera ABI, empty if it has none
  std::string_view tensogram;  ///< name in Tensogram metadata, empty if it has none
  std::uint8_t size;           ///< bytes per element; 0 for bitmask
  std::uint8_t swap_unit;      ///< bytes of one number: half an element if it is complex
};

/// Returns the table of all types, in the order of their ids.
[[nodiscard]] const std::array<dtype_info, 18>& all_dtypes() noexcept;

/// Returns names and sizes of the type with a given id.
/// @error{invalid_argument, no type has this id}
[[nodiscard]] result<dtype_info> info_of(int id);

/// Returns names and sizes of a type.
/// @param type  One of the enumerators; use the overload for `int` for unchecked ids.
[[nodiscard]] const dtype_info& info_of(dtype type) noexcept;

/// Finds a type by its Tessera or Tensogram name.
/// @error{unknown_key, no type has this name; the message suggests the nearest one}
[[nodiscard]] result<dtype> dtype_named(std::string_view name);

/// Returns the bytes that `count` elements take; bits of a bitmask are rounded up.
/// @param count  Number of elements, not negative.
/// @units{return value, bytes}
/// @error{out_of_range, `count` is negative or the product exceeds 2^63-1}
[[nodiscard]] result<std::int64_t> byte_size(dtype type, std::int64_t count);

/// Holds if `T` is `std::complex<Real>` or a type with the layout and the accessors of
/// it. The header `complex` is not included here, because it takes longer to compile than
/// all of this one.
template <class T, class Real>
concept complex_number = sizeof(T) == 2 * sizeof(Real) && requires(const T& z) {
  requires std::same_as<typename T::value_type, Real>;
  { z.real() } -> std::same_as<Real>;
  { z.imag() } -> std::same_as<Real>;
};

/// The dtype of a C++ type, as in `dtype_of<float>` or `dtype_of<std::complex<float>>`;
/// `dtype{}`, which is no type, for types that no dtype describes.
template <class T>
inline constexpr dtype dtype_of = complex_number<T, float>    ? dtype::complex64
                                  : complex_number<T, double> ? dtype::complex128
                                                              : dtype{};
/// The dtype of `float`.
template <>
inline constexpr dtype dtype_of<float> = dtype::fp32;
/// The dtype of `double`.
template <>
inline constexpr dtype dtype_of<double> = dtype::fp64;
/// The dtype of `std::int8_t`.
template <>
inline constexpr dtype dtype_of<std::int8_t> = dtype::int8;
/// The dtype of `std::int16_t`.
template <>
inline constexpr dtype dtype_of<std::int16_t> = dtype::int16;
/// The dtype of `std::int32_t`.
template <>
inline constexpr dtype dtype_of<std::int32_t> = dtype::int32;
/// The dtype of `std::int64_t`.
template <>
inline constexpr dtype dtype_of<std::int64_t> = dtype::int64;
/// The dtype of `std::uint8_t`.
template <>
inline constexpr dtype dtype_of<std::uint8_t> = dtype::uint8;
/// The dtype of `std::uint16_t`.
template <>
inline constexpr dtype dtype_of<std::uint16_t> = dtype::uint16;
/// The dtype of `std::uint32_t`.
template <>
inline constexpr dtype dtype_of<std::uint32_t> = dtype::uint32;
/// The dtype of `std::uint64_t`.
template <>
inline constexpr dtype dtype_of<std::uint64_t> = dtype::uint64;
/// The dtype of `bool`.
template <>
inline constexpr dtype dtype_of<bool> = dtype::boolean;

}  // namespace weir
