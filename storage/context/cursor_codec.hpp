// SPDX-License-Identifier: Apache-2.0
/// @file
/// Codecs for the parts of a cursor that checkpoints store separately: the generator
/// state and the source state.
#pragma once

#include "weir/storage/context.hpp"

namespace weir::storage {

/// Returns the XXH3-64 of tokens as little-endian u32.
[[nodiscard]] std::uint64_t hash_tokens(std::span<const std::uint32_t> tokens);

/// Encodes a generator state: no bytes for none, else 32.
[[nodiscard]] byte_vector encode_rng(const std::optional<rng_state>& rng);
/// Decodes the bytes of `encode_rng`. @error{corrupt, there are neither 0 nor 32 bytes,
/// or a reserved byte is set}
[[nodiscard]] result<std::optional<rng_state>> decode_rng(bytes_view bytes);

/// Place at which a lane reads next.
struct stored_place {
  std::uint64_t offset = 0;  ///< offset in the source under its end policy
  std::uint64_t round = 0;   ///< number of times the source was begun again
  std::uint64_t leaf = 0;    ///< number of the file
  std::uint64_t byte = 0;    ///< byte offset in the file
};
/// Content of `stream_cursor::source_state`.
struct stored_source {
  std::vector<stored_place> lanes;
  source_identity identity;
  byte_vector states;  ///< as `pack_states` returns them; empty if the source needs none
  left_out_list left_out;  ///< for people; the states have what a restore needs
};
/// Encodes a source state. Without `states` the bytes are those of version 1, which
/// earlier versions of the library read, too.
[[nodiscard]] byte_vector encode_source_state(const stored_source& state);
/// Decodes the bytes of `encode_source_state`. @error{torn, bytes are missing}
/// @error{corrupt, bytes follow} @error{unsupported_version, a later version has written
/// it}
[[nodiscard]] result<stored_source> decode_source_state(bytes_view bytes);

}  // namespace weir::storage
