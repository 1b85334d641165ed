// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes the bytes of one checkpoint file, front to back.
///
/// Sections are written from the caller's memory without a copy. The preamble and the
/// table need all hashes, so these are computed before the first write.
///
/// The reader is reader.cpp, and both share layout.cpp.
#include "checkpoint/writer.hpp"

#include <fmt/core.h>

#include <array>
#include <unordered_set>

#include "checkpoint/layout.hpp"
#include "weir/base/hash.hpp"

namespace weir::storage {

namespace {

/// Returns the shape of a section; a section without one is a single dimension of all its
/// bytes. Types of less than a byte count eight elements per byte.
shape_vector shape_of(const checkpoint_section& s) {
  if (!s.shape.empty()) {
    return s.shape;
  }
  const std::size_t unit = info_of(s.type).size;
  return {
      static_cast<std::int64_t>(unit == 0 ? s.data.size() * 8 : s.data.size() / unit)};
}

/// Makes the error for a section that cannot be saved.
error bad_section(const checkpoint_section& s, std::string_view text) {
  return error(errc::invalid_argument,
               fmt::format("cannot save checkpoint section \"{}\": {}", s.name, text));
}

/// Padding is written from here.
constexpr std::array<std::byte, section_alignment> zeros{};

}  // namespace

// Uses the same checks as the reader, so that no file is written that could not be
// loaded.
result<void> check_for_save(std::span<const checkpoint_section> sections,
                            std::uint64_t pulse_id) {
  std::unordered_set<std::string_view> names;
  std::vector<checkpoint::loaded_section> views;
  for (const checkpoint_section& s : sections) {
    if (s.name.empty() || s.name.size() > longest_name) {
      return bad_section(s, fmt::format("expected a name of 1 to {} bytes, found {}",
                                        longest_name, s.name.size()));
    }
    if (!names.insert(s.name).second) {
      return bad_section(s, "expected one section of this name, found two");
    }
    const shape_vector shape = shape_of(s);
    const auto bytes = byte_size(s.type, element_count(shape));
    // An overflow of the product gives a negative count.
    if (shape.size() > max_dimensions || element_count(shape) < 0 || !bytes ||
        static_cast<std::uint64_t>(*bytes) != s.data.size()) {
      return bad_section(s,
                         fmt::format("its shape does not make {} bytes", s.data.size()));
    }
    views.push_back({s.name, s.type, shape, s.data});
  }
  auto checked = check_sections(views, pulse_id, "new checkpoint");
  // The sections are checked as a reader would, with the same code.
  if (!checked) {
    // A fault that is corruption in a file is a wrong argument while there is no file
    // yet.
    const errc code = checked.error().code() == errc::corrupt ? errc::invalid_argument
                                                              : checked.error().code();
    return error(code, "cannot save checkpoint: " + checked.error().text())
        .located(checked.error().location())
        .because(std::move(checked).error());
  }
  return {};
}

/// Computes the hash of every section, which reads all bytes once.
section_table table_of(std::span<const checkpoint_section> sections) {
  section_table out;
  for (const checkpoint_section& s : sections) {
    out.entries.push_back(
        {s.name, s.type, shape_of(s), 0, s.data.size(), xxh3_64(s.data), false});
  }
  return out;
}

// Parts are written in the order of the file. The footer comes last: a file without it is
// recognised as incomplete.
//
// `sections` and the entries of `table` have the same order. The file is not durable
// afterwards; the caller syncs it.
result<void> write_checkpoint(file& f, std::span<const checkpoint_section> sections,
                              section_table table, const checkpoint_header& header) {
  preamble p;
  p.header = header;
  const byte_vector head = lay_out(table, p);
  const std::vector<table_entry>& entries = table.entries;
  // Preamble, table and the padding behind it.
  WEIR_CHECK(write_all(f, 0, head));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].in_base) {
      // Bytes of the base are not in this file.
      continue;
    }
    const std::uint64_t end = entries[i].offset + entries[i].length;
    // Padding up to the next section.
    const auto padding = static_cast<std::size_t>(align_up(end, section_alignment) - end);
    WEIR_CHECK(write_all(f, entries[i].offset, sections[i].data));
    WEIR_CHECK(write_all(f, end, bytes_view(zeros).first(padding)));
  }
  const auto covered = static_cast<std::size_t>(preamble_bytes + p.table_bytes);
  const std::uint64_t root = xxh3_64(bytes_view(head).first(covered));
  return write_all(f, p.file_bytes - footer_bytes, encode_footer(p, root));
}

}  // namespace weir::storage
