// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads pipeline parameters from a descriptor. Errors name the parameter.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/formats/cbor.hpp"

namespace weir::formats {

/// Returns an error such as: cannot use parameter "zfp_rate": expected a number, found
/// nothing.
[[nodiscard]] inline error bad_parameter(errc kind, std::string_view key,
                                         std::string_view expected,
                                         std::string_view found) {
  return error(kind, fmt::format("cannot use parameter \"{}\": expected {}, found {}",
                                 key, expected, found));
}

/// Returns the error code for a parameter that is absent or of the wrong type, where a
/// wrong value would have the code `kind`. The reference distinguishes the two in
/// descriptors that a caller passes.
[[nodiscard]] constexpr errc kind_of_key(errc kind) noexcept {
  return kind == errc::invalid_argument ? errc::unknown_key : kind;
}

/// Returns a value as JSON for error messages.
[[nodiscard]] inline std::string shown(const cbor_value* value) {
  return value == nullptr ? "nothing" : to_json(*value);
}

/// Reads an integer between `low` and `high`; `absent` is the value if the key is absent.
/// @error{kind, an integer of 32 bits outside of the range; kind_of_key(kind), all other
/// cases}
[[nodiscard]] inline result<std::int64_t> integer_parameter(
    const cbor_map& map, std::string_view key, std::int64_t low, std::int64_t high,
    errc kind, std::optional<std::int64_t> absent = {}) {
  // The range is that of the parameter, such as 1 to 32 bits.
  const cbor_value* value = map.find(key);
  if (value == nullptr && absent) {
    return *absent;
  }
  const auto number = value != nullptr ? value->int64() : std::nullopt;
  // The code depends on whether the number would fit into 32 bits, as the reference reads
  // such parameters.
  if (!number || *number < low || *number > high) {
    constexpr std::int64_t half = std::int64_t{1} << 31;
    const std::int64_t least = low < 0 ? -half : 0;
    const bool fits = number && *number >= least && *number < least + 2 * half;
    return bad_parameter(fits ? kind : kind_of_key(kind), key,
                         fmt::format("an integer from {} to {}", low, high),
                         shown(value));
  }
  return *number;
}

/// Reads a real, or an integer that a double holds exactly. @error{kind_of_key(kind)}
[[nodiscard]] inline result<double> real_parameter(const cbor_map& map,
                                                   std::string_view key, errc kind) {
  // Most writers store a real.
  const cbor_value* value = map.find(key);
  if (value != nullptr && value->real()) {
    return *value->real();
  }
  // Up to this limit, every integer is a double.
  constexpr std::int64_t largest = std::int64_t{1} << 53;
  const auto number = value != nullptr ? value->int64() : std::nullopt;
  if (!number || *number > largest || *number < -largest) {
    return bad_parameter(kind_of_key(kind), key, "a number", shown(value));
  }
  return static_cast<double>(*number);
}

/// Reads a text; `absent` is the value if the key is absent. @error{kind_of_key(kind)}
[[nodiscard]] inline result<std::string> text_parameter(
    const cbor_map& map, std::string_view key, errc kind,
    std::optional<std::string> absent = {}) {
  // A key that is present must be a text, even if it could be left out.
  const cbor_value* value = map.find(key);
  if (value == nullptr && absent) {
    return *absent;
  }
  if (value == nullptr || value->text() == nullptr) {
    return bad_parameter(kind_of_key(kind), key, "text", shown(value));
  }
  return *value->text();
}

}  // namespace weir::formats
