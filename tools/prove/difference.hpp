// SPDX-License-Identifier: Apache-2.0
/// @file
/// The first difference between the outputs, or between the recorded items, of two runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prove/tap.hpp"
#include "weir/base/error.hpp"

namespace weir::tools {

/// Two files that differ.
struct file_difference {
  std::string file;          ///< path below the folder of the outputs
  std::uint64_t offset = 0;  ///< first byte that differs, or the end of the shorter file
  bool missing = false;      ///< one of the runs has not written the file
};

/// Returns the first difference between all files below two folders, in the order of
/// their paths; nothing if they are equal.
/// @error{io, a folder or a file cannot be read}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::optional<file_difference>> compare_folders(
    const std::string& first, const std::string& second);

/// Returns the number of the first item that two records do not both have with one
/// digest; nothing if they are equal.
/// @threads{safe to call concurrently}
[[nodiscard]] std::optional<std::uint64_t> first_other_item(
    const std::vector<tap_record>& first, const std::vector<tap_record>& second);

}  // namespace weir::tools
