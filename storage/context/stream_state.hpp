// SPDX-License-Identifier: Apache-2.0
/// @file
/// State of a context stream: eras, lanes with their history, and the reading of a lane's
/// text.
#pragma once

#include <array>

#include "context/pages.hpp"
#include "weir/storage/context.hpp"

namespace weir::storage {

/// Tokens per step of the hash chain of a lane.
inline constexpr std::size_t history_block = 64;
/// Largest number of tokens in one chunk.
inline constexpr std::size_t max_chunk = std::size_t{1} << 24;
/// Upper bound of positions, chosen so that offsets computed from them cannot overflow.
inline constexpr std::uint64_t position_limit = std::uint64_t{1} << 62;

/// Place of a token in the source, and the number of tokens of the lane that follow it
/// there without a gap (itself included).
struct location {
  std::uint64_t offset = 0;
  std::uint64_t run = 0;
};
/// Returns the place of the token `delta` tokens after the start of the era. Its offset
/// is at least `position_limit` if it lies beyond every source.
[[nodiscard]] location locate(const era& e, std::uint32_t lane, std::uint64_t delta);
/// Returns the index of the era that holds the token at `position` of a lane. It is the
/// last era that begins at or before it.
[[nodiscard]] std::size_t era_at(std::span<const era> eras, std::uint32_t lane,
                                 std::uint64_t position);

/// Returns the offset in the source up to which the lanes have read everything in an era
/// and nothing behind it; nothing if a lane is ahead of another one.
[[nodiscard]] std::optional<std::uint64_t> level_offset(
    const era& e, std::span<const lane_state> lanes);

/// Returns the offset in the source behind all tokens that the lanes have read in an era.
[[nodiscard]] std::uint64_t consumed_offset(const era& e,
                                            std::span<const lane_state> lanes);

/// Hash chain over blocks of 64 tokens of a lane's text. It does not depend on the chunks
/// in which the tokens came.
class lane_history {
 public:
  lane_history() = default;
  lane_history(std::uint64_t chain, std::span<const std::uint32_t> open);
  /// Adds tokens; every complete block advances the chain.
  void add(std::span<const std::uint32_t> tokens);
  /// Returns the hash over all complete blocks.
  [[nodiscard]] std::uint64_t chain() const noexcept { return chain_; }

 private:
  std::uint64_t chain_ = 0;
  std::size_t open_ = 0;  ///< number of tokens in the incomplete block
  std::array<std::uint32_t, history_block> block_{};
};

/// A lane while the stream is open.
struct lane {
  lane_state progress;
  lane_history history;
  bool after_end_of_text = false;  ///< the last token of the text was a separator
  bool ended = false;              ///< no token is left for the lane in this era
};

/// The stream behind `context_stream`.
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
  /// States of the lanes when the stream was opened or restored.
  std::vector<lane_state> base;
  std::optional<lane_origin> origin;  ///< as in `stream_cursor`
  std::uint32_t base_era = 0;  ///< index of the era in which it was opened or restored

  /// Returns how many tokens all lanes were given, if each is at a given position.
  [[nodiscard]] std::uint64_t tokens_of(std::span<const lane_state> states) const;
  /// Returns how many chunks all lanes were given.
  [[nodiscard]] std::uint64_t chunks_of(std::span<const lane_state> states) const;
  /// Deals the text behind a cursor to other lanes, which begin at given positions.
  /// @pre The lanes of the cursor are level.
  void deal_anew(const stream_cursor& c, const std::vector<std::uint64_t>& starts);

  /// Reads the text of a lane from `position` on, up to the end of the source. The range
  /// may lie in several eras of `within`.
  [[nodiscard]] result<std::size_t> read_lane(std::span<const era> within,
                                              std::uint32_t l, std::uint64_t position,
                                              std::span<std::uint32_t> to);
  /// Makes the cursor for given lane states. @error{source_unavailable, a read failed, or
  /// a pipe no longer holds the tokens}
  [[nodiscard]] result<stream_cursor> make_cursor(std::span<const lane_state> states,
                                                  std::size_t current_era,
                                                  std::uint64_t pulse_id);
  /// Encodes `stream_cursor::source_state`. Also returns the errors of `pack_states`.
  [[nodiscard]] result<byte_vector> source_state(std::span<const era> within,
                                                 std::span<const lane_state> states);
};

/// Returns how many tokens a cursor remembers of a lane that was given `count` tokens.
[[nodiscard]] std::uint64_t window_of(std::size_t lanes, std::uint64_t count);
/// Returns how many tokens a lane was given since it began.
[[nodiscard]] std::uint64_t given_to(const std::optional<lane_origin>& origin,
                                     std::size_t lane, const lane_state& state);
/// Returns `stream_cursor::history_hash` for given lane states.
/// @error{position_out_of_bounds, the source ends before a position}
[[nodiscard]] result<std::uint64_t> history_hash_of(
    context_stream::state& s, std::span<const era> eras,
    std::span<const lane_state> states, const std::optional<lane_origin>& origin);

}  // namespace weir::storage
