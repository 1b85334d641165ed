// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pipeline parameters out of a descriptor, each with a name in what can go wrong.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/formats/cbor.hpp"

namespace weir::formats {

/// "cannot use parameter "zfp_rate": expected a number, found nothing".
[[nodiscard]] inline error bad_parameter(errc kind, std::string_view key,
                                         std::string_view expected,
                                         std::string_view found) {
  return error(kind, fmt::format("cannot use parameter \"{}\": expected {}, found {}",
                                 key, expected, found));
}

/// The kind of what is absent or of another type, where the value of a parameter would be
/// of `kind`: the reference tells the two apart in what a caller gives.
[[nodiscard]] constexpr errc kind_of_key(errc kind) noexcept {
  return kind == errc::invalid_argument ? errc::unknown_key : kind;
}

[[nodiscard]] inline std::string shown(const cbor_value* value) {
  return value == nullptr ? "nothing" : to_json(*value);
}

/// An integer between `low` and `high`. @error{kind; kind_of_key(kind), no integer, none
///   of 32 bits, negative where none is}
[[nodiscard]] inline result<std::int64_t> integer_parameter(
    const cbor_map& map, std::string_view key, std::int64_t low, std::int64_t high,
    errc kind, std::optional<std::int64_t> absent = {}) {
  const cbor_value* value = map.find(key);
  if (value == nullptr && absent) {
    return *absent;
  }
  const auto number = value != nullptr ? value->int64() : std::nullopt;
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

/// A real, or an integer that a double holds. @error{kind_of_key(kind)}
[[nodiscard]] inline result<double> real_parameter(const cbor_map& map,
                                                   std::string_view key, errc kind) {
  const cbor_value* value = map.find(key);
  if (value != nullptr && value->real()) {
    return *value->real();
  }
  constexpr std::int64_t largest = std::int64_t{1} << 53;
  const auto number = value != nullptr ? value->int64() : std::nullopt;
  if (!number || *number > largest || *number < -largest) {
    return bad_parameter(kind_of_key(kind), key, "a number", shown(value));
  }
  return static_cast<double>(*number);
}

/// A text, `absent` if the key is not there. @error{kind_of_key(kind)}
[[nodiscard]] inline result<std::string> text_parameter(
    const cbor_map& map, std::string_view key, errc kind,
    std::optional<std::string> absent = {}) {
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
