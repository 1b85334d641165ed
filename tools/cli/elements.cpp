// SPDX-License-Identifier: Apache-2.0
/// @file
/// Prints single elements of tensors as JSON.
///
/// The values are JSON, so that scripts can read them back. Numbers have as many digits
/// as it takes to get the same value again.
#include "elements.hpp"

#include <fmt/core.h>

#include <cmath>

#include "weir/base/small_floats.hpp"

namespace weir::tools {

namespace {

// Returns a number as JSON, which has no NaN and no infinities: those become strings.
template <class T>
std::string real_json(T value) {
  if (std::isnan(value)) {
    return "\"nan\"";
  }
  if (std::isinf(value)) {
    return value < 0 ? "\"-inf\"" : "\"inf\"";
  }
  // fmt writes the shortest text that reads back as the same number.
  return fmt::format("{}", value);
}

/// Returns a complex number as an array of its real and imaginary part.
template <class T>
std::string complex_json(bytes_view bytes, std::size_t index) {
  return fmt::format("[{}, {}]", real_json(element_at<T>(bytes, 2 * index)),
                     real_json(element_at<T>(bytes, 2 * index + 1)));
}

}  // namespace

/// The index must be below the number of elements; the bytes are in native order.
std::string element_json(dtype type, bytes_view bytes, std::size_t index) {
  switch (type) {
    case dtype::fp8_e4m3:
      // Small floats have no type in C++ and are widened, which is exact.
      return real_json(fp8_e4m3_to_float(element_at<std::uint8_t>(bytes, index)));
    case dtype::fp8_e5m2:
      return real_json(fp8_e5m2_to_float(element_at<std::uint8_t>(bytes, index)));
    case dtype::fp16:
      return real_json(fp16_to_float(element_at<std::uint16_t>(bytes, index)));
    case dtype::bf16:
      return real_json(bf16_to_float(element_at<std::uint16_t>(bytes, index)));
    case dtype::fp32: return real_json(element_at<float>(bytes, index));
    case dtype::fp64: return real_json(element_at<double>(bytes, index));
    case dtype::int8:
      // Without the cast, a byte would be printed as a character.
      return fmt::format("{}", static_cast<int>(element_at<std::int8_t>(bytes, index)));
    case dtype::int16: return fmt::format("{}", element_at<std::int16_t>(bytes, index));
    case dtype::int32: return fmt::format("{}", element_at<std::int32_t>(bytes, index));
    case dtype::int64: return fmt::format("{}", element_at<std::int64_t>(bytes, index));
    case dtype::boolean:
      return element_at<std::uint8_t>(bytes, index) != 0 ? "true" : "false";
    case dtype::complex64: return complex_json<float>(bytes, index);
    case dtype::complex128: return complex_json<double>(bytes, index);
    case dtype::uint8:
      return fmt::format("{}",
                         static_cast<unsigned>(element_at<std::uint8_t>(bytes, index)));
    case dtype::uint16: return fmt::format("{}", element_at<std::uint16_t>(bytes, index));
    case dtype::uint32: return fmt::format("{}", element_at<std::uint32_t>(bytes, index));
    case dtype::uint64: return fmt::format("{}", element_at<std::uint64_t>(bytes, index));
    // Bits are packed, eight in a byte.
    case dtype::bitmask: return bit_at(bytes, index) ? "true" : "false";
  }
  // Reached only by a number that is no type at all.
  return "null";
}

}  // namespace weir::tools
