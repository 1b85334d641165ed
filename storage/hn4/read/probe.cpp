// SPDX-License-Identifier: Apache-2.0
/// @file
/// Searches for a block that is not where its hint says: on all orbits, and as an older
/// generation if nothing contradicts it.
///
/// The format allows a block to lie on any of twelve orbits, and a hint may be wrong
/// after a crash or damage. A block with the right identity, number, generation and
/// checksums is the right one wherever it lies. An older generation of the block is
/// accepted only as the last resort: it must be allocated, and no place may show damage
/// that could have been the newer one. Otherwise a reader would silently get outdated
/// bytes.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/read/reader.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_code.hpp"

/// The search examines the hinted place first and then all orbits, and collects what it
/// finds here. Only afterwards `probe` decides.
namespace weir::storage::hn4 {

/// Findings of the places that were examined so far.
struct reader::probe_state {
  std::optional<std::uint64_t> exact;  ///< byte offset of a block of the right generation
  /// Byte offset of the newest block of an older generation.
  std::optional<std::uint64_t> older;
  std::uint64_t older_generation = 0;
  // The block of the right generation is not where the hint says.
  bool other_orbit = false;
  // The bit of that block is set in the bitmap.
  bool allocated = false;
  /// True if a damaged block may be the one that is searched for. An older block would
  /// then be outdated data.
  bool doubtful = false;
  std::optional<error> damage;  ///< error of a block that names itself as this one
  std::optional<std::uint64_t> damaged_at;
  std::vector<std::uint64_t> seen;  ///< blocks that were examined
};

// Reads a whole block and verifies its payload.
//
// The checksum of the header is checked by the caller.
result<void> reader::check_payload_at(std::uint64_t byte, const block_header& header) {
  WEIR_TRY(const bytes_view bytes, fetch(byte));
  return check_payload(header, crc32(0, bytes.subspan(header_bytes)));
}

// Examines one place and updates the findings.
//
// `block` is the number of the block on the volume, `at_hint` tells the hinted place. A
// failed read is no error here, since another place may have the block.
void reader::look_at(std::uint64_t n, std::uint64_t block, bool at_hint,
                     probe_state& state) {
  // Several orbits may give one place.
  if (std::find(state.seen.begin(), state.seen.end(), block) != state.seen.end()) {
    return;
  }
  state.seen.push_back(block);
  const std::uint64_t byte = block * map_.geometry.block;
  // Bits of an unclean volume prove nothing.
  const bool allocated = map_.bits->test(block) || map_.unclean;
  // Most places hold something else, which the header shows. The rest of a block, up to
  // 64 MiB, is read only if the header is right.
  std::array<std::byte, poison_bytes> head{};
  if (!map_.device->read(byte, head)) {
    state.doubtful = state.doubtful || at_hint;
    return;
  }
  // Older generations are accepted at first, and told apart below.
  block_claim wanted = claim(n);
  wanted.older = true;
  auto header = check_header(head, wanted);
  auto good =
      header ? check_payload_at(byte, *header) : result<void>(std::move(header).error());
  if (good) {
    // The wanted block. The search ends with it.
    if (header->generation == wanted.generation) {
      state.exact = byte;
      state.other_orbit = !at_hint;
      state.allocated = map_.bits->test(block);
    } else if (allocated && header->generation >= state.older_generation) {
      // The newest of the older ones is kept. Without a bit in the bitmap, an older block
      // is one that was freed.
      state.older = byte;
      state.older_generation = header->generation;
    }
    return;
  }
  // A damaged block that claims to be the wanted one.
  if (names_itself(head, wanted.seed, n)) {
    state.doubtful = true;
    if (!state.damage) {
      state.damage = std::move(good).error();
      state.damaged_at = byte;
    }
  } else if (at_hint && allocated) {
    // A sound block of another shard lies there rightfully. Anything else may be the
    // damaged rest of the block that is searched for.
    const block_header other = load_header(head);
    block_claim theirs{other.well,     other.number, wanted.generation,
                       wanted.payload, false,        true};
    theirs.generation = UINT32_MAX;
    state.doubtful = state.doubtful || !check_header(head, theirs);
  }
}

// `first` is the error of the hinted place, if there is one. A block of the right
// generation is used wherever it lies; an older one only if no newer one can have been
// lost.
//
// `skip` bytes of the payload are left out in front of `to`. A found block is added to
// the log of recoveries, so that a user learns of damage that did no harm.
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
  // An older block is used only if nothing shows a newer one.
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
    // The block was found but could not be decompressed.
    return named(std::move(made).error(), n, state.exact ? *state.exact : *state.older);
  }
  // Neither a damaged block nor a set bit: nothing was ever written here. What a hole
  // reads as is an option of the stream.
  const bool is_hole = !state.damage && !(hinted && hinted->allocated);
  if (!is_hole) {
    // The error of a block that names itself says more than that of whatever lies at the
    // hinted place.
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

/// The log keeps up to `max_blocks` numbers for each shard and kind, so damage of a
/// whole device takes little memory. Called by several readers at once.
void recovery_log::add(hn4_recovery_kind kind, std::size_t shard, std::uint64_t block) {
  const std::lock_guard lock(mutex_);
  auto& blocks = seen_[{shard, kind}];
  if (blocks.size() < max_blocks) {
    blocks.insert(block);
  }
}

/// Each row names the first block and how many there are.
std::vector<hn4_recovery> recovery_log::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<hn4_recovery> out;
  for (const auto& [key, blocks] : seen_) {
    out.push_back({key.second, key.first, *blocks.begin(), blocks.size()});
  }
  return out;
}

}  // namespace weir::storage::hn4
