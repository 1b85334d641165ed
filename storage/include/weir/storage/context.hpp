// SPDX-License-Identifier: Apache-2.0
/// @file
/// The context stream: an endless sequence of tokens, handed out in chunks to lanes,
/// resumable at every chunk.
///
/// Lane l of L reads blocks of S = lane_block * chunk tokens of the source: block k of
/// lane l is block k * L + l of the source (with one lane the source itself). That
/// sequence is the lane's text. A chunk is the next n tokens of it.
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

/// What happens after the last token of the source.
enum class end_policy : std::uint8_t {
  loop,  ///< `end_of_text`, then the first token again; chunks are filled across the wrap
  stop,  ///< one short last chunk, then nothing for ever
  chain,  ///< like stop, over several sources joined by `chain_sources`
};
/// What a document boundary means. The stream itself acts on `split` alone, the rest is
/// for the Conductor.
enum class boundary_policy : std::uint8_t {
  never,          ///< the context flows on
  at_next_chunk,  ///< the context is reset before the first chunk that follows a boundary
  split,          ///< a chunk ends with its first `end_of_text`
};

/// Geometry and policies of a stream. `stream_settings` says what each member takes.
struct stream_config {
  std::size_t chunk = 64;  ///< nominal; a caller may ask for another size
  std::uint32_t lanes = 1;
  std::uint32_t lane_block = 1;
  std::uint32_t ranks = 1;  ///< rank r hosts the lanes l with l mod ranks == r
  end_policy end = end_policy::stop;
  boundary_policy boundary = boundary_policy::never;
  std::vector<std::uint64_t> frequencies = {1, 8, 64, 512};
};

/// The settings of a stream, with the ranges that `context_stream::open` accepts. Include
/// "weir/base/settings.hpp" to use the table.
/// @threads{safe to call concurrently}
[[nodiscard]] const settings_table<stream_config>& stream_settings();

/// Checks a configuration as `context_stream::open` does, but for what depends on the
/// source. @return the warning of `check_chunk_size`
/// @error{invalid_argument, a setting is out of range, there are more ranks than lanes,
/// or `check_chunk_size` refuses the chunk}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::string> check_config(const stream_config& config);

/// Checks a chunk size against the periods of the levels, the fastest first.
/// @return a warning for the log, or "". @error{invalid_argument, smaller than the
/// fastest period, or zero}
/// @source{Context Stream, "Chunk sizing"}
[[nodiscard]] result<std::string> check_chunk_size(
    std::size_t chunk, std::span<const std::uint64_t> frequencies);

/// State of a lane after its last committed chunk.
struct lane_state {
  std::uint64_t position = 0;  ///< tokens of the lane's text that were handed out
  std::uint64_t chunks = 0;    ///< chunks of this lane
  std::uint64_t history = 0;   ///< chain over the complete blocks of 64 tokens
  friend bool operator==(const lane_state&, const lane_state&) = default;
};

/// A stretch of the stream with one geometry. A reset and a new chunk size begin another.
struct era {
  std::uint64_t first_chunk = 0;
  std::uint64_t first_token = 0;    ///< tokens of all lanes before it
  std::uint64_t source_offset = 0;  ///< token of the source at which lane 0 begins
  std::uint64_t chunk = 0;
  std::uint64_t lane_block = 1;
  std::vector<std::uint64_t> lane_positions;  ///< position of every lane at its start
  bool boundary = false;                      ///< begun by a reset
  friend bool operator==(const era&, const era&) = default;
};

/// Last tokens of each lane that a cursor remembers and a restore compares:
/// `cursor_window / lanes`, at least 1.
inline constexpr std::size_t cursor_window = 4096;

/// The exact position of a stream. A value: equal positions have equal bytes, whatever
/// was read ahead.
///
/// `content_hash` is the XXH3-64 of the last tokens of each lane, lane after lane, as
/// little-endian u32: with one lane of the last N = min(position, 4096). `history_hash`
/// is the XXH3-64 over, per lane, position and chain (u64) and the tokens of the open
/// block (u32); the chain is H' = XXH3-64(H as u64, 64 tokens as u32), H = 0 at the
/// start.
/// @source{Context Stream, "Stream-state coupling"; context_stream.md, 1.5 and 3.2}
struct stream_cursor {
  std::uint64_t dataset_index = 0;  ///< tokens handed out, all lanes
  std::uint64_t chunk_id = 0;       ///< chunks handed out, all lanes
  std::uint64_t pulse_id = 0;    ///< completed pulses; stamped by the Conductor at commit
  std::optional<rng_state> rng;  ///< none while the source is sequential
  std::uint64_t content_hash = 0;
  std::uint64_t content_count = 0;  ///< tokens in `content_hash`
  std::uint64_t history_hash = 0;
  std::uint64_t stream_identity = 0;  ///< `source_identity::digest()` of the source
  std::vector<lane_state> lanes;
  std::vector<era> eras;  ///< those that the window needs and the current one
  byte_vector
      source_state;  ///< places of the lanes and identity of the source, versioned
  std::vector<std::uint32_t>
      ring;  ///< the `content_count` tokens themselves; may be empty
  friend bool operator==(const stream_cursor&, const stream_cursor&) = default;
};

/// Little-endian, versioned, reserved bytes zero. Holds everything, `rng`, `source_state`
/// and `ring` included.
[[nodiscard]] byte_vector encode(const stream_cursor& cursor);
/// @error{corrupt, a length, count, reserved byte or the hash of the ring is wrong}
/// @error{torn, bytes are missing}
/// @error{unsupported_version, written by a later version}
[[nodiscard]] result<stream_cursor> decode_cursor(bytes_view bytes);
/// Text for people: the place of every lane. @error{as `decode_cursor`}
[[nodiscard]] result<std::string> describe_source_state(bytes_view source_state);

/// Where a lane stands after a chunk: 40 bytes, from which `context_stream::cursor_at`
/// makes the whole cursor.
struct chunk_mark {
  std::uint32_t lane = 0;
  std::uint32_t era = 0;  ///< eras begun before
  lane_state after;
};

/// Tokens handed out together.
struct token_chunk {
  std::vector<std::uint32_t> tokens;  ///< n ids, at least 1
  /// The token that follows the last one in the source, not consumed: the target of the
  /// last token. Inside a block it is the next token of the lane; at the end of a block
  /// it is what the text says next, which another lane reads. None at the end of the
  /// source.
  std::optional<std::uint32_t> lookahead;
  /// Lane l's chunk j has id (j div B) * L * B + l * B + j mod B: with one lane 0, 1, 2,
  /// ...
  std::uint64_t chunk_id = 0;
  std::uint32_t lane = 0;
  std::uint64_t lane_position = 0;  ///< position of the first token in the lane's text
  /// An `end_of_text` lies inside or directly before the first token, or the stream was
  /// reset before it.
  bool document_boundary = false;
  /// Offsets of the first tokens of documents: 0 for a boundary before the chunk,
  /// tokens.size() for one at its end.
  std::vector<std::uint32_t> boundaries;
  chunk_mark mark;  ///< state of the lane after this chunk
};

/// Hands out chunks. Reading ahead changes nothing: a cursor is made of the marks of
/// committed chunks.
///
/// Chunks of a lane depend on the source, the configuration and the sizes asked for in
/// that lane, never on the number of ranks or on the order in which lanes are asked.
/// @threads{thread-compatible; may move to another thread between calls}
/// @source{Context Stream, "The Stream Abstraction" and "Multi-GPU Considerations"}
class context_stream {
 public:
  struct state;  ///< of the implementation

  /// @error{invalid_argument, `check_config` refuses the configuration, or the source is
  /// a pipe and the configuration asks for several lanes or a loop}
  [[nodiscard]] static result<std::unique_ptr<context_stream>> open(
      stream_config config, std::unique_ptr<token_source> source);
  ~context_stream();
  context_stream(const context_stream&) = delete;
  context_stream& operator=(const context_stream&) = delete;

  /// The next chunk of rank's lanes, one lane after the other; lanes that have ended are
  /// left out. Exactly n tokens, fewer at the end of the source or at a boundary under
  /// `split`. Nothing once all its lanes have ended.
  /// @error{invalid_argument, n is 0 or above 2^24, or no such rank}
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] result<std::optional<token_chunk>> next_chunk(std::size_t n,
                                                              std::uint32_t rank = 0);
  /// The next chunk of one lane. @error{as next_chunk}
  [[nodiscard]] result<std::optional<token_chunk>> next_lane_chunk(std::size_t n,
                                                                   std::uint32_t lane);

  /// Begins a new context: leaves out the rest of the document that was read furthest.
  /// The next chunk of every lane has `document_boundary`; ids and positions go on.
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] result<void> reset();
  /// Tokens handed out, all lanes.
  [[nodiscard]] std::uint64_t position() const noexcept;

  /// The cursor after the chunks of these marks, in any order, and all earlier ones of
  /// their lanes; a lane without a mark stands where the stream was opened or restored.
  /// Independent of what has been read since.
  /// @error{invalid_argument, no such lane} @error{source_unavailable, a pipe has
  /// forgotten the tokens}
  [[nodiscard]] result<stream_cursor> cursor_at(std::span<const chunk_mark> committed,
                                                std::uint64_t pulse_id);
  [[nodiscard]] result<stream_cursor> cursor_at(const chunk_mark& committed,
                                                std::uint64_t pulse_id);
  /// The cursor after everything that was handed out.
  [[nodiscard]] result<stream_cursor> cursor(std::uint64_t pulse_id);

  /// Continues behind a cursor, after comparing what the source says with what was
  /// consumed. On failure unchanged.
  /// @error{lane_mismatch, another number of lanes or lane block} @error{config_mismatch,
  /// another chunk size with lanes}
  /// @error{rng_mismatch, generator missing, unexpected or another}
  /// @error{position_out_of_bounds, behind the end}
  /// @error{history_mismatch, other tokens than consumed; names file and offset of the
  /// first one that differs}
  /// @error{corrupt, the cursor contradicts itself}
  [[nodiscard]] result<void> restore(const stream_cursor& cursor);

  [[nodiscard]] const stream_config& config() const noexcept;
  [[nodiscard]] const token_source& source() const noexcept;
  /// Warning of `check_chunk_size` for the configuration, or "".
  [[nodiscard]] const std::string& warning() const noexcept;

 private:
  explicit context_stream(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace weir::storage
