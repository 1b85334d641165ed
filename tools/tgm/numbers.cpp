// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts elements to doubles and objects to NumPy files.
///
/// A .npy file is a magic number, a version, the length of a header, the header as a
/// Python dictionary, and the elements in C order.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/elements.hpp"
#include "tgm/picture.hpp"
#include "weir/base/small_floats.hpp"

namespace weir::tools {

using formats::object_descriptor;

namespace {

/// Returns element i as a double; the magnitude of a complex number, 0 or 1 for a bit.
/// Integers of 64 bits lose their lowest digits, which neither a picture nor a range
/// shows.
double double_at(dtype type, bytes_view from, std::size_t i) noexcept {
  switch (type) {
    case dtype::fp16:
      return static_cast<double>(fp16_to_float(element_at<std::uint16_t>(from, i)));
    case dtype::bf16:
      return static_cast<double>(bf16_to_float(element_at<std::uint16_t>(from, i)));
    case dtype::fp32: return static_cast<double>(element_at<float>(from, i));
    case dtype::fp64: return element_at<double>(from, i);
    case dtype::complex64:
      return static_cast<double>(
          std::hypot(element_at<float>(from, 2 * i), element_at<float>(from, 2 * i + 1)));
    case dtype::complex128:
      return std::hypot(element_at<double>(from, 2 * i),
                        element_at<double>(from, 2 * i + 1));
    case dtype::int8: return element_at<std::int8_t>(from, i);
    case dtype::int16: return element_at<std::int16_t>(from, i);
    case dtype::int32: return element_at<std::int32_t>(from, i);
    case dtype::int64: return static_cast<double>(element_at<std::int64_t>(from, i));
    case dtype::uint8: return element_at<std::uint8_t>(from, i);
    case dtype::uint16: return element_at<std::uint16_t>(from, i);
    case dtype::uint32: return element_at<std::uint32_t>(from, i);
    case dtype::uint64: return static_cast<double>(element_at<std::uint64_t>(from, i));
    case dtype::bitmask: return bit_at(from, i) ? 1 : 0;
    default: return 0;
  }
}

/// Returns the NumPy name of the type in which elements are stored in a .npy file.
/// "<" is little-endian; "|" marks types of one byte, which have no order.
std::string npy_type(dtype type) {
  switch (type) {
    case dtype::fp16: return "<f2";
    // NumPy has no bfloat16, but every such number is a float32.
    case dtype::bf16:
    case dtype::fp32: return "<f4";
    case dtype::fp64: return "<f8";
    case dtype::complex64: return "<c8";
    case dtype::complex128: return "<c16";
    case dtype::int8: return "|i1";
    case dtype::int16: return "<i2";
    case dtype::int32: return "<i4";
    case dtype::int64: return "<i8";
    case dtype::uint16: return "<u2";
    case dtype::uint32: return "<u4";
    case dtype::uint64: return "<u8";
    // Bytes, and bits as bytes of 0 and 1.
    default: return "|u1";
  }
}

std::size_t count_of(const object_descriptor& descriptor) noexcept {
  return static_cast<std::size_t>(element_count(descriptor.shape));
}

}  // namespace

number_view::number_view(const object_descriptor& descriptor, bytes_view elements)
    : type_(descriptor.type), elements_(elements), size_(count_of(descriptor)) {}

double number_view::operator[](std::size_t i) const noexcept {
  return double_at(type_, elements_, i);
}

value_range range_of(const number_view& values) noexcept {
  // Starts at the empty range, in which the lowest is above the highest. The first finite
  // value sets both.
  value_range out{std::numeric_limits<double>::infinity(),
                  -std::numeric_limits<double>::infinity()};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    if (std::isfinite(value)) {
      out.lowest = std::min(out.lowest, value);
      out.highest = std::max(out.highest, value);
    }
  }
  return out;
}

byte_vector as_npy(const object_descriptor& descriptor, bytes_view elements) {
  // A tuple of one element needs a comma in Python.
  const std::string comma = descriptor.shape.size() == 1 ? "," : "";
  std::string head =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                  npy_type(descriptor.type), fmt::join(descriptor.shape, ", "), comma);
  // Bytes in front of the header: magic number, version and length.
  constexpr std::size_t before = 10;
  // Spaces and a line feed fill the header, so that the elements begin at a multiple of
  // 64 bytes.
  head.append(63 - (before + head.size()) % 64, ' ');
  head += '\n';
  byte_vector out;
  out.reserve(before + head.size() + elements.size());
  // Magic number and version 1.0. The two bytes of the length follow.
  append(out, as_view("\x93NUMPY"));
  out.push_back(std::byte{1});
  out.push_back(std::byte{0});
  out.resize(before);
  store_le(out.data() + 8, static_cast<std::uint16_t>(head.size()));
  append(out, as_view(head));
  // The three branches: bits and bfloat16 are converted one by one, the rest is copied.
  if (descriptor.type == dtype::bitmask) {
    for (std::size_t i = 0; i < count_of(descriptor); ++i) {
      out.push_back(double_at(dtype::bitmask, elements, i) != 0 ? std::byte{1}
                                                                : std::byte{0});
    }
  } else if (descriptor.type == dtype::bf16) {
    for (std::size_t i = 0; i < count_of(descriptor); ++i) {
      const float value = bf16_to_float(element_at<std::uint16_t>(elements, i));
      append(out, std::as_bytes(std::span(&value, 1)));
    }
  } else {
    append(out, elements);
  }
  return out;
}

}  // namespace weir::tools
