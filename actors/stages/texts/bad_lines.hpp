// SPDX-License-Identifier: Apache-2.0
/// @file
/// Bad lines: the errors and the lists that name them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weir/base/error.hpp"

namespace weir::actors {

/// Treatment of a bad line.
enum class line_policy : std::uint8_t {
  stop,  ///< the run ends
  list   ///< the line is listed and left out
};

/// Advice of an error for a bad line.
inline constexpr std::string_view list_advice =
    "a run that begins with --skip-bad FILE of `weir embed` and `weir generate`, or with "
    "bad = \"list\", lists such lines and goes on";

/// Returns the error of a bad line that ends the run, with file and line in front.
/// @param reason  Has the code of the error.
[[nodiscard]] error line_error(const std::string& file, std::uint64_t line,
                               const error& reason);
/// Returns a line of JSON that lists a bad line: `file`, `line`, `offset` and `reason`.
[[nodiscard]] std::string listed_line(const std::string& file, std::uint64_t line,
                                      std::uint64_t offset, std::string_view reason);
/// Returns the lines of two lists in the order of the numbers `line`. Text that is no
/// line of `listed_line` comes first.
[[nodiscard]] std::string merge_lists(std::string_view first, std::string_view second);

}  // namespace weir::actors
