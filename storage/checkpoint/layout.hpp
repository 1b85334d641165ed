// SPDX-License-Identifier: Apache-2.0
/// @file
/// Bytes of a checkpoint file outside its sections: preamble, table, footer. README.md
/// has the diagram.
#pragma once

#include "weir/storage/checkpoint.hpp"

namespace weir::storage {

inline constexpr std::string_view preamble_magic = "WEIRCKP1";
inline constexpr std::string_view footer_magic = "WEIRCKPE";
inline constexpr std::uint32_t layout_version = 1;
inline constexpr std::uint64_t preamble_bytes = 64;
inline constexpr std::uint64_t footer_bytes = 64;
inline constexpr std::uint64_t section_alignment = 4096;
inline constexpr std::size_t longest_name = 255;
inline constexpr std::size_t most_dimensions = 32;
inline constexpr std::uint64_t generation_limit = std::uint64_t{1} << 62;

struct preamble {
  std::uint32_t sections = 0;
  checkpoint_header header;
  std::uint64_t table_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t table_hash = 0;
};
struct table_entry {
  std::string name;
  dtype type = dtype::uint8;
  shape_vector shape;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t hash = 0;
};

[[nodiscard]] byte_vector encode_preamble(const preamble& p);
/// `bytes` has at least 64. @error{corrupt, magic or hash} @error{unsupported_version}
[[nodiscard]] result<preamble> decode_preamble(bytes_view bytes, const std::string& path);
[[nodiscard]] byte_vector encode_table(std::span<const table_entry> entries);
/// @error{corrupt, a name, type, shape or offset that no writer makes}
[[nodiscard]] result<std::vector<table_entry>> decode_table(bytes_view bytes,
                                                            const preamble& p,
                                                            const std::string& path);
[[nodiscard]] byte_vector encode_footer(const preamble& p, std::uint64_t root);
/// Preamble, table and the zeros behind it; fills offsets, lengths of table and file, and
/// hashes.
[[nodiscard]] byte_vector lay_out(std::vector<table_entry>& entries, preamble& p);

/// "file:offset (section X)" with a corrupt code.
[[nodiscard]] error damaged(const std::string& path, std::uint64_t offset,
                            std::string_view section, std::string text);

/// What a checkpoint says about where it stands, after the mandatory sections and the
/// pulses were checked.
struct standing {
  stream_cursor cursor;
  bytes_view conductor;
};
/// @error{missing_cursor, stream_model_mismatch, corrupt; each names `path` and the
/// section}
[[nodiscard]] result<standing> check_standing(
    std::span<const checkpoint::loaded_section> sections, std::uint64_t pulse_id,
    const std::string& path);

/// The preamble alone, with the length of the file compared. @error{torn, corrupt,
/// unsupported_version, io}
[[nodiscard]] result<preamble> read_preamble(file& f);

}  // namespace weir::storage
