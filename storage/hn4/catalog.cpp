// SPDX-License-Identifier: Apache-2.0
/// @file
/// From directory entries to tags: names, duplicates, groups of shards, what damage may
/// concern a tag.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "core.hpp"
#include "weir/base/text.hpp"

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

bool covers(std::uint64_t filter, std::uint64_t mask) noexcept {
  return (filter & mask) == mask;
}

// An entry whose checksum fails concerns a tag if its name is the tag's, or if its name
// and filter contradict each other (so that one of them is damaged) and the filter is no
// proof against it.
result<const entry*> damaged_suspect(const core& c, std::string_view tag,
                                     std::uint64_t mask) {
  for (const entry& e : c.damaged) {
    WEIR_TRY(const full_name name, name_of_entry(c, e.a));
    const bool agree = e.a.tag_filter == tag_mask(name.text);
    if (name.text == tag || (!agree && mask != 0 && covers(e.a.tag_filter, mask))) {
      return &e;
    }
  }
  return nullptr;
}

error broken_entry(const core& c, std::string_view tag, const entry& e) {
  return error(
             errc::corrupt,
             fmt::format("cannot open tag \"{}\": expected a directory entry with a good "
                         "checksum, found a damaged one that may belong to it",
                         tag))
      .at(c.place(c.slot_offset(e.slot), fmt::format("directory slot {}", e.slot)))
      .hint("copy what can be read into a new volume");
}

// Live entries named `tag`; an entry whose long name is broken and may be the tag is an
// error.
result<std::vector<entry>> matches_of(const core& c, std::string_view tag,
                                      std::uint64_t mask) {
  std::vector<entry> found;
  for (const entry& e : c.entries) {
    if (!e.a.live() || !covers(e.a.tag_filter, mask)) {
      continue;
    }
    WEIR_TRY(const full_name name, name_of_entry(c, e.a));
    if (name.text == tag) {
      found.push_back(e);
    } else if (!name.whole && e.a.tag_filter == mask) {
      return error(errc::corrupt,
                   fmt::format(
                       "cannot open tag \"{}\": expected the long name of a shard, found "
                       "one that contradicts its filter",
                       tag))
          .at(c.place(name.block != 0 ? name.block : c.slot_offset(e.slot),
                      fmt::format("name of directory slot {}", e.slot)));
    }
  }
  return found;
}

// One entry per identity: the one written last.
result<std::vector<entry>> without_duplicates(const core& c, std::string_view tag,
                                              std::vector<entry> all,
                                              std::vector<std::string>& warnings) {
  std::stable_sort(all.begin(), all.end(),
                   [](const entry& x, const entry& y) { return x.a.seed < y.a.seed; });
  std::vector<entry> kept;
  for (const entry& e : all) {
    if (kept.empty() || kept.back().a.seed != e.a.seed) {
      kept.push_back(e);
      continue;
    }
    entry& before = kept.back();
    std::array<std::byte, anchor_bytes> x{}, y{};
    store_anchor(before.a, x);
    store_anchor(e.a, y);
    if (before.a.write_gen == e.a.write_gen && x != y) {
      return error(errc::corrupt,
                   fmt::format("cannot open tag \"{}\": two different directory "
                               "entries claim one shard",
                               tag))
          .at(c.place(c.slot_offset(e.slot),
                      fmt::format("directory slots {} and {}", before.slot, e.slot)));
    }
    warnings.push_back(
        fmt::format("tag \"{}\": shard stands in directory slots {} and {}", tag,
                    before.slot, e.slot));
    if (static_cast<std::int32_t>(e.a.write_gen - before.a.write_gen) > 0) {
      before = e;
    }
  }
  return kept;
}

bool complete(const std::vector<entry>& group) {
  std::vector<bool> seen(group.size());
  for (const entry& e : group) {
    const auto mark = group_of(e.a);
    if (!mark || mark->count != group.size() || mark->index >= group.size() ||
        seen[mark->index]) {
      return false;
    }
    seen[mark->index] = true;
  }
  return true;
}

// Of the groups stored one after another, the newest that is whole: an interrupted `put`
// leaves part of the new group beside the old one, or the old one beside the new.
result<selection> newest_group(const core& c, std::string_view tag,
                               const std::vector<entry>& all, selection chosen) {
  std::map<std::uint32_t, std::vector<entry>, std::greater<>> groups;
  for (const entry& e : all) {
    groups[e.a.write_gen].push_back(e);
  }
  for (auto& [generation, group] : groups) {
    if (complete(group)) {
      chosen.shards = std::move(group);
      if (groups.size() > 1) {
        chosen.warnings.push_back(
            fmt::format("tag \"{}\": a store was interrupted; generation {} is used", tag,
                        generation));
      }
      return chosen;
    }
  }
  const std::vector<entry>& newest = groups.begin()->second;
  const std::uint64_t slot = newest.front().slot;
  return error(
             errc::torn,
             fmt::format(
                 "cannot open tag \"{}\": expected {} shards of generation {}, found {}",
                 tag, group_of(newest.front().a)->count, groups.begin()->first,
                 newest.size()))
      .at(c.place(c.slot_offset(slot), fmt::format("directory slot {}", slot)))
      .hint("a store was interrupted or the directory lost entries; store the tag again");
}

result<selection> resolve(const core& c, std::string_view tag,
                          std::vector<entry> matches) {
  selection chosen;
  WEIR_TRY(std::vector<entry> all,
           without_duplicates(c, tag, std::move(matches), chosen.warnings));
  const auto marked = static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [](const entry& e) { return group_of(e.a).has_value(); }));
  if (marked == 0) {
    chosen.shards = std::move(all);
    return chosen;
  }
  if (marked != all.size()) {
    return error(errc::corrupt,
                 fmt::format("cannot open tag \"{}\": expected shards of one "
                             "writer, found {} of ours and {} of another",
                             tag, marked, all.size() - marked))
        .at(c.place(c.slot_offset(all.front().slot), "directory"))
        .hint("store the tag again");
  }
  return newest_group(c, tag, all, std::move(chosen));
}

// Names by which live entries can be opened.
result<std::map<std::string, std::vector<entry>>> by_name(const core& c) {
  std::map<std::string, std::vector<entry>> names;
  for (const entry& e : c.entries) {
    if (!e.a.live()) {
      continue;
    }
    WEIR_TRY(full_name name, name_of_entry(c, e.a));
    if (!name.text.empty() && covers(e.a.tag_filter, tag_mask(name.text))) {
      names[std::move(name.text)].push_back(e);
    }
  }
  return names;
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

result<std::vector<entry>> live_entries(const core& c, std::string_view tag) {
  const std::uint64_t mask = tag_mask(tag);
  WEIR_TRY(const entry* suspect, damaged_suspect(c, tag, mask));
  if (suspect != nullptr) {
    return broken_entry(c, tag, *suspect);
  }
  return matches_of(c, tag, mask);
}

result<selection> select_tag(const core& c, std::string_view tag) {
  WEIR_TRY(std::vector<entry> matches, live_entries(c, tag));
  if (matches.empty()) {
    std::vector<std::string> known;
    if (auto names = by_name(c)) {
      for (const auto& [name, entries] : *names) {
        known.push_back(name);
      }
    }
    return error(
               errc::not_found,
               fmt::format("cannot find tag \"{}\" in \"{}\": expected one of "
                           "its {} tags{}",
                           tag, c.device->name(), known.size(), did_you_mean(tag, known)))
        .at(c.place(c.geometry.cortex, "directory"));
  }
  return resolve(c, tag, std::move(matches));
}

result<std::vector<hn4_tag>> list_tags(const core& c) {
  WEIR_TRY(const auto names, by_name(c));
  std::vector<hn4_tag> tags;
  for (const auto& [name, entries] : names) {
    const auto chosen = resolve(c, name, entries);
    hn4_tag tag;
    tag.name = name;
    for (const entry& e : chosen ? chosen->shards : entries) {
      tag.shards += 1;
      if (!checked_add(tag.bytes, e.a.mass, tag.bytes)) {
        tag.bytes = UINT64_MAX;
      }
      tag.generation = std::max(tag.generation, e.a.write_gen);
      tag.create_clock = std::max(tag.create_clock, e.a.create_clock);
    }
    tags.push_back(std::move(tag));
  }
  return tags;
}

}  // namespace weir::storage::hn4
