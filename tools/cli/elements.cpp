// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decodes the small float types by hand; everything else is printed as it is.
#include "elements.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace weir::tools {

namespace {

template <class T>
T element(bytes_view bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
std::string real_json(T value) {
  if (std::isnan(value)) {
    return "\"nan\"";
  }
  if (std::isinf(value)) {
    return value < 0 ? "\"-inf\"" : "\"inf\"";
  }
  return fmt::format("{}", value);
}

// A binary float of `exponent` and `fraction` bits below its sign, with IEEE's
// infinities.
float small_float(std::uint32_t bits, int exponent, int fraction) {
  const std::uint32_t mantissa = bits & ((1U << fraction) - 1);
  const int raw = static_cast<int>(bits >> fraction & ((1U << exponent) - 1));
  const int bias = (1 << (exponent - 1)) - 1;
  const float sign = (bits >> (exponent + fraction) & 1U) != 0 ? -1.0F : 1.0F;
  if (raw == (1 << exponent) - 1) {
    return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  }
  const int scale = raw == 0 ? 1 - bias : raw - bias;
  const float whole =
      static_cast<float>(mantissa) + (raw == 0 ? 0.0F : std::ldexp(1.0F, fraction));
  return sign * std::ldexp(whole, scale - fraction);
}

// e4m3 has no infinities and one NaN per sign: the top exponent holds ordinary numbers
// too.
float e4m3(std::uint8_t bits) {
  if ((bits & 0x7F) == 0x7F) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  if ((bits & 0x78) == 0x78) {
    const float value = std::ldexp(8.0F + static_cast<float>(bits & 7), 8 - 3);
    return (bits & 0x80) != 0 ? -value : value;
  }
  return small_float(bits, 4, 3);
}

template <class T>
std::string complex_json(bytes_view bytes, std::size_t index) {
  return fmt::format("[{}, {}]", real_json(element<T>(bytes, 2 * index)),
                     real_json(element<T>(bytes, 2 * index + 1)));
}

bool bit(bytes_view bytes, std::size_t index) {
  return (static_cast<unsigned>(bytes[index / 8]) >> (7 - index % 8) & 1U) != 0;
}

}  // namespace

std::string element_json(dtype type, bytes_view bytes, std::size_t index) {
  switch (type) {
    case dtype::fp8_e4m3: return real_json(e4m3(element<std::uint8_t>(bytes, index)));
    case dtype::fp8_e5m2:
      return real_json(small_float(element<std::uint8_t>(bytes, index), 5, 2));
    case dtype::fp16:
      return real_json(small_float(element<std::uint16_t>(bytes, index), 5, 10));
    case dtype::bf16:
      return real_json(small_float(element<std::uint16_t>(bytes, index), 8, 7));
    case dtype::fp32: return real_json(element<float>(bytes, index));
    case dtype::fp64: return real_json(element<double>(bytes, index));
    case dtype::int8:
      return fmt::format("{}", static_cast<int>(element<std::int8_t>(bytes, index)));
    case dtype::int16: return fmt::format("{}", element<std::int16_t>(bytes, index));
    case dtype::int32: return fmt::format("{}", element<std::int32_t>(bytes, index));
    case dtype::int64: return fmt::format("{}", element<std::int64_t>(bytes, index));
    case dtype::boolean:
      return element<std::uint8_t>(bytes, index) != 0 ? "true" : "false";
    case dtype::complex64: return complex_json<float>(bytes, index);
    case dtype::complex128: return complex_json<double>(bytes, index);
    case dtype::uint8:
      return fmt::format("{}",
                         static_cast<unsigned>(element<std::uint8_t>(bytes, index)));
    case dtype::uint16: return fmt::format("{}", element<std::uint16_t>(bytes, index));
    case dtype::uint32: return fmt::format("{}", element<std::uint32_t>(bytes, index));
    case dtype::uint64: return fmt::format("{}", element<std::uint64_t>(bytes, index));
    case dtype::bitmask: return bit(bytes, index) ? "true" : "false";
  }
  return "null";
}

}  // namespace weir::tools
