// SPDX-License-Identifier: Apache-2.0
/// @file
/// Context streams: endless sequences of tokens that are handed out in chunks to lanes
/// and can be resumed at every chunk.
///
/// The source is cut into blocks of S = lane_block * chunk tokens, which are dealt to the
/// L lanes in turn: block k of lane l is block k * L + l of the source. The blocks of a
/// lane, one after another, are the text of the lane; with one lane it is the source
/// itself. A chunk is the next n tokens of that text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/storage/context_source.hpp"

namespace weir {
template <class Owner>
class settings_table;
}

namespace weir::storage {

/// Behaviour after the last token of the source.
enum class end_policy : std::uint8_t {
  loop,   ///< the separator follows, then the first token; chunks are filled across it
  stop,   ///< the last chunk is short, and no chunk follows
  chain,  ///< as `stop`, for a source that `chain_sources` has joined
};
/// Behaviour at the end of a document. The stream itself acts only on `split`; the
/// Conductor acts on the others.
enum class boundary_policy : std::uint8_t {
  never,          ///< the context memory is kept
  at_next_chunk,  ///< it is reset before the first chunk that follows a boundary
  split,          ///< a chunk ends with its first separator
};

/// Geometry and policies of a stream. `stream_settings` has the range of each member.
struct stream_config {
  std::size_t chunk = 64;        ///< nominal tokens per chunk; a call may ask for others
  std::uint32_t lanes = 1;       ///< virtual ranks that share the source
  std::uint32_t lane_block = 1;  ///< chunks that a lane reads before the next lane's turn
  std::uint32_t ranks = 1;       ///< rank r hosts the lanes l with l mod ranks == r
  end_policy end = end_policy::stop;  ///< behaviour after the last token
  /// Behaviour at the end of a document.
  boundary_policy boundary = boundary_policy::never;
  /// Period of each level of the model in tokens, the fastest level first.
  std::vector<std::uint64_t> frequencies = {1, 8, 64, 512};
};

/// Returns the settings of a stream with the ranges that `context_stream::open` accepts.
/// Include "weir/base/settings.hpp" to use the table.
/// @threads{safe to call concurrently}
[[nodiscard]] const settings_table<stream_config>& stream_settings();

/// Checks a configuration as `context_stream::open` does, except for what depends on the
/// source.
/// @returns the warning of `check_chunk_size`
/// @error{invalid_argument, a setting is out of range, there are more ranks than lanes,
/// or `check_chunk_size` refuses the chunk}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::string> check_config(const stream_config& config);

/// Checks a chunk size against the periods of the levels.
/// @param chunk tokens per chunk
/// @param frequencies periods in tokens, the fastest level first
/// @returns a warning for the log, or an empty string
/// @error{invalid_argument, the chunk is empty or shorter than the fastest period}
/// @threads{safe to call concurrently}
/// @source{Context Stream, "Chunk sizing"}
[[nodiscard]] result<std::string> check_chunk_size(
    std::size_t chunk, std::span<const std::uint64_t> frequencies);

/// State of a lane after its last committed chunk.
struct lane_state {
  std::uint64_t position = 0;  ///< tokens of the lane's text that were handed out
  std::uint64_t chunks = 0;    ///< chunks of the lane that were handed out
  std::uint64_t history = 0;   ///< hash chain over the complete blocks of 64 tokens
  friend bool operator==(const lane_state&, const lane_state&) = default;
};

/// A part of the stream in which the geometry does not change. A reset and a new chunk
/// size begin a new era.
struct era {
  std::uint64_t first_chunk = 0;    ///< chunks of all lanes before it
  std::uint64_t first_token = 0;    ///< tokens of all lanes before it
  std::uint64_t source_offset = 0;  ///< token of the source at which lane 0 begins
  std::uint64_t chunk = 0;          ///< nominal tokens per chunk
  std::uint64_t lane_block = 1;     ///< chunks per block
  std::vector<std::uint64_t> lane_positions;  ///< position of every lane at its start
  bool boundary = false;                      ///< true if a reset began it
  friend bool operator==(const era&, const era&) = default;
};

/// Where the lanes of a stream began, if it went on with another number of lanes. What
/// was read before has no lane of theirs.
struct lane_origin {
  std::uint64_t tokens = 0;              ///< tokens that all lanes before had been given
  std::uint64_t chunks = 0;              ///< chunks that all lanes before had been given
  std::uint64_t history = 0;             ///< `stream_cursor::history_hash` before
  std::vector<std::uint64_t> positions;  ///< first position of each lane
  friend bool operator==(const lane_origin&, const lane_origin&) = default;
};

/// Number of tokens that a cursor remembers, shared by the lanes: each has its last
/// `cursor_window / lanes` tokens there, at least 1. A restore compares them.
inline constexpr std::size_t cursor_window = 4096;

/// The exact position of a stream.
///
/// A cursor is a value: equal positions have equal bytes, however much was read ahead.
///
/// `content_hash` is the XXH3-64 of the remembered tokens, lane after lane, as
/// little-endian u32; with one lane these are the last min(position, 4096) tokens.
/// `history_hash` covers everything that was ever handed out: it is the XXH3-64 over, per
/// lane, the position and the hash chain (u64) and the tokens of the incomplete block
/// (u32). The chain starts at H = 0; every complete block of 64 tokens replaces H by the
/// XXH3-64 of H as u64 and the tokens as u32. Behind an origin, the hash before stands in
/// front, and blocks and remembered tokens begin with the first position of the lane.
/// @source{Context Stream, "Stream-state coupling"; context_stream.md, 1.5 and 3.2}
struct stream_cursor {
  std::uint64_t dataset_index = 0;  ///< tokens handed out, summed over the lanes
  std::uint64_t chunk_id = 0;       ///< chunks handed out, summed over the lanes
  std::uint64_t pulse_id = 0;    ///< completed pulses; the Conductor sets it at a commit
  std::optional<rng_state> rng;  ///< unset if the source is in sequential order
  std::uint64_t content_hash = 0;     ///< hash of the remembered tokens
  std::uint64_t content_count = 0;    ///< tokens in `content_hash`
  std::uint64_t history_hash = 0;     ///< hash of all tokens handed out
  std::uint64_t stream_identity = 0;  ///< `source_identity::digest()` of the source
  std::vector<lane_state> lanes;      ///< state of each lane
  std::vector<era> eras;  ///< the current one last, before it those that the window needs
  /// Place at which each lane reads next, and the identity of the source; versioned.
  byte_vector source_state;
  /// The `content_count` remembered tokens themselves; may be empty.
  std::vector<std::uint32_t> ring;
  /// Set if the stream has gone on with another number of lanes.
  std::optional<lane_origin> origin;
  friend bool operator==(const stream_cursor&, const stream_cursor&) = default;
};

/// Encodes a cursor with all its members: little-endian, versioned, reserved bytes zero.
/// @threads{safe to call concurrently}
[[nodiscard]] byte_vector encode(const stream_cursor& cursor);
/// Decodes the bytes of `encode`.
/// @error{corrupt, a length, count or reserved byte or the hash of the ring is wrong}
/// @error{torn, bytes are missing}
/// @error{unsupported_version, a later version has written it}
/// @threads{safe to call concurrently}
[[nodiscard]] result<stream_cursor> decode_cursor(bytes_view bytes);
/// Describes `stream_cursor::source_state` for people: the place of every lane, such as
/// "lane 0: a.txt:1234".
/// @error{torn, bytes are missing}
/// @error{corrupt, bytes follow}
/// @error{unsupported_version, a later version has written it}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::string> describe_source_state(bytes_view source_state);

/// A range that a source leaves out, with the name of its file.
struct named_range {
  std::string file;      ///< name of the leaf, without its folder
  left_out_range range;  ///< bytes of the leaf
};
/// Returns the ranges that the source of a cursor leaves out.
/// @param source_state  `stream_cursor::source_state`
/// @error{torn, corrupt, unsupported_version, the bytes are no source state}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<named_range>> left_out_of(bytes_view source_state);

/// State of one lane after a chunk: 40 bytes, from which `context_stream::cursor_at`
/// makes a whole cursor.
struct chunk_mark {
  std::uint32_t lane = 0;  ///< the lane of the chunk
  std::uint32_t era = 0;   ///< index of the era of the chunk
  lane_state after;        ///< state of the lane after the chunk
};

/// Consecutive tokens of one lane.
struct token_chunk {
  std::vector<std::uint32_t> tokens;  ///< at least 1
  /// Token of the source that follows the last one: the target of the last token. It is
  /// not consumed. At the end of a block it is the first token of the next block, which
  /// belongs to another lane. Unset at the end of the source, and of a turn.
  std::optional<std::uint32_t> lookahead;
  /// Number of the chunk in the stream. Chunk j of lane l has the number
  /// (j div B) * L * B + l * B + j mod B, with L lanes and B chunks per block; with one
  /// lane that is 0, 1, 2, ...
  std::uint64_t chunk_id = 0;
  std::uint32_t lane = 0;           ///< the lane that reads the chunk
  std::uint64_t lane_position = 0;  ///< position of the first token in the lane's text
  /// True if `boundaries` is not empty: a document begins in the chunk or directly after
  /// it, or the stream was reset before it.
  bool document_boundary = false;
  /// Offsets of the first tokens of documents: 0 for a boundary before the chunk,
  /// `tokens.size()` for a boundary at its end.
  std::vector<std::uint32_t> boundaries;
  /// True if the writer of a live source asks for a new context before the chunk, under
  /// any boundary policy.
  bool new_context = false;
  chunk_mark mark;  ///< state of the lane after this chunk
};

/// Returns the number of tokens that the source of a cursor had, or `unknown_size`.
/// @param source_state `stream_cursor::source_state`
/// @error{torn, corrupt, unsupported_version, the bytes are no source state}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::uint64_t> source_tokens(bytes_view source_state);

/// Differences from the stream of a cursor that a restore accepts.
struct restore_policy {
  /// The source may have further tokens behind those that it had. All of those it had are
  /// compared if they were digested.
  bool grown = false;
  /// Another chunk size or lane block of several lanes begins an era. They must be level:
  /// no lane may have read text behind text that another lane has not read.
  bool geometry = false;
  /// First position of each lane, if there may be another number of lanes than before;
  /// empty: there may not. The lanes before must be level. The text goes on behind
  /// them, and is dealt to the new lanes.
  std::vector<std::uint64_t> lane_starts{};
};

/// Hands out the chunks of a context stream.
///
/// Reading ahead changes no result, because a cursor is made of the marks of committed
/// chunks. The chunks of a lane depend on the source, the configuration and the sizes
/// that were asked for in that lane; they depend neither on the number of ranks nor on
/// the order in which the lanes are read.
/// @threads{thread-compatible; may move to another thread between calls}
/// @source{Context Stream, "The Stream Abstraction" and "Multi-GPU Considerations"}
class context_stream {
 public:
  struct state;  ///< private to the implementation

  /// Opens a stream at the first token of a source.
  /// @error{invalid_argument, `check_config` refuses the configuration, or the source is
  /// a pipe and the configuration asks for several lanes or a loop}
  /// @error{source_unavailable, the source holds no token}
  [[nodiscard]] static result<std::unique_ptr<context_stream>> open(
      stream_config config, std::unique_ptr<token_source> source);
  ~context_stream();
  context_stream(const context_stream&) = delete;
  context_stream& operator=(const context_stream&) = delete;

  /// Returns the next chunk of the lanes of a rank, in turn.
  ///
  /// A chunk has exactly `n` tokens, fewer at the end of the source, at the end of a turn
  /// of a live source and, under `split`, at a document boundary.
  /// @returns nothing once all lanes of the rank have ended
  /// @error{invalid_argument, `n` is 0 or above 2^24, or there is no such rank}
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] result<std::optional<token_chunk>> next_chunk(std::size_t n,
                                                              std::uint32_t rank = 0);
  /// Returns the next chunk of one lane.
  /// @returns nothing once the lane has ended
  /// @error{invalid_argument, `n` is 0 or above 2^24, or there is no such lane}
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] result<std::optional<token_chunk>> next_lane_chunk(std::size_t n,
                                                                   std::uint32_t lane);

  /// Returns whether `next_lane_chunk` would not have to wait for the writer of a pipe.
  /// Waits for it for a limited time. @param wait_ms  Most milliseconds to wait.
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] result<bool> ready(std::size_t n, std::uint32_t lane, int wait_ms);

  /// Begins a new context at the first document that no lane has begun to read.
  ///
  /// The rest of the furthest document is left out. The next chunk of every lane has
  /// `document_boundary`; chunk numbers and positions continue.
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] result<void> reset();
  /// Returns the number of tokens handed out, summed over the lanes.
  [[nodiscard]] std::uint64_t position() const noexcept;

  /// Makes the cursor after committed chunks and all earlier chunks of their lanes.
  ///
  /// A lane without a mark stands where the stream was opened or restored. Chunks that
  /// were read later have no influence.
  /// @param committed marks in any order
  /// @param pulse_id completed pulses, stored in the cursor
  /// @error{invalid_argument, a mark names a lane or an era that does not exist}
  /// @error{source_unavailable, a read failed, or a pipe no longer holds the tokens}
  [[nodiscard]] result<stream_cursor> cursor_at(std::span<const chunk_mark> committed,
                                                std::uint64_t pulse_id);
  /// Makes the cursor after one committed chunk. Also returns the errors of the other
  /// overload.
  [[nodiscard]] result<stream_cursor> cursor_at(const chunk_mark& committed,
                                                std::uint64_t pulse_id);
  /// Makes the cursor after everything that was handed out.
  /// @error{source_unavailable, a read failed, or a pipe no longer holds the tokens}
  [[nodiscard]] result<stream_cursor> cursor(std::uint64_t pulse_id);

  /// Continues after a cursor, once the source has proved to hold the consumed tokens.
  ///
  /// The stream does not change if this fails.
  /// @param accepted differences from the stream of the cursor that are no error
  /// @error{lane_mismatch, the cursor has another number of lanes or another lane block,
  /// which is not accepted}
  /// @error{config_mismatch, the chunk size differs and there are several lanes; if it is
  /// accepted, the lanes are not level}
  /// @error{rng_mismatch, a generator is missing, unexpected or in another state}
  /// @error{position_out_of_bounds, the source ends before the position}
  /// @error{history_mismatch, the source holds other tokens than were consumed; the
  /// message names file and offset of the first difference}
  /// @error{corrupt, the cursor contradicts itself}
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] result<void> restore(const stream_cursor& cursor,
                                     const restore_policy& accepted = {});

  /// Returns the configuration.
  [[nodiscard]] const stream_config& config() const noexcept;
  /// Returns the source.
  [[nodiscard]] const token_source& source() const noexcept;
  /// Returns the shares of the parts of a mixture in what was handed out of the source,
  /// up to the furthest lane; nothing if the source is no mixture.
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] result<std::vector<part_share>> shares() const;
  /// Returns the warning of `check_chunk_size` for the configuration, or an empty string.
  [[nodiscard]] const std::string& warning() const noexcept;

 private:
  explicit context_stream(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace weir::storage
