// SPDX-License-Identifier: Apache-2.0
/// @file
/// The layout of parameter buffers, and the checks of arguments against it.
///
/// Parameters follow each other in order, each at a multiple of its alignment. Host,
/// kernels and containers of all versions compute the same offsets from the parameters
/// alone; a container stores them as well, so that a disagreement is found when it is
/// read.
///
/// An example: parameters of 4, 8 and 2 bytes have the offsets 0, 8 and 16; 18 bytes are
/// used, and the buffer is padded to 24.
#include "weir/tessera/module/arguments.hpp"

#include <fmt/core.h>

#include <utility>

#include "weir/base/dtype.hpp"

namespace weir::tessera {

namespace {

/// Size of a pointer on every device, and the unit to which buffers are padded. Sizes in
/// bytes.
constexpr std::uint32_t pointer_bytes = 8;
constexpr std::uint32_t unit = 8;

// Returns the facts of a type that the ABI has, or null. Types that only the storage
// formats have are not allowed in kernels.
const dtype_info* abi_dtype(std::uint32_t id) noexcept {
  for (const dtype_info& info : all_dtypes()) {
    if (static_cast<std::uint32_t>(info.id) == id && !info.tessera.empty()) {
      return &info;
    }
  }
  return nullptr;
}

/// Returns the error of a parameter that cannot be laid out.
/// The name of the parameter is part of the message, since a kernel may have many.
error misfit(const kernel_parameter& p, std::string_view expected, std::string found) {
  return error(errc::invalid_argument,
               fmt::format("cannot lay out parameter \"{}\": expected {}, found {}",
                           p.name, expected, found));
}

/// Checks that kind, type, size, direction and address space of a parameter agree.
result<void> check_kind(const kernel_parameter& p) {
  if (p.dtype != 0 && abi_dtype(p.dtype) == nullptr) {
    return misfit(p, "a dtype of the ABI", fmt::format("{}", p.dtype));
  }
  switch (p.kind) {
    // Every device has pointers of 8 bytes.
    case parameter_kind::pointer:
      if (p.size != pointer_bytes) {
        return misfit(p, "8 bytes for a pointer", fmt::format("{}", p.size));
      }
      break;
    // A scalar has the size of its type.
    case parameter_kind::scalar:
      if (p.size == 0 || p.size != size_of_dtype(p.dtype)) {
        return misfit(p, "the size of its dtype",
                      fmt::format("{} bytes for dtype {}", p.size, p.dtype));
      }
      break;
    // Opaque bytes have no type.
    case parameter_kind::opaque:
      if (p.size == 0 || p.dtype != 0) {
        return misfit(p, "bytes without a dtype",
                      fmt::format("{} bytes of dtype {}", p.size, p.dtype));
      }
      break;
    default:
      return misfit(p, "scalar, pointer or opaque",
                    fmt::format("kind {}", static_cast<std::uint32_t>(p.kind)));
  }
  // Only pointers can be written through.
  if (p.direction > parameter_direction::inout ||
      (p.kind != parameter_kind::pointer && p.direction != parameter_direction::in)) {
    return misfit(p, "a direction that its kind has",
                  fmt::format("{}", static_cast<std::uint32_t>(p.direction)));
  }
  // Other address spaces cannot be passed to a kernel.
  if (p.space != address_space::generic && p.space != address_space::global &&
      p.space != address_space::constant) {
    return misfit(p, "address space 0, 1 or 4",
                  fmt::format("{}", static_cast<std::uint32_t>(p.space)));
  }
  return {};
}

// Computes the layout: calls `place(index, offset)` for each parameter and returns the
// size of the buffer. The cursor has 64 bits, so the sum of 32-bit sizes does not
// overflow before it is compared with the limit.
template <class Place>
result<argument_extent> walk(std::span<const kernel_parameter> parameters, Place place) {
  std::uint64_t cursor = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const kernel_parameter& p = parameters[i];
    WEIR_CHECK(check_kind(p));
    // The alignment of a parameter is at most the unit, so the whole buffer needs no
    // more.
    const std::uint64_t offset = align_up<std::uint64_t>(cursor, alignment_of(p));
    // The limit is that of the ABI.
    cursor = offset + p.size;
    if (cursor > max_argument_bytes) {
      return misfit(p, fmt::format("an end at {} or before", max_argument_bytes),
                    fmt::format("{}", cursor));
    }
    // The callback may refuse an offset.
    WEIR_CHECK(place(i, static_cast<std::uint32_t>(offset)));
  }
  const auto used = static_cast<std::uint32_t>(cursor);
  return argument_extent{used, align_up(used, unit)};
}

}  // namespace

// These three make parameters that `check_kind` accepts, for programs and tests that
// describe kernels themselves.
kernel_parameter pointer_parameter(std::string name, std::uint32_t dtype,
                                   parameter_direction direction, address_space space) {
  return {std::move(name), parameter_kind::pointer, dtype, pointer_bytes, 0, space,
          direction};
}
kernel_parameter scalar_parameter(std::string name, std::uint32_t dtype) {
  return {std::move(name),        parameter_kind::scalar, dtype, size_of_dtype(dtype), 0,
          address_space::generic, parameter_direction::in};
}
kernel_parameter opaque_parameter(std::string name, std::uint32_t bytes) {
  return {std::move(name),        parameter_kind::opaque, 0, bytes, 0,
          address_space::generic, parameter_direction::in};
}

/// 0 for a type that the ABI does not have.
std::uint32_t size_of_dtype(std::uint32_t id) noexcept {
  const dtype_info* info = abi_dtype(id);
  return info == nullptr ? 0 : info->size;
}

/// Empty for such a type.
std::string_view name_of_dtype(std::uint32_t id) noexcept {
  const dtype_info* info = abi_dtype(id);
  return info == nullptr ? std::string_view() : info->tessera;
}

// Opaque bytes may have any type inside, so they get the largest alignment.
std::uint32_t alignment_of(const kernel_parameter& p) noexcept {
  return p.kind == parameter_kind::opaque || p.size >= unit || p.size == 0 ? unit
                                                                           : p.size;
}

/// Sets the offsets.
result<argument_extent> lay_out(std::span<kernel_parameter> parameters) {
  return walk(parameters, [&](std::size_t i, std::uint32_t offset) -> result<void> {
    parameters[i].offset = offset;
    return {};
  });
}

// Offsets of a container must be those that the rule gives.
result<argument_extent> check_layout(std::span<const kernel_parameter> parameters) {
  return walk(parameters, [&](std::size_t i, std::uint32_t offset) -> result<void> {
    if (parameters[i].offset != offset) {
      return misfit(parameters[i], fmt::format("offset {}", offset),
                    fmt::format("{}", parameters[i].offset));
    }
    return {};
  });
}

// Requires offsets that `lay_out` or `check_layout` has accepted.
argument_extent extent_of(std::span<const kernel_parameter> parameters) noexcept {
  if (parameters.empty()) {
    return {};
  }
  const std::uint32_t used = parameters.back().offset + parameters.back().size;
  return {used, align_up(used, unit)};
}

// A buffer may end behind the last argument or behind the padding: C structures have the
// padding, packed buffers need not.
result<void> check_arguments(std::span<const kernel_parameter> parameters,
                             const void* buffer, std::size_t bytes) {
  const argument_extent extent = extent_of(parameters);
  if (bytes < extent.used || bytes > extent.padded) {
    return error(errc::invalid_argument,
                 fmt::format("cannot take arguments: expected {} to {} bytes, found {}",
                             extent.used, extent.padded, bytes));
  }
  if (buffer == nullptr && bytes != 0) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot take arguments: expected {} bytes, found null", extent.used));
  }
  return {};
}

// The copy always has the padding, with zeros in it, so that equal arguments are equal
// bytes.
result<byte_vector> copy_arguments(std::span<const kernel_parameter> parameters,
                                   const void* buffer, std::size_t bytes) {
  WEIR_CHECK(check_arguments(parameters, buffer, bytes));
  byte_vector out(extent_of(parameters).padded);
  if (bytes != 0) {
    std::memcpy(out.data(), buffer, bytes);
  }
  return out;
}

// Bytes between arguments are zeros, so equal arguments give equal buffers. `values` has
// one view per parameter, with exactly its bytes.
result<byte_vector> pack_arguments(std::span<const kernel_parameter> parameters,
                                   std::span<const bytes_view> values) {
  if (values.size() != parameters.size()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot pack arguments: expected {} values, found {}",
                             parameters.size(), values.size()));
  }
  byte_vector out(extent_of(parameters).padded);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].size() != parameters[i].size) {
      return error(errc::invalid_argument,
                   fmt::format("cannot pack argument \"{}\": expected {} bytes, found {}",
                               parameters[i].name, parameters[i].size, values[i].size()));
    }
    std::memcpy(out.data() + parameters[i].offset, values[i].data(), values[i].size());
  }
  return out;
}

}  // namespace weir::tessera
