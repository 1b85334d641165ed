// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parameter buffer of a kernel: where each argument lies, and which sizes are right.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"

namespace weir::tessera {

enum class parameter_kind : std::uint32_t { scalar = 0, pointer = 1, opaque = 2 };
enum class parameter_direction : std::uint32_t { in = 0, out = 1, inout = 2 };

/// Address spaces that a parameter may have. @source{Tessera Runtime & ABI, section 9}
enum class address_space : std::uint32_t { generic = 0, global = 1, constant = 4 };

/// One parameter of a kernel.
struct kernel_parameter {
  std::string name;  ///< C identifier, unique within the kernel
  parameter_kind kind = parameter_kind::scalar;
  /// Of the scalar, or of what the pointer points to: an id of the ABI's dtypes; 0 says
  /// nothing, which only pointers and opaque bytes may do.
  std::uint32_t dtype = 0;
  std::uint32_t size = 0;    ///< bytes in the buffer: 8 for pointers
  std::uint32_t offset = 0;  ///< bytes from the start of the buffer
  address_space space = address_space::generic;
  /// What the kernel does to the bytes behind a pointer; `in` for all others.
  parameter_direction direction = parameter_direction::in;

  bool operator==(const kernel_parameter&) const = default;
};

/// `fp32* x`, read only unless said otherwise.
[[nodiscard]] kernel_parameter pointer_parameter(
    std::string name, std::uint32_t dtype,
    parameter_direction direction = parameter_direction::in,
    address_space space = address_space::global);
/// A value of one of the thirteen types; its size is 0, which nothing accepts, for
/// another id.
[[nodiscard]] kernel_parameter scalar_parameter(std::string name, std::uint32_t dtype);
/// A structure by value, of any size; it is aligned to eight bytes.
[[nodiscard]] kernel_parameter opaque_parameter(std::string name, std::uint32_t bytes);

/// Bytes of a dtype of the ABI, 0 for ids that are not in it.
[[nodiscard]] std::uint32_t size_of_dtype(std::uint32_t id) noexcept;
/// Name as in the ABI, e.g. "fp32"; empty for ids that are not in it.
[[nodiscard]] std::string_view name_of_dtype(std::uint32_t id) noexcept;

/// Extent of a parameter buffer. A C compiler's structure of the same members ends
/// between the two.
struct argument_extent {
  std::uint32_t used = 0;    ///< behind the last byte of the last argument
  std::uint32_t padded = 0;  ///< `used`, rounded up to eight

  bool operator==(const argument_extent&) const = default;
};

/// No buffer is longer.
inline constexpr std::uint32_t most_argument_bytes = 65536;

/// Alignment of a parameter: min(size, 8), but 8 for opaque bytes, whose size need not be
/// a power of two.
[[nodiscard]] std::uint32_t alignment_of(const kernel_parameter& parameter) noexcept;

/// Sets the offsets of all parameters: each is the end of the one before, rounded up to
/// its alignment. complex64 therefore begins at a multiple of 8, where a C compiler would
/// take 4, and complex128 too, where a vector type would take 16.
/// @error{invalid_argument, a size that does not fit the kind and dtype, or more than
/// `most_argument_bytes`}
/// @source{Tessera Runtime & ABI, section 10.1}
[[nodiscard]] result<argument_extent> lay_out(std::span<kernel_parameter> parameters);

/// Checks kinds, sizes and offsets of parameters against the rule.
/// @error{invalid_argument, names the first parameter that differs}
[[nodiscard]] result<argument_extent> check_layout(
    std::span<const kernel_parameter> parameters);

/// Extent of parameters that have been laid out.
[[nodiscard]] argument_extent extent_of(
    std::span<const kernel_parameter> parameters) noexcept;

/// What a caller hands over must end behind the last argument and not behind the padding.
/// A kernel without parameters takes nothing, from null too.
/// @error{invalid_argument}
[[nodiscard]] result<void> check_arguments(std::span<const kernel_parameter> parameters,
                                           const void* buffer, std::size_t bytes);

/// Padded buffer with the given bytes, rest zero. @error as of `check_arguments`.
[[nodiscard]] result<byte_vector> copy_arguments(
    std::span<const kernel_parameter> parameters, const void* buffer, std::size_t bytes);

/// Padded buffer out of one value per parameter, little-endian, in order.
/// @error{invalid_argument, another number of values, or a value of another size}
[[nodiscard]] result<byte_vector> pack_arguments(
    std::span<const kernel_parameter> parameters, std::span<const bytes_view> values);

}  // namespace weir::tessera
