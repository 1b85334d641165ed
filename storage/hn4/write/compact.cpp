// SPDX-License-Identifier: Apache-2.0
/// @file
/// Moves tags towards the start of a volume.
///
/// A move is an ordinary store that replaces the tag by itself at a lower place, so a
/// crash leaves the old copy or the new one. It needs free space for the second copy, and
/// memory for the bytes of the tag.
///
/// It goes over the tags from the lowest to the highest and begins again after each
/// round that has moved something, until nothing moves.
#include <algorithm>

#include "hn4/write/allocation.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage {

namespace hn4 {

namespace {

/// A tag and the block behind its last one. The block is a number of the volume. Space
/// below it may serve the tag.
struct placed_tag {
  hn4_tag tag;
  std::uint64_t end = 0;
};

/// The steps of a compaction; the members are their common state.
///
/// A compactor is used once.
class compactor {
 public:
  compactor(core& c, const hn4_volume& volume) : c_(c), volume_(volume) {}

  result<hn4_compaction> compact();

 private:
  /// Lists the tags by their ends and notes those that cannot be read.
  result<std::vector<placed_tag>> tags_from_the_front();
  /// Returns whether moving a tag may succeed, without reading it.
  [[nodiscard]] bool may_move(const placed_tag& t) const;
  /// Stores a tag again at a lower place; returns false if it stays.
  result<bool> move_down(const placed_tag& t);
  /// Notes that a tag stays where it is.
  void leave(const std::string& name, error problem);
  /// Returns whether a tag was noted.
  [[nodiscard]] bool is_left(const std::string& name) const;

  core& c_;
  const hn4_volume& volume_;
  hn4_compaction done_;
};

/// A name is noted once, with its first problem.
void compactor::leave(const std::string& name, error problem) {
  if (!is_left(name)) {
    done_.left.push_back({name, std::move(problem)});
  }
}

bool compactor::is_left(const std::string& name) const {
  return std::any_of(done_.left.begin(), done_.left.end(),
                     [&](const hn4_damaged_tag& t) { return t.name == name; });
}

// Tags that are damaged or do not exist are left out; only whole streams are moved.
result<std::vector<placed_tag>> compactor::tags_from_the_front() {
  WEIR_TRY(auto names, list_names(c_));
  std::vector<placed_tag> placed;
  for (listed_tag& listed : names) {
    if (listed.problem) {
      leave(listed.tag.name, std::move(*listed.problem));
      continue;
    }
    if (!listed.exists) {
      continue;
    }
    placed_tag one{std::move(listed.tag), 0};
    for (const entry& e : listed.entries.shards) {
      for_each_block(
          // Long names count as well, since their blocks move too.
          c_, e.a, [&](std::uint64_t block) { one.end = std::max(one.end, block + 1); });
    }
    placed.push_back(std::move(one));
  }
  // The lowest tags move first: what they free is used by those above.
  std::stable_sort(
      placed.begin(), placed.end(),
      [](const placed_tag& x, const placed_tag& y) { return x.end < y.end; });
  return placed;
}

// The largest shard must find a free run below the present end of the tag. Most tags fail
// this test and need not be read.
//
// It is only an estimate: shards may differ in length, and names need space, too.
// `put_below` decides.
bool compactor::may_move(const placed_tag& t) const {
  const std::uint64_t shards = std::max<std::uint64_t>(t.tag.shards, 1);
  const std::uint64_t largest =
      t.tag.bytes / shards + (t.tag.bytes % shards != 0 ? 1 : 0);
  const std::uint64_t blocks = blocks_for(c_.geometry, largest);
  return t.end != 0 && !is_left(t.tag.name) &&
         free_run_in(*c_.bits, c_.space.flux, t.end - 1, blocks).blocks >= blocks;
}

// A tag that cannot be read stays where it is. So does one for which the space turns out
// to be too small.
result<bool> compactor::move_down(const placed_tag& t) {
  auto stream = volume_.stream(t.tag.name);
  auto bytes = stream ? stream->read_all() : result<byte_vector>(stream.error());
  if (!bytes) {
    leave(t.tag.name, std::move(bytes).error());
    return false;
  }
  // The tag keeps its number of shards and its compression.
  const auto shards = stream->shards();
  hn4_put_options options;
  options.shards = static_cast<std::uint32_t>(shards.size());
  options.compress = std::any_of(shards.begin(), shards.end(),
                                 [](const hn4_shard& s) { return s.compressed; });
  auto moved = put_below(c_, t.tag.name, *bytes, options, t.end - 1);
  // A lack of space is expected here. Any other failure ends the compaction.
  if (!moved && code_of(moved.error()) == hn4_code::no_space && c_.writable) {
    return false;
  }
  return moved;
}

// Every move lowers the end of one tag, so the loop ends. Work that killed processes have
// left is done even if nothing moves.
//
// The whole volume is listed again after each round, because every move changes the
// directory.
result<hn4_compaction> compactor::compact() {
  // Otherwise blocks that interrupted work still holds would count as taken.
  if (auto done = c_.writable ? finish(c_) : result<void>(); !done) {
    return write_failed(c_, "compact the volume", std::move(done).error());
  }
  for (bool again = true; again;) {
    again = false;
    WEIR_TRY(const auto tags, tags_from_the_front());
    for (const placed_tag& t : tags) {
      if (!may_move(t)) {
        continue;
      }
      WEIR_TRY(const bool moved, move_down(t));
      done_.moves += moved ? 1 : 0;
      again = again || moved;
    }
  }
  return std::move(done_);
}

}  // namespace

}  // namespace hn4

result<hn4_compaction> hn4_volume::compact() {
  return hn4::compactor(*core_, *this).compact();
}

}  // namespace weir::storage
