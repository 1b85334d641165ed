// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a context stream is made of: eras, lanes and their history, and the reading of a
/// lane's text.
#pragma once

#include <array>

#include "context/pages.hpp"
#include "weir/storage/context.hpp"

namespace weir::storage {

inline constexpr std::size_t history_block = 64;
/// Most tokens that one chunk holds.
inline constexpr std::size_t largest_chunk = std::size_t{1} << 24;
/// Positions stay below this, so that offsets computed from them cannot overflow.
inline constexpr std::uint64_t position_limit = std::uint64_t{1} << 62;

/// Where a token of a lane's text lies in the source, and how many follow it there
/// without a gap.
struct location {
  std::uint64_t offset = 0;
  std::uint64_t run = 0;
};
/// `delta` tokens after the lane's start in the era; offset >= position_limit if it lies
/// beyond every source.
[[nodiscard]] location locate(const era& e, std::uint32_t lane, std::uint64_t delta);
/// Index of the era that holds the token at `position` of a lane: the last that begins at
/// or before it.
[[nodiscard]] std::size_t era_at(std::span<const era> eras, std::uint32_t lane,
                                 std::uint64_t position);

/// Chain of hashes over blocks of 64 tokens of a lane's text, whatever chunks they came
/// in.
class lane_history {
 public:
  lane_history() = default;
  lane_history(std::uint64_t chain, std::span<const std::uint32_t> open);
  void add(std::span<const std::uint32_t> tokens);
  [[nodiscard]] std::uint64_t chain() const noexcept { return chain_; }

 private:
  std::uint64_t chain_ = 0;
  std::size_t open_ = 0;
  std::array<std::uint32_t, history_block> block_{};
};

struct lane {
  lane_state at;
  lane_history history;
  bool after_end_of_text = false;  ///< the last token of the lane's text was one
  bool ended = false;
};

struct context_stream::state {
  state(stream_config c, std::unique_ptr<token_source> s)
      : config(std::move(c)),
        source(std::move(s)),
        pages(*source, config.end, config.lanes) {}

  stream_config config;
  std::string warning;
  std::unique_ptr<token_source> source;
  token_pages pages;
  std::vector<lane> lanes;
  std::vector<era> eras;  ///< since the stream was opened or restored, the oldest first
  std::vector<lane_state> base;  ///< lanes when the stream was opened or restored
  std::uint32_t base_era = 0;

  /// Reads lane text from `position` on, up to the end of the source; `to` may lie in
  /// several eras.
  [[nodiscard]] result<std::size_t> read_lane(std::span<const era> within,
                                              std::uint32_t l, std::uint64_t position,
                                              std::span<std::uint32_t> to);
  [[nodiscard]] result<stream_cursor> make_cursor(std::span<const lane_state> at,
                                                  std::size_t current_era,
                                                  std::uint64_t pulse_id);
  [[nodiscard]] byte_vector source_state(std::span<const lane_state> at,
                                         const era& current);
};

/// Tokens of a lane that a cursor remembers when the lane stands at `position`.
[[nodiscard]] std::uint64_t window_of(std::size_t lanes, std::uint64_t position);
/// `history_hash` of a cursor from chains and open blocks.
[[nodiscard]] result<std::uint64_t> history_hash_of(context_stream::state& s,
                                                    std::span<const era> eras,
                                                    std::span<const lane_state> at);

}  // namespace weir::storage
