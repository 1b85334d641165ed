// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finding a block that is not where its hint says: all orbits, and older generations
/// where nothing speaks against them.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/read/reader.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

/// What the places looked at so far said.
struct reader::probe_state {
  std::optional<std::uint64_t> exact;  ///< byte of a block of the right generation
  std::optional<std::uint64_t> older;  ///< of the newest one before it
  std::uint64_t older_generation = 0;
  bool other_orbit = false;
  bool allocated = false;
  /// A damaged block may be the one that was meant: an older one would be stale.
  bool doubtful = false;
  std::optional<error> damage;  ///< of a block that is certainly this one
  std::optional<std::uint64_t> damaged_at;
  std::vector<std::uint64_t> seen;
};

result<void> reader::check_payload_at(std::uint64_t byte, const block_header& header) {
  WEIR_TRY(const bytes_view bytes, fetch(byte));
  return check_payload(header, crc32(0, bytes.subspan(header_bytes)));
}

void reader::look_at(std::uint64_t n, std::uint64_t block, bool at_hint,
                     probe_state& state) {
  if (std::find(state.seen.begin(), state.seen.end(), block) != state.seen.end()) {
    return;
  }
  state.seen.push_back(block);
  const std::uint64_t byte = block * map_.geometry.block;
  const bool allocated = map_.bits->test(block) || map_.unclean;
  // A header alone says what most places hold; blocks can be large.
  std::array<std::byte, poison_bytes> head{};
  if (!map_.device->read(byte, head)) {
    state.doubtful = state.doubtful || at_hint;
    return;
  }
  block_claim wanted = claim(n);
  wanted.older = true;
  auto header = check_header(head, wanted);
  auto good =
      header ? check_payload_at(byte, *header) : result<void>(std::move(header).error());
  if (good) {
    if (header->generation == wanted.generation) {
      state.exact = byte;
      state.other_orbit = !at_hint;
      state.allocated = map_.bits->test(block);
    } else if (allocated && header->generation >= state.older_generation) {
      state.older = byte;
      state.older_generation = header->generation;
    }
    return;
  }
  if (names_itself(head, wanted.seed, n)) {
    state.doubtful = true;
    if (!state.damage) {
      state.damage = std::move(good).error();
      state.damaged_at = byte;
    }
  } else if (at_hint && allocated) {
    // A sound block of somebody else stands there by right; anything else may be what is
    // left of ours.
    const block_header other = load_header(head);
    block_claim theirs{other.well,     other.number, wanted.generation,
                       wanted.payload, false,        true};
    theirs.generation = UINT32_MAX;
    state.doubtful = state.doubtful || !check_header(head, theirs);
  }
}

result<void> reader::probe(std::uint64_t n, std::size_t skip, mutable_bytes to,
                           std::optional<error> first, std::optional<place> hinted) {
  const anchor& a = map_.sources[shard_].a;
  const std::uint64_t bs = map_.geometry.block;
  probe_state state;
  if (hinted) {
    look_at(n, hinted->byte / bs, true, state);
  }
  for (unsigned k = 0; k < orbits && !state.exact; ++k) {
    const auto block =
        ballistic(map_.space, a.gravity, a.orbit_vector, n, a.fractal_scale, k);
    if (block && *block < map_.geometry.blocks) {
      look_at(n, *block, false, state);
    }
  }
  const bool use_older = !state.exact && state.older && !state.doubtful;
  if (state.exact || use_older) {
    WEIR_TRY(const bytes_view bytes, fetch(state.exact ? *state.exact : *state.older));
    auto made = deliver(n, load_header(bytes), bytes.subspan(header_bytes), skip, to);
    if (made) {
      map_.log->add(use_older           ? hn4_recovery_kind::older_generation
                    : state.other_orbit ? hn4_recovery_kind::other_orbit
                                        : hn4_recovery_kind::cleared_bit,
                    shard_, n);
      return {};
    }
    return named(std::move(made).error(), n, state.exact ? *state.exact : *state.older);
  }
  const bool is_hole = !state.damage && !(hinted && hinted->allocated);
  if (!is_hole) {
    // A block that is certainly this one says more than what lies where the hint points.
    return state.damage ? named(std::move(*state.damage), n, *state.damaged_at)
                        : named(std::move(first).value(), n, hinted->byte);
  }
  if (map_.holes == hn4_holes::zeros) {
    fill_hole(to);
    return {};
  }
  return named(
      hn4_error(hn4_code::sparse,
                hinted
                    ? fmt::format("expected an allocated block, found a hole (block {} "
                                  "of the volume is free)",
                                  hinted->byte / bs)
                    : std::string("expected an address inside the volume, found one "
                                  "outside: a hole")),
      n, hinted ? std::optional(hinted->byte) : std::nullopt);
}

void recovery_log::add(hn4_recovery_kind kind, std::size_t shard, std::uint64_t block) {
  const std::lock_guard lock(mutex_);
  auto& blocks = seen_[{shard, kind}];
  if (blocks.size() < most_blocks) {
    blocks.insert(block);
  }
}

std::vector<hn4_recovery> recovery_log::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<hn4_recovery> out;
  for (const auto& [key, blocks] : seen_) {
    out.push_back({key.second, key.first, *blocks.begin(), blocks.size()});
  }
  return out;
}

}  // namespace weir::storage::hn4
