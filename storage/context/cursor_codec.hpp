// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of a cursor that have bytes of their own.
#pragma once

#include "weir/storage/context.hpp"

namespace weir::storage {

/// XXH3-64 of tokens as little-endian u32.
[[nodiscard]] std::uint64_t hash_tokens(std::span<const std::uint32_t> tokens);

/// Empty for none, else 32 bytes.
[[nodiscard]] byte_vector encode_rng(const std::optional<rng_state>& rng);
/// @error{corrupt, neither 0 nor 32 bytes, or a reserved byte}
[[nodiscard]] result<std::optional<rng_state>> decode_rng(bytes_view bytes);

/// Where a lane reads next.
struct stored_place {
  std::uint64_t offset = 0;  ///< in the source under its end policy
  std::uint64_t round = 0;   ///< times the source was begun again
  std::uint64_t leaf = 0;
  std::uint64_t byte = 0;
};
/// Content of `stream_cursor::source_state`.
struct stored_source {
  std::vector<stored_place> lanes;
  source_identity identity;
};
[[nodiscard]] byte_vector encode_source_state(const stored_source& state);
/// @error{torn, corrupt, unsupported_version}
[[nodiscard]] result<stored_source> decode_source_state(bytes_view bytes);

}  // namespace weir::storage
