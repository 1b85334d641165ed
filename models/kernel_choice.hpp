// SPDX-License-Identifier: Apache-2.0
/// @file
/// The choice of a table of kernels by its name.
#pragma once

#include <fmt/core.h>

#include <span>
#include <string>
#include <string_view>

#include "weir/base/error.hpp"

namespace weir::models {

/// Returns the table of the name, or the last one, which is the best, for "auto".
/// @param what  What the kernels are for, in messages.
/// @param tables  The tables that this processor can run; at least one.
/// @error{invalid_argument, no table has the name}
template <typename Table>
[[nodiscard]] result<const Table*> choose_table(std::string_view what,
                                                std::span<const Table* const> tables,
                                                std::string_view name) {
  if (name == "auto") {
    return tables.back();
  }
  std::string known = "auto";
  for (const Table* table : tables) {
    if (name == table->name) {
      return table;
    }
    known += ", ";
    known += table->name;
  }
  return error(errc::invalid_argument,
               fmt::format("{}: expected one of {}, found {}", what, known, name));
}

}  // namespace weir::models
