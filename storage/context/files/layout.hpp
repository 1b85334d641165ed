// SPDX-License-Identifier: Apache-2.0
/// @file
/// The layout of a token file: where its ids lie, how wide they are, and where its
/// documents end.
#pragma once

#include <vector>

#include "context/files/leaves.hpp"
#include "weir/storage/token_files.hpp"

namespace weir::storage {

/// Encoding of an id.
struct id_encoding {
  std::uint8_t bytes = 1;  ///< 1, 2, 4 or 8
  bool is_signed = false;  ///< two's complement; negative ids are errors
  friend bool operator==(const id_encoding&, const id_encoding&) = default;
};

/// Consecutive ids of one document.
struct token_run {
  std::uint64_t byte = 0;    ///< offset of the first id in the leaf
  std::uint64_t tokens = 0;  ///< at least 1
  bool ends = true;          ///< the document ends with the run
};

/// Layout of one leaf.
struct leaf_layout {
  token_format format = token_format::bytes;  ///< never `automatic`
  id_encoding ids;
  std::uint64_t vocabulary = 0;  ///< number of ids that the format implies; 0: none
  std::vector<token_run> runs;   ///< in the order of reading
};

/// Determines the format of a leaf and reads its header.
/// @error{invalid_argument, the leaf has another format than `stated`, or none is known}
/// @error{corrupt, torn, a header contradicts itself or the size of the leaf}
/// @error{unsupported, an element type or a version}
/// @error{source_unavailable, a read failed, or the leaf holds no token}
[[nodiscard]] result<leaf_layout> read_layout(file_system& fs, token_leaves& leaves,
                                              std::size_t leaf, token_format stated);

/// Reads the documents of Megatron's index of a data file.
/// @param data  Path of the data file `NAME.bin`; the index is `NAME.idx`.
/// @param size  Size of the data file in bytes.
/// @error{invalid_argument, the name does not end with ".bin"}
/// @error{corrupt, torn, the index contradicts itself or the sizes of the files}
/// @error{unsupported, another version, or ids that are no integers}
/// @error{source_unavailable, there is no index, or it cannot be read}
[[nodiscard]] result<leaf_layout> read_megatron_index(file_system& fs,
                                                      const std::string& data,
                                                      std::uint64_t size);
/// Returns the path of Megatron's index of a data file; empty if the name of the file
/// does not end with ".bin".
[[nodiscard]] std::string megatron_index_of(const std::string& data);
/// First bytes of Megatron's index.
inline constexpr std::string_view megatron_magic{"MMIDIDX\0\0", 9};

}  // namespace weir::storage
