// SPDX-License-Identifier: Apache-2.0
/// @file
/// The size of attributes. Sinks that write CBOR encode them so.
///
/// The limit on attributes is that of their size as CBOR, the encoding in messages. It is
/// computed here without encoding, for every item with attributes.
#include <cmath>
#include <limits>

#include "weir/pipeline/item.hpp"

namespace weir::flow {
namespace {

/// Bytes of the head of a CBOR item, which holds a number or the length of a text.
std::size_t head_size(std::uint64_t number) noexcept {
  if (number < 24) {
    return 1;
  }
  if (number <= std::numeric_limits<std::uint8_t>::max()) {
    return 2;
  }
  if (number <= std::numeric_limits<std::uint16_t>::max()) {
    return 3;
  }
  return number <= std::numeric_limits<std::uint32_t>::max() ? 5 : 9;
}

/// Returns whether a float with 11 bits of precision and 5 bits of exponent holds a
/// value.
/// Zero, infinities and NaN have a half, too.
bool is_half(double value) noexcept {
  constexpr double largest = 65504;
  if (std::isnan(value) || std::isinf(value) || value == 0) {
    return true;
  }
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  // A subnormal half has fewer bits, the smaller it is.
  const int bits = exponent < -13 ? exponent + 24 : 11;
  return std::abs(value) <= largest && bits > 0 &&
         std::trunc(std::ldexp(fraction, bits)) == std::ldexp(fraction, bits);
}

// CBOR stores -1 - n for a negative n.
std::size_t value_size(std::int64_t value) noexcept {
  return head_size(static_cast<std::uint64_t>(value < 0 ? -(value + 1) : value));
}
std::size_t value_size(std::uint64_t value) noexcept {
  return head_size(value);
}
/// A number takes the shortest float that holds it exactly.
std::size_t value_size(double value) noexcept {
  if (is_half(value)) {
    return 3;
  }
  // A float holds the same value if converting it there and back changes nothing.
  return static_cast<double>(static_cast<float>(value)) == value ? 5 : 9;
}
std::size_t value_size(const std::string& value) noexcept {
  return head_size(value.size()) + value.size();
}

}  // namespace

/// @units{bytes}
std::size_t encoded_size(const attributes& all) noexcept {
  std::size_t bytes = 0;
  for (const auto& [name, value] : all) {
    bytes += value_size(name) +
             std::visit([](const auto& one) { return value_size(one); }, value);
  }
  return bytes;
}

}  // namespace weir::flow
