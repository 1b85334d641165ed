// SPDX-License-Identifier: Apache-2.0
/// @file
/// Maps the text of a lane to the source, and computes the hash chain over what a lane
/// has read.
///
/// Position p of a lane lies in the last era that began at or before p. Inside the era,
/// the lane owns every L-th block of the source, so its next token is found by a
/// division. The hash chain advances only with complete blocks of 64 tokens. It is
/// therefore the same however the tokens were cut into chunks, and a lane needs to
/// remember at most 63 tokens.
///
/// The positions of a lane never go back; only a new era or a new origin changes how
/// they map to the source.
#include <algorithm>
#include <cstring>

#include "context/stream_state.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/record.hpp"

namespace weir::storage {

// With one lane the text is the source. With several, the lane's block number `delta /
// block` is block `(delta / block) * lanes + lane` of the source.
//
// `delta` is the number of tokens of this lane since the begin of the era. The result is
// the offset in the source and how many tokens follow there without a gap.
location locate(const era& e, std::uint32_t lane, std::uint64_t delta) {
  const std::uint64_t lanes = e.lane_positions.size();
  if (lanes == 1) {
    return {e.source_offset + delta, position_limit};
  }
  // The product may exceed 64 bits if the position comes from a damaged cursor.
  __extension__ using wide = unsigned __int128;
  // A block of a lane is `lane_block` chunks.
  const std::uint64_t block = e.chunk * e.lane_block;
  const std::uint64_t inside = delta % block;
  const wide offset =
      (wide{delta / block} * lanes + lane) * block + inside + e.source_offset;
  return {offset < position_limit ? static_cast<std::uint64_t>(offset) : position_limit,
          block - inside};
}

/// Eras are few, and recent positions are asked for most, so the search goes backwards.
std::size_t era_at(std::span<const era> eras, std::uint32_t lane,
                   std::uint64_t position) {
  std::size_t found = eras.size() - 1;
  while (found > 0 && eras[found].lane_positions[lane] > position) {
    --found;
  }
  return found;
}

// The lanes are level if each has read its part of the first `total` tokens of the era.
//
// Returns the offset behind these tokens, or nothing if the lanes are not level. Only
// level lanes can be dealt anew.
std::optional<std::uint64_t> level_offset(const era& e,
                                          std::span<const lane_state> lanes) {
  std::uint64_t total = 0;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    total += lanes[l].position - e.lane_positions[l];
  }
  // A round of all lanes may exceed 64 bits if the era comes from a damaged cursor.
  __extension__ using wide = unsigned __int128;
  const wide block = e.chunk * e.lane_block;
  const wide round = block * lanes.size();
  for (std::size_t l = 0; lanes.size() > 1 && l < lanes.size(); ++l) {
    // What the last, incomplete round gives to this lane.
    const wide rest = total % round;
    const wide part = rest - std::min(rest, l * block);
    const wide whole = total / round * block + std::min(part, block);
    if (lanes[l].position - e.lane_positions[l] != whole) {
      return std::nullopt;
    }
  }
  return e.source_offset + total;
}

/// First offset that no lane has consumed. Lanes that are ahead count.
std::uint64_t consumed_offset(const era& e, std::span<const lane_state> lanes) {
  std::uint64_t end = e.source_offset;
  for (std::uint32_t l = 0; l < lanes.size(); ++l) {
    const std::uint64_t delta = lanes[l].position - e.lane_positions[l];
    end = delta == 0 ? end : std::max(end, locate(e, l, delta - 1).offset + 1);
  }
  return end;
}

// Continues a chain at a block that already holds the tokens `open`.
lane_history::lane_history(std::uint64_t chain, std::span<const std::uint32_t> open)
    : chain_(chain), open_(open.size()) {
  WEIR_EXPECT(open.size() < history_block);
  std::copy(open.begin(), open.end(), block_.begin());
}

// Tokens are collected until a block is complete; then the chain advances.
//
// A step hashes the chain value and the 64 tokens of the block.
void lane_history::add(std::span<const std::uint32_t> tokens) {
  while (!tokens.empty()) {
    const std::size_t count = std::min(tokens.size(), history_block - open_);
    std::copy_n(tokens.data(), count, block_.data() + open_);
    open_ += count;
    tokens = tokens.subspan(count);
    if (open_ == history_block) {
      // Little-endian, so that the chain is the same on every machine.
      std::array<std::byte, 8 + 4 * history_block> bytes;
      store_le(bytes.data(), chain_);
      for (std::size_t i = 0; i < history_block; ++i) {
        store_le(bytes.data() + 8 + 4 * i, block_[i]);
      }
      chain_ = xxh3_64(bytes);
      open_ = 0;
    }
  }
}

/// Number of tokens of a lane that a cursor remembers: its share of the whole window,
/// and no more than it was given.
std::uint64_t window_of(std::size_t lanes, std::uint64_t count) {
  return std::min<std::uint64_t>(count, std::max<std::size_t>(1, cursor_window / lanes));
}

// Each pass reads one run of tokens: up to the end of a block, of the era, or of `to`.
//
// `within` are the eras to use. Returns fewer tokens only at the end of the source.
result<std::size_t> context_stream::state::read_lane(std::span<const era> within,
                                                     std::uint32_t l,
                                                     std::uint64_t position,
                                                     std::span<std::uint32_t> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const std::size_t e = era_at(within, l, position + done);
    const std::uint64_t delta = position + done - within[e].lane_positions[l];
    const location place = locate(within[e], l, delta);
    std::uint64_t run = place.run;
    // A later era takes over at its first position.
    if (e + 1 < within.size()) {
      run = std::min(run, within[e + 1].lane_positions[l] - position - done);
    }
    const auto want =
        static_cast<std::size_t>(std::min<std::uint64_t>(run, to.size() - done));
    WEIR_TRY(const std::size_t got, pages.read(place.offset, to.subspan(done, want)));
    done += got;
    if (got < want) {
      break;
    }
  }
  return done;
}

// Covers everything that was handed out: complete blocks by the chain, the tokens of the
// incomplete block by reading them again.
//
// The hash proves after a resume that the text before the cursor is the same.
result<std::uint64_t> history_hash_of(context_stream::state& s, std::span<const era> eras,
                                      std::span<const lane_state> states,
                                      const std::optional<lane_origin>& origin) {
  record_writer out;
  // The history of the lanes before the origin.
  if (origin) {
    out.put(origin->history);
  }
  for (std::uint32_t l = 0; l < states.size(); ++l) {
    out.put(states[l].position);
    out.put(states[l].history);
    std::array<std::uint32_t, history_block> open{};
    const auto count =
        static_cast<std::size_t>(given_to(origin, l, states[l]) % history_block);
    const auto tokens = std::span(open).first(count);
    WEIR_TRY(const std::size_t got,
             s.read_lane(eras, l, states[l].position - count, tokens));
    if (got != count) {
      return error(errc::position_out_of_bounds,
                   "cannot hash the history: the source ends before the position");
    }
    out.put_all(std::span<const std::uint32_t>(tokens));
  }
  return xxh3_64(out.view());
}

/// Tokens that a lane was given since its origin.
std::uint64_t given_to(const std::optional<lane_origin>& origin, std::size_t lane,
                       const lane_state& state) {
  return state.position - (origin ? origin->positions[lane] : 0);
}

/// Tokens of all lanes, those before the origin included.
std::uint64_t context_stream::state::tokens_of(std::span<const lane_state> states) const {
  std::uint64_t sum = origin ? origin->tokens : 0;
  for (std::size_t l = 0; l < states.size(); ++l) {
    sum += given_to(origin, l, states[l]);
  }
  return sum;
}

/// Chunks of all lanes, those before the origin included.
std::uint64_t context_stream::state::chunks_of(std::span<const lane_state> states) const {
  std::uint64_t sum = origin ? origin->chunks : 0;
  for (const lane_state& one : states) {
    sum += one.chunks;
  }
  return sum;
}

// The lanes of the cursor are level, so they have read the text up to one offset. From
// there on it is dealt to the new lanes as if they began a stream. Sums over lanes count
// from the first position of each lane, and add those of the lanes before.
//
// `starts` has the first position of each new lane. The stream has no other state
// afterwards.
void context_stream::state::deal_anew(const stream_cursor& c,
                                      const std::vector<std::uint64_t>& starts) {
  era next;
  next.first_chunk = c.chunk_id;
  next.first_token = c.dataset_index;
  next.source_offset = level_offset(c.eras.back(), c.lanes).value_or(0);
  next.chunk = config.chunk;
  next.lane_block = config.lane_block;
  next.lane_positions = starts;
  // What the old lanes have done is kept as numbers and a hash only.
  origin = {c.dataset_index, c.chunk_id, c.history_hash, starts};
  lanes.assign(starts.size(), lane());
  base.assign(starts.size(), lane_state());
  for (std::size_t l = 0; l < starts.size(); ++l) {
    lanes[l].progress.position = starts[l];
    base[l] = lanes[l].progress;
  }
  eras.assign(1, std::move(next));
  base_era = 0;
}

}  // namespace weir::storage
