// SPDX-License-Identifier: Apache-2.0
/// @file
/// Identity and stored state of a mixture.
#pragma once

#include "context/mix/plan.hpp"

namespace weir::storage {

/// Place of a mixture inside a unit, as a cursor stores it.
struct mix_state {
  mix_place place;           ///< begin of the draw
  std::uint64_t inside = 0;  ///< tokens of the unit before the index of the state
};
/// Encodes a state of a mixture, with the states of its parts.
/// @param reached  Where each part goes on; further than `state` inside a draw.
/// Errors are those of `pack_states`.
[[nodiscard]] result<byte_vector> encode_mix_state(const mix_state& state,
                                                   std::span<token_source* const> parts,
                                                   const mix_place& reached);
/// Decodes a state of a mixture and gives the parts their states. Also returns the errors
/// of `unpack_states`.
/// @error{corrupt, the bytes are no state of a mixture of so many parts}
[[nodiscard]] result<mix_state> decode_mix_state(bytes_view bytes,
                                                 std::span<token_source* const> parts);

/// Makes the identity of a mixture.
/// @param first_leaf  Receives the number of the first leaf of each part.
[[nodiscard]] source_identity mix_identity(std::span<token_source* const> parts,
                                           const mix_plan& plan,
                                           std::vector<std::size_t>& first_leaf);
/// Kinds of random sources in `composed_rng`.
inline constexpr std::uint64_t mix_kind = 1;
inline constexpr std::uint64_t shuffle_kind = 2;
inline constexpr std::uint64_t sample_kind = 3;
/// Returns the generator state of a source that is made of parts: the seed, and a digest
/// of the states of the parts. Nothing if neither the source nor a part is random.
/// @param own  Kind of the source; 0 if it is not random itself.
[[nodiscard]] std::optional<rng_state> composed_rng(std::uint64_t own, std::uint64_t seed,
                                                    std::span<token_source* const> parts);

}  // namespace weir::storage
