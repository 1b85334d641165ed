// SPDX-License-Identifier: Apache-2.0
/// @file
/// Hands out chunks and begins new contexts.
///
/// A chunk is read in runs: a block of the lane, the next block of the lane, and so on.
/// Each run asks for one token more than it takes, which is the lookahead if the chunk
/// ends there. The lane's state advances only after the whole chunk was read, so a failed
/// read leaves the stream as it was.
///
/// Chunks are numbered over all lanes by the order in which one reader of the text would
/// take them, so the number does not depend on the order of the calls.
#include <fmt/core.h>

#include <algorithm>

#include "context/stream_state.hpp"

namespace weir::storage {

namespace {

error bad_argument(std::string text) {
  return error(errc::invalid_argument, std::move(text));
}

/// Checks that a source that cannot seek keeps the tokens that lie between the lanes.
///
/// A source that is read once cannot loop. With several lanes, the text between the lane
/// that is behind and the one ahead must be kept by the source.
result<void> check_lanes(const stream_config& c, const token_source& source) {
  const std::uint64_t kept = source.kept_tokens();
  if (c.end == end_policy::loop || (c.lanes > 1 && kept == 0)) {
    return bad_argument(
        fmt::format("cannot open stream on {}: a {} cannot loop", source.place_text(0),
                    kept == 0 ? "pipe feeds one lane and" : "text with a tokenizer"));
  }
  // Half of the tokens, so that a cursor and the lanes find theirs.
  const std::uint64_t most = (kept - std::min<std::uint64_t>(kept, cursor_window)) / 2;
  // Divisions instead of products, since these may overflow.
  if (c.lanes > 1 && c.chunk > most / c.lanes / c.lane_block) {
    return bad_argument(
        fmt::format("cannot open stream on {}: expected at most {} tokens in one block "
                    "of each lane together, found {} lanes with {} chunks of {} tokens",
                    source.place_text(0), most, c.lanes, c.lane_block, c.chunk));
  }
  return {};
}

/// Checks the configuration, also against the source; returns a warning or an empty
/// string.
result<std::string> check_config_for(const stream_config& c, const token_source& source) {
  WEIR_TRY(std::string warning, check_config(c));
  if (!source.seekable()) {
    WEIR_CHECK(check_lanes(c, source));
  }
  return warning;
}

/// Makes the era with which a stream begins. All positions are 0.
era first_era(const stream_config& c) {
  era e;
  e.chunk = c.chunk;
  e.lane_block = c.lane_block;
  e.lane_positions.resize(c.lanes);
  return e;
}

/// Returns whether a token, such as the end of a document, is among some.
bool has_token(std::span<const std::uint32_t> tokens, std::uint32_t wanted) {
  bool any = false;  // no early exit: this loop becomes vector code
  for (const std::uint32_t token : tokens) {
    any |= token == wanted;
  }
  return any;
}

}  // namespace

/// Streams are made by `open` alone.
context_stream::context_stream(std::unique_ptr<state> s) : state_(std::move(s)) {}
context_stream::~context_stream() = default;

result<std::unique_ptr<context_stream>> context_stream::open(
    // The stream owns the source from then on. Nothing is read yet.
    stream_config config, std::unique_ptr<token_source> source) {
  WEIR_EXPECT(source != nullptr);
  WEIR_TRY(std::string warning, check_config_for(config, *source));
  if (source->size() == 0) {
    return error(errc::source_unavailable,
                 "cannot open stream: expected at least 1 token, found 0");
  }
  auto s = std::make_unique<state>(std::move(config), std::move(source));
  s->warning = std::move(warning);
  s->lanes.resize(s->config.lanes);
  s->base.resize(s->config.lanes);
  s->eras.push_back(first_era(s->config));
  return std::unique_ptr<context_stream>(new context_stream(std::move(s)));
}

const stream_config& context_stream::config() const noexcept {
  return state_->config;
}
const token_source& context_stream::source() const noexcept {
  return *state_->source;
}
/// The shares up to the lane that is furthest ahead.
result<std::vector<part_share>> context_stream::shares() const {
  const state& s = *state_;
  const era& e = s.eras.back();
  std::uint64_t furthest = e.source_offset;
  for (std::uint32_t l = 0; l < s.lanes.size(); ++l) {
    const std::uint64_t delta = s.lanes[l].progress.position - e.lane_positions[l];
    if (delta > 0) {
      furthest = std::max(furthest, locate(e, l, delta - 1).offset + 1);
    }
  }
  return s.source->shares(s.pages.index_of(furthest));
}
const std::string& context_stream::warning() const noexcept {
  return state_->warning;
}

/// Tokens that were handed out, those before a change of the lanes included.
std::uint64_t context_stream::position() const noexcept {
  std::uint64_t sum = state_->origin ? state_->origin->tokens : 0;
  for (std::size_t l = 0; l < state_->lanes.size(); ++l) {
    sum += given_to(state_->origin, l, state_->lanes[l].progress);
  }
  return sum;
}

// A lane that turns out to have ended is skipped, and the next one is tried.
//
// `n` is the largest number of tokens, `rank` one of those among which lanes are
// divided. Returns nothing at the end of all lanes of the rank.
result<std::optional<token_chunk>> context_stream::next_chunk(std::size_t n,
                                                              std::uint32_t rank) {
  state& s = *state_;
  if (rank >= s.config.ranks) {
    return bad_argument(fmt::format(
        "cannot read chunk: expected a rank below {}, found {}", s.config.ranks, rank));
  }
  for (;;) {
    std::uint32_t next = s.config.lanes;
    // Lane l belongs to rank l modulo the number of ranks.
    for (std::uint32_t l = rank; l < s.config.lanes; l += s.config.ranks) {
      // The turn goes to the lane with the fewest chunks. That depends on the states of
      // the lanes alone, so a restored stream continues with the same lane.
      if (!s.lanes[l].ended &&
          (next == s.config.lanes ||
           s.lanes[l].progress.chunks < s.lanes[next].progress.chunks)) {
        next = l;
      }
    }
    // All lanes of this rank have ended.
    if (next == s.config.lanes) {
      return std::optional<token_chunk>();
    }
    auto chunk = next_lane_chunk(n, next);
    // An error, or a chunk. Without both, the lane has ended just now.
    if (!chunk || *chunk) {
      return chunk;
    }
  }
}

namespace {

/// Returns how many of `count` tokens a chunk may take. Sources that can seek do not end
/// chunks.
result<std::size_t> run_of(context_stream::state& s, std::uint64_t offset,
                           std::size_t count) {
  return s.source->seekable() ? result<std::size_t>(count)
                              : s.source->chunk_run(offset, count);
}

/// Returns the offset in the source of the next token of a lane. The lane need not be at
/// its first token.
std::uint64_t next_offset(const context_stream::state& s, std::uint32_t l) {
  const era& e = s.eras.back();
  return locate(e, l, s.lanes[l].progress.position - e.lane_positions[l]).offset;
}

/// Returns whether the writer of a live source asks for a new context before the next
/// token of a lane.
bool asks_for_context(const context_stream::state& s, std::uint32_t l) {
  return !s.source->seekable() && s.source->begins_context(next_offset(s, l));
}

/// Reads up to `n` tokens of a lane's text into `chunk.tokens`, and the lookahead.
/// Tokens are read up to the end of the text, of the chunk, or of a turn.
result<void> read_chunk(context_stream::state& s, std::uint32_t l, std::size_t n,
                        token_chunk& chunk) {
  const era& e = s.eras.back();
  const std::uint64_t delta = s.lanes[l].progress.position - e.lane_positions[l];
  chunk.tokens.resize(n + 1);
  std::size_t done = 0;
  bool ahead = true;
  while (done < n && ahead) {
    const location place = locate(e, l, delta + done);
    const auto want =
        static_cast<std::size_t>(std::min<std::uint64_t>(place.run, n - done));
    // Reads one token more than the chunk takes: it is the lookahead, unless the chunk
    // goes on in another block, which overwrites it. A chunk of a live source also ends
    // with a turn, and then nobody knows the token that will follow.
    WEIR_TRY(const std::size_t run, run_of(s, place.offset, want + 1));
    WEIR_TRY(const std::size_t got,
             s.pages.read(place.offset, std::span(chunk.tokens).subspan(done, run)));
    ahead = got > want;
    done += std::min(got, want);
  }
  // The token behind the chunk is known.
  if (ahead) {
    chunk.lookahead = chunk.tokens[done];
  }
  chunk.tokens.resize(done);
  return {};
}

/// Ends a chunk with its first separator; the token behind it becomes the lookahead.
/// Only with the policy `split`. The tokens behind are read again by the next chunk.
void cut_at_boundary(token_chunk& chunk, std::uint32_t separator) {
  const auto found = std::find(chunk.tokens.begin(), chunk.tokens.end(), separator);
  const auto count = static_cast<std::size_t>(found - chunk.tokens.begin()) + 1;
  if (count < chunk.tokens.size()) {
    chunk.lookahead = chunk.tokens[count];
    chunk.tokens.resize(count);
  }
}

/// Lists where documents begin. `before` says that a boundary lies directly before the
/// chunk. A boundary is the index in the chunk at which a document begins; it may be the
/// length of the chunk.
void note_boundaries(token_chunk& chunk, std::uint32_t separator, bool before) {
  if (before) {
    chunk.boundaries.push_back(0);
  }
  for (std::size_t i = 0; i < chunk.tokens.size(); ++i) {
    if (chunk.tokens[i] == separator) {
      chunk.boundaries.push_back(static_cast<std::uint32_t>(i + 1));
    }
  }
  chunk.document_boundary = !chunk.boundaries.empty();
}

}  // namespace

// After a reset the place in the source is another one than the position of the lane.
//
// Returns at once for sources that can seek. One more token is asked for, as the
// lookahead.
result<bool> context_stream::ready(std::size_t n, std::uint32_t index, int wait_ms) {
  const state& s = *state_;
  if (s.source->seekable() || index >= s.config.lanes || s.lanes[index].ended) {
    return true;
  }
  return s.source->ready(next_offset(s, index), n + 1, wait_ms);
}

// Everything that may fail comes first; the state of the lane changes only afterwards.
//
// Returns nothing if the lane has ended.
result<std::optional<token_chunk>> context_stream::next_lane_chunk(std::size_t n,
                                                                   std::uint32_t index) {
  state& s = *state_;
  if (n == 0 || n > max_chunk || index >= s.config.lanes) {
    return bad_argument(
        fmt::format("cannot read chunk: expected 1 to {} tokens of a lane below {}, "
                    "found {} of lane {}",
                    max_chunk, s.config.lanes, n, index));
  }
  lane& l = s.lanes[index];
  if (l.ended) {
    return std::optional<token_chunk>();
  }
  token_chunk chunk;
  WEIR_CHECK(read_chunk(s, index, n, chunk));
  // Nothing is left for this lane.
  if (chunk.tokens.empty()) {
    l.ended = true;
    return std::optional<token_chunk>();
  }
  const era& e = s.eras.back();
  // The first chunk of each lane after a reset has a boundary before it.
  const bool fresh = e.boundary && e.lane_positions[index] == l.progress.position;
  const std::uint32_t separator = s.source->separator();
  const bool inside = has_token(chunk.tokens, separator);
  if (inside && s.config.boundary == boundary_policy::split) {
    cut_at_boundary(chunk, separator);
  }
  chunk.new_context = asks_for_context(s, index);
  const bool before = fresh || l.after_end_of_text || chunk.new_context;
  if (inside || before) {
    note_boundaries(chunk, separator, before);
  }
  // Full blocks of all lanes, the blocks of lanes before this one, and the place in the
  // own block.
  const std::uint64_t block = s.config.lane_block;
  chunk.chunk_id = (l.progress.chunks / block) * s.config.lanes * block + index * block +
                   l.progress.chunks % block + (s.origin ? s.origin->chunks : 0);
  chunk.lane = index;
  chunk.lane_position = l.progress.position;
  // Everything below cannot fail.
  l.history.add(chunk.tokens);
  l.after_end_of_text = chunk.tokens.back() == separator;
  l.progress.position += chunk.tokens.size();
  l.progress.chunks += 1;
  l.progress.history = l.history.chain();
  // The mark lets a cursor be made for this chunk later.
  chunk.mark = {index, static_cast<std::uint32_t>(s.eras.size() - 1), l.progress};
  return std::optional<token_chunk>(std::move(chunk));
}

// The new context begins at the first document behind everything that any lane has read.
// Lanes that are behind never read the blocks before it.
//
// A reset begins an era, in which all lanes begin anew behind one place.
result<void> context_stream::reset() {
  state& s = *state_;
  const era& e = s.eras.back();
  // The lane that is furthest ahead.
  std::uint64_t furthest = e.source_offset;
  bool read = false;
  for (std::uint32_t l = 0; l < s.config.lanes; ++l) {
    const std::uint64_t delta = s.lanes[l].progress.position - e.lane_positions[l];
    if (delta > 0) {
      read = true;
      furthest = std::max(furthest, locate(e, l, delta - 1).offset + 1);
    }
  }
  if (e.boundary && !read) {
    return {};  // nothing was read since the last reset, so this one changes nothing
  }
  era next = first_era(s.config);
  // The next document may be in the next round of a loop.
  WEIR_TRY(next.source_offset, s.pages.next_document(furthest));
  next.boundary = true;
  next.first_token = position();
  next.first_chunk = s.origin ? s.origin->chunks : 0;
  for (std::uint32_t l = 0; l < s.config.lanes; ++l) {
    next.lane_positions[l] = s.lanes[l].progress.position;
    next.first_chunk += s.lanes[l].progress.chunks;
    // A lane that had ended may have text again.
    s.lanes[l].ended = false;
  }
  s.eras.push_back(std::move(next));
  return {};
}

}  // namespace weir::storage
