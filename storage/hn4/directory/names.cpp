// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the names of directory entries, and finds the entries of a name.
///
/// A name of up to 24 bytes is in the entry itself. For a longer one the entry has the
/// first 16 bytes and a pointer to a chain of blocks with the rest. Entries are found by
/// the Bloom filter of the name, which the entry also holds; the name is read only if the
/// filter fits.
///
/// The chain has no checksum. What protects a long name is that it must agree with the
/// filter in the entry, which the checksum of the entry covers.
///
/// Data blocks and blocks of names share the data region and are told apart by their
/// magic number.
#include "hn4/directory/directory.hpp"

#include <algorithm>

namespace weir::storage::hn4 {

namespace {

// A long name lies in blocks of its own, each with a header of 16 bytes: magic, kind and
// the sector of the next block. Sectors count from the beginning of the volume. A block
// holds up to `longest_name` bytes of the name behind its header.
constexpr unsigned longest_chain = 16;

/// Returns the byte offset of the block to which a pointer of a chain leads, if it leads
/// into the data region. Each condition protects the read that follows: the block lies
/// behind the metadata, inside the volume, and begins at the border of a block.
std::optional<std::uint64_t> chain_offset(const core& c, std::uint64_t sector) {
  const hn4_geometry& g = c.geometry;
  if (sector < g.flux / g.sector || sector >= g.capacity / g.sector ||
      sector % (g.block / g.sector) != 0 || sector * g.sector > g.capacity - g.block) {
    return std::nullopt;
  }
  return sector * g.sector;
}

/// Reads a long name along its chain. The last pointer leads nowhere. A name is broken if
/// the first pointer leads nowhere, or if any leads to something else than a block of a
/// name. `name` has the fragment of the entry already, and receives the rest.
/// `name.linked` becomes false if the chain is broken, and `name.block` is the last
/// block that was visited. Only a failed read is an error.
result<void> follow_chain(const core& c, std::uint64_t pointer, full_name& name) {
  std::array<std::byte, chain_header + longest_name> head;
  std::uint64_t previous = UINT64_MAX;
  // The depth is limited, because damaged pointers may form a circle.
  for (unsigned depth = 0; depth < longest_chain && pointer != previous; ++depth) {
    const auto offset = chain_offset(c, pointer);
    // At the first pointer, leading nowhere is damage; later, it is the end of the name.
    if (!offset) {
      name.linked = depth != 0;
      return {};
    }
    name.block = *offset;
    const mutable_bytes bytes =
        mutable_bytes(head).first(std::min<std::size_t>(head.size(), c.geometry.block));
    WEIR_CHECK(c.device->read(*offset, bytes));
    if (load_le<std::uint32_t>(bytes.data()) != chain_magic) {
      name.linked = false;
      return {};
    }
    // Blocks of other kinds may be in a chain and are skipped.
    if (load_le<std::uint32_t>(bytes.data() + 4) == chain_long_name) {
      std::string_view part = as_text(bytes.subspan(chain_header));
      const std::size_t nul = part.find('\0');
      // The whole name is limited, so a chain without a NUL ends.
      part = part.substr(0, std::min(nul, longest_name - name.text.size()));
      name.text += part;
      if (nul != std::string_view::npos || name.text.size() == longest_name) {
        return {};
      }
    }
    previous = pointer;
    pointer = load_le<std::uint64_t>(bytes.data() + 8);
  }
  return {};
}

/// Returns whether an entry whose long name is damaged may belong to a tag, judged by its
/// filter and the fragment of the name. Entries of this writer have exactly the filter
/// of their name, which excludes more than a filter that only covers it.
bool may_be_named(const anchor& a, std::string_view tag) {
  const std::string fragment = inline_name(a);
  const std::uint64_t mask = tag_mask(tag);
  return mask != 0 && (group_of(a) ? a.tag_filter == mask : covers(a.tag_filter, mask)) &&
         (fragment.empty() || tag.substr(0, fragment_bytes) == fragment);
}

/// Adds an entry to the list of its role. Entries that have ended are dropped.
void add(named_entries& to, const entry& e) {
  switch (role_of(e.a)) {
    case entry_role::live: to.live.push_back(e); break;
    case entry_role::announced: to.announced.push_back(e); break;
    case entry_role::grave: to.graves.push_back(e); break;
    case entry_role::ended: break;
  }
}

}  // namespace

// A long name of this writer must have exactly the filter of its entry. Other writers may
// set further bits. `whole` is true if the name can be trusted. Short names are inside
// the entry and always whole.
result<full_name> name_of_entry(const core& c, const anchor& a) {
  full_name name;
  name.text = inline_name(a);
  if (a.has(class_bits::extended)) {
    WEIR_CHECK(follow_chain(c, load_le<std::uint64_t>(a.name.data()), name));
    const std::uint64_t mask = tag_mask(name.text);
    // A wrong byte anywhere in the chain changes the filter with high probability.
    name.whole =
        name.linked && (group_of(a) ? mask == a.tag_filter : covers(a.tag_filter, mask));
  }
  return name;
}

// The filter excludes most entries, so that few names are read. Also collects live
// entries whose names are damaged and may be this one. `resolve_tag` decides what they
// mean.
result<named_entries> entries_named(const core& c, std::string_view tag) {
  const std::uint64_t mask = tag_mask(tag);
  named_entries found;
  for (const entry& e : c.entries) {
    if (role_of(e.a) == entry_role::ended || !covers(e.a.tag_filter, mask)) {
      continue;
    }
    WEIR_TRY(const full_name name, name_of_entry(c, e.a));
    if (name.whole && name.text == tag) {
      add(found, e);
    } else if (!name.whole && e.a.live() && may_be_named(e.a, tag)) {
      // The name cannot be compared, so filter and fragment must do.
      found.misnamed.push_back({e, name.block});
    }
  }
  return found;
}

// Names come in bytewise order, which makes every list deterministic. `filters`
// restricts the result to entries with one of these filters; null means all. Cost grows
// with damaged names times names, and both are few.
result<std::map<std::string, named_entries>> all_names(
    const core& c, const std::set<std::uint64_t>* filters) {
  std::map<std::string, named_entries> names;
  std::vector<named_entries::misnamed_entry> misnamed;
  for (const entry& e : c.entries) {
    if (role_of(e.a) == entry_role::ended ||
        (filters != nullptr && filters->count(e.a.tag_filter) == 0)) {
      continue;
    }
    // A name that cannot be read is left to the check of the volume.
    auto name = name_of_entry(c, e.a);
    if (!name || (name->whole && name->text.empty())) {
      continue;
    }
    // Readers skip an entry whose filter does not cover its name, so it is left out here,
    // too.
    if (name->whole) {
      if (covers(e.a.tag_filter, tag_mask(name->text))) {
        add(names[std::move(name->text)], e);
      }
    } else if (e.a.live()) {
      misnamed.push_back({e, name->block});
      // The fragment may also be repeated in the chain by its writer; that is no damage.
      // The damaged name is listed under what is left of it, so that it appears in a
      // list of tags.
      if (!name->text.empty() && (!name->linked || group_of(e.a))) {
        names[std::move(name->text)].misnamed.push_back(misnamed.back());
      }
    }
  }
  // An entry with a damaged name may be a shard of several tags; it is added to each. An
  // entry is added once to each name.
  for (const auto& m : misnamed) {
    for (auto& [name, entries] : names) {
      if (may_be_named(m.e.a, name) &&
          std::none_of(entries.misnamed.begin(), entries.misnamed.end(),
                       [&](const auto& x) { return x.e.slot == m.e.slot; })) {
        entries.misnamed.push_back(m);
      }
    }
  }
  return names;
}

/// Entries with a bad checksum cannot be used, but their names may still be readable.
result<std::vector<entry>> damaged_named(const core& c, std::string_view tag) {
  std::vector<entry> found;
  for (const entry& e : c.damaged) {
    WEIR_TRY(const full_name name, name_of_entry(c, e.a));
    if (name.text == tag) {
      found.push_back(e);
    }
  }
  return found;
}

}  // namespace weir::storage::hn4
