// SPDX-License-Identifier: Apache-2.0
/// @file
/// Token files: sources whose tokens are ids in files of the usual formats, or in a tag
/// of an HN4 volume.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/base/file.hpp"
#include "weir/storage/context/left_out.hpp"
#include "weir/storage/context_source.hpp"

namespace weir::storage {

/// Format of a token file. All numbers are little-endian.
/// @source{context_stream.md, 6.1}
enum class token_format : std::uint8_t {
  automatic,  ///< decided by the first bytes of the file; bytes for a text
  bytes,      ///< each byte is a token
  u16,        ///< ids of 16 bits without a header, such as nanoGPT writes them
  u32,        ///< ids of 32 bits without a header
  llmc,       ///< llm.c: a header of 256 numbers, then ids of 16 or 32 bits
  npy,        ///< NumPy: one array of integers with one dimension
  megatron,   ///< Megatron: `NAME.bin` with the ids, `NAME.idx` with the documents
};
/// Returns the name of a format as settings spell it: "auto", "bytes", "u16" and so on.
/// @threads{safe to call concurrently}
[[nodiscard]] std::string_view name_of(token_format format) noexcept;

/// Treatment of a range that cannot be read as tokens: a block of an HN4 volume that
/// fails its checks, pages of a file that the system cannot read, or ids that are not
/// below the vocabulary.
enum class damage_policy : std::uint8_t {
  stop,  ///< reading fails there
  /// The range is left out, with a separator in its place if documents are separated. All
  /// tokens are read once when the source is opened, so that its size is known. A cursor
  /// remembers the ranges, and a resumed run leaves out the same ones.
  skip,
};

/// How token files are opened.
struct token_file_options {
  token_format format = token_format::automatic;  ///< format of all files
  /// Tag of HN4 volumes: the paths are volumes, and `format` is that of the content of
  /// the tag. Empty: the paths are the files.
  std::string tag;
  /// Number of distinct ids, at most 2^31: a larger id is an error. 0: the number that
  /// the format implies, 256 for bytes, 65,536 for 16 bits and that of the model for
  /// llm.c; wider ids imply none.
  std::uint32_t vocabulary = 0;
  /// Id that ends a document, below 2^32 - 1. Unset: the vocabulary, a new id.
  std::optional<std::uint32_t> separator;
  /// Puts the separator between two documents, unless the first one ends with it. Files
  /// are documents, and so are those of the index of Megatron.
  bool separate_documents = true;
  damage_policy on_damage = damage_policy::stop;  ///< treatment of damaged ranges
  /// Ranges that are left out although they can be read, from `token_source::go_on_at`
  /// on. The text before a range and the text behind it become one text.
  std::vector<file_range> skip;
  /// As in `source_options`. The segments of larger sets are digested as they are
  /// consumed; cursors hold the digests, and they are compared when a segment is read
  /// again.
  std::uint64_t digest_limit = source_options().digest_limit;
};

/// Opens token files, one after another, as one source. All of them have one format.
///
/// Headers are read when the source is opened. A file of a known format that its name or
/// the options call something else is refused.
/// @error{source_unavailable, a file is missing, unreadable or holds no token}
/// @error{invalid_argument, `paths` is empty, a file has another format than the options
/// say, its format is not known, its ids imply no vocabulary, or an id is too large}
/// @error{corrupt, torn, a header contradicts itself or the size of the file}
/// @error{unsupported, an element type or a version}
/// @error{out_of_range, more than 1024 damaged ranges are to be skipped}
/// @error{not_found, a volume has no such tag}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::unique_ptr<token_source>> open_token_files(
    file_system& fs, std::vector<std::string> paths, const token_file_options& options);

}  // namespace weir::storage
