// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which directory entries of one name make up its stream: duplicates, groups stored
/// together, groups appended to them, shards that other writers added or left.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "core.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

constexpr std::size_t most_candidates = 4096;  // of the reference

using entries = std::vector<entry>;

bool newer(const entry& x, const entry& y) {
  if (x.a.write_gen != y.a.write_gen) {
    return static_cast<std::int32_t>(x.a.write_gen - y.a.write_gen) > 0;
  }
  return x.a.mod_clock > y.a.mod_clock;
}

// One entry per identity: the one written last.
result<entries> without_duplicates(const core& c, std::string_view tag, entries all,
                                   std::vector<std::string>& warnings) {
  std::stable_sort(all.begin(), all.end(),
                   [](const entry& x, const entry& y) { return x.a.seed < y.a.seed; });
  entries kept;
  for (const entry& e : all) {
    if (kept.empty() || kept.back().a.seed != e.a.seed) {
      kept.push_back(e);
      continue;
    }
    entry& before = kept.back();
    const bool tie = !newer(e, before) && !newer(before, e);
    if (tie && before.a.mass != e.a.mass) {
      return hn4_error(hn4_code::data_rot,
                       fmt::format("cannot open tag \"{}\": two different directory "
                                   "entries claim one shard",
                                   tag))
          .at(c.place(c.slot_offset(e.slot),
                      fmt::format("directory slots {} and {}", before.slot, e.slot)));
    }
    warnings.push_back(fmt::format(
        "tag \"{}\": one shard stands in directory slots {} and {}; the newer is used",
        tag, before.slot, e.slot));
    if (newer(e, before)) {
      before = e;
    }
  }
  return kept;
}

// The groups of one tag by the generation that each was stored with.
using group_map = std::map<std::uint32_t, entries, std::greater<>>;

bool complete(const entries& group) {
  std::vector<bool> seen(group.size());
  for (const entry& e : group) {
    const auto mark = group_of(e.a);
    if (mark->count != group.size() || mark->index >= group.size() || seen[mark->index]) {
      return false;
    }
    seen[mark->index] = true;
  }
  return true;
}

error incomplete(const core& c, std::string_view tag, std::uint32_t generation,
                 const entries& group) {
  const std::uint64_t slot = group.front().slot;
  return hn4_error(
             hn4_code::data_rot,
             fmt::format(
                 "cannot open tag \"{}\": expected {} shards of generation {}, found {}",
                 tag, group_of(group.front().a)->count, generation, group.size()),
             errc::torn)
      .at(c.place(c.slot_offset(slot), fmt::format("directory slot {}", slot)))
      .hint("a store was interrupted or the directory lost entries; store the tag again");
}

class chooser {
 public:
  chooser(const core& c, std::string_view tag) : c_(c), tag_(tag) {}

  result<selection> choose(entries all) {
    WEIR_TRY(entries once,
             without_duplicates(c_, tag_, std::move(all), chosen_.warnings));
    for (const entry& e : once) {
      if (group_of(e.a)) {
        groups_[e.a.write_gen].push_back(e);
      } else {
        foreign_.push_back(e);
      }
    }
    if (!groups_.empty()) {
      WEIR_CHECK(follow());
    } else {
      chosen_.shards = std::move(foreign_);
    }
    return std::move(chosen_);
  }

 private:
  result<void> follow();
  result<void> prepend(std::uint32_t generation);
  void add_foreign(bool before, const hn4_id& border);

  const core& c_;
  std::string_view tag_;
  selection chosen_;
  group_map groups_;
  entries foreign_;
  std::size_t used_ = 0;
};

void chooser::add_foreign(bool before, const hn4_id& border) {
  for (const entry& e : foreign_) {
    if (before == (e.a.seed < border)) {
      chosen_.shards.push_back(e);
    }
  }
}

// Takes the group of this generation and what it continues.
result<void> chooser::prepend(std::uint32_t generation) {
  for (;;) {
    const auto found = groups_.find(generation);
    if (found == groups_.end() || !complete(found->second)) {
      return found == groups_.end()
                 ? hn4_error(hn4_code::data_rot,
                             fmt::format("cannot open tag \"{}\": expected shards of "
                                         "generation {}, found none",
                                         tag_, generation),
                             errc::torn)
                       .at(c_.place(c_.geometry.cortex, "directory"))
                 : incomplete(c_, tag_, generation, found->second);
    }
    const entries& group = found->second;
    chosen_.shards.insert(chosen_.shards.end(), group.begin(), group.end());
    ++used_;
    const std::uint32_t distance = group_of(group.front().a)->distance;
    if (distance == 0) {
      return {};
    }
    if (distance == group_mark::after_foreign) {
      add_foreign(true, group.front().a.seed);
      return {};
    }
    generation -= distance;
  }
}

// Of the groups stored one after another, the newest that is whole and what it continues:
// an interrupted store leaves part of the new group beside the old one, or the old one
// beside the new.
result<void> chooser::follow() {
  const auto top = std::find_if(groups_.begin(), groups_.end(),
                                [](const auto& g) { return complete(g.second); });
  if (top == groups_.end()) {
    if (foreign_.empty()) {
      return incomplete(c_, tag_, groups_.begin()->first, groups_.begin()->second);
    }
    chosen_.shards = std::move(foreign_);
    chosen_.warnings.push_back(fmt::format(
        "tag \"{}\": a store was interrupted; what was there before is used", tag_));
    return {};
  }
  const bool grown = std::any_of(top->second.begin(), top->second.end(),
                                 [](const entry& e) { return group_of(e.a)->grown; });
  if (grown && top == groups_.begin()) {
    return hn4_error(hn4_code::data_rot,
                     fmt::format("cannot open tag \"{}\": expected the shards that were "
                                 "appended to generation {}, found none",
                                 tag_, top->first),
                     errc::torn)
        .at(c_.place(c_.geometry.cortex, "directory"));
  }
  if (grown) {
    return incomplete(c_, tag_, groups_.begin()->first, groups_.begin()->second);
  }
  WEIR_CHECK(prepend(top->first));
  const auto last = std::max_element(
      chosen_.shards.begin(), chosen_.shards.end(),
      [](const entry& x, const entry& y) { return x.a.seed < y.a.seed; });
  const std::size_t before = chosen_.shards.size();
  add_foreign(false, last->a.seed);
  if (chosen_.shards.size() > before) {
    chosen_.warnings.push_back(
        fmt::format("tag \"{}\": {} shards of another writer follow", tag_,
                    chosen_.shards.size() - before));
  }
  if (used_ < groups_.size()) {
    chosen_.warnings.push_back(fmt::format(
        "tag \"{}\": a store was interrupted; generation {} is used", tag_, top->first));
  }
  return {};
}

}  // namespace

result<selection> choose_shards(const core& c, std::string_view tag,
                                std::vector<entry> matches) {
  return chooser(c, tag).choose(std::move(matches));
}

namespace {

void warn_of_repeats(std::string_view tag, selection& found) {
  std::map<hn4_id, std::uint64_t> slots;
  for (const entry& e : found.shards) {
    const auto [first, is_new] = slots.emplace(e.a.seed, e.slot);
    if (!is_new) {
      found.warnings.push_back(
          fmt::format("tag \"{}\": one shard stands in directory slots {} and {} and is "
                      "read twice, as the reference does",
                      tag, first->second, e.slot));
    }
  }
}

}  // namespace

result<selection> select_strictly(const core& c, std::string_view tag) {
  const std::uint64_t mask = tag_mask(tag);
  selection found;
  std::size_t candidates = 0;
  for (const entry& e : c.entries) {
    if (!e.a.live() || !covers(e.a.tag_filter, mask)) {
      continue;
    }
    if (candidates++ == most_candidates) {
      found.warnings.push_back(
          fmt::format("tag \"{}\": shards behind the first {} entries of its filter are "
                      "left out, as the reference does",
                      tag, most_candidates));
      break;
    }
    const auto name = name_of_entry(c, e.a);
    if (name && name->text == tag) {
      found.shards.push_back(e);
    }
  }
  const std::string at = c.place(c.geometry.cortex, "directory");
  if (found.shards.empty() || tag.empty()) {
    return hn4_error(hn4_code::not_found, fmt::format("cannot find tag \"{}\" in \"{}\"",
                                                      tag, c.device->name()))
        .at(at);
  }
  if (found.shards.size() == most_candidates) {
    return hn4_error(hn4_code::tag_overflow,
                     fmt::format("cannot open tag \"{}\": expected at most {} shards, "
                                 "found more",
                                 tag, most_candidates - 1))
        .at(at);
  }
  warn_of_repeats(tag, found);
  return found;
}

}  // namespace weir::storage::hn4
