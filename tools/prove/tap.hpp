// SPDX-License-Identifier: Apache-2.0
/// @file
/// A sink that records a digest of each item, to compare two runs item by item.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/pipeline/catalog.hpp"

namespace weir::tools {

/// Name of the sink among the stages.
inline constexpr std::string_view tap_name = "prove.tap";

/// The record of one item.
struct tap_record {
  std::uint64_t seq = 0;     ///< number of the item
  std::uint64_t digest = 0;  ///< XXH3-64 of type, shape, attributes and bytes
  friend bool operator==(const tap_record&, const tap_record&) = default;
};

/// Adds the sink to a catalog, unless it is there already. It is not among the stages of
/// users.
/// @threads{thread-compatible}
[[nodiscard]] result<void> add_tap(flow::catalog& to);

/// Reads the records of a file that the sink has written.
/// @error{not_found, io, the file cannot be read} @error{torn, it ends in a record}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<tap_record>> read_tap(const std::string& path);

}  // namespace weir::tools
