// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes and decodes the preamble, the table and the footer of a checkpoint file.
///
/// The writer makes exactly one encoding of given sections: offsets follow from lengths,
/// padding is zero, the order is that of the caller. The reader checks all of this, so
/// that every byte of a valid file is known to be right.
///
/// The file is: preamble, table, padding, sections with padding, footer. The root is the
/// hash over preamble and table, and names the file for others that refer to it.
#include "checkpoint/layout.hpp"

#include <fmt/core.h>

#include "weir/base/hash.hpp"
#include "weir/base/record.hpp"

namespace weir::storage {

/// `offset` is the place in the file, `section` the part in which it lies.
error damaged(const std::string& path, std::uint64_t offset, std::string_view section,
              std::string text) {
  return error(errc::corrupt,
               fmt::format("cannot read checkpoint section {}: {}", section, text))
      .located(fmt::format("{}:{} (section {})", path, offset, section));
}

/// The hash at the end covers everything before it.
byte_vector encode_preamble(const preamble& p) {
  record_writer out;
  out.put_bytes(as_view(preamble_magic));
  out.put(p.version);
  out.put(p.sections);
  out.put(p.header.generation);
  out.put(p.header.pulse_id);
  out.put(p.table_bytes);
  out.put(p.file_bytes);
  out.put(p.table_hash);
  out.put(xxh3_64(out.view()));
  return std::move(out).take();
}

// The magic is checked first, so that another file is recognised as such; then the
// version, because another version may have another hash; then the hash, which covers
// everything else.
//
// `bytes` has at least `preamble_bytes` bytes.
result<preamble> decode_preamble(bytes_view bytes, const std::string& path) {
  record_reader from(bytes.first(preamble_bytes));
  if (as_text(from.get_bytes(preamble_magic.size())) != preamble_magic) {
    return damaged(
        path, 0, "PREAMBLE",
        fmt::format("expected the magic \"{}\", found other bytes", preamble_magic));
  }
  const auto version = from.get<std::uint32_t>();
  // A file that refers to a base has a version of its own, so programs that do not know
  // bases refuse it.
  if (version != layout_version && version != referring_version) {
    return error(errc::unsupported_version,
                 fmt::format(
                     "cannot read checkpoint section PREAMBLE: expected version {} or "
                     "{}, found {}",
                     layout_version, referring_version, version))
        .located(fmt::format("{}:8 (section PREAMBLE)", path));
  }
  preamble p;
  p.version = version;
  p.sections = from.get<std::uint32_t>();
  p.header.generation = from.get<std::uint64_t>();
  p.header.pulse_id = from.get<std::uint64_t>();
  p.table_bytes = from.get<std::uint64_t>();
  p.file_bytes = from.get<std::uint64_t>();
  p.table_hash = from.get<std::uint64_t>();
  const auto expected = from.get<std::uint64_t>();
  const auto found = xxh3_64(bytes.first(preamble_bytes - 8));
  if (expected != found) {
    return damaged(
        path, preamble_bytes - 8, "PREAMBLE",
        fmt::format("expected hash {}, found {}", hex64(expected), hex64(found)));
  }
  // Numbers near 2^64 are not used, so that a next number always exists.
  if (p.header.generation >= generation_limit) {
    return damaged(path, 16, "PREAMBLE", "the generation is out of range");
  }
  return p;
}

// An entry is 32 bytes, the dimensions, and the name padded to a multiple of 8. The base
// follows the last entry.
//
// Offsets and lengths are bytes; the hash is XXH3-64 of the section.
byte_vector encode_table(const section_table& table) {
  record_writer out;
  for (const table_entry& e : table.entries) {
    out.put(static_cast<std::uint16_t>(e.name.size()));
    out.put(static_cast<std::uint8_t>(e.type));
    out.put(static_cast<std::uint8_t>(e.shape.size()));
    // Says where the bytes are: 0 in this file, 1 in the base.
    out.put(e.in_base ? std::uint32_t{1} : std::uint32_t{0});
    out.put(e.offset);
    out.put(e.length);
    out.put(e.hash);
    for (const std::int64_t n : e.shape) {
      out.put(static_cast<std::uint64_t>(n));
    }
    out.put_bytes(as_view(e.name));
    out.put_zeros(align_up<std::size_t>(e.name.size(), 8) - e.name.size());
  }
  if (table.base) {
    out.put(table.base->generation);
    out.put(table.base->root);
  }
  return std::move(out).take();
}

namespace {

/// Checks that a section lies behind the one before it, where `offset` is, or in the
/// base. The place of a section follows from the sections before it, so a table that says
/// otherwise was not written by this code.
result<void> check_place(const table_entry& e, std::uint64_t offset,
                         std::uint64_t after_sections, const std::string& path) {
  // A section of a base has no place in this file.
  const std::uint64_t expected = e.in_base ? 0 : offset;
  const bool fits = e.in_base || e.length <= after_sections - offset;
  if (e.offset != expected || !fits) {
    return damaged(
        path, preamble_bytes, "TABLE",
        fmt::format("entry \"{}\" of {} bytes at {} does not fit: expected it at {}",
                    e.name, e.length, e.offset, expected));
  }
  return {};
}

/// Decodes one entry and checks it. `offset` is where its section must begin,
/// `after_sections` where all sections end. `refers` says whether the file has a base.
///
/// Fields are read first and checked afterwards; a reader that has run out of bytes
/// gives zeros, and `failed` says so.
result<table_entry> decode_entry(record_reader& from, std::uint64_t offset,
                                 std::uint64_t after_sections, bool refers,
                                 const std::string& path) {
  const auto wrong = [&](std::string text) {
    return damaged(path, preamble_bytes, "TABLE", std::move(text));
  };
  const auto name_bytes = from.get<std::uint16_t>();
  const auto type = from.get<std::uint8_t>();
  const auto dimensions = from.get<std::uint8_t>();
  const auto in_base = from.get<std::uint32_t>();
  table_entry e;
  e.offset = from.get<std::uint64_t>();
  e.length = from.get<std::uint64_t>();
  e.hash = from.get<std::uint64_t>();
  // A file without a base cannot have sections in it.
  if (name_bytes == 0 || name_bytes > longest_name || dimensions > max_dimensions ||
      in_base > (refers ? 1U : 0U)) {
    return wrong(
        fmt::format("expected an entry with a name of 1 to {} bytes, at most {} "
                    "dimensions and {} for the file that holds it, found another",
                    longest_name, max_dimensions, refers ? "0 or 1" : "0"));
  }
  e.in_base = in_base != 0;
  for (std::uint8_t i = 0; i < dimensions; ++i) {
    e.shape.push_back(static_cast<std::int64_t>(from.get<std::uint64_t>()));
  }
  e.name = std::string(as_text(from.get_bytes(name_bytes)));
  const std::size_t zeros = align_up<std::size_t>(name_bytes, 8) - name_bytes;
  // Padding must be zero, as every byte of a valid file is determined.
  for (const std::byte b : from.get_bytes(zeros)) {
    if (b != std::byte{0}) {
      return wrong("expected zeros behind the name of an entry, found another byte");
    }
  }
  if (from.failed()) {
    return wrong("it ends within an entry");
  }
  auto info = info_of(int{type});
  if (!info) {
    return wrong(fmt::format("entry \"{}\" has no known type", e.name));
  }
  e.type = info->id;
  WEIR_CHECK(check_place(e, offset, after_sections, path));
  // Length, type and shape must agree.
  const auto bytes = byte_size(e.type, element_count(e.shape));
  if (!bytes || static_cast<std::uint64_t>(*bytes) != e.length) {
    return wrong(fmt::format("the shape of entry \"{}\" does not make {} bytes", e.name,
                             e.length));
  }
  return e;
}

}  // namespace

// The number of sections comes from a preamble whose hash was right. Memory is taken
// entry by entry, so a false number costs nothing.
result<section_table> decode_table(bytes_view bytes, const preamble& p,
                                   const std::string& path) {
  record_reader from(bytes);
  section_table out;
  const bool refers = p.version == referring_version;
  bool any_in_base = false;
  // `read_preamble` has compared the length of the file with these sizes.
  const std::uint64_t after_sections = p.file_bytes - footer_bytes;
  // The first section begins behind the table.
  std::uint64_t offset = align_up(preamble_bytes + bytes.size(), section_alignment);
  for (std::uint32_t i = 0; i < p.sections; ++i) {
    if (offset > after_sections) {
      return damaged(path, preamble_bytes, "TABLE",
                     "sections lie beyond the end of the file");
    }
    WEIR_TRY(table_entry e, decode_entry(from, offset, after_sections, refers, path));
    any_in_base = any_in_base || e.in_base;
    // The next section begins behind this one, at a multiple of the alignment.
    offset = e.in_base ? offset : align_up(offset + e.length, section_alignment);
    out.entries.push_back(std::move(e));
  }
  // A file that refers must have at least one section in the base, which is older.
  if (refers) {
    base_reference base;
    base.generation = from.get<std::uint64_t>();
    base.root = from.get<std::uint64_t>();
    if (from.failed() || base.generation >= p.header.generation || !any_in_base) {
      return damaged(path, preamble_bytes, "TABLE",
                     "expected sections of an earlier generation and its number behind "
                     "the entries, found another end");
    }
    out.base = base;
  }
  // Neither bytes behind the table nor a gap in front of the footer are allowed.
  if (!from.rest().empty() || offset != after_sections) {
    return damaged(path, preamble_bytes, "TABLE",
                   fmt::format("{} sections end at {}, expected {}", p.sections, offset,
                               after_sections));
  }
  return out;
}

/// The footer repeats what the preamble says; it is written last and so proves that
/// everything before it was written.
byte_vector encode_footer(const preamble& p, std::uint64_t root) {
  record_writer out;
  out.put(p.header.generation);
  out.put(p.header.pulse_id);
  out.put(p.file_bytes);
  out.put(root);
  out.put_zeros(footer_bytes - 32 - footer_magic.size());
  out.put_bytes(as_view(footer_magic));
  return std::move(out).take();
}

// The size of the table does not depend on the offsets in it, so it is encoded once to
// learn the size and again with the offsets.
//
// Sets the offsets of `table` and the fields of `p`, and returns everything in front of
// the first section.
byte_vector lay_out(section_table& table, preamble& p) {
  p.version = table.base ? referring_version : layout_version;
  p.sections = static_cast<std::uint32_t>(table.entries.size());
  p.table_bytes = encode_table(table).size();
  std::uint64_t offset = align_up(preamble_bytes + p.table_bytes, section_alignment);
  for (table_entry& e : table.entries) {
    e.offset = e.in_base ? 0 : offset;
    offset = e.in_base ? offset : align_up(offset + e.length, section_alignment);
  }
  p.file_bytes = offset + footer_bytes;
  const byte_vector encoded = encode_table(table);
  p.table_hash = xxh3_64(encoded);
  byte_vector out = encode_preamble(p);
  append(out, encoded);
  out.resize(align_up<std::size_t>(out.size(), section_alignment));
  return out;
}

}  // namespace weir::storage
