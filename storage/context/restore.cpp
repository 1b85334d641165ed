// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks a cursor against the source and the configuration, and continues the stream
/// after it.
///
/// The checks go from cheap to expensive, and from the cursor alone to the source:
///
/// - sums and eras inside the cursor, so that later computations cannot overflow;
/// - lanes, lane block and chunk size against the configuration;
/// - the random generator;
/// - the states of the source, which it decodes; its size may depend on them;
/// - ranges that are to be left out from here on;
/// - the end of the source;
/// - the remembered tokens against the source, token by token;
/// - the identity of the source, which finds changes far from the cursor;
/// - the history of everything that was consumed.
///
/// A failure leaves the stream unusable; the caller opens another one.
#include <fmt/core.h>

#include <algorithm>

#include "context/cursor_codec.hpp"
#include "context/identity.hpp"
#include "context/source_states.hpp"
#include "context/stream_state.hpp"
#include "weir/base/hash.hpp"

namespace weir::storage {

namespace {

/// Makes the error for a cursor whose parts contradict each other. The code is that of a
/// damaged file.
error contradiction(std::string_view text) {
  return error(errc::corrupt, fmt::format("cannot restore the stream: {}", text));
}

/// Checks that sums, counts and eras of a cursor agree, before anything is computed from
/// them: a cursor may come from a damaged file.
result<void> check_inside(const stream_cursor& c) {
  std::uint64_t tokens = c.origin ? c.origin->tokens : 0;
  std::uint64_t chunks = c.origin ? c.origin->chunks : 0;
  std::uint64_t window = 0;
  if (tokens >= position_limit || chunks >= position_limit) {
    return contradiction(
        "expected tokens and chunks of lanes before below 2^62, found more");
  }
  for (std::size_t l = 0; l < c.lanes.size(); ++l) {
    if (c.lanes[l].position >= position_limit || c.lanes[l].chunks >= position_limit) {
      return contradiction(fmt::format(
          "expected position and chunks of lane {} below 2^62, found more", l));
    }
    if (c.origin && c.origin->positions[l] > c.lanes[l].position) {
      return contradiction(fmt::format(
          "expected lane {} at or behind its first position, found it before", l));
    }
    const std::uint64_t given = given_to(c.origin, l, c.lanes[l]);
    tokens += given;
    chunks += c.lanes[l].chunks;
    window += window_of(c.lanes.size(), given);
  }
  if (tokens != c.dataset_index || chunks != c.chunk_id || window != c.content_count) {
    return contradiction(
        "expected the counts of its lanes to add up to those of the stream, found "
        "others");
  }
  if (!c.ring.empty() && c.ring.size() != c.content_count) {
    return contradiction(
        fmt::format("expected the {} tokens of the content hash in the ring, found {}",
                    c.content_count, c.ring.size()));
  }
  if (c.eras.empty()) {
    return contradiction("expected at least 1 era, found 0");
  }
  for (std::size_t i = 0; i < c.eras.size(); ++i) {
    const era& e = c.eras[i];
    // The factors of a block are below 2^32, so their product fits into 64 bits.
    if (e.chunk == 0 || e.chunk >> 32 != 0 || e.lane_block == 0 ||
        e.lane_block >> 32 != 0 || e.source_offset >= position_limit ||
        e.lane_positions.size() != c.lanes.size()) {
      return contradiction(
          fmt::format("expected the numbers of era {} in their ranges, found others", i));
    }
    for (std::size_t l = 0; l < c.lanes.size(); ++l) {
      const std::uint64_t next =
          i + 1 < c.eras.size() ? c.eras[i + 1].lane_positions[l] : c.lanes[l].position;
      const std::uint64_t start =
          c.lanes[l].position -
          window_of(c.lanes.size(), given_to(c.origin, l, c.lanes[l]));
      if (e.lane_positions[l] > next || (i == 0 && e.lane_positions[l] > start)) {
        return contradiction(
            fmt::format("expected the positions of lane {} to grow from era to era, "
                        "found a smaller one after era {}",
                        l, i));
      }
    }
  }
  return {};
}

/// Returns whether the stream continues with another chunk size or lane block. The block
/// of one lane has no effect.
bool is_new_era(const era& e, const stream_config& config) {
  return e.chunk != config.chunk ||
         (config.lanes > 1 && e.lane_block != config.lane_block);
}

/// Checks that a new era of several lanes can begin where the old one ends, so that no
/// text is lost or read twice.
result<void> check_level(const stream_cursor& c) {
  if (level_offset(c.eras.back(), c.lanes)) {
    return {};
  }
  return error(errc::config_mismatch,
               fmt::format("cannot begin an era at token {}: expected {} lanes that have "
                           "read the same text up to its end, found one ahead of others",
                           c.dataset_index, c.lanes.size()))
      .hint("go on from a checkpoint behind whole blocks of all lanes");
}

/// Checks lanes, lane block and chunk size. With one lane a new chunk size changes only
/// where chunks end, so it is allowed.
///
/// `accepted` says which changes the caller allows: other lanes with given first
/// positions, or another geometry.
result<void> check_geometry(const stream_cursor& c, const stream_config& config,
                            const restore_policy& accepted) {
  // Other lanes are dealt anew, so their number may differ.
  if (c.lanes.size() != config.lanes && accepted.lane_starts.size() == config.lanes) {
    return check_level(c);
  }
  if (c.lanes.size() != config.lanes) {
    return error(errc::lane_mismatch,
                 fmt::format("cannot restore the stream: expected {} lanes, found {}",
                             c.lanes.size(), config.lanes))
        .hint("lanes are fixed for a run; ranks may change");
  }
  const era& e = c.eras.back();
  if (accepted.geometry) {
    return is_new_era(e, config) ? check_level(c) : result<void>();
  }
  if (config.lanes > 1 && e.lane_block != config.lane_block) {
    return error(
        errc::lane_mismatch,
        fmt::format("cannot restore the stream: expected lane block {}, found {}",
                    e.lane_block, config.lane_block));
  }
  if (config.lanes > 1 && e.chunk != config.chunk) {
    return error(
               errc::config_mismatch,
               fmt::format("cannot restore the stream: expected chunk size {}, found {}",
                           e.chunk, config.chunk))
        .hint("with several lanes the chunk size decides which lane reads what");
  }
  return {};
}

/// Describes a generator state for a message.
std::string text_of(const std::optional<rng_state>& rng) {
  return rng ? fmt::format("algorithm {} version {} key {:#x} counter {:#x}:{:#x}",
                           rng->algorithm, rng->version, rng->key, rng->counter_high,
                           rng->counter_low)
             : "none";
}

/// Checks that the random order, if any, is in the state of the cursor.
result<void> check_rng(const stream_cursor& c, const token_source& source) {
  const std::optional<rng_state> found = source.rng();
  if (c.rng != found) {
    return error(errc::rng_mismatch,
                 fmt::format("cannot restore the stream: expected generator {}, found {}",
                             text_of(c.rng), text_of(found)))
        .located(source.place_text(0));
  }
  return {};
}

/// Checks that every token that was consumed lies inside the source, for every era of
/// every lane.
result<void> check_bounds(const stream_cursor& c, const context_stream::state& s) {
  for (std::uint32_t l = 0; l < c.lanes.size(); ++l) {
    for (std::size_t i = 0; i < c.eras.size(); ++i) {
      const std::uint64_t end =
          i + 1 < c.eras.size() ? c.eras[i + 1].lane_positions[l] : c.lanes[l].position;
      const std::uint64_t delta = end - c.eras[i].lane_positions[l];
      // Offset behind the last token of the lane in this era.
      const std::uint64_t last = delta == 0 ? c.eras[i].source_offset
                                            : locate(c.eras[i], l, delta - 1).offset + 1;
      if (last > std::min(s.pages.end(), position_limit)) {
        return error(errc::position_out_of_bounds,
                     fmt::format(
                         "cannot restore lane {}: expected at least {} tokens in the "
                         "source, found {}",
                         l, last, s.pages.end()))
            .located(s.source->place_text(s.source->size()));
      }
    }
  }
  return {};
}

/// Checks that a source that has grown was not read to its end before: behind its end a
/// loop has begun again.
result<void> check_growth(const stream_cursor& c, const context_stream::state& s,
                          const source_identity& expected) {
  // Identities count the tokens without damage, so that damage is no growth.
  if (s.config.end != end_policy::loop ||
      expected.tokens == s.source->identity().tokens) {
    return {};
  }
  for (std::uint32_t l = 0; l < c.lanes.size(); ++l) {
    const era& e = c.eras.back();
    const std::uint64_t delta = c.lanes[l].position - e.lane_positions[l];
    // The lane stands behind the first pass.
    if (locate(e, l, delta).offset > expected.tokens) {
      return error(errc::history_mismatch,
                   fmt::format("cannot resume on a text that has grown: expected lane {} "
                               "in the first pass over its {} tokens, found it behind",
                               l, expected.tokens))
          .located(s.source->place_text(s.source->size()))
          .hint("restore the text that the run began with, or start another run");
    }
  }
  return {};
}

/// Describes a token for a message.
///
/// Printable characters are shown as such.
std::string text_of(std::uint32_t token) {
  if (token == end_of_text) {
    return "end of text";
  }
  return token > 32 && token < 127
             ? fmt::format("token {} '{}'", token, static_cast<char>(token))
             : fmt::format("token {}", token);
}

/// Returns file and byte of a token of a lane's text.
std::string where_in_lane(const context_stream::state& s, std::span<const era> eras,
                          std::uint32_t l, std::uint64_t position) {
  const era& e = eras[era_at(eras, l, position)];
  const std::uint64_t offset = locate(e, l, position - e.lane_positions[l]).offset;
  return s.source->place_text(std::min(s.pages.index_of(offset), s.source->size()));
}

/// Reads the windows of all lanes again and compares them with the remembered tokens, or
/// only their hash if the cursor does not hold the tokens. `found` receives the windows.
result<void> check_content(context_stream::state& s, const stream_cursor& c,
                           std::vector<std::uint32_t>& found) {
  for (std::uint32_t l = 0; l < c.lanes.size(); ++l) {
    const auto window = static_cast<std::size_t>(
        window_of(c.lanes.size(), given_to(c.origin, l, c.lanes[l])));
    const std::uint64_t start = c.lanes[l].position - window;
    const std::size_t before = found.size();
    // The windows are joined, as in the ring.
    found.resize(before + window);
    const auto tokens = std::span(found).subspan(before);
    WEIR_TRY(const std::size_t got, s.read_lane(c.eras, l, start, tokens));
    // Token by token, so that the error can name the first one that differs.
    for (std::size_t i = 0; !c.ring.empty() && i < got; ++i) {
      if (tokens[i] != c.ring[before + i]) {
        return error(errc::history_mismatch,
                     fmt::format("cannot resume: expected {} as consumed, found {}",
                                 text_of(c.ring[before + i]), text_of(tokens[i])))
            .located(where_in_lane(s, c.eras, l, start + i))
            .hint("the data has changed; restore it, or start another run");
      }
    }
    if (got != window) {
      return error(errc::position_out_of_bounds,
                   fmt::format("cannot resume lane {}: expected {} tokens, found {}", l,
                               window, got))
          .located(where_in_lane(s, c.eras, l, start + got));
    }
  }
  // Without a ring only the hash can be compared; the error then names the begin of the
  // first window.
  if (hash_tokens(found) != c.content_hash) {
    const std::uint64_t start =
        c.lanes[0].position -
        window_of(c.lanes.size(), given_to(c.origin, 0, c.lanes[0]));
    return error(errc::history_mismatch,
                 fmt::format(
                     "cannot resume: expected hash {} of the last {} tokens, found {}",
                     hex64(c.content_hash), c.content_count, hex64(hash_tokens(found))))
        .located(where_in_lane(s, c.eras, 0, start))
        .hint("the data has changed; restore it, or start another run");
  }
  return {};
}

/// Returns the index behind all tokens that were consumed; the size of the source once a
/// round of a loop is complete.
std::uint64_t consumed_end(const context_stream::state& s, const stream_cursor& c) {
  const std::uint64_t end = consumed_offset(c.eras.back(), c.lanes);
  return s.pages.round_of(end) > 0 ? s.source->size() : end;
}

/// Compares the hash over everything that was consumed.
result<void> check_history(context_stream::state& s, const stream_cursor& c) {
  WEIR_TRY(const std::uint64_t found, history_hash_of(s, c.eras, c.lanes, c.origin));
  if (found != c.history_hash) {
    return error(errc::history_mismatch,
                 fmt::format("cannot resume: expected history {}, found {}",
                             hex64(c.history_hash), hex64(found)))
        .located(s.source->place_text(0));
  }
  return {};
}

/// Continues a pipe. It cannot be read again, so the remembered tokens stand for what it
/// delivered before, and its next byte is the next token.
result<void> prepare_pipe(context_stream::state& s, const stream_cursor& c) {
  if (s.source->seekable() || c.lanes.size() > 1) {
    // Several lanes read a live source again from its state.
    return {};  // the states are those of the first token that is read again
  }
  if (c.ring.size() != c.content_count || hash_tokens(c.ring) != c.content_hash) {
    return error(errc::history_mismatch,
                 "cannot continue a pipe: the cursor does not hold the last tokens")
        .located(s.source->place_text(c.dataset_index));
  }
  const era& e = c.eras.back();
  const std::uint64_t offset =
      locate(e, 0, c.lanes[0].position - e.lane_positions[0]).offset;
  return s.source->continue_at(offset, c.ring);
}

/// Makes the era of a new geometry, which begins where the old one ends.
era next_era(const stream_cursor& c, const stream_config& config) {
  const era& old = c.eras.back();
  era next;
  next.first_chunk = c.chunk_id;
  next.first_token = c.dataset_index;
  next.source_offset = level_offset(old, c.lanes).value_or(0);  // checked before
  next.chunk = config.chunk;
  next.lane_block = config.lane_block;
  next.boundary = old.boundary;
  for (std::size_t l = 0; l < c.lanes.size(); ++l) {
    next.lane_positions.push_back(c.lanes[l].position);
    // A reset without a chunk behind it still stands before the first one.
    next.boundary = next.boundary && old.lane_positions[l] == c.lanes[l].position;
  }
  return next;
}

/// Makes the state of a lane after the cursor, with the tokens of its incomplete block.
///
/// One token at least is read if there is one, to know whether it was a separator.
result<lane> lane_at(context_stream::state& s, const stream_cursor& c, std::uint32_t l) {
  lane out;
  out.progress = c.lanes[l];
  const std::uint64_t given = given_to(c.origin, l, out.progress);
  const auto open = static_cast<std::size_t>(given % history_block);
  const std::size_t count = std::max<std::size_t>(open, given > 0 ? 1 : 0);
  std::vector<std::uint32_t> tokens(count);
  WEIR_TRY(const std::size_t got,
           s.read_lane(c.eras, l, out.progress.position - count, tokens));
  WEIR_EXPECT(got == count);
  out.after_end_of_text = count > 0 && tokens.back() == s.source->separator();
  out.history = lane_history(out.progress.history, std::span(tokens).last(open));
  return out;
}

}  // namespace

// The order of the checks is the order in which errors are reported. Nothing in the
// stream changes until all have passed, except that the source accepts its states and a
// pipe its position.
//
// `accepted` is what the caller allows to differ from the run before.
result<void> context_stream::restore(const stream_cursor& c,
                                     const restore_policy& accepted) {
  state& s = *state_;
  if (c.lanes.empty()) {
    return contradiction("expected at least 1 lane, found 0");
  }
  WEIR_CHECK(check_inside(c));
  WEIR_CHECK(check_geometry(c, s.config, accepted));
  WEIR_CHECK(check_rng(c, *s.source));
  WEIR_TRY(const stored_source stored, decode_source_state(c.source_state));
  WEIR_CHECK(unpack_states(*s.source, stored.states));
  // The source must know its place before its size is asked for.
  WEIR_CHECK(s.source->go_on_at(consumed_end(s, c)));
  WEIR_CHECK(check_bounds(c, s));
  WEIR_CHECK(prepare_pipe(s, c));
  // Now the tokens that the cursor remembers.
  std::vector<std::uint32_t> found;
  WEIR_CHECK(check_content(s, c, found));
  WEIR_CHECK(compare_identity(stored.identity, *s.source, accepted.grown));
  WEIR_CHECK(check_growth(c, s, stored.identity));
  WEIR_CHECK(check_history(s, c));
  // Other lanes: only the place in the text is taken over.
  if (c.lanes.size() != s.config.lanes) {
    s.deal_anew(c, accepted.lane_starts);
    return {};
  }
  std::vector<lane> lanes;
  for (std::uint32_t l = 0; l < c.lanes.size(); ++l) {
    WEIR_TRY(lane one, lane_at(s, c, l));
    lanes.push_back(one);
  }
  s.lanes = std::move(lanes);
  s.base = c.lanes;
  s.origin = c.origin;
  s.eras = c.eras;
  // The cursor ends an era.
  if (is_new_era(s.eras.back(), s.config)) {
    s.eras.push_back(next_era(c, s.config));
  }
  s.base_era = static_cast<std::uint32_t>(s.eras.size() - 1);
  return {};
}

}  // namespace weir::storage
