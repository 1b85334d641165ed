// SPDX-License-Identifier: Apache-2.0
/// @file
/// Moving tags together.
#include <algorithm>

#include "hn4/write/allocation.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage {

namespace hn4 {

namespace {

/// Where a tag ends, in blocks.
struct tag_end {
  std::string name;
  std::uint64_t block = 0;
};

result<std::vector<tag_end>> ends_of_tags(const core& c) {
  WEIR_TRY(const auto tags, list_tags(c));
  std::vector<tag_end> ends;
  for (const hn4_tag& tag : tags) {
    tag_end end{tag.name, 0};
    WEIR_TRY(const auto entries, live_entries(c, tag.name));
    for (const entry& e : entries) {
      for_each_block(c, e.a, [&](std::uint64_t block) {
        end.block = std::max(end.block, block + 1);
      });
    }
    ends.push_back(std::move(end));
  }
  // From the front, so that what moves makes room for what follows.
  std::stable_sort(ends.begin(), ends.end(),
                   [](const tag_end& x, const tag_end& y) { return x.block < y.block; });
  return ends;
}

std::uint64_t first_free(const core& c) {
  std::uint64_t block = c.space.flux;
  while (block < c.geometry.blocks && c.bits->marked(block)) {
    ++block;
  }
  return block;
}

// Whether it was moved.
result<bool> move_down(core& c, const hn4_stream& stream, const tag_end& tag) {
  WEIR_TRY(const byte_vector bytes, stream.read_all());
  const auto shards = stream.shards();
  hn4_put_options options;
  options.shards = static_cast<std::uint32_t>(shards.size());
  options.compress = std::any_of(shards.begin(), shards.end(),
                                 [](const hn4_shard& s) { return s.compressed; });
  auto moved = put_below(c, tag.name, bytes, options, tag.block - 1);
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
    WEIR_TRY(const auto ends, hn4::ends_of_tags(*core_));
    std::uint64_t free = hn4::first_free(*core_);
    for (const hn4::tag_end& tag : ends) {
      if (free >= tag.block) {
        continue;
      }
      WEIR_TRY(const hn4_stream before, stream(tag.name));
      WEIR_TRY(const bool moved, hn4::move_down(*core_, before, tag));
      if (moved) {
        ++moves;
        again = true;
        free = hn4::first_free(*core_);
      }
    }
  }
  return moves;
}

}  // namespace weir::storage
