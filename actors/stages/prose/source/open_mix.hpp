// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening and checks of sources that are made of other sources.
#pragma once

#include "stages/prose/source/open_source.hpp"
#include "weir/storage/context.hpp"

namespace weir::actors {

/// Opens the mixture that settings describe. @pre It has sources.
/// @error{invalid_argument, `check_mix` refuses it, or a part cannot begin again}
/// Other errors are those of `open_source` for a part.
[[nodiscard]] result<opened_source> open_mixture(file_system& fs,
                                                 const source_settings& source,
                                                 const named_sources& named);
/// Puts the sample and the shuffle of a source behind it.
/// @error{invalid_argument, the source cannot be read at any index}
[[nodiscard]] result<opened_source> arrange(opened_source opened,
                                            const source_settings& source);
/// Checks the settings of a mixture and the names of its sources.
/// @param prefix  Text before the keys in messages: "stream." or "source.NAME.".
/// @error{invalid_argument, a list has a wrong length, a source does not exist, is named
/// twice or is a mixture itself, or a path stands beside the mixture}
[[nodiscard]] result<void> check_mix(std::string_view prefix,
                                     const source_settings& source,
                                     const named_sources& named);
/// Checks that a stream that begins again behind its source knows where the source ends.
/// @error{invalid_argument, the length of the source is unknown, but it ends}
[[nodiscard]] result<void> check_end(const source_settings& source,
                                     const storage::token_source& tokens,
                                     storage::end_policy end);

}  // namespace weir::actors
