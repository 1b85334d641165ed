// SPDX-License-Identifier: Apache-2.0
/// @file
/// Making, storing and comparing the identities of sources.
#pragma once

#include "weir/base/record.hpp"
#include "weir/storage/context_source.hpp"

namespace weir::storage {

/// Sets leaves and `list_digest`. `rule` tells apart sources that join the same leaves
/// differently.
void set_leaves(source_identity& identity, std::vector<source_leaf> leaves,
                std::uint32_t rule);
[[nodiscard]] source_leaf make_leaf(const std::string& path, std::uint64_t bytes);
/// Reads the whole source and sets its segments.
[[nodiscard]] result<void> digest_content(token_source& source,
                                          source_identity& identity);

void put_identity(record_writer& to, const source_identity& identity);
[[nodiscard]] source_identity get_identity(record_reader& from);

/// Nothing, if `found` (of `source`) may continue what was consumed from `expected`.
/// @error{history_mismatch, the first file or stretch that differs}
[[nodiscard]] result<void> compare_identity(const source_identity& expected,
                                            const token_source& source);

}  // namespace weir::storage
