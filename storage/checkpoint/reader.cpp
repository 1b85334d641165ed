// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads and verifies one checkpoint file.
///
/// The file is read once, as a whole, into page-aligned memory. Then everything is
/// verified from the front: preamble, table, footer, sections, padding. Only a file that
/// passes all checks becomes a `checkpoint`; its sections are views into that memory.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <new>
#include <unordered_set>

#include "checkpoint/layout.hpp"
#include "weir/base/hash.hpp"

namespace weir::storage {

bool checkpoint::has(std::string_view name) const noexcept {
  return std::any_of(sections_.begin(), sections_.end(),
                     [&](const loaded_section& s) { return s.name == name; });
}

result<const checkpoint::loaded_section*> checkpoint::find(std::string_view name) const {
  for (const loaded_section& s : sections_) {
    if (s.name == name) {
      return &s;
    }
  }
  return error(errc::not_found, fmt::format("cannot find section {} in checkpoint", name))
      .located(path_);
}

// Compares the lengths in the preamble with the size of the file before anything is
// allocated for them.
result<preamble> read_preamble(file& f) {
  WEIR_TRY(const std::uint64_t size, f.size());
  if (size < preamble_bytes + footer_bytes) {
    return error(errc::torn,
                 fmt::format("cannot read checkpoint section PREAMBLE: expected at "
                             "least {} bytes, found {}",
                             preamble_bytes + footer_bytes, size))
        .located(fmt::format("{}:0 (section PREAMBLE)", f.path()));
  }
  std::array<std::byte, preamble_bytes> bytes{};
  WEIR_CHECK(read_exactly(f, 0, bytes));
  WEIR_TRY(const preamble p, decode_preamble(bytes, f.path()));
  if (size != p.file_bytes) {
    return error(size < p.file_bytes ? errc::torn : errc::corrupt,
                 fmt::format("cannot read checkpoint: expected {} bytes, found {}",
                             p.file_bytes, size))
        .located(fmt::format("{}:{} (section FOOTER)", f.path(),
                             std::min(size, p.file_bytes)));
  }
  if (p.table_bytes > size - preamble_bytes - footer_bytes) {
    return damaged(f.path(), 40, "PREAMBLE", "the table is longer than the file");
  }
  return p;
}

namespace {

constexpr std::align_val_t section_page{section_alignment};

/// Allocates page-aligned memory, so that sections are aligned in memory as in the file.
std::shared_ptr<std::byte> aligned_bytes(std::uint64_t count) {
  auto* const memory = ::operator new(static_cast<std::size_t>(count), section_page);
  return {static_cast<std::byte*>(memory),
          [](std::byte* p) { ::operator delete(p, section_page); }};
}

/// Checks that padding is zero: only then every byte of the file is covered.
result<void> check_zero(bytes_view whole, std::uint64_t from, std::uint64_t to,
                        std::string_view section, const std::string& path) {
  for (std::uint64_t i = from; i < to; ++i) {
    if (whole[static_cast<std::size_t>(i)] != std::byte{0}) {
      return damaged(path, i, section, "a byte of the padding behind it is not zero");
    }
  }
  return {};
}

/// Compares the footer with the one that follows from preamble and table.
result<void> check_footer(bytes_view whole, const preamble& p, const std::string& path) {
  const std::uint64_t head = preamble_bytes + p.table_bytes;
  const byte_vector expected =
      encode_footer(p, xxh3_64(whole.first(static_cast<std::size_t>(head))));
  const bytes_view found = whole.last(footer_bytes);
  const auto differs =
      std::mismatch(expected.begin(), expected.end(), found.begin()).first;
  if (differs != expected.end()) {
    const auto offset = static_cast<std::uint64_t>(differs - expected.begin());
    return damaged(path, p.file_bytes - footer_bytes + offset, "FOOTER",
                   "expected generation, pulse, length and hash of preamble and table, "
                   "found others");
  }
  return {};
}

/// Checks the hash of the table and decodes it.
result<std::vector<table_entry>> check_table(bytes_view whole, const preamble& p,
                                             const std::string& path) {
  const bytes_view table =
      whole.subspan(preamble_bytes, static_cast<std::size_t>(p.table_bytes));
  if (const std::uint64_t found = xxh3_64(table); found != p.table_hash) {
    return damaged(
        path, preamble_bytes, "TABLE",
        fmt::format("expected hash {}, found {}", hex64(p.table_hash), hex64(found)));
  }
  WEIR_TRY(std::vector<table_entry> entries, decode_table(table, p, path));
  const std::uint64_t end = preamble_bytes + p.table_bytes;
  WEIR_CHECK(check_zero(whole, end, align_up(end, section_alignment), "TABLE", path));
  return entries;
}

}  // namespace

/// Friend of `checkpoint` that fills its members.
struct checkpoint_reader {
  static result<checkpoint> read(file& f) {
    WEIR_TRY(const preamble p, read_preamble(f));
    // The whole file is read only after its length was compared with the preamble.
    const auto storage = aligned_bytes(p.file_bytes);
    const std::span<std::byte> bytes(storage.get(),
                                     static_cast<std::size_t>(p.file_bytes));
    WEIR_CHECK(read_exactly(f, 0, bytes));
    const bytes_view whole = bytes;
    // The preamble is decoded again from the bytes that are kept, because the file may
    // have changed between the two reads.
    WEIR_TRY(const preamble again, decode_preamble(whole, f.path()));
    if (again.file_bytes != p.file_bytes || again.table_bytes != p.table_bytes) {
      return damaged(f.path(), 0, "PREAMBLE", "it changed while it was read");
    }
    WEIR_TRY(const auto entries, check_table(whole, again, f.path()));
    WEIR_CHECK(check_footer(whole, again, f.path()));
    checkpoint out;
    out.header_ = again.header;
    out.path_ = f.path();
    out.storage_ = storage;
    WEIR_CHECK(fill_sections(out, whole, entries));
    // Moved once, out of the result: GCC 12 takes a second move of the optional origin of
    // the cursor for a use of an uninitialised value.
    auto where = check_sections(out.sections_, out.header_.pulse_id, out.path_);
    if (!where) {
      return std::move(where).error();
    }
    out.cursor_ = std::move(where->cursor);
    out.conductor_ = where->conductor;
    return out;
  }

 private:
  /// Verifies the sections and lists them.
  static result<void> fill_sections(checkpoint& out, bytes_view whole,
                                    const std::vector<table_entry>& entries) {
    std::unordered_set<std::string_view> names;
    for (const table_entry& e : entries) {
      const bytes_view data = whole.subspan(static_cast<std::size_t>(e.offset),
                                            static_cast<std::size_t>(e.length));
      if (const std::uint64_t found = xxh3_64(data); found != e.hash) {
        return damaged(
            out.path_, e.offset, e.name,
            fmt::format("expected hash {}, found {}", hex64(e.hash), hex64(found)));
      }
      const std::uint64_t end = e.offset + e.length;
      WEIR_CHECK(
          check_zero(whole, end, align_up(end, section_alignment), e.name, out.path_));
      if (!names.insert(e.name).second) {
        return damaged(out.path_, e.offset, e.name,
                       "expected one section of this name, found two");
      }
      out.sections_.push_back({e.name, e.type, e.shape, data});
    }
    return {};
  }
};

result<checkpoint> load_checkpoint(file_system& fs, const std::string& path) {
  WEIR_TRY(const auto f, fs.open(path, open_mode::read));
  return checkpoint_reader::read(*f);
}

}  // namespace weir::storage
