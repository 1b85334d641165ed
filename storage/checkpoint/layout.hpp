// SPDX-License-Identifier: Apache-2.0
/// @file
/// Bytes of a checkpoint file outside its sections: preamble, table and footer. README.md
/// has a diagram.
#pragma once

#include "weir/storage/checkpoint.hpp"

namespace weir::storage {

inline constexpr std::string_view preamble_magic = "WEIRCKP1";
inline constexpr std::string_view footer_magic = "WEIRCKPE";
/// Version of a file that holds all of its sections.
inline constexpr std::uint32_t layout_version = 1;
/// Version of a file that refers to sections of an earlier generation.
inline constexpr std::uint32_t referring_version = 2;
inline constexpr std::uint64_t preamble_bytes = 64;
inline constexpr std::uint64_t footer_bytes = 64;
inline constexpr std::uint64_t section_alignment = 4096;
/// Longest name of a section in bytes.
inline constexpr std::size_t longest_name = 255;
/// Largest number of dimensions of a section.
inline constexpr std::size_t max_dimensions = 32;
/// Upper bound of generations, so that counting up cannot overflow.
inline constexpr std::uint64_t generation_limit = std::uint64_t{1} << 62;

/// Fields of the preamble.
struct preamble {
  std::uint32_t version = layout_version;
  std::uint32_t sections = 0;
  checkpoint_header header;
  std::uint64_t table_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t table_hash = 0;
};
/// One row of the table.
struct table_entry {
  std::string name;
  dtype type = dtype::uint8;
  shape_vector shape;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t hash = 0;
  /// The bytes are in the base file, in the section of the same name; `offset` is 0.
  bool in_base = false;
};
/// The earlier file to which a file refers.
struct base_reference {
  std::uint64_t generation = 0;
  std::uint64_t root = 0;  ///< hash of its preamble and table, as its footer holds it
  friend bool operator==(const base_reference&, const base_reference&) = default;
};
/// The table of a file. It has a base if and only if some entry is in it.
struct section_table {
  std::vector<table_entry> entries;
  std::optional<base_reference> base;
};

/// Returns the 64 bytes of a preamble.
[[nodiscard]] byte_vector encode_preamble(const preamble& p);
/// Decodes a preamble from the first 64 bytes of a file. @error{corrupt, the magic or the
/// hash is wrong} @error{unsupported_version, another version has written it}
[[nodiscard]] result<preamble> decode_preamble(bytes_view bytes, const std::string& path);
/// Returns the bytes of the table.
[[nodiscard]] byte_vector encode_table(const section_table& table);
/// Decodes the table. @error{corrupt, a name, type, shape or offset is impossible}
[[nodiscard]] result<section_table> decode_table(bytes_view bytes, const preamble& p,
                                                 const std::string& path);
/// Returns the 64 bytes of a footer. `root` is the hash of preamble and table.
[[nodiscard]] byte_vector encode_footer(const preamble& p, std::uint64_t root);
/// Assigns offsets to the sections that the file holds and returns the bytes in front of
/// the first section: preamble, table and padding. Fills the offsets, the version, the
/// lengths of table and file, and the hash of the table.
[[nodiscard]] byte_vector lay_out(section_table& table, preamble& p);

/// Makes an error "file:offset (section X)" with the code `corrupt`.
[[nodiscard]] error damaged(const std::string& path, std::uint64_t offset,
                            std::string_view section, std::string text);

/// Position of a run as a checkpoint states it, checked for agreement.
struct resume_state {
  stream_cursor cursor;  ///< position of the stream
  bytes_view conductor;  ///< bytes of CONDUCTOR after the pulse
};
/// Checks that the mandatory sections are there and that all of them are at one pulse.
/// Errors name `path` and the section.
/// @error{missing_cursor, there is no CURSOR section}
/// @error{stream_model_mismatch, the pulses differ}
/// @error{corrupt, a section is missing or cannot be decoded}
[[nodiscard]] result<resume_state> check_sections(
    std::span<const checkpoint::loaded_section> sections, std::uint64_t pulse_id,
    const std::string& path);

/// Reads and checks the preamble alone, and compares the length of the file with it.
/// @error{torn, the file ends early} @error{corrupt, the preamble is wrong}
/// @error{unsupported_version, another version has written it} @error{io, a read failed}
[[nodiscard]] result<preamble> read_preamble(file& f);

}  // namespace weir::storage
