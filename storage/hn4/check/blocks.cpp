// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks every block of every live shard and the bitmap, and draws the map of the
/// volume.
///
/// Each block is verified at its place. If it fails, its other possible places are
/// searched, and a reader is asked whether it gets the bytes all the same. So a finding
/// says not only what is damaged but also what is lost.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/check/checker.hpp"
#include "hn4/read/reader.hpp"
#include "hn4/write/allocation.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// Bad blocks of one shard that are listed one by one.
constexpr std::size_t max_per_shard = 100;
/// Largest number of cells of the map.
constexpr std::uint64_t max_cells = 8192;

/// Verifies one block completely: header, checksum and, if compressed, its length.
///
/// Returns the reason if it is bad. `compressed` tells whether the payload is
/// compressed, for the statistics of the report; it is valid only on success. `scratch`
/// is reused memory.
result<void> verify(const anchor& a, std::uint64_t n, std::uint32_t payload,
                    bytes_view bytes, byte_vector& scratch, bool& compressed) {
  const block_claim claim{a.seed, n, a.write_gen, payload, a.has(class_bits::encrypted),
                          false};
  WEIR_TRY(const block_header h, check_header(bytes, claim));
  WEIR_CHECK(check_payload(h, crc32(0, bytes.subspan(header_bytes))));
  compressed = h.algorithm() != 0;
  if (compressed) {
    scratch.resize(bytes.size());
    WEIR_TRY(const std::size_t made,
             tcc_decode(bytes.subspan(header_bytes, h.stored()), scratch));
    // The last block of a shard holds fewer bytes. A longer result is allowed, since a
    // reader cuts it.
    const std::uint64_t needed = std::min<std::uint64_t>(payload, a.mass - n * payload);
    if (made < needed) {
      return hn4_error(
          hn4_code::data_rot,
          fmt::format("expected {} bytes decompressed, found {}", needed, made));
    }
  }
  return {};
}

}  // namespace

// Returns where else a sound block of the right identity and generation lies.
//
// The cheap comparison of 48 bytes comes first, and only a block that names itself is
// read in whole.
std::optional<std::uint64_t> checker::elsewhere(const entry& e, std::uint64_t n,
                                                std::uint64_t hinted) {
  byte_vector scratch;
  std::array<std::byte, header_bytes> head{};
  bool compressed = false;
  for (unsigned k = 0; k < orbits; ++k) {
    const auto block =
        ballistic(c.space, e.a.gravity, e.a.orbit_vector, n, e.a.fractal_scale, k);
    // The hinted place is known to be bad.
    if (!block || *block >= c.geometry.blocks || *block == hinted) {
      continue;
    }
    const std::uint64_t byte = *block * c.geometry.block;
    if (c.device->read(byte, head) && names_itself(head, e.a.seed, n) &&
        c.device->read(byte, buffer) &&
        verify(e.a, n, c.geometry.payload, buffer, scratch, compressed)) {
      return block;
    }
  }
  return std::nullopt;
}

// Returns what a reader reports for a block, or nothing if it can read the block all the
// same, for example on another orbit.
//
// A shard that is in no stream cannot be read by any name.
std::optional<std::string> checker::why_unreadable(const entry& e, std::uint64_t n) {
  const auto place = stream_places.find(e.slot);
  if (place == stream_places.end()) {
    return "no tag has it";
  }
  // Only the bytes of this block are asked for, so the answer is about this block alone.
  const std::uint64_t begin = n * c.geometry.payload;
  byte_vector bytes(static_cast<std::size_t>(
      std::min<std::uint64_t>(c.geometry.payload, e.a.mass - begin)));
  const auto read = reader(*place->second.map).read(place->second.offset + begin, bytes);
  return read ? std::nullopt : std::optional(read.error().text());
}

// Adds the bytes of a block to the ranges of the stream that a reader cannot get.
// Consecutive blocks form one range.
void checker::lose(const entry& e, std::uint64_t n) {
  const auto place = stream_places.find(e.slot);
  if (place == stream_places.end()) {
    return;
  }
  const std::uint64_t begin = n * c.geometry.payload;
  const std::uint64_t offset = place->second.offset + begin;
  const std::uint64_t bytes =
      std::min<std::uint64_t>(c.geometry.payload, e.a.mass - begin);
  if (!report.lost.empty()) {
    // Blocks of a shard are visited in order, so a range can only grow at its end.
    hn4_lost_range& last = report.lost.back();
    if (last.tag == *place->second.tag && last.offset && last.bytes &&
        *last.offset + *last.bytes == offset) {
      *last.bytes += bytes;
      return;
    }
  }
  report.lost.push_back({*place->second.tag, offset, bytes});
}

// Checks one block and adds what is wrong; returns false if it is not good at its place.
//
// If `quiet` is set, damage is counted and drawn but not listed. A block that is found
// elsewhere is claimed at that place, because it is in use there.
bool checker::block_is_good(const entry& e, std::uint64_t n, std::uint64_t block) {
  const std::uint64_t byte = block * c.geometry.block;
  const std::string user =
      fmt::format("directory slot {}, block {} of the shard", e.slot, n);
  byte_vector scratch;
  // One buffer for the whole check, `buffer`, has the size of a block.
  bool compressed = false;
  result<void> good = c.device->read(byte, buffer);
  if (good) {
    good = verify(e.a, n, c.geometry.payload, buffer, scratch, compressed);
  }
  const bool marked = c.bits->marked(block);
  if (good) {
    report.compressed += compressed ? 1 : 0;
    claim(block, user);
    if (!marked) {
      find("bitmap", byte,
           fmt::format("{}: expected an allocated block, found a free one", user));
    }
    return true;
  }
  // The block is bad here. Search it elsewhere, and ask a reader; the answers are
  // independent, because readers also know other ways.
  const auto other = elsewhere(e, n, block);
  const auto why = why_unreadable(e, n);
  if (why) {
    lose(e, n);
  }
  if (other) {
    // The block belongs to the shard in any case, so it is drawn as damaged.
    claim(*other, user);
  } else {
    broken.push_back(block);
  }
  if (quiet) {
    return false;
  }
  if (other) {
    find("hint", *other * c.geometry.block,
         fmt::format("{}: expected it at block {}, found it at block {}", user, block,
                     *other));
  } else if (marked) {
    // Allocated in the bitmap: the content is wrong.
    find("block", byte,
         fmt::format("{}: {}{}", user, good.error().text(),
                     why ? "; its bytes are lost: " + *why : "; it can be read"));
  } else {
    // Free in the bitmap: most likely the block was never written.
    find("hole", byte,
         fmt::format("{}: expected a block, found a hole{}", user,
                     why ? "; its bytes are lost: " + *why : "; it can be read"));
  }
  return false;
}

// Checks one shard. A length that exceeds the volume is a finding of its own, since its
// blocks cannot exist.
//
// Blocks are checked in the order of the shard. After `max_per_shard` bad ones the rest
// is only counted, so that a lost region does not fill the report.
result<void> checker::shard(const entry& e) {
  const std::uint64_t blocks = blocks_for(c.geometry, e.a.mass);
  const std::uint64_t offset = c.slot_offset(e.slot);
  if (blocks > c.geometry.blocks) {
    find("mass", offset,
         fmt::format("directory slot {}: expected at most {} blocks, found {} bytes",
                     e.slot, c.geometry.blocks, e.a.mass));
    return {};
  }
  report.shards += 1;
  report.bytes += e.a.mass;
  report.blocks += blocks;
  const trajectory path(c.space, e.a);
  std::size_t bad = 0;
  for (std::uint64_t n = 0; n < blocks; ++n) {
    quiet = bad >= max_per_shard;
    const auto block = path.block(n);
    // No address at all: the scale of the shard does not fit into the volume.
    if (!block && !quiet) {
      find("address", offset,
           fmt::format("directory slot {}: block {} lies outside the volume", e.slot, n));
    }
    if (!block && why_unreadable(e, n)) {
      lose(e, n);
    }
    bad += block && block_is_good(e, n, *block) ? 0 : 1;
  }
  quiet = false;
  if (bad > max_per_shard) {
    find("block", offset,
         fmt::format("directory slot {}: {} bad blocks, of which {} are listed", e.slot,
                     bad, max_per_shard));
  }
  return {};
}

// Checks the shards of all streams, and that no block belongs to two of them.
//
// Claims are sorted once, which finds double claims and prepares the searches of
// `bitmap` and `draw`.
result<void> checker::blocks() {
  for (const entry& e : c.entries) {
    // Slot 0 is the root. Repeated and ended entries have no blocks of their own.
    if (e.slot != 0 && repeated.count(e.slot) == 0 && ended.count(e.slot) == 0 &&
        (e.a.live() || stream_places.count(e.slot) != 0)) {
      WEIR_CHECK(shard(e));
    }
  }
  std::sort(claimed.begin(), claimed.end());
  std::sort(idle.begin(), idle.end());
  for (std::size_t i = 1; i < claimed.size(); ++i) {
    if (claimed[i] == claimed[i - 1]) {
      find("overlap", claimed[i] * c.geometry.block,
           fmt::format("block {} belongs to more than one shard", claimed[i]));
    }
  }
  return {};
}

// Notes blocks of the volume's own structures that are not marked. The reference
// implementation does not mark them, so this is no fault.
void checker::bits_of_reserved() {
  std::uint64_t unmarked = 0;
  // The bitmap of a PICO volume may cover only a part of the blocks. A word of 64 bits
  // takes `armored_word` bytes with its check byte.
  const std::uint64_t reach =
      c.geometry.profile == hn4_profile::pico
          ? std::min(c.geometry.blocks,
                     (c.geometry.qmask - c.geometry.bitmap) / armored_word * 64)
          : c.geometry.blocks;
  for (std::size_t i = 0; i < reserved.bits.size() && i * 8 < reach; ++i) {
    unmarked += static_cast<std::uint64_t>(
        std::popcount(static_cast<unsigned>(reserved.bits[i] & ~c.bits->bits[i])));
  }
  if (unmarked != 0) {
    note(
        "bitmap", c.geometry.bitmap,
        fmt::format("{} blocks of the volume's own structures are not marked", unmarked));
  }
}

// Allocated blocks that no entry names show that entries are lost.
//
// The traces come from the identities that this writer gives (anchor.cpp), so blocks of
// foreign writers are not attributed.
result<void> checker::orphans() {
  WEIR_TRY(const auto traces, c.loss_traces());
  for (const orphan& o : traces->shards) {
    find("orphan", o.byte,
         "expected a directory entry for every block in use, found " + to_text(o));
  }
  for (const orphan_name& name : traces->names) {
    find("orphan", name.byte,
         fmt::format("long name \"...{}\": expected a directory entry that points to it, "
                     "found none",
                     name.text));
  }
  return {};
}

// Checks the bitmap: check bytes of PICO volumes, orphans, and blocks that belong to
// nothing.
result<void> checker::bitmap() {
  WEIR_CHECK(orphans());
  // Only PICO volumes have a check byte with each word.
  if (c.geometry.profile == hn4_profile::pico) {
    byte_vector region(static_cast<std::size_t>(c.geometry.qmask - c.geometry.bitmap));
    WEIR_CHECK(c.device->read(c.geometry.bitmap, region));
    std::uint64_t wrong = 0;
    for (std::size_t offset = 0; offset + armored_word <= region.size();
         offset += armored_word) {
      const std::uint64_t word = load_le<std::uint64_t>(region.data() + offset);
      wrong += region[offset + 8] != static_cast<std::byte>(ecc_of(word)) ? 1 : 0;
    }
    if (wrong != 0) {
      find("bitmap", c.geometry.bitmap,
           fmt::format("bitmap: expected the check byte of every word, found {} wrong",
                       wrong));
    }
  }
  bits_of_reserved();
  // Neither the volume itself, nor a shard, nor an interrupted operation owns these
  // blocks. They are lost space and no damage.
  std::uint64_t unowned = 0, first = 0;
  for (std::size_t i = 0; i < c.bits->bits.size(); ++i) {
    auto rest = static_cast<unsigned>(c.bits->bits[i] & ~reserved.bits[i]);
    // Visits the bits that are set, from the lowest on.
    for (; rest != 0; rest &= rest - 1) {
      const std::uint64_t block = i * 8 + static_cast<unsigned>(std::countr_zero(rest));
      if (!std::binary_search(claimed.begin(), claimed.end(), block) &&
          !std::binary_search(idle.begin(), idle.end(), block)) {
        first = unowned++ == 0 ? block : first;
      }
    }
  }
  if (unowned != 0) {
    note("unowned", first * c.geometry.block,
         fmt::format("{} allocated blocks belong to no shard", unowned));
  }
  return {};
}

// Fills the map: each cell shows the worst state of its blocks.
//
// The enumerators of `hn4_use` are ordered from harmless to bad, so the worst state is
// the largest value. A cell stands for `cell_blocks` blocks.
void checker::draw() {
  const std::uint64_t blocks = std::max<std::uint64_t>(c.geometry.blocks, 1);
  report.cell_blocks = (blocks + max_cells - 1) / max_cells;
  report.map.assign(
      static_cast<std::size_t>((blocks + report.cell_blocks - 1) / report.cell_blocks),
      hn4_use::free);
  // Blocks beyond the volume come from damaged entries and are ignored.
  const auto paint = [&](std::uint64_t block, hn4_use use) {
    if (block < blocks) {
      hn4_use& cell = report.map[static_cast<std::size_t>(block / report.cell_blocks)];
      cell = std::max(cell, use);
    }
  };
  for (std::size_t i = 0; i < c.bits->bits.size(); ++i) {
    for (auto rest = static_cast<unsigned>(c.bits->bits[i] | reserved.bits[i]); rest != 0;
         rest &= rest - 1) {
      const std::uint64_t block = i * 8 + static_cast<unsigned>(std::countr_zero(rest));
      const bool owned = std::binary_search(claimed.begin(), claimed.end(), block);
      paint(block, reserved.marked(block) ? hn4_use::reserved
                   : owned                ? hn4_use::data
                                          : hn4_use::unowned);
    }
  }
  // Damage is painted last, over everything else.
  for (const std::uint64_t block : broken) {
    paint(block, hn4_use::damaged);
  }
}

}  // namespace weir::storage::hn4
