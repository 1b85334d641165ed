// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where tokens come from: memory, files, sets of files, standard input. A source is a
/// sequence of tokens by index.
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

namespace weir::storage {

/// Token ids are 0..255 for bytes; this one stands between documents.
inline constexpr std::uint32_t end_of_text = 256;
/// Ids below this number may occur in a byte source.
inline constexpr std::uint32_t byte_vocabulary = 257;
/// Size of a source whose end is not known yet.
inline constexpr std::uint64_t unknown_size = ~std::uint64_t{0};

/// State of a counter-based generator: 32 bytes when stored.
/// @source{context_stream.md, 1.5 and 6.4}
struct rng_state {
  std::uint16_t algorithm = 1;  ///< 1: Philox4x32-10
  std::uint16_t version = 1;
  std::uint64_t key = 0;
  std::uint64_t counter_low = 0;
  std::uint64_t counter_high = 0;
  friend bool operator==(const rng_state&, const rng_state&) = default;
};

/// One file (or memory block, or pipe) of a source, as remembered in a cursor.
struct source_leaf {
  std::string name;             ///< last component of the path, never the folder
  std::uint64_t name_hash = 0;  ///< XXH3-64 of the name
  std::uint64_t bytes = 0;
};

/// What a source is: enough to notice, when a run resumes, that it is another one.
struct source_identity {
  std::uint64_t tokens = unknown_size;
  std::uint64_t list_digest =
      0;  ///< over the names and sizes of all leaves and the joining rule
  std::vector<source_leaf> leaves;  ///< empty beyond `max_listed_leaves`
  std::uint64_t segment_tokens =
      0;  ///< tokens per entry of `segments`; 0: the content is not digested
  std::vector<std::uint64_t> segments;  ///< XXH3-64 of the u32 tokens, per segment
  /// XXH3-64 over all of the above.
  [[nodiscard]] std::uint64_t digest() const;
};
inline constexpr std::size_t max_listed_leaves = 1024;
inline constexpr std::size_t max_segments = 256;

/// A sequence of tokens, readable at any index unless `seekable()` says otherwise.
/// @threads{thread-compatible; may move to another thread between calls}
class token_source {
 public:
  virtual ~token_source() = default;
  /// Tokens in all, fixed when the source was attached; `unknown_size` for a pipe.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// Fills `to` with the tokens at `index`...; fewer only at the end.
  /// @error{source_unavailable, the file cannot be read any more, or a pipe is asked for
  /// what it has forgotten}
  [[nodiscard]] virtual result<std::size_t> read(std::uint64_t index,
                                                 std::span<std::uint32_t> to) = 0;
  /// "file:byte offset" of a token, for messages.
  [[nodiscard]] virtual std::string where(std::uint64_t index) const = 0;
  /// Number of the leaf that holds a token, and the byte offset in it.
  struct place {
    std::uint64_t leaf = 0;
    std::uint64_t byte = 0;
  };
  [[nodiscard]] virtual place place_of(std::uint64_t index) const = 0;
  [[nodiscard]] virtual const source_identity& identity() const noexcept = 0;
  /// Index of the first token of the next document at or after `index`, or the size of
  /// the source.
  [[nodiscard]] virtual result<std::uint64_t> next_document(std::uint64_t index) = 0;
  [[nodiscard]] virtual bool seekable() const noexcept { return true; }
  /// State of the generator if the order of tokens is random; the order is a function of
  /// it and of the index.
  [[nodiscard]] virtual std::optional<rng_state> rng() const { return std::nullopt; }
  /// Tells a source that cannot seek that its next token has this index.
  [[nodiscard]] virtual result<void> continue_at(std::uint64_t index,
                                                 std::span<const std::uint32_t> before);
};

struct source_options {
  /// Put `end_of_text` between two files. Without it files are one text, and their edges
  /// are no boundaries.
  bool separate_documents = true;
  /// The content of a corpus of up to so many bytes is digested when it is attached, so
  /// that any change is noticed.
  std::uint64_t digest_limit = std::uint64_t{256} << 20;
};

/// Files named by paths, folders (all files below, hidden ones left out) and patterns
/// with `*`, `?` and `[a-z]`; sorted bytewise by path, each once. @error{not_found,
/// nothing matches}
[[nodiscard]] result<std::vector<std::string>> expand_paths(
    file_system& fs, std::span<const std::string> patterns);
/// Bytes of one file. @error{source_unavailable, missing, unreadable or empty}
[[nodiscard]] result<std::unique_ptr<token_source>> open_file_source(
    file_system& fs, const std::string& path, source_options options = {});
/// Bytes of files in bytewise order of their paths, whatever the order given. Sizes are
/// fixed now.
/// @error{source_unavailable, a file is missing, unreadable or empty}
/// @error{invalid_argument, no file, or one twice}
[[nodiscard]] result<std::unique_ptr<token_source>> open_file_set(
    file_system& fs, std::vector<std::string> paths, source_options options = {});
/// Bytes of an open descriptor, e.g. 0 for standard input; feeds one lane and cannot
/// loop. Not closed. A read waits for as many bytes as were asked for, so that chunks
/// never depend on timing.
[[nodiscard]] std::unique_ptr<token_source> open_pipe_source(int descriptor,
                                                             std::string name = "stdin");
/// Tokens in memory. @error{source_unavailable, there are none}
[[nodiscard]] result<std::unique_ptr<token_source>> memory_source(
    std::vector<std::uint32_t> tokens, std::string name = "memory");
[[nodiscard]] result<std::unique_ptr<token_source>> memory_source(
    bytes_view bytes, std::string name = "memory");
/// One source after another with `end_of_text` between. @error{invalid_argument, none, or
/// one that cannot seek}
[[nodiscard]] result<std::unique_ptr<token_source>> chain_sources(
    std::vector<std::unique_ptr<token_source>> sources);

}  // namespace weir::storage
