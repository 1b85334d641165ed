// SPDX-License-Identifier: Apache-2.0
/// @file
/// Temporary files beside a volume: their names and their removal.
#pragma once

#include <string>

#include "weir/base/error.hpp"

namespace weir::storage::hn4 {

/// Returns a new name for a temporary file, which `hn4_remove_leftovers` recognises.
[[nodiscard]] std::string temporary_path_of(const std::string& path);
/// Removes the temporary files of the index at `index`. The volume must be locked for
/// writing: whoever has made such a file was then killed. @error{io, a file cannot be
/// removed}
[[nodiscard]] result<void> remove_index_leftovers(const std::string& index);

}  // namespace weir::storage::hn4
