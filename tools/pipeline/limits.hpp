// SPDX-License-Identifier: Apache-2.0
/// @file
/// Limits in words, such as "8 items, 64 MiB", as files of pipelines write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::tools {

/// Limits that a text names. A kind that the text does not name is absent.
/// @threads{a value}
struct limits {
  std::optional<std::uint64_t> items;  ///< at least 1
  std::optional<std::uint64_t> bytes;  ///< at least 1
  std::optional<double> seconds;       ///< greater than 0
};

/// Reads one limit or several with commas between them. A limit is a number and a unit:
/// `item` or `items`; `B`, `KiB`, `MiB`, `GiB` or `TiB`; `ms`, `s`, `min` or `h`.
/// @returns Nothing if the text has another form, or two limits of one kind.
/// @threads{safe to call concurrently}
[[nodiscard]] std::optional<limits> parse_limits(std::string_view text);

}  // namespace weir::tools
