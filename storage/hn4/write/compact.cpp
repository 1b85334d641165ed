// SPDX-License-Identifier: Apache-2.0
/// @file
/// Moving tags together.
#include <algorithm>

#include "hn4/write/allocation.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage {

namespace hn4 {

namespace {

/// A tag and where it ends, in blocks.
struct placed_tag {
  hn4_tag tag;
  std::uint64_t end = 0;
};

result<std::vector<placed_tag>> tags_from_the_front(const core& c) {
  WEIR_TRY(const auto tags, list_tags(c));
  std::vector<placed_tag> placed;
  for (const hn4_tag& tag : tags) {
    placed_tag one{tag, 0};
    WEIR_TRY(const auto entries, live_entries(c, tag.name));
    for (const entry& e : entries) {
      for_each_block(
          c, e.a, [&](std::uint64_t block) { one.end = std::max(one.end, block + 1); });
    }
    placed.push_back(std::move(one));
  }
  // What moves makes room for what follows.
  std::stable_sort(
      placed.begin(), placed.end(),
      [](const placed_tag& x, const placed_tag& y) { return x.end < y.end; });
  return placed;
}

// Whether its largest shard finds room below where the tag ends: most tags do not, and
// need not be read.
bool may_move(const core& c, const block_bits& bits, const placed_tag& t) {
  const std::uint64_t shards = std::max<std::uint64_t>(t.tag.shards, 1);
  const std::uint64_t largest =
      t.tag.bytes / shards + (t.tag.bytes % shards != 0 ? 1 : 0);
  const std::uint64_t blocks = blocks_for(c.geometry, largest);
  return t.end != 0 &&
         free_run_in(bits, c.space.flux, t.end - 1, blocks).blocks >= blocks;
}

// Whether it was moved.
result<bool> move_down(core& c, const hn4_stream& stream, const placed_tag& t) {
  WEIR_TRY(const byte_vector bytes, stream.read_all());
  const auto shards = stream.shards();
  hn4_put_options options;
  options.shards = static_cast<std::uint32_t>(shards.size());
  options.compress = std::any_of(shards.begin(), shards.end(),
                                 [](const hn4_shard& s) { return s.compressed; });
  auto moved = put_below(c, t.tag.name, bytes, options, t.end - 1);
  if (!moved && code_of(moved.error()) == hn4_code::no_space && c.writable) {
    return false;
  }
  return moved;
}

}  // namespace

}  // namespace hn4

// Every move lowers the end of one tag, so that this comes to an end.
result<std::size_t> hn4_volume::compact() {
  std::size_t moves = 0;
  for (bool again = true; again;) {
    again = false;
    WEIR_TRY(const auto tags, hn4::tags_from_the_front(*core_));
    hn4::block_bits bits = hn4::allocation_of(*core_);
    for (const hn4::placed_tag& t : tags) {
      if (!hn4::may_move(*core_, bits, t)) {
        continue;
      }
      WEIR_TRY(const hn4_stream before, stream(t.tag.name));
      WEIR_TRY(const bool moved, hn4::move_down(*core_, before, t));
      if (moved) {
        ++moves;
        again = true;
        bits = hn4::allocation_of(*core_);
      }
    }
  }
  return moves;
}

}  // namespace weir::storage
