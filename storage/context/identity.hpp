// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes, stores and compares the identities of token sources.
#pragma once

#include "weir/base/record.hpp"
#include "weir/storage/context_source.hpp"

namespace weir::storage {

/// Sets the leaves and `list_digest` of an identity. `rule` is a number that
/// distinguishes sources that join the same leaves differently.
void set_leaves(source_identity& identity, std::vector<source_leaf> leaves,
                std::uint32_t rule);
/// Makes the leaf of a file from its path and its size in bytes.
[[nodiscard]] source_leaf make_leaf(const std::string& path, std::uint64_t bytes);
/// Returns the digest of the tokens from `start` to `end - 1`.
/// @error{source_unavailable, a read failed}
[[nodiscard]] result<std::uint64_t> digest_tokens(token_source& source,
                                                  std::uint64_t start, std::uint64_t end);
/// Reads the whole source and sets the digests of its segments.
/// @error{source_unavailable, a read failed}
[[nodiscard]] result<void> digest_content(token_source& source,
                                          source_identity& identity);

/// Appends the ranges that a part leaves out of its first `index` tokens to those of a
/// whole, whose leaves count from `first_leaf` on for this part.
void append_left_out(std::vector<left_out_range>& all, const token_source& part,
                     std::uint64_t index, std::uint64_t first_leaf);

/// Writes an identity.
void put_identity(record_writer& to, const source_identity& identity);
/// Reads an identity. Errors are left in `from`.
[[nodiscard]] source_identity get_identity(record_reader& from);

/// Compares an identity that a cursor holds with that of a source. It succeeds if the
/// source may continue what was consumed. If the content of both is digested, names and
/// the cut into files do not matter.
/// @param grown  The source may have further tokens behind the expected ones.
/// @error{history_mismatch, names the first file or range of tokens that differs}
/// @error{corrupt, `expected` has another number of digests than its tokens need}
/// @error{source_unavailable, a read failed}
[[nodiscard]] result<void> compare_identity(const source_identity& expected,
                                            token_source& source, bool grown);

}  // namespace weir::storage
