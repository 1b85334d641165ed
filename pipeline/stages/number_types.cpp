// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names of the element types with which the basic stages compute.
#include "stages/number_types.hpp"

#include <algorithm>
#include <array>

namespace weir::flow {
namespace {

/// In the order in which messages list them.
constexpr std::array number_types = {
    dtype::fp32,  dtype::fp64,  dtype::int8,   dtype::int16,  dtype::int32,
    dtype::int64, dtype::uint8, dtype::uint16, dtype::uint32, dtype::uint64};

}  // namespace

/// A linear search in a table of ten.
std::optional<dtype> number_type_named(std::string_view text) {
  const auto found =
      std::find_if(number_types.begin(), number_types.end(),
                   [&](const dtype type) { return port_text(type) == text; });
  return found == number_types.end() ? std::nullopt : std::optional(*found);
}

bool is_number_type(dtype type) noexcept {
  return std::find(number_types.begin(), number_types.end(), type) != number_types.end();
}

std::string number_types_text() {
  std::string text = "one of";
  for (const dtype type : number_types) {
    text += (type == number_types.front() ? " " : ", ") + std::string(port_text(type));
  }
  return text;
}

}  // namespace weir::flow
