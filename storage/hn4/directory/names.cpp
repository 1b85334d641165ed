// SPDX-License-Identifier: Apache-2.0
/// @file
/// The names of directory entries, and the entries of a name.
#include "hn4/directory/directory.hpp"

#include <algorithm>

namespace weir::storage::hn4 {

namespace {

constexpr std::uint32_t chain_magic = 0x4D455441U;
constexpr std::uint32_t chain_long_name = 2;
constexpr unsigned longest_chain = 16;
constexpr std::size_t chain_header = 16;

// Byte offset of a chain pointer's block, if it points into the data region.
std::optional<std::uint64_t> chain_offset(const core& c, std::uint64_t sector) {
  const hn4_geometry& g = c.geometry;
  if (sector < g.flux / g.sector || sector >= g.capacity / g.sector ||
      sector % (g.block / g.sector) != 0 || sector * g.sector > g.capacity - g.block) {
    return std::nullopt;
  }
  return sector * g.sector;
}

// Follows the chain of a long name; a link that leads nowhere ends it.
result<void> follow_chain(const core& c, std::uint64_t pointer, full_name& name) {
  std::array<std::byte, chain_header + longest_name> head;
  std::uint64_t previous = UINT64_MAX;
  for (unsigned depth = 0; depth < longest_chain && pointer != previous; ++depth) {
    const auto offset = chain_offset(c, pointer);
    if (!offset) {
      return {};
    }
    name.block = *offset;
    const mutable_bytes bytes =
        mutable_bytes(head).first(std::min<std::size_t>(head.size(), c.geometry.block));
    WEIR_CHECK(c.device->read(*offset, bytes));
    if (load_le<std::uint32_t>(bytes.data()) != chain_magic) {
      return {};
    }
    if (load_le<std::uint32_t>(bytes.data() + 4) == chain_long_name) {
      std::string_view part = as_text(bytes.subspan(chain_header));
      const std::size_t nul = part.find('\0');
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

std::uint64_t slot_of(const entry& e) {
  return e.slot;
}
std::uint64_t slot_of(const named_entries::misnamed_entry& m) {
  return m.e.slot;
}

void add(named_entries& to, const entry& e) {
  switch (role_of(e.a)) {
    case entry_role::live: to.live.push_back(e); break;
    case entry_role::announced: to.announced.push_back(e); break;
    case entry_role::grave: to.graves.push_back(e); break;
    case entry_role::ended: break;
  }
}

}  // namespace

result<full_name> name_of_entry(const core& c, const anchor& a) {
  full_name name;
  name.text = inline_name(a);
  if (a.has(class_bits::extended)) {
    WEIR_CHECK(follow_chain(c, load_le<std::uint64_t>(a.name.data()), name));
    const std::uint64_t mask = tag_mask(name.text);
    name.whole = group_of(a) ? mask == a.tag_filter : covers(a.tag_filter, mask);
  }
  return name;
}

result<named_entries> entries_named(const core& c, std::string_view tag) {
  const std::uint64_t mask = tag_mask(tag);
  named_entries found;
  for (const entry& e : c.entries) {
    if (role_of(e.a) == entry_role::ended || !covers(e.a.tag_filter, mask)) {
      continue;
    }
    WEIR_TRY(const full_name name, name_of_entry(c, e.a));
    if (name.text == tag) {
      add(found, e);
    } else if (!name.whole && e.a.live() && e.a.tag_filter == mask) {
      found.misnamed.push_back({e, name.block});
    }
  }
  return found;
}

result<std::map<std::string, named_entries>> all_names(
    const core& c, const std::set<std::uint64_t>* filters) {
  std::map<std::string, named_entries> names;
  std::vector<named_entries::misnamed_entry> misnamed;
  for (const entry& e : c.entries) {
    if (role_of(e.a) == entry_role::ended ||
        (filters != nullptr && filters->count(e.a.tag_filter) == 0)) {
      continue;
    }
    auto name = name_of_entry(c, e.a);
    if (!name || name->text.empty()) {
      continue;
    }
    if (!name->whole && e.a.live()) {
      misnamed.push_back({e, name->block});
    }
    // No reader finds an entry under a name that its filter does not cover. A shard of
    // ours is listed all the same: only damage brings that about.
    if (covers(e.a.tag_filter, tag_mask(name->text))) {
      add(names[std::move(name->text)], e);
    } else if (e.a.live() && group_of(e.a)) {
      names[std::move(name->text)].misnamed.push_back({e, name->block});
    }
  }
  // It may be a shard of any tag that has its filter.
  for (const auto& m : misnamed) {
    for (auto& [name, entries] : names) {
      const auto is_it = [&](const auto& x) { return slot_of(x) == m.e.slot; };
      if (m.e.a.tag_filter == tag_mask(name) &&
          std::none_of(entries.misnamed.begin(), entries.misnamed.end(), is_it) &&
          std::none_of(entries.live.begin(), entries.live.end(), is_it)) {
        entries.misnamed.push_back(m);
      }
    }
  }
  return names;
}

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
