// SPDX-License-Identifier: Apache-2.0
/// @file
/// Token sources: sequences of tokens by index, read from memory, files, sets of files or
/// standard input. A context stream takes its tokens from one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/base/file.hpp"
#include "weir/storage/context/left_out.hpp"

namespace weir::storage {

/// Token between two documents. Tokens 0 to 255 are bytes.
inline constexpr std::uint32_t end_of_text = 256;
/// Number of distinct tokens of a byte source: the 256 bytes and `end_of_text`.
inline constexpr std::uint32_t byte_vocabulary = 257;
/// Size of a source whose end is not known yet, such as a pipe.
inline constexpr std::uint64_t unknown_size = ~std::uint64_t{0};
/// Largest size in bytes of the states of a source that a cursor stores. A source that is
/// made of others stores the states of all of them.
inline constexpr std::size_t max_source_state = std::size_t{16} << 20;

/// State of a counter-based random generator. It takes 32 bytes when stored.
/// @source{context_stream.md, 1.5 and 6.4}
struct rng_state {
  std::uint16_t algorithm = 1;     ///< 1 is Philox4x32-10
  std::uint16_t version = 1;       ///< version of the algorithm
  std::uint64_t key = 0;           ///< key of the generator
  std::uint64_t counter_low = 0;   ///< low half of the counter
  std::uint64_t counter_high = 0;  ///< high half of the counter
  friend bool operator==(const rng_state&, const rng_state&) = default;
};

/// One file, memory block or pipe of a source, as a cursor remembers it.
struct source_leaf {
  std::string name;             ///< last component of the path, without the folder
  std::uint64_t name_hash = 0;  ///< XXH3-64 of the name
  std::uint64_t bytes = 0;      ///< size of the file
};

/// Identity of a source. A cursor stores it, so that a resumed run detects that its
/// source is another one or has changed.
struct source_identity {
  std::uint64_t tokens = unknown_size;  ///< number of tokens, or `unknown_size`
  /// Hash over names and sizes of all leaves and over the rule by which they are joined.
  std::uint64_t list_digest = 0;
  std::vector<source_leaf> leaves;  ///< empty if there are more than `max_listed_leaves`
  /// Tokens per entry of `segments`; 0 if the content is not digested.
  std::uint64_t segment_tokens = 0;
  std::vector<std::uint64_t> segments;  ///< XXH3-64 of the u32 tokens of each segment
  /// Returns the XXH3-64 over all members.
  /// @threads{safe to call concurrently}
  [[nodiscard]] std::uint64_t digest() const;
};
/// Largest number of leaves that an identity lists by name.
inline constexpr std::size_t max_listed_leaves = 1024;
/// Largest number of segments whose content an identity digests.
inline constexpr std::size_t max_segments = 256;

/// Part of a source that mixes others, and how much it has given.
struct part_share {
  std::string name;          ///< name of the part
  std::uint64_t weight = 0;  ///< its weight at this draw; 0 if it has ended
  std::uint64_t draws = 0;   ///< units that were drawn from it
  std::uint64_t tokens = 0;  ///< tokens that it gave
  std::uint64_t rounds = 0;  ///< times that it was begun again
  friend bool operator==(const part_share&, const part_share&) = default;
};

/// A sequence of tokens, readable at any index unless `seekable()` returns false.
/// @threads{thread-compatible; may move to another thread between calls}
class token_source {
 public:
  virtual ~token_source() = default;
  /// Returns the number of tokens, fixed when the source was opened, or `unknown_size`.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// Reads tokens from `index` on.
  /// @param to the destination, filled from the front
  /// @returns the number of tokens read: `to.size()`, or fewer at the end of the source
  /// @error{source_unavailable, the file cannot be read any more or has become shorter,
  /// or a pipe no longer holds the tokens}
  /// @error{history_mismatch, the tokens were changed after the source was opened}
  [[nodiscard]] virtual result<std::size_t> read(std::uint64_t index,
                                                 std::span<std::uint32_t> to) = 0;
  /// Returns whether `read` of `count` tokens would not have to wait for a writer: they
  /// have arrived, or the source has ended. Waits for them for a limited time.
  /// @param wait_ms  Most milliseconds to wait; 0 to look only.
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] virtual result<bool> ready(std::uint64_t index, std::size_t count,
                                           int wait_ms);
  /// Returns how many of the next `count` tokens belong to one chunk: fewer if a turn or
  /// a context ends behind them. Waits for the writer as `read` does.
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] virtual result<std::size_t> chunk_run(std::uint64_t index,
                                                      std::size_t count);
  /// Returns whether each document is a turn: a chunk ends with it, so that no chunk
  /// waits for the next turn.
  [[nodiscard]] virtual bool has_turns() const noexcept { return false; }
  /// Returns whether the writer of the source asks for a new context before the token at
  /// `index`, which has arrived.
  [[nodiscard]] virtual bool begins_context(std::uint64_t index) const;
  /// Returns "file:byte offset" of a token, for messages.
  [[nodiscard]] virtual std::string place_text(std::uint64_t index) const = 0;
  /// Place of a token in the leaves of the source.
  struct place {
    std::uint64_t leaf = 0;  ///< number of the leaf, counted as in `identity()`
    std::uint64_t byte = 0;  ///< byte offset in the leaf
  };
  /// Returns the place of a token. A separator lies behind the last byte of its leaf.
  [[nodiscard]] virtual place place_of(std::uint64_t index) const = 0;
  /// Returns the identity that was determined when the source was opened.
  [[nodiscard]] virtual const source_identity& identity() const noexcept = 0;
  /// Returns the token that ends a document. It may be one that documents hold.
  [[nodiscard]] virtual std::uint32_t separator() const noexcept { return end_of_text; }
  /// Returns a number above every token that the source delivers: the number of distinct
  /// ids that a model of it needs. The separator counts if the source delivers it.
  [[nodiscard]] virtual std::uint32_t vocabulary() const noexcept {
    return byte_vocabulary;
  }
  /// Finds the start of the first document that begins at or after `index`.
  /// @returns the index of its first token, or the size of the source if there is none
  /// @error{source_unavailable, a read failed}
  [[nodiscard]] virtual result<std::uint64_t> next_document(std::uint64_t index) = 0;
  /// Returns whether tokens can be read at any index and more than once.
  [[nodiscard]] virtual bool seekable() const noexcept { return true; }
  /// Returns how many of its newest tokens a source keeps that cannot seek but goes on
  /// from the state of any index. Its lanes may be so far apart. 0 if it feeds one lane
  /// only.
  [[nodiscard]] virtual std::uint64_t kept_tokens() const noexcept { return 0; }
  /// Returns the state of the generator if the source is in random order, else nothing.
  /// The order depends on this state and the index alone.
  [[nodiscard]] virtual std::optional<rng_state> rng() const { return std::nullopt; }
  /// Returns the shares of the parts of a mixture in its first `index` tokens, or nothing
  /// if the source is none. A unit that `index` cuts counts as drawn.
  /// @error{source_unavailable, a read failed, or the source no longer knows}
  [[nodiscard]] virtual result<std::vector<part_share>> shares(std::uint64_t index) const;
  /// Returns the indices of the first tokens of the sources that a chain joins, as far as
  /// they are known; nothing if the source is none.
  [[nodiscard]] virtual std::vector<std::uint64_t> chained_starts() const { return {}; }
  /// Tells a source that cannot seek the index of the next token that it delivers.
  /// @param before the tokens directly before `index`; they become readable again
  /// @error{unsupported, the source can seek or has already been read, or a mixture has
  /// no state of this place}
  [[nodiscard]] virtual result<void> continue_at(std::uint64_t index,
                                                 std::span<const std::uint32_t> before);
  /// Returns the state from which the source goes on with the token at `index`, if the
  /// index alone is not enough. It depends on the index and on the tokens before it, not
  /// on tokens that were read ahead.
  ///
  /// A cursor asks for the state before the first token that a restore reads and for
  /// the state behind the last token that was handed out; under `loop` also for the state
  /// at the end of the source once a round is complete. Sources that cannot seek are
  /// asked for the state behind the last token only.
  /// @returns no bytes if the index is enough
  /// @error{source_unavailable, a read failed, or the source no longer knows the state}
  [[nodiscard]] virtual result<byte_vector> state(std::uint64_t index) const;
  /// Accepts a state that `state` has returned for the same index of the same source. It
  /// is called before the first read, for several indices in ascending order; before
  /// `continue_at` if the source cannot seek. A source that can seek returns the same
  /// tokens with and without it, except where the state says otherwise.
  /// @error{history_mismatch, the source is of a kind that has no state}
  /// @error{corrupt, the bytes are no state of this source}
  [[nodiscard]] virtual result<void> restore_state(std::uint64_t index, bytes_view state);
  /// Tells a source the index of the next token that nobody has read: 0 once it is
  /// opened, and once more behind `restore_state`, which `context_stream::restore` does.
  /// Ranges that the user wants to be left out count from there on. A source that is
  /// resumed must not be told 0 before.
  /// @error{config_mismatch, such a range is new and holds tokens before the index}
  /// @error{not_found, out_of_range, such a range is none of the files}
  [[nodiscard]] virtual result<void> go_on_at(std::uint64_t index);
  /// Returns the ranges that the source leaves out of its first `index` tokens. It may
  /// also return later ones that do not depend on how far was read.
  [[nodiscard]] virtual std::vector<left_out_range> left_out(std::uint64_t index) const;
};

/// Options for opening files as a source.
struct source_options {
  /// Puts `end_of_text` between two files. Without it the files are one text, and the end
  /// of a file is no document boundary.
  bool separate_documents = true;
  /// Largest size in bytes of a set of files whose content is digested when it is opened.
  /// A resumed run notices any change of a digested content. Of other files it notices
  /// only changes of the names, of the sizes and of the content near the cursor.
  std::uint64_t digest_limit = std::uint64_t{256} << 20;
};

/// Expands paths, folders and patterns to a list of files, in the order of the patterns.
///
/// A folder stands for all files below it except hidden ones. Patterns may contain `*`,
/// `?` and `[a-z]` in any component; a leading dot is matched only by a dot. What one
/// pattern stands for is sorted bytewise and names each file once. A file for which
/// several patterns stand is named several times.
/// @error{not_found, a path does not exist or a pattern matches no file}
/// @error{invalid_argument, folders are nested more than 40 deep, usually because a
/// symbolic link leads back}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::vector<std::string>> expand_paths(
    file_system& fs, std::span<const std::string> patterns);
/// Opens the bytes of one file as tokens.
/// @error{source_unavailable, the file is missing, unreadable or empty}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> open_file_source(
    file_system& fs, const std::string& path, source_options options = {});
/// Opens the bytes of several files as one source, in the order of `paths`. A file that
/// is named twice is read twice.
///
/// Sizes are determined once: a file that grows later does not change the source. If the
/// content was digested, `token_source::read` fails with `history_mismatch` once a file
/// has other bytes than when it was opened; above `source_options::digest_limit`, once a
/// file was changed and has not grown.
/// @error{source_unavailable, a file is missing, unreadable or empty}
/// @error{invalid_argument, `paths` is empty}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> open_file_set(
    file_system& fs, std::vector<std::string> paths, source_options options = {});
/// Makes a source of tokens in memory.
/// @error{source_unavailable, `tokens` is empty}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> open_memory_tokens(
    std::vector<std::uint32_t> tokens, std::string name = "memory");
/// Makes a source whose tokens are the bytes of `bytes`, which are copied.
/// @error{source_unavailable, `bytes` is empty}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> open_memory_tokens(
    bytes_view bytes, std::string name = "memory");
/// Joins several sources into one, with their separator between them. If one of them is
/// read once, so is the whole.
/// @error{invalid_argument, `sources` is empty, one is in random order or of unknown
/// length although it can seek, or they have several separators}
/// @error{source_unavailable, a read failed}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> chain_sources(
    std::vector<std::unique_ptr<token_source>> sources);

}  // namespace weir::storage
