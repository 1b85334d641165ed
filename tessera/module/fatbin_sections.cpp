// SPDX-License-Identifier: Apache-2.0
/// @file
/// The first half of reading a container: the header, the table of sections, and the
/// hashes. Afterwards every section lies inside the image and overlaps nothing, and the
/// content is the one that was hashed.
///
/// The order of the checks, each of which may rely on those before:
///
///   magic, ABI, version          first 16 bytes, the same in all versions
///   sizes in the header          the table lies inside the image
///   each entry                   its section lies inside the image, aligned
///   overlaps                     sections, table and header are apart
///   content hash, section hashes the bytes are those that were written
#include "fatbin_sections.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "fatbin_layout.hpp"

/// Only sizes and places are judged here; what sections mean is the matter of
/// fatbin_parse.cpp.
namespace weir::tessera {

namespace lay = fatbin_layout;

/// `thing` names the part, in words that follow "the".
error damaged_fatbin(std::string_view thing, std::string_view expected,
                     std::string_view found) {
  return error(errc::corrupt,
               fmt::format("cannot read the {} of a fatbin: expected {}, found {}", thing,
                           expected, found));
}

/// Readers may skip such a section.
bool section_entry::optional() const noexcept {
  return (flags & lay::flag_optional) != 0;
}

/// For tools that must tell containers from other files.
bool looks_like_fatbin(bytes_view image) noexcept {
  return image.size() >= lay::magic.size() &&
         std::memcmp(image.data(), lay::magic.data(), lay::magic.size()) == 0;
}

namespace {

/// Read numbers at offsets that have been checked.
std::uint16_t u16_at(bytes_view bytes, std::size_t offset) {
  return load_le<std::uint16_t>(bytes.data() + offset);
}
std::uint32_t u32_at(bytes_view bytes, std::size_t offset) {
  return load_le<std::uint32_t>(bytes.data() + offset);
}
std::uint64_t u64_at(bytes_view bytes, std::size_t offset) {
  return load_le<std::uint64_t>(bytes.data() + offset);
}

bool all_zero(bytes_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte b) { return b == std::byte(0); });
}

/// Returns true if `bytes` bytes at `offset` lie inside of `whole`, without overflow.
bool inside(std::uint64_t offset, std::uint64_t bytes, std::uint64_t whole) {
  return offset <= whole && bytes <= whole - offset;
}

/// Checks magic, ABI and version. Only the first 16 bytes have the same meaning in all
/// versions, so this comes before every other check.
/// @error{unsupported_version; a module of another ABI}
/// @error{unsupported; another version of the container}
result<void> check_version(bytes_view image, abi_version runtime, fatbin& out) {
  if (!looks_like_fatbin(image)) {
    return damaged_fatbin("magic", "TESSFAT", "other bytes");
  }
  if (image.size() < lay::header::fixed) {
    return damaged_fatbin("version", fmt::format("{} bytes", lay::header::fixed),
                          fmt::format("{}", image.size()));
  }
  out.abi = {u16_at(image, lay::header::abi_major),
             u16_at(image, lay::header::abi_minor)};
  // A newer minor version of the runtime reads older modules.
  if (out.abi.major != runtime.major || out.abi.minor > runtime.minor) {
    return error(
        errc::unsupported_version,
        fmt::format("cannot use a module of another ABI: expected {}.0 to {}.{}, found "
                    "{}.{}",
                    runtime.major, runtime.major, runtime.minor, out.abi.major,
                    out.abi.minor));
  }
  // No flags are known.
  const std::uint16_t version = u16_at(image, lay::header::version);
  const std::uint16_t flags = u16_at(image, lay::header::flags);
  if (version != lay::container_version || flags != 0) {
    return error(errc::unsupported,
                 fmt::format("cannot read a fatbin of another form: expected version {} "
                             "without flags, found version {} with flags {:#x}",
                             lay::container_version, version, flags));
  }
  return {};
}

// Checks the sizes in the header. Afterwards the table of sections is inside the image.
result<void> check_header(bytes_view image) {
  if (image.size() < lay::header_bytes) {
    return damaged_fatbin("header", fmt::format("{} bytes", lay::header_bytes),
                          fmt::format("{}", image.size()));
  }
  if (u32_at(image, lay::header::bytes) != lay::header_bytes) {
    return damaged_fatbin("header", fmt::format("{} bytes", lay::header_bytes),
                          fmt::format("{}", u32_at(image, lay::header::bytes)));
  }
  // The size in the header must be that of the image.
  if (u64_at(image, lay::header::file_bytes) != image.size()) {
    return damaged_fatbin("size",
                          fmt::format("{} bytes", u64_at(image, lay::header::file_bytes)),
                          fmt::format("{}", image.size()));
  }
  if (!all_zero(image.subspan(lay::header::reserved,
                              lay::header_bytes - lay::header::reserved))) {
    return damaged_fatbin("header", "zeros behind its hashes", "other bytes");
  }
  // The table lies behind the header.
  const std::uint32_t count = u32_at(image, lay::header::sections);
  const std::uint64_t table = u64_at(image, lay::header::table);
  if (count > lay::max_sections || table < lay::header_bytes ||
      table % lay::table_align != 0 ||
      !inside(table, std::uint64_t{count} * lay::entry_bytes, image.size())) {
    return damaged_fatbin("table of sections",
                          fmt::format("at most {} entries inside {} bytes",
                                      lay::max_sections, image.size()),
                          fmt::format("{} at {}", count, table));
  }
  return {};
}

/// Reads an entry of the table and checks the place of its section.
result<section_entry> read_entry(bytes_view image, bytes_view record) {
  section_entry out;
  out.kind = u32_at(record, lay::entry::kind);
  out.flags = u32_at(record, lay::entry::flags);
  out.arch = u32_at(record, lay::entry::arch);
  out.align = u32_at(record, lay::entry::align);
  out.offset = u64_at(record, lay::entry::offset);
  const std::uint64_t bytes = u64_at(record, lay::entry::bytes);
  // Every section lies behind the header and inside of the image.
  if (out.offset < lay::header_bytes || !inside(out.offset, bytes, image.size())) {
    return damaged_fatbin("place of a section",
                          fmt::format("an extent inside {} bytes", image.size()),
                          fmt::format("{} bytes at {}", bytes, out.offset));
  }
  out.bytes = image.subspan(out.offset, bytes);
  if (!std::has_single_bit(out.align) || out.align < lay::table_align ||
      out.offset % out.align != 0) {
    return damaged_fatbin("alignment of a section", "a power of two from 8 on",
                          fmt::format("{} at {}", out.align, out.offset));
  }
  if (!all_zero(record.subspan(lay::entry::reserved))) {
    return damaged_fatbin("entry of a section", "zeros at its end", "other bytes");
  }
  // Compressed sections are refused later, as an unknown flag.
  const std::uint64_t plain = u64_at(record, lay::entry::plain_bytes);
  if ((out.flags & lay::flag_compressed) == 0 && plain != bytes) {
    return damaged_fatbin("size of a section", fmt::format("{} bytes", bytes),
                          fmt::format("{}", plain));
  }
  return out;
}

// Returns the hash of the content. It covers everything but its own field and the section
// of the signature, which is made from this hash.
result<digest256> hash_of(bytes_view image, const std::vector<section_entry>& sections) {
  const section_entry* found = nullptr;
  for (const section_entry& s : sections) {
    if (s.kind == static_cast<std::uint32_t>(section_kind::signature)) {
      if (found != nullptr) {
        return damaged_fatbin("signature", "one section", "several");
      }
      found = &s;
    }
  }
  return found == nullptr
             ? lay::content_hash_of(image, image.size(), 0)
             : lay::content_hash_of(image, found->offset, found->bytes.size());
}

/// Checks that no sections share bytes with each other, the header or the table. Sorting
/// them by their beginnings leaves only neighbours to compare.
result<void> check_overlaps(const std::vector<section_entry>& sections,
                            std::uint64_t table) {
  struct extent {
    std::uint64_t from, to;
  };
  // Header and table take part like sections.
  std::vector<extent> taken{{0, lay::header_bytes},
                            {table, table + sections.size() * lay::entry_bytes}};
  for (const section_entry& s : sections) {
    taken.push_back({s.offset, s.offset + s.bytes.size()});
  }
  // Empty sections take no bytes, so they may lie anywhere. Their hash is checked all
  // the same.
  std::erase_if(taken, [](const extent& e) { return e.from == e.to; });
  std::sort(taken.begin(), taken.end(),
            [](const extent& a, const extent& b) { return a.from < b.from; });
  // After sorting, an overlap is one of neighbours.
  for (std::size_t i = 1; i < taken.size(); ++i) {
    if (taken[i].from < taken[i - 1].to) {
      return damaged_fatbin("sections", "no two that share bytes",
                            fmt::format("two at {}", taken[i].from));
    }
  }
  return {};
}

/// Checks the hash of each section. The signature's entry has zeros instead.
result<void> check_section_hashes(bytes_view image, std::uint64_t table,
                                  const std::vector<section_entry>& sections) {
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const bytes_view stored = image.subspan(
        table + i * lay::entry_bytes + lay::entry::hash, lay::entry::hash_bytes);
    const bool is_signature =
        sections[i].kind == static_cast<std::uint32_t>(section_kind::signature);
    // The signature is made after the hashes, so it has none.
    const digest256 actual = is_signature ? digest256{} : sha256(sections[i].bytes);
    if (!std::equal(stored.begin(), stored.end(), actual.begin())) {
      return damaged_fatbin(fmt::format("section {}", i), "the hash in its entry",
                            "another");
    }
  }
  return {};
}

}  // namespace

// The ABI is checked before the hashes, so that a module of another ABI gets that error.
result<std::vector<section_entry>> read_sections(bytes_view image, abi_version runtime,
                                                 fatbin& out) {
  WEIR_CHECK(check_version(image, runtime, out));
  WEIR_CHECK(check_header(image));
  const std::uint64_t table = u64_at(image, lay::header::table);
  std::vector<section_entry> sections;
  // The number of sections was limited by `check_header`.
  for (std::uint32_t i = 0; i < u32_at(image, lay::header::sections); ++i) {
    const std::uint64_t offset = table + std::uint64_t{i} * lay::entry_bytes;
    WEIR_TRY(const section_entry entry,
             read_entry(image, image.subspan(offset, lay::entry_bytes)));
    sections.push_back(entry);
  }
  WEIR_CHECK(check_overlaps(sections, table));
  WEIR_TRY(out.content_hash, hash_of(image, sections));
  const bytes_view stored = image.subspan(lay::header::content_hash, sizeof(digest256));
  if (!std::equal(stored.begin(), stored.end(), out.content_hash.begin())) {
    return damaged_fatbin("content", fmt::format("hash {}", to_hex(stored)),
                          to_hex(out.content_hash));
  }
  // The hash of the content covers the sections already; this names the one that is
  // damaged.
  WEIR_CHECK(check_section_hashes(image, table, sections));
  std::copy_n(image.begin() + lay::header::source_hash, out.source_hash.size(),
              out.source_hash.begin());
  out.bytes = image.size();
  return sections;
}

}  // namespace weir::tessera
