// SPDX-License-Identifier: Apache-2.0
/// @file
/// From directory entries to tags: names, duplicates, groups of shards, what damage may
/// concern a tag.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "core.hpp"
#include "weir/base/text.hpp"
#include "weir/storage/hn4_code.hpp"

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

// An entry whose checksum fails concerns a tag if its name is the tag's, or if its name
// and filter contradict each other (so that one of them is damaged) and the filter is no
// proof against it.
result<std::vector<const entry*>> damaged_suspects(const core& c, std::string_view tag,
                                                   std::uint64_t mask) {
  std::vector<const entry*> found;
  for (const entry& e : c.damaged) {
    if (tag.empty()) {
      break;
    }
    WEIR_TRY(const full_name name, name_of_entry(c, e.a));
    const bool agree = e.a.tag_filter == tag_mask(name.text);
    if (name.text == tag || (!agree && mask != 0 && covers(e.a.tag_filter, mask))) {
      found.push_back(&e);
    }
  }
  return found;
}

error broken_entry(const core& c, std::string_view tag, const entry& e) {
  return hn4_error(
             hn4_code::data_rot,
             fmt::format("cannot open tag \"{}\": expected directory entries with good "
                         "checksums, found a damaged one that may be a shard of it",
                         tag))
      .at(c.place(c.slot_offset(e.slot), fmt::format("directory slot {}", e.slot)))
      .hint(
          "--recover (hn4_stream_options::recover) reads what is left of the tag and "
          "lists what is missing");
}

/// What a damaged entry says of the shard that is lost with it.
std::string lost_shard(std::string_view tag, const entry& e) {
  return fmt::format(
      "tag \"{}\": a shard is missing, its entry in directory slot {} has a "
      "bad checksum; as far as it can be believed, the shard had the "
      "identity {:x}:{:x} and {} bytes",
      tag, e.slot, e.a.seed.hi, e.a.seed.lo, e.a.mass);
}

// The block of a long name has no checksum of its own.
error broken_name(const core& c, std::string_view tag, const entry& e,
                  const full_name& name) {
  return hn4_error(
             hn4_code::data_rot,
             fmt::format("cannot open tag \"{}\": expected the long name of a shard, "
                         "found one that contradicts its filter",
                         tag))
      .at(c.place(name.block != 0 ? name.block : c.slot_offset(e.slot),
                  fmt::format("name of directory slot {}", e.slot)));
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
      return broken_name(c, tag, e, name);
    }
  }
  return found;
}

// What lies under one name: live entries, and up to which identity they are removed.
struct name_row {
  std::vector<entry> live;
  std::optional<hn4_id> grave;
};

bool is_grave(const anchor& a) noexcept {
  const auto mark = group_of(a);
  return a.has(class_bits::valid) && a.has(class_bits::tombstone) && mark &&
         mark->index == group_mark::grave;
}

void bury(std::optional<hn4_id>& grave, hn4_id seed) {
  grave = grave ? std::max(*grave, seed) : seed;
}

void drop_buried(std::vector<entry>& live, const std::optional<hn4_id>& grave) {
  if (grave) {
    std::erase_if(live, [&](const entry& e) { return !(*grave < e.a.seed); });
  }
}

// Names by which live entries can be opened, and those that entries of ours have by
// damage.
result<std::map<std::string, name_row>> by_name(const core& c) {
  std::map<std::string, name_row> names, damaged;
  for (const entry& e : c.entries) {
    const bool grave = is_grave(e.a);
    if (!e.a.live() && !grave) {
      continue;
    }
    auto name = name_of_entry(c, e.a);
    if (!name || name->text.empty()) {
      continue;
    }
    if (!covers(e.a.tag_filter, tag_mask(name->text))) {
      if (!grave && group_of(e.a)) {
        damaged[std::move(name->text)].live.push_back(e);
      }
      continue;
    }
    name_row& row = names[std::move(name->text)];
    if (grave) {
      bury(row.grave, e.a.seed);
    } else {
      row.live.push_back(e);
    }
  }
  for (auto row = names.begin(); row != names.end();) {
    drop_buried(row->second.live, row->second.grave);
    row = row->second.live.empty() ? names.erase(row) : std::next(row);
  }
  names.merge(damaged);
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

result<std::optional<hn4_id>> grave_of(const core& c, std::string_view tag) {
  const std::uint64_t mask = tag_mask(tag);
  std::optional<hn4_id> grave;
  for (const entry& e : c.entries) {
    if (is_grave(e.a) && e.a.tag_filter == mask) {
      WEIR_TRY(const full_name name, name_of_entry(c, e.a));
      if (name.text == tag) {
        bury(grave, e.a.seed);
      }
    }
  }
  return grave;
}

result<std::vector<entry>> live_entries(const core& c, std::string_view tag) {
  return matches_of(c, tag, tag_mask(tag));
}

result<selection> select_tag(const core& c, std::string_view tag, bool recover) {
  if (auto known = look_up_index(c, tag)) {
    return choose_shards(c, tag, std::move(*known));
  }
  WEIR_CHECK(c.need_directory());
  WEIR_TRY(std::vector<entry> matches, live_entries(c, tag));
  WEIR_TRY(const auto grave, grave_of(c, tag));
  drop_buried(matches, grave);
  WEIR_TRY(const auto suspects, damaged_suspects(c, tag, tag_mask(tag)));
  if (!suspects.empty() && (!recover || matches.empty())) {
    return broken_entry(c, tag, *suspects.front());
  }
  if (matches.empty()) {
    std::vector<std::string> known;
    if (auto names = by_name(c)) {
      if (const auto damaged = names->find(std::string(tag)); damaged != names->end()) {
        const entry& e = damaged->second.live.front();
        WEIR_TRY(const full_name name, name_of_entry(c, e.a));
        return broken_name(c, tag, e, name);
      }
      for (const auto& [name, row] : *names) {
        known.push_back(name);
      }
    }
    return hn4_error(
               hn4_code::not_found,
               fmt::format("cannot find tag \"{}\" in \"{}\": expected one of "
                           "its {} tags{}",
                           tag, c.device->name(), known.size(), did_you_mean(tag, known)))
        .at(c.place(c.geometry.cortex, "directory"));
  }
  WEIR_TRY(selection chosen, choose_shards(c, tag, std::move(matches)));
  for (const entry* suspect : suspects) {
    chosen.warnings.push_back(lost_shard(tag, *suspect));
  }
  return chosen;
}

result<std::vector<hn4_tag>> list_tags(const core& c) {
  WEIR_CHECK(c.need_directory());
  WEIR_TRY(const auto names, by_name(c));
  std::vector<hn4_tag> tags;
  for (const auto& [name, row] : names) {
    const auto chosen = choose_shards(c, name, row.live);
    hn4_tag tag;
    tag.name = name;
    for (const entry& e : chosen ? chosen->shards : row.live) {
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
