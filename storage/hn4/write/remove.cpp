// SPDX-License-Identifier: Apache-2.0
/// @file
/// Removing a tag.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/write/allocation.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

// One write decides: the entry with the highest identity becomes a grave that stands for
// all of them. The rest is tidying up.
result<void> carry_out(core& c, const std::vector<entry>& all, const block_bits& bits) {
  const auto last = std::max_element(
      all.begin(), all.end(),
      [](const entry& x, const entry& y) { return x.a.seed < y.a.seed; });
  anchor grave = last->a;
  grave.data_class |= class_bits::tombstone;
  grave.public_id = public_id_of({group_mark::grave, 1, 0, false});
  WEIR_CHECK(write_anchor(c, grave, last->slot));
  WEIR_CHECK(c.device->sync());
  for (const entry& e : all) {
    if (e.slot != last->slot) {
      WEIR_CHECK(write_anchor(c, buried(e.a), e.slot));
    }
  }
  WEIR_CHECK(c.device->sync());
  WEIR_CHECK(write_anchor(c, buried(grave), last->slot));
  WEIR_CHECK(c.device->sync());
  WEIR_CHECK(write_bits(c, *c.bits, bits));
  return c.device->sync();
}

}  // namespace

result<void> remove_tag(core& c, std::string_view tag) {
  if (!c.writable) {
    return hn4_error(
        hn4_code::invalid_argument,
        fmt::format("cannot remove tag \"{}\": {}", tag,
                    c.read_only_reason.empty() ? "the volume was opened for reading"
                                               : c.read_only_reason));
  }
  WEIR_TRY(const std::vector<entry> all, live_entries(c, tag));
  if (all.empty() || tag.empty()) {
    return hn4_error(hn4_code::not_found,
                     fmt::format("cannot remove tag \"{}\" from \"{}\": it is not there",
                                 tag, c.device->name()))
        .at(c.place(c.geometry.cortex, "directory"));
  }
  block_bits bits = allocation_of(c);
  free_blocks(c, all, bits);
  auto done = carry_out(c, all, bits);
  if (!done) {
    return write_failed(c, fmt::format("remove tag \"{}\"", tag),
                        std::move(done).error());
  }
  std::vector<entry> changed;
  for (const entry& e : all) {
    changed.push_back({buried(e.a), e.slot});
  }
  adopt_entries(c, std::move(changed));
  bits.blind = c.bits->blind;
  c.bits = std::make_shared<const block_bits>(std::move(bits));
  return {};
}

}  // namespace weir::storage::hn4
