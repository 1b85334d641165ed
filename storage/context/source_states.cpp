// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packs the states of a source.
///
/// The block is a count as u32, then per state the index and the length as u64 and the
/// bytes. No state is empty, so that equal states have one encoding.
///
/// A source without a state, such as files of a small set, has an empty block.
#include "context/source_states.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "weir/base/record.hpp"

namespace weir::storage {

/// Sources without a state of their own inherit these functions.
result<byte_vector> token_source::state(std::uint64_t) const {
  return byte_vector();
}

/// Only mixtures have shares.
result<std::vector<part_share>> token_source::shares(std::uint64_t) const {
  return std::vector<part_share>();
}

result<void> token_source::restore_state(std::uint64_t index, bytes_view state) {
  if (state.empty()) {
    return {};
  }
  // A state that nobody takes means that the settings of the source have changed.
  return error(errc::history_mismatch,
               fmt::format("cannot resume: expected a source without a state, found "
                           "a state of {} bytes at token {}",
                           state.size(), index))
      .hint("the source is of another kind; restore the settings of the source");
}

/// Returns the states of the source at the indices, in ascending order. Equal states
/// that follow each other are stored once.
result<byte_vector> pack_states(const token_source& source,
                                std::vector<std::uint64_t> indices) {
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  record_writer states;
  std::uint32_t count = 0;
  byte_vector last;
  for (const std::uint64_t index : indices) {
    WEIR_TRY(byte_vector state, source.state(index));
    if (state.empty() || state == last) {
      continue;
    }
    states.put(index);
    states.put(static_cast<std::uint64_t>(state.size()));
    states.put_bytes(state);
    last = std::move(state);
    ++count;
    // The limit keeps checkpoints small, since they hold the block of every stream.
    if (states.size() > max_source_state) {
      return error(
          errc::unsupported,
          fmt::format("cannot store the state of source {}: expected at most "
                      "{} bytes, found {}",
                      source.place_text(index), max_source_state, states.size()));
    }
  }
  // Without any state the block is empty, without a count.
  record_writer out;
  if (count > 0) {
    out.put(count);
    out.put_bytes(states.view());
  }
  return std::move(out).take();
}

/// Hands each state to the source, in ascending order of the indices.
result<void> unpack_states(token_source& source, bytes_view packed) {
  if (packed.empty()) {
    return {};
  }
  record_reader from(packed);
  // A state has an index, a length and one byte at least.
  const std::size_t count = from.get_count<std::uint32_t>(17);
  for (std::size_t i = 0; i < count && !from.failed(); ++i) {
    const auto index = from.get<std::uint64_t>();
    const bytes_view state = from.get_bytes(from.get<std::uint64_t>());
    if (!from.failed()) {
      WEIR_CHECK(source.restore_state(index, state));
    }
  }
  // Checked afterwards, so a damaged block may have changed the source; the caller gives
  // it up.
  if (from.failed() || count == 0 || !from.rest().empty()) {
    return error(errc::corrupt,
                 fmt::format("cannot read the states of a source: expected whole "
                             "states, found {} bytes that are none",
                             packed.size()));
  }
  return {};
}

}  // namespace weir::storage
