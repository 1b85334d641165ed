// SPDX-License-Identifier: Apache-2.0
/// @file
/// The index beside an image. It lists where the entries of each name are, so that
/// opening a tag does not need the whole directory.
///
/// The index is a hint: every entry that it names is read and verified. It consists of a
/// head of 64 bytes, rows of 16 bytes sorted by the hash of the name, and a checksum. It
/// is used only if size, identity, generation and time of the image are those of its
/// head, so any change of the image by another program makes it useless rather than
/// wrong.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/directory/directory.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"

namespace weir::storage::hn4 {

namespace {

/// First bytes of an index: "WNH4IDX1".
constexpr std::uint64_t index_magic = 0x3158444934484E57U;  // "WNH4IDX1"
constexpr std::size_t head_bytes = 64;
/// Hash, slot and checksum of the entry.
constexpr std::size_t row_bytes = 16;

/// Returns the head for a volume. An index is used only if all of its head is the same.
/// Differences of any field, such as the time of change, mean that the image may have
/// been written since.
std::array<std::byte, head_bytes> head_of(const core& c, std::uint64_t rows) {
  std::array<std::byte, head_bytes> head{};
  store_le(head.data(), index_magic);
  store_le(head.data() + 8, c.device->size());
  store_le(head.data() + 16, c.sb.uuid.lo);
  store_le(head.data() + 24, c.sb.uuid.hi);
  store_le(head.data() + 32, c.sb.generation);
  store_le(head.data() + 40, static_cast<std::uint64_t>(c.device->modified_ns()));
  store_le(head.data() + 48, rows);
  return head;
}

/// One entry of a tag.
struct row {
  std::uint64_t name = 0;  ///< XXH3-64 of the name
  std::uint32_t slot = 0;
  std::uint32_t checksum = 0;  ///< checksum of the whole entry
};

/// Decodes a row. The bytes are those of a mapped file whose checksum was verified.
row load_row(const std::byte* from) {
  return {load_le<std::uint64_t>(from), load_le<std::uint32_t>(from + 8),
          load_le<std::uint32_t>(from + 12)};
}

/// Returns the checksum of an entry as it is stored. A row carries it, so that an entry
/// that was changed in place is found out.
std::uint32_t index_checksum_of(const anchor& a) {
  std::array<std::byte, anchor_bytes> bytes{};
  store_anchor(a, bytes);
  return crc32(0, bytes);
}

}  // namespace

/// The index lies beside the image.
std::string index_path(const core& c) {
  return c.device->name() + ".index";
}

// A device without a modification time is no file and has no index. Returns whether the
// index is in use from now on. A missing, damaged or outdated one is no error.
bool load_index(core& c) {
  file_system& files = posix_file_system();
  if (c.device->modified_ns() == 0 || !files.exists(index_path(c))) {
    return false;
  }
  // Mapping is safe here: an index is replaced as a whole file, never changed in place.
  auto file = open_mapped_device(index_path(c));
  if (!file || (*file)->size() < head_bytes + 4) {
    return false;
  }
  const bytes_view bytes = (*file)->view(0, static_cast<std::size_t>((*file)->size()));
  // The number of rows follows from the size, and the head must agree with it.
  const std::uint64_t rows = (bytes.size() - head_bytes - 4) / row_bytes;
  const auto wanted = head_of(c, rows);
  if (bytes.size() != head_bytes + rows * row_bytes + 4 ||
      std::memcmp(bytes.data(), wanted.data(), head_bytes) != 0) {
    return false;
  }
  const bytes_view covered = bytes.first(bytes.size() - 4);
  if (load_le<std::uint32_t>(bytes.data() + covered.size()) != crc32(0, covered)) {
    return false;
  }
  // The view refers to the mapping, which the core keeps.
  c.index = bytes;
  c.index_file = std::move(*file);
  return true;
}

// Names are compared after the hash, because different names may have one hash; such
// names are then searched without the index. Returns nothing if the index cannot answer;
// the caller then searches the directory. An empty list is never returned, because the
// absence of a tag is not proven by the index.
std::optional<std::vector<entry>> look_up_index(const core& c, std::string_view tag) {
  if (c.index.empty()) {
    return std::nullopt;
  }
  const std::uint64_t hash = xxh3_64(as_view(tag));
  const std::byte* rows = c.index.data() + head_bytes;
  std::size_t low = 0, high = (c.index.size() - head_bytes - 4) / row_bytes;
  // Finds the first row of the hash by bisection; the rows of one name follow each
  // other. `end` keeps the number of rows.
  const std::size_t end = high;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    (load_row(rows + middle * row_bytes).name < hash ? low : high) =
        load_row(rows + middle * row_bytes).name < hash ? middle + 1 : middle;
  }
  std::vector<entry> found;
  for (; low < end; ++low) {
    const row r = load_row(rows + low * row_bytes);
    if (r.name != hash) {
      break;
    }
    entry e;
    e.slot = r.slot;
    std::array<std::byte, anchor_bytes> bytes{};
    // A row that is outdated in any way makes the whole answer unusable, since another
    // shard may be missing from the index.
    if (e.slot >= c.slots() || !c.device->read(c.slot_offset(e.slot), bytes) ||
        // Each entry is read from the device and compared, so a wrong row costs time and
        // never gives wrong bytes.
        crc32(0, bytes) != r.checksum || !load_anchor(bytes, e.a) || !e.a.live()) {
      return std::nullopt;
    }
    // Two names with one hash end here.
    const auto name = name_of_entry(c, e.a);
    if (!name || name->text != tag || !covers(e.a.tag_filter, tag_mask(tag))) {
      return std::nullopt;
    }
    found.push_back(e);
  }
  return found.empty() ? std::nullopt : std::optional(std::move(found));
}

/// Only tags without any loss or warning are listed, because whoever finds a tag in the
/// index looks no further.
result<void> write_index(const core& c) {
  file_system& files = posix_file_system();
  // Volumes with damage or unfinished work have no index: whoever opens them must see
  // the whole directory. An index that is there is removed.
  if (c.device->modified_ns() == 0 || !c.damaged.empty() || c.unfinished ||
      c.slots() > UINT32_MAX) {
    return files.exists(index_path(c)) ? files.remove(index_path(c)) : result<void>();
  }
  WEIR_TRY(const auto names, list_names(c));
  std::vector<row> rows;
  for (const listed_tag& listed : names) {
    const std::uint64_t hash = xxh3_64(as_view(listed.tag.name));
    for (const entry& e : listed.entries.shards) {
      // The condition is that of the whole tag.
      if (listed.exists && !listed.problem && listed.entries.warnings.empty()) {
        rows.push_back(
            {hash, static_cast<std::uint32_t>(e.slot), index_checksum_of(e.a)});
      }
    }
  }
  // The slot makes the order of equal hashes certain, so equal volumes have equal
  // indexes.
  std::sort(rows.begin(), rows.end(), [](const row& x, const row& y) {
    return x.name != y.name ? x.name < y.name : x.slot < y.slot;
  });
  const auto head = head_of(c, rows.size());
  byte_vector bytes(head.begin(), head.end());
  bytes.resize(head_bytes + rows.size() * row_bytes + 4);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::byte* to = bytes.data() + head_bytes + i * row_bytes;
    store_le(to, rows[i].name);
    store_le(to + 8, rows[i].slot);
    store_le(to + 12, rows[i].checksum);
  }
  // Covers head and rows.
  store_le(bytes.data() + bytes.size() - 4,
           crc32(0, bytes_view(bytes).first(bytes.size() - 4)));
  // A reader that has mapped the old file keeps it.
  return write_file_atomically(files, index_path(c), bytes);
}

}  // namespace weir::storage::hn4

namespace weir::storage {

result<void> hn4_volume::write_index() const {
  return hn4::write_index(*core_);
}

}  // namespace weir::storage
