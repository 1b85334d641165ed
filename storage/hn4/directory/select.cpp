// SPDX-License-Identifier: Apache-2.0
/// @file
/// Selects the shards that a reader takes for a tag, by the rules of this writer and by
/// those of the reference implementation, and lists all tags.
///
/// A reader has three ways to find a tag. The index names its entries directly. Otherwise
/// the directory is searched by filter and name. In strict mode the search of the
/// reference implementation is reproduced. If the search finds nothing, the traces of
/// lost entries decide between "not found" and "may be lost".
///
/// The index and the directory lead through `resolve_tag`; the strict mode does not, as
/// the reference knows neither groups nor losses.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/directory/directory.hpp"
#include "weir/base/text.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// Makes the error for an unknown tag; it suggests the nearest name. Tags that have only
/// interrupted entries are not suggested.
error not_found(const core& c, std::string_view tag,
                const std::map<std::string, named_entries>& names) {
  std::vector<std::string> known;
  for (const auto& [name, named] : names) {
    if (!named.live.empty()) {
      known.push_back(name);
    }
  }
  return hn4_error(hn4_code::not_found,
                   fmt::format(
                       "cannot find tag \"{}\" in \"{}\": expected a tag of the volume, "
                       "which has {}, found none of that name{}",
                       tag, c.device->name(), known.size(), did_you_mean(tag, known)))
      .located(c.place(c.geometry.cortex, "directory"));
}

/// Refuses a tag that no entry names if traces show that entries are lost: they may have
/// been those of the tag. The three kinds of traces are tried from the most certain to
/// the least: a long name of that text, a shard without an entry, and a gap in the
/// directory.
result<void> refuse_a_lost_tag(const core& c, std::string_view tag) {
  WEIR_TRY(const auto traces, c.loss_traces());
  lost_shard lost{{}, 0, errc::torn};
  // The blocks of a long name hold what follows the fragment, or all of it.
  const auto rest = tag.substr(std::min(tag.size(), fragment_bytes));
  for (const orphan_name& name : traces->names) {
    if (name.text == tag || (!rest.empty() && name.text == rest)) {
      lost.text = fmt::format(
          "expected a directory entry that points to the long name "
          "at byte {}, found none: its shards are missing",
          name.byte);
      return hn4_error(hn4_code::data_rot,
                       fmt::format("cannot open tag \"{}\": {}", tag, lost.text),
                       lost.kind)
          .located(c.place(name.byte, "long name"));
    }
  }
  // Any lost shard may have had this name.
  if (!traces->shards.empty()) {
    const orphan& o = traces->shards.front();
    lost.slot = o.slot;
    lost.text = fmt::format(
        "expected a directory entry for every block in use, found {}; "
        "the tag may be lost",
        to_text(o));
    return refusal_of(c, tag, lost);
  }
  if (!traces->gaps.empty()) {
    const gap& g = traces->gaps.front();
    lost.slot = g.slot;
    lost.text = fmt::format(
        "expected a directory without gaps, found slot {} empty although the entry in "
        "slot {} was put behind it: the tag may be lost",
        g.slot, g.before);
    return refusal_of(c, tag, lost);
  }
  return {};
}

/// Turns a resolved tag into a selection, or refuses it if shards are lost and the caller
/// did not ask for the rest. With `recover`, each loss becomes a warning. A tag of which
/// nothing is left is refused in any case.
result<selection> accept(const core& c, std::string_view tag, resolved_tag found,
                         bool recover) {
  if (!found.lost.empty() && (!recover || found.shards.empty())) {
    return refusal_of(c, tag, found.lost.front());
  }
  for (const lost_shard& lost : found.lost) {
    const std::string where =
        lost.offset ? fmt::format(" (at byte {} of the stream)", *lost.offset) : "";
    found.warnings.push_back(fmt::format("tag \"{}\": {}{}", tag, lost.text, where));
  }
  return selection{std::move(found.shards), std::move(found.warnings)};
}

/// Sums up the shards of a tag. Damaged lengths may overflow the sum. The time and
/// generation of a tag are those of its newest shard.
void sum_up(listed_tag& row) {
  auto& shards = row.entries.shards;
  std::stable_sort(shards.begin(), shards.end(),
                   [](const entry& x, const entry& y) { return x.a.seed < y.a.seed; });
  for (const entry& e : shards) {
    row.tag.shards += 1;
    // The largest value marks a sum that cannot be right.
    if (!checked_add(row.tag.bytes, e.a.mass, row.tag.bytes)) {
      row.tag.bytes = UINT64_MAX;
    }
    row.tag.generation = std::max(row.tag.generation, e.a.write_gen);
    row.tag.create_clock = std::max(row.tag.create_clock, e.a.create_clock);
  }
}

/// Returns why a reader would refuse the tag, or nothing. The check is the one of an
/// opening, without reading blocks.
std::optional<error> problem_of(const core& c, const listed_tag& row) {
  if (!row.entries.lost.empty()) {
    return refusal_of(c, row.tag.name, row.entries.lost.front());
  }
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < row.entries.shards.size(); ++i) {
    const auto good =
        check_shard(c, row.tag.name, i, row.entries.shards[i], offset, false);
    if (!good) {
      return good.error();
    }
    offset += row.entries.shards[i].a.mass;
  }
  return std::nullopt;
}

}  // namespace

// A name that is not found may still be that of a tag with damaged names or lost entries.
// These cases are looked at only here, because they cost reads.
//
// `recover` asks for what is left of a tag with losses.
result<selection> select_tag(const core& c, std::string_view tag, bool recover) {
  // First the index. Its entries have been read and compared.
  if (auto known = look_up_index(c, tag)) {
    named_entries named;
    named.live = std::move(*known);
    WEIR_TRY(resolved_tag found, resolve_tag(c, tag, named, true));
    return accept(c, tag, std::move(found), recover);
  }
  // Then the directory, which is read now if it was not before.
  WEIR_CHECK(c.need_directory());
  WEIR_TRY(named_entries named, entries_named(c, tag));
  WEIR_TRY(resolved_tag found, resolve_tag(c, tag, named));
  if (!found.shards.empty() || !found.lost.empty()) {
    return accept(c, tag, std::move(found), recover);
  }
  // Nothing bears this name. A damaged name may, and lists under its fragment.
  WEIR_TRY(const auto names, all_names(c));
  if (const auto row = names.find(std::string(tag));
      row != names.end() && !row->second.misnamed.empty()) {
    WEIR_TRY(found, resolve_tag(c, tag, row->second));
    if (!found.lost.empty()) {
      return accept(c, tag, std::move(found), recover);
    }
  }
  // Only now traces are searched for, which reads block headers.
  WEIR_CHECK(refuse_a_lost_tag(c, tag));
  return not_found(c, tag, names);
}

// A name is listed even if it cannot be resolved; the caller decides what to show. Every
// row has a name; `exists` is false for one that only interrupted or removed entries
// bear.
result<std::vector<listed_tag>> list_names(const core& c) {
  WEIR_CHECK(c.need_directory());
  WEIR_TRY(const auto names, all_names(c));
  std::vector<listed_tag> rows;
  for (const auto& [name, named] : names) {
    listed_tag row;
    row.tag.name = name;
    auto resolved = resolve_tag(c, name, named);
    if (resolved) {
      row.entries = std::move(*resolved);
    } else {
      row.problem = std::move(resolved).error();
      // What the entries say is shown even if they contradict each other.
      row.entries.shards = named.live;
    }
    row.exists = !row.entries.shards.empty() || !named.misnamed.empty();
    sum_up(row);
    // Lengths and addresses are checked, too, so that a list shows tags that cannot be
    // opened.
    if (row.exists && !row.problem) {
      row.problem = problem_of(c, row);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

/// Warns about shards that the reference implementation reads twice. This can happen in
/// strict mode only, where duplicates are not removed.
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

// Reproduces the reference implementation, its limits included. Entries are taken in the
// order of slots, and only as many candidates as the reference takes. Sorting by
// identity is the task of the caller.
result<selection> select_strictly(const core& c, std::string_view tag) {
  const std::uint64_t mask = tag_mask(tag);
  selection found;
  std::size_t candidates = 0;
  for (const entry& e : c.entries) {
    if (!e.a.live() || !covers(e.a.tag_filter, mask)) {
      continue;
    }
    // The reference stops without an error.
    if (candidates++ == max_candidates) {
      found.warnings.push_back(
          fmt::format("tag \"{}\": shards behind the first {} entries of its filter are "
                      "left out, as the reference does",
                      tag, max_candidates));
      break;
    }
    const auto name = name_of_entry(c, e.a);
    if (name && name->text == tag) {
      found.shards.push_back(e);
    }
  }
  const std::string place = c.place(c.geometry.cortex, "directory");
  // The reference does not know an empty name.
  if (found.shards.empty() || tag.empty()) {
    return hn4_error(hn4_code::not_found,
                     fmt::format("cannot find tag \"{}\" in \"{}\": "
                                 "expected a tag of the volume, found "
                                 "no entry with that name",
                                 tag, c.device->name()))
        .located(place);
  }
  // It also refuses a full list, since it cannot tell it from one that was cut.
  if (found.shards.size() == max_candidates) {
    return hn4_error(hn4_code::tag_overflow,
                     fmt::format("cannot open tag \"{}\": expected at most {} shards, "
                                 "found more",
                                 tag, max_candidates - 1))
        .located(place);
  }
  warn_of_repeats(tag, found);
  return found;
}

}  // namespace weir::storage::hn4
