// SPDX-License-Identifier: Apache-2.0
/// @file
/// Temporary files beside a volume.
#pragma once

#include <string>

#include "weir/base/error.hpp"

namespace weir::storage::hn4 {

/// A name for a temporary file that `hn4_remove_leftovers` knows.
[[nodiscard]] std::string temporary_path_of(const std::string& path);
/// Removes the temporary files of the index at `index`. @pre the volume is locked for
/// writing, so that whoever made one was killed
[[nodiscard]] result<void> remove_index_leftovers(const std::string& index);

}  // namespace weir::storage::hn4
