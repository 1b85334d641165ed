// SPDX-License-Identifier: Apache-2.0
/// @file
/// The element types with which the basic stages compute: integers of 8 to 64 bits, f32
/// and f64.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/pipeline/port_type.hpp"

namespace weir::flow {

/// Returns the type of a name such as `f32`; nothing if the stages cannot compute with
/// it.
[[nodiscard]] std::optional<dtype> number_type_named(std::string_view text);
/// Returns whether the stages can compute with a type.
[[nodiscard]] bool is_number_type(dtype type) noexcept;
/// Returns the types as the rule of a setting: "one of f32, ...".
[[nodiscard]] std::string number_types_text();

/// Calls a function with a value of the C++ type of an element type.
/// @pre `is_number_type(type)`
template <class Function>
decltype(auto) with_number_type(dtype type, const Function& function) {
  switch (type) {
    case dtype::fp32: return function(float{});
    case dtype::fp64: return function(double{});
    case dtype::int8: return function(std::int8_t{});
    case dtype::int16: return function(std::int16_t{});
    case dtype::int32: return function(std::int32_t{});
    case dtype::int64: return function(std::int64_t{});
    case dtype::uint8: return function(std::uint8_t{});
    case dtype::uint16: return function(std::uint16_t{});
    case dtype::uint32: return function(std::uint32_t{});
    default: WEIR_EXPECT(type == dtype::uint64); return function(std::uint64_t{});
  }
}

}  // namespace weir::flow
