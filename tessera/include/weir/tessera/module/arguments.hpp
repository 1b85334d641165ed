// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parameter buffer of a kernel: offsets, sizes and checks of arguments.
/// @threads{values; the functions are safe to call concurrently}
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::tessera {

/// Kinds of parameters.
enum class parameter_kind : std::uint32_t { scalar = 0, pointer = 1, opaque = 2 };
/// Use of the bytes behind a pointer.
enum class parameter_direction : std::uint32_t { in = 0, out = 1, inout = 2 };

/// Address spaces that a parameter may have. @source{Tessera Runtime & ABI, section 9}
enum class address_space : std::uint32_t { generic = 0, global = 1, constant = 4 };

/// One parameter of a kernel.
struct kernel_parameter {
  std::string name;  ///< C identifier, unique within the kernel
  parameter_kind kind = parameter_kind::scalar;  ///< kind
  /// Type of the scalar, or of the elements that the pointer points to, as in the ABI. 0
  /// is unknown, which is for pointers and opaque bytes alone.
  std::uint32_t dtype = 0;
  std::uint32_t size = 0;                        ///< bytes in the buffer: 8 for pointers
  std::uint32_t offset = 0;                      ///< bytes from the start of the buffer
  address_space space = address_space::generic;  ///< address space of a pointer
  /// Use of the bytes behind a pointer; `in` for all other kinds.
  parameter_direction direction = parameter_direction::in;

  bool operator==(const kernel_parameter&) const = default;
};

/// Returns a pointer parameter, by default one that is only read.
[[nodiscard]] kernel_parameter pointer_parameter(
    std::string name, std::uint32_t dtype,
    parameter_direction direction = parameter_direction::in,
    address_space space = address_space::global);
/// Returns a scalar parameter of one of the thirteen types. For another type its size is
/// 0, which no check accepts.
[[nodiscard]] kernel_parameter scalar_parameter(std::string name, std::uint32_t dtype);
/// Returns a parameter for a structure of any size, which is aligned to 8 bytes.
[[nodiscard]] kernel_parameter opaque_parameter(std::string name, std::uint32_t bytes);

/// Returns the size of a type of the ABI, or 0 for another number. @units{bytes}
[[nodiscard]] std::uint32_t size_of_dtype(std::uint32_t id) noexcept;
/// Returns the name of a type of the ABI, such as "fp32", or an empty one.
[[nodiscard]] std::string_view name_of_dtype(std::uint32_t id) noexcept;

/// Size of a parameter buffer. A structure of equal members in C has a size between the
/// two.
struct argument_extent {
  std::uint32_t used = 0;    ///< bytes to the end of the last argument
  std::uint32_t padded = 0;  ///< `used`, rounded up to a multiple of 8

  bool operator==(const argument_extent&) const = default;
};

/// Largest size of a parameter buffer in bytes.
inline constexpr std::uint32_t max_argument_bytes = 65536;

/// Returns the alignment of a parameter: min(size, 8), but 8 for opaque bytes, whose size
/// need not be a power of two.
[[nodiscard]] std::uint32_t alignment_of(const kernel_parameter& parameter) noexcept;

/// Sets the offsets of all parameters: each is the end of the one before, rounded up to
/// its alignment. complex64 therefore begins at a multiple of 8, where a C compiler would
/// take 4, and complex128 too, where a vector type would take 16.
/// @error{invalid_argument; a size that does not fit the kind and dtype, or more than
/// `max_argument_bytes`}
/// @source{Tessera Runtime & ABI, section 10.1}
[[nodiscard]] result<argument_extent> lay_out(std::span<kernel_parameter> parameters);

/// Checks kinds, sizes and offsets of parameters against the rule.
/// @error{invalid_argument; names the first parameter that differs}
[[nodiscard]] result<argument_extent> check_layout(
    std::span<const kernel_parameter> parameters);

/// Returns the size of the buffer for parameters that have offsets.
[[nodiscard]] argument_extent extent_of(
    std::span<const kernel_parameter> parameters) noexcept;

/// Checks the size of a buffer: it ends behind the last argument and not behind the
/// padding. A kernel without parameters takes no bytes, also from null.
/// @error{invalid_argument; another size, or null}
[[nodiscard]] result<void> check_arguments(std::span<const kernel_parameter> parameters,
                                           const void* buffer, std::size_t bytes);

/// Returns a padded copy of a buffer, with zeros in the padding.
/// @error{invalid_argument; see check_arguments}
[[nodiscard]] result<byte_vector> copy_arguments(
    std::span<const kernel_parameter> parameters, const void* buffer, std::size_t bytes);

/// Packs one value per parameter, in order, into a padded little-endian buffer.
/// @error{invalid_argument; another number of values, or a value of another size}
[[nodiscard]] result<byte_vector> pack_arguments(
    std::span<const kernel_parameter> parameters, std::span<const bytes_view> values);

}  // namespace weir::tessera
