// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes a whole cursor from the marks of committed chunks.
///
/// A cursor consists of what the marks say (positions, counts, hash chains) and of what
/// can be read again from the source at these positions (the last tokens, the incomplete
/// blocks). Nothing in it depends on chunks that were read after the marks.
///
/// cursor_codec.cpp encodes it, and restore.cpp goes the other way.
#include <fmt/core.h>

#include <algorithm>

#include "context/cursor_codec.hpp"
#include "context/source_states.hpp"
#include "context/stream_state.hpp"

namespace weir::storage {

namespace {

/// Returns the index of the first era that the windows of all lanes need. A cursor does
/// not store earlier eras.
std::size_t first_needed(std::span<const era> eras, std::span<const lane_state> states,
                         const std::optional<lane_origin>& origin) {
  std::size_t first = eras.size() - 1;
  // The window is the last part of the text of a lane that a cursor remembers.
  for (std::uint32_t l = 0; l < states.size(); ++l) {
    const std::uint64_t start =
        states[l].position - window_of(states.size(), given_to(origin, l, states[l]));
    first = std::min(first, era_at(eras, l, start));
  }
  return first;
}

/// Returns the offset of a token of a lane's text.
///
/// `l` is the lane, `position` counts tokens of its text.
std::uint64_t offset_of(std::span<const era> eras, std::uint32_t l,
                        std::uint64_t position) {
  const era& e = eras[era_at(eras, l, position)];
  return locate(e, l, position - e.lane_positions[l]).offset;
}

}  // namespace

/// Encodes where each lane reads next, as place in the source and as file and byte for
/// people, and the states of the source for the range that a restore reads.
result<byte_vector> context_stream::state::source_state(
    std::span<const era> within, std::span<const lane_state> states) {
  stored_source out;
  out.identity = source->identity();
  std::uint64_t first = unknown_size;
  std::uint64_t last = 0;
  for (std::uint32_t l = 0; l < states.size(); ++l) {
    // An offset behind the pages that are read is cut to their end.
    const std::uint64_t offset =
        std::min(offset_of(within, l, states[l].position), pages.end());
    const token_source::place place = source->place_of(pages.index_of(offset));
    out.lanes.push_back({offset, pages.round_of(offset), place.leaf, place.byte});
    const std::uint64_t window = window_of(states.size(), given_to(origin, l, states[l]));
    // The smallest offset that a restore reads, and the largest.
    first = std::min(first, offset_of(within, l, states[l].position - window));
    last = std::max(last, offset);
  }
  // States are asked for at these indices of the source.
  std::vector<std::uint64_t> indices = {pages.index_of(last)};
  if (!source->seekable() && states.size() > 1) {
    // Lanes are apart, so the source goes on before the first token that a lane needs.
    // The state behind all tokens that were consumed has the ranges that are left out.
    last = consumed_offset(within.back(), states);
    indices = {std::min(first, last), last};
  }
  // A restore reads whole pages, from the one that has the first token.
  if (source->seekable()) {
    indices.push_back(pages.index_of(token_pages::page_start(std::min(first, last))));
    // The source was begun again, so its state at its end is needed as well.
    if (pages.round_of(last) > 0) {
      indices.push_back(source->size());
    }
  }
  WEIR_TRY(out.states, pack_states(*source, std::move(indices)));
  // What the source has left out up to here.
  for (const left_out_range& range : source->left_out(pages.index_of(last))) {
    WEIR_CHECK(out.left_out.add(range, source->place_text(0)));
  }
  return encode_source_state(out);
}

/// Makes the cursor for given lane states. It reads the last tokens of every lane again,
/// so it depends on the states alone and not on what was read ahead.
///
/// `current_era` is the newest era of the states. The function reads from the source, so
/// it may wait.
result<stream_cursor> context_stream::state::make_cursor(
    std::span<const lane_state> states, std::size_t current_era, std::uint64_t pulse_id) {
  // Later eras are not part of this cursor.
  const std::span<const era> all = std::span<const era>(eras).first(current_era + 1);
  stream_cursor c;
  c.pulse_id = pulse_id;
  c.rng = source->rng();
  c.lanes.assign(states.begin(), states.end());
  c.origin = origin;
  c.dataset_index = tokens_of(states);
  c.chunk_id = chunks_of(states);
  // The ring has the windows of all lanes, one after another.
  for (std::uint32_t l = 0; l < states.size(); ++l) {
    const auto window = static_cast<std::size_t>(
        window_of(states.size(), given_to(origin, l, states[l])));
    const std::size_t before = c.ring.size();
    // The window of this lane is appended to those of the lanes before it.
    c.ring.resize(before + window);
    WEIR_TRY(const std::size_t got, read_lane(all, l, states[l].position - window,
                                              std::span(c.ring).subspan(before)));
    // The source has become shorter.
    if (got != window) {
      return error(
          errc::source_unavailable,
          fmt::format("cannot make a cursor: expected {} tokens of lane {} again, "
                      "found {}",
                      window, l, got));
    }
  }
  c.content_hash = hash_tokens(c.ring);
  c.content_count = c.ring.size();
  WEIR_TRY(c.history_hash, history_hash_of(*this, all, states, origin));
  WEIR_TRY(c.source_state, source_state(all, states));
  c.stream_identity = source->identity().digest();
  // Eras that no window needs are dropped.
  const auto needed = all.subspan(first_needed(all, states, origin));
  c.eras.assign(needed.begin(), needed.end());
  return c;
}

// Marks may come in any order; of several marks of one lane the furthest counts. Lanes
// without a mark keep the state in which the stream was opened or restored.
//
// Called for chunks that a consumer has finished, for instance at each save.
result<stream_cursor> context_stream::cursor_at(std::span<const chunk_mark> committed,
                                                std::uint64_t pulse_id) {
  state& s = *state_;
  std::vector<lane_state> states = s.base;
  std::uint32_t current = s.base_era;
  for (const chunk_mark& mark : committed) {
    if (mark.lane >= states.size() || mark.era >= s.eras.size()) {
      const bool wrong_lane = mark.lane >= states.size();
      return error(errc::invalid_argument,
                   fmt::format("cannot make a cursor: expected {} below {}, found {}",
                               wrong_lane ? "a lane" : "an era",
                               wrong_lane ? states.size() : s.eras.size(),
                               wrong_lane ? mark.lane : mark.era));
    }
    // A mark that is older than the one before changes nothing.
    if (mark.after.position >= states[mark.lane].position) {
      states[mark.lane] = mark.after;
    }
    // The newest era of all marks.
    current = std::max(current, mark.era);
  }
  return s.make_cursor(states, current, pulse_id);
}

/// Serves streams of one lane.
result<stream_cursor> context_stream::cursor_at(const chunk_mark& committed,
                                                std::uint64_t pulse_id) {
  return cursor_at(std::span(&committed, 1), pulse_id);
}

/// The cursor behind everything that was handed out.
result<stream_cursor> context_stream::cursor(std::uint64_t pulse_id) {
  std::vector<lane_state> states;
  for (const lane& l : state_->lanes) {
    states.push_back(l.progress);
  }
  return state_->make_cursor(states, state_->eras.size() - 1, pulse_id);
}

}  // namespace weir::storage
