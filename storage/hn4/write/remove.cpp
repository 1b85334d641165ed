// SPDX-License-Identifier: Apache-2.0
/// @file
/// Removes a tag.
///
/// Without the grave, a crash in the middle of a removal would leave a tag with some of
/// its entries. The grave is one write of one entry, so it either happens or not.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/write/allocation.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// The writes of a removal. The entry with the highest identity becomes a grave, which
/// stands for all of them: this one write decides. The grave stays until nothing is left
/// that it removes. Entries hold what is to be written, not what is on the device.
struct removal {
  std::vector<entry> grave;   ///< empty if only damaged entries bear the name
  std::vector<entry> others;  ///< the other entries as tombstones
  block_bits bits;            ///< allocation without the tag
};

/// Plans a removal. `discarded` are entries that end but tell nothing about blocks.
///
/// The blocks of the tag are freed in `bits`, unless other entries need them.
removal plan_removal(const core& c, std::vector<entry> all,
                     std::vector<entry> discarded) {
  removal r{{}, as_tombstones(std::move(discarded)), *c.bits};
  r.bits.blind = false;
  if (all.empty()) {
    return r;
  }
  free_blocks(c, all, r.bits);
  // A grave covers all identities up to its own, so it must be the highest.
  const auto last = std::max_element(
      all.begin(), all.end(),
      [](const entry& x, const entry& y) { return x.a.seed < y.a.seed; });
  entry grave = *last;
  grave.a.data_class |= class_bits::tombstone;
  grave.a.public_id = public_id_of({group_mark::grave, 1, 0, false, false, false});
  r.grave.push_back(grave);
  all.erase(last);
  for (const entry& e : all) {
    r.others.push_back({as_tombstone(e.a), e.slot});
  }
  return r;
}

/// Writes a removal in the order that README.md explains.
///
/// The last write turns the grave itself into a tombstone.
result<void> carry_out_removal(core& c, const removal& r) {
  WEIR_CHECK(finish(c));
  WEIR_CHECK(write_entries(c, r.grave));
  WEIR_CHECK(write_bits(c, r.bits));
  WEIR_CHECK(write_entries(c, r.others));
  return write_entries(c, as_tombstones(r.grave));
}

}  // namespace

// A tag that is damaged can be removed, too: everything that bears its name ends, as far
// as the directory shows it.
//
// After success, directory and bits in memory are those of the device.
result<void> remove_tag(core& c, std::string_view tag) {
  if (!c.writable) {
    return hn4_error(
        hn4_code::invalid_argument,
        fmt::format("cannot remove tag \"{}\": {}", tag,
                    c.read_only_reason.empty() ? "the volume was opened for reading"
                                               : c.read_only_reason));
  }
  WEIR_TRY(const named_entries named, entries_named(c, tag));
  WEIR_TRY(std::vector<entry> discarded, damaged_named(c, tag));
  // A tag that cannot be resolved still ends with all entries of its name.
  const auto resolved = resolve_tag(c, tag, named);
  const resolved_tag found = resolved ? *resolved : resolved_tag{};
  if (tag.empty() || (named.live.empty() && found.shards.empty() && discarded.empty())) {
    return hn4_error(
               hn4_code::not_found,
               fmt::format("cannot remove tag \"{}\" from \"{}\": expected a tag of "
                           "the volume, found none of that name",
                           tag, c.device->name()))
        .located(c.place(c.geometry.cortex, "directory"));
  }
  // Shards that are lost get tombstones, so that their blocks become free at the next
  // opening.
  WEIR_TRY(const auto tombstones, tombstones_of(c, found, {}));
  discarded.insert(discarded.end(), tombstones.begin(), tombstones.end());
  std::vector<entry> all = entries_of_tag(named, found);
  removal r = plan_removal(c, std::move(all), std::move(discarded));
  WEIR_CHECK(free_lost_names(c, tag, found, r.bits));
  auto done = carry_out_removal(c, r);
  if (!done) {
    return write_failed(c, fmt::format("remove tag \"{}\"", tag),
                        std::move(done).error());
  }
  adopt_entries(c, r.others);
  adopt_entries(c, as_tombstones(r.grave));
  r.bits.blind = c.bits->blind;
  c.bits = std::make_shared<const block_bits>(std::move(r.bits));
  return {};
}

}  // namespace weir::storage::hn4
