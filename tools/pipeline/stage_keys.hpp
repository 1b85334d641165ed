// SPDX-License-Identifier: Apache-2.0
/// @file
/// The keys of one stage in the file of a pipeline.
#pragma once

#include "file.hpp"

namespace weir::tools {

/// Reads a stage of a file: a table of the list `stage`.
/// @error{invalid_argument, `name` or `use` is missing, or a value is refused}
/// @error{unsupported, a key is reserved for a later version}
/// @threads{safe to call concurrently}
[[nodiscard]] result<written_stage> read_stage(const toml_item& table);

/// Returns the keys that every stage may have beside its settings.
/// @threads{safe to call concurrently}
[[nodiscard]] std::vector<std::string> keys_of_every_stage();

/// Sets one key of a stage. A key that is not reserved is a setting of the stage; a later
/// value replaces an earlier one.
/// @error{invalid_argument, unsupported, as of `read_stage`}
/// @threads{thread-compatible}
[[nodiscard]] result<void> set_stage_key(written_stage& stage, const toml_item& item);

}  // namespace weir::tools
