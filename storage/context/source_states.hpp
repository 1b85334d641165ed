// SPDX-License-Identifier: Apache-2.0
/// @file
/// States of a token source at several indices, packed into one block of bytes. Cursors
/// store such a block, and a source that is made of others stores one per part.
#pragma once

#include <span>

#include "weir/storage/context_source.hpp"

namespace weir::storage {

/// Asks a source for its states at `indices` and packs those that are not empty. Indices
/// may repeat; a state that equals the one before it is packed once.
/// @returns no bytes if the source needs no state
/// @error{unsupported, the states are larger than `max_source_state` together}
[[nodiscard]] result<byte_vector> pack_states(const token_source& source,
                                              std::vector<std::uint64_t> indices);
/// Gives a source the states of `pack_states`, in ascending order of the indices.
/// Also returns the errors of `token_source::restore_state`.
/// @error{corrupt, the bytes are none that `pack_states` has made}
[[nodiscard]] result<void> unpack_states(token_source& source, bytes_view packed);

}  // namespace weir::storage
