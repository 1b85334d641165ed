// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads and verifies one checkpoint file and its base.
///
/// A file is read once, as a whole, into page-aligned memory. Then everything is verified
/// from the front: preamble, table, footer, sections, padding. Only files that pass all
/// checks become a `checkpoint`; its sections are views into that memory.
///
/// A section that the base holds is looked up there by name, length and hash. The base
/// itself must be whole, so a file whose base is damaged cannot be loaded.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <new>
#include <unordered_set>

#include "checkpoint/reader.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/system/memory.hpp"

namespace weir::storage {

bool checkpoint::has(std::string_view name) const noexcept {
  return std::any_of(sections_.begin(), sections_.end(),
                     [&](const loaded_section& s) { return s.name == name; });
}

/// Names are few, so the list is searched from the front.
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
//
// A file that is too short is torn, one that is too long is corrupt.
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

/// Alignment of sections in memory.
constexpr std::align_val_t section_page{section_alignment};

/// Allocates page-aligned memory, so that sections are aligned in memory as in the file.
/// Memory that this process cannot have is refused: a file may be sparse, so its length
/// alone proves nothing.
///
/// The memory belongs to the checkpoint and is freed with its last view.
result<std::shared_ptr<std::byte>> aligned_bytes(std::uint64_t count,
                                                 const std::string& path) {
  const std::uint64_t most = memory_of_machine().total;
  // A system that does not tell its memory may have any.
  void* const memory =
      most != 0 && count > most
          ? nullptr
          : ::operator new(static_cast<std::size_t>(count), section_page, std::nothrow);
  if (memory == nullptr) {
    return error(errc::out_of_memory,
                 fmt::format("cannot read checkpoint: expected a file that fits into the "
                             "memory of this machine of {} bytes, found {} bytes",
                             most, count))
        .located(path);
  }
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), [](std::byte* p) {
    ::operator delete(p, section_page);
  });
}

/// Checks that padding is zero: only then every byte of the file is covered. `from` and
/// `to` are offsets in the file.
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
      // The root of the file.
      encode_footer(p, xxh3_64(whole.first(static_cast<std::size_t>(head))));
  const bytes_view found = whole.last(footer_bytes);
  // The first byte that differs is named.
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

/// Checks the hash of the table and decodes it. The hash is compared before anything of
/// the table is believed.
result<section_table> check_table(bytes_view whole, const preamble& p,
                                  const std::string& path) {
  const bytes_view table =
      whole.subspan(preamble_bytes, static_cast<std::size_t>(p.table_bytes));
  if (const std::uint64_t found = xxh3_64(table); found != p.table_hash) {
    return damaged(
        path, preamble_bytes, "TABLE",
        fmt::format("expected hash {}, found {}", hex64(p.table_hash), hex64(found)));
  }
  WEIR_TRY(section_table decoded, decode_table(table, p, path));
  const std::uint64_t end = preamble_bytes + p.table_bytes;
  WEIR_CHECK(check_zero(whole, end, align_up(end, section_alignment), "TABLE", path));
  return decoded;
}

/// One file in memory, of which every byte was verified.
struct read_bytes {
  std::shared_ptr<std::byte> memory;
  checkpoint_header header;
  verified_file file;
  std::vector<bytes_view> sections;  ///< by entry; empty if the base holds it
};

/// Verifies the sections that a file holds, and returns them in the order of its table.
/// Names occur once; a section of the base has an empty view here.
result<std::vector<bytes_view>> check_held(bytes_view whole, const section_table& table,
                                           const std::string& path) {
  std::unordered_set<std::string_view> names;
  std::vector<bytes_view> out;
  for (const table_entry& e : table.entries) {
    if (!names.insert(e.name).second) {
      return damaged(path, e.offset, e.name,
                     "expected one section of this name, found two");
    }
    if (e.in_base) {
      out.emplace_back();
      continue;
    }
    const bytes_view data = whole.subspan(static_cast<std::size_t>(e.offset),
                                          static_cast<std::size_t>(e.length));
    if (const std::uint64_t found = xxh3_64(data); found != e.hash) {
      return damaged(
          path, e.offset, e.name,
          fmt::format("expected hash {}, found {}", hex64(e.hash), hex64(found)));
    }
    const std::uint64_t end = e.offset + e.length;
    WEIR_CHECK(check_zero(whole, end, align_up(end, section_alignment), e.name, path));
    out.push_back(data);
  }
  return out;
}

/// Reads one file and verifies what it holds, without its base.
///
/// The preamble is read alone first, since it says how much memory the file needs.
result<read_bytes> read_held(file_system& fs, const std::string& path) {
  WEIR_TRY(const auto opened, fs.open(path, open_mode::read));
  file& f = *opened;
  WEIR_TRY(const preamble p, read_preamble(f));
  // The whole file is read only after its length was compared with the preamble.
  read_bytes out;
  WEIR_TRY(out.memory, aligned_bytes(p.file_bytes, path));
  const std::span<std::byte> bytes(out.memory.get(),
                                   static_cast<std::size_t>(p.file_bytes));
  WEIR_CHECK(read_exactly(f, 0, bytes));
  const bytes_view whole = bytes;
  // The preamble is decoded again from the bytes that are kept, because the file may
  // have changed between the two reads.
  WEIR_TRY(const preamble again, decode_preamble(whole, path));
  if (again.file_bytes != p.file_bytes || again.table_bytes != p.table_bytes) {
    return damaged(path, 0, "PREAMBLE", "it changed while it was read");
  }
  WEIR_TRY(out.file.table, check_table(whole, again, path));
  WEIR_CHECK(check_footer(whole, again, path));
  WEIR_TRY(out.sections, check_held(whole, out.file.table, path));
  out.header = again.header;
  out.file.path = path;
  // These three name the file for others that refer to it.
  out.file.generation = again.header.generation;
  out.file.root =
      xxh3_64(whole.first(static_cast<std::size_t>(preamble_bytes + again.table_bytes)));
  return out;
}

/// Makes an error about the base of a file.
error base_error(const read_bytes& own, errc code, std::string text) {
  return error(code, fmt::format("cannot read checkpoint: {} refers to generation {}, {}",
                                 own.file.path, own.file.table.base->generation, text))
      .located(fmt::format("{} (section TABLE)", own.file.path))
      .hint(
          "the files of a folder of checkpoints belong together; copy or move all of "
          "them, or use another generation");
}

/// Reads the base of a file. The base lies in the same folder, under the name of its
/// generation.
result<read_bytes> read_base(file_system& fs, const read_bytes& own) {
  const base_reference& expected = *own.file.table.base;
  const std::string path =
      path_of_generation(folder_of(own.file.path), expected.generation);
  auto base = read_held(fs, path);
  // The code of the cause is kept; a missing file has a text of its own, since it is the
  // usual mistake.
  if (!base) {
    const errc code = base.error().code();
    return base_error(own, code,
                      code == errc::not_found
                          ? fmt::format("expected \"{}\", found no file", path)
                          : fmt::format("and \"{}\" cannot be used", path))
        .because(std::move(base).error());
  }
  // The file exists but is another one, for instance of another run.
  if (base->file.generation != expected.generation || base->file.root != expected.root) {
    return base_error(
        own, errc::corrupt,
        fmt::format("expected root {} in \"{}\", found generation {} with root {}",
                    hex64(expected.root), path, base->file.generation,
                    hex64(base->file.root)));
  }
  return base;
}

/// Finds the section of a base to which an entry refers. Fails if the base holds no
/// section of that name, length and hash.
result<bytes_view> section_in_base(const read_bytes& own, const table_entry& wanted,
                                   const read_bytes& base) {
  for (std::size_t i = 0; i < base.sections.size(); ++i) {
    const table_entry& e = base.file.table.entries[i];
    // A base must hold the bytes itself, so references are never followed twice.
    if (e.name == wanted.name && !e.in_base && e.length == wanted.length &&
        e.hash == wanted.hash) {
      return base.sections[i];
    }
  }
  return base_error(own, errc::corrupt,
                    fmt::format("expected section {} of {} bytes with digest {} in it, "
                                "found none",
                                wanted.name, wanted.length, hex64(wanted.hash)));
}

}  // namespace

/// Friend of `checkpoint` that fills its members.
struct checkpoint_reader {
  static result<verified_checkpoint> read(file_system& fs, const std::string& path) {
    WEIR_TRY(read_bytes own, read_held(fs, path));
    std::optional<read_bytes> base;
    if (own.file.table.base) {
      WEIR_TRY(base, read_base(fs, own));
    }
    verified_checkpoint out;
    checkpoint& content = out.content;
    content.header_ = own.header;
    content.path_ = path;
    // From here on sections are found by their names, wherever they are.
    WEIR_CHECK(list_sections(content, own, base));
    // Moved once, out of the result: GCC 12 takes a second move of the optional origin of
    // the cursor for a use of an uninitialised value.
    auto where = check_sections(content.sections_, own.header.pulse_id, path);
    if (!where) {
      return std::move(where).error();
    }
    content.cursor_ = std::move(where->cursor);
    content.conductor_ = where->conductor;
    out.own = std::move(own.file);
    using pair_of_files =
        std::pair<std::shared_ptr<std::byte>, std::shared_ptr<std::byte>>;
    // Both memories live as long as the checkpoint, because sections are views into
    // them.
    content.storage_ = std::make_shared<const pair_of_files>(
        std::move(own.memory), base ? std::move(base->memory) : nullptr);
    if (base) {
      content.base_ = base->file.generation;
      out.base = std::move(base->file);
    }
    return out;
  }

 private:
  /// Lists the sections in the order of the table, wherever their bytes are.
  static result<void> list_sections(checkpoint& out, const read_bytes& own,
                                    const std::optional<read_bytes>& base) {
    for (std::size_t i = 0; i < own.sections.size(); ++i) {
      const table_entry& e = own.file.table.entries[i];
      bytes_view data = own.sections[i];
      if (e.in_base) {
        WEIR_TRY(data, section_in_base(own, e, *base));
      }
      out.sections_.push_back({e.name, e.type, e.shape, data, e.hash,
                               e.in_base ? base->file.generation : own.file.generation});
    }
    return {};
  }
};

/// Also returns what a store remembers of the files.
result<verified_checkpoint> load_verified(file_system& fs, const std::string& path) {
  return checkpoint_reader::read(fs, path);
}

/// Serves callers that need the content alone.
result<checkpoint> load_checkpoint(file_system& fs, const std::string& path) {
  WEIR_TRY(auto loaded, load_verified(fs, path));
  return std::move(loaded.content);
}

}  // namespace weir::storage
