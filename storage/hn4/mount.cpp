// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opening: the vote of the superblock copies, epoch, state, bitmap and directory.
#include <fmt/core.h>

#include <algorithm>

#include "core.hpp"
#include "weir/base/hash.hpp"

namespace weir::storage::hn4 {

namespace {

constexpr std::uint64_t largest_bitmap = std::uint64_t{1} << 30;
constexpr std::size_t scan_bytes = std::size_t{1} << 20;
constexpr std::uint64_t vote_window_ns = 60'000'000'000;

struct found_copy {
  superblock sb;
  std::uint64_t offset = 0;
};

// All valid copies, North first; notes say why the others at expected places are not.
struct ballot {
  std::vector<found_copy> copies;
  std::string north_problem;
};

result<std::optional<std::string>> read_copy(block_device& device, std::uint64_t offset,
                                             superblock& to) {
  if (offset > device.size() || superblock_bytes > device.size() - offset) {
    return std::optional<std::string>("expected 8192 bytes, found the end of the device");
  }
  byte_vector bytes(superblock_bytes);
  WEIR_CHECK(device.read(offset, bytes));
  return load_superblock(bytes, to);
}

bool is_wiped(block_device& device) {
  std::array<std::byte, 16> head{};
  if (device.size() < head.size() || !device.read(0, head)) {
    return false;
  }
  for (std::size_t i = 0; i < 16; i += 4) {
    if (load_le<std::uint32_t>(head.data() + i) != 0xDEADBEEFU) {
      return false;
    }
  }
  return true;
}

result<ballot> collect(block_device& device) {
  ballot votes;
  found_copy north;
  WEIR_TRY(const auto problem, read_copy(device, 0, north.sb));
  std::vector<std::uint32_t> blocks{512, 4096, 16384, 65536, 64U << 20};
  if (problem) {
    votes.north_problem = *problem;
  } else {
    votes.copies.push_back(north);
    blocks = {north.sb.block};
  }
  for (const std::uint32_t block : blocks) {
    if (block == 0) {
      continue;
    }
    const copy_places places = places_of_copies(device.size(), block);
    for (const std::uint64_t offset : {places.east, places.west, places.south}) {
      found_copy copy;
      copy.offset = offset;
      if (offset == 0) {
        continue;
      }
      WEIR_TRY(const auto why, read_copy(device, offset, copy.sb));
      if (!why && copy.sb.block == block) {
        votes.copies.push_back(copy);
      }
    }
  }
  return votes;
}

// A copy replaces the best one if it is newer, or of the same age and not clean.
result<bool> beats(const found_copy& copy, const found_copy& best) {
  if (copy.sb.generation != best.sb.generation) {
    return copy.sb.generation > best.sb.generation;
  }
  if (copy.sb.uuid != best.sb.uuid) {
    return error(errc::corrupt,
                 "cannot choose a superblock: two copies of one generation have "
                 "different identities");
  }
  // In unsigned arithmetic: times come from the volume and may be anything.
  const auto later =
      static_cast<std::uint64_t>(std::max(copy.sb.mount_time, best.sb.mount_time));
  const auto earlier =
      static_cast<std::uint64_t>(std::min(copy.sb.mount_time, best.sb.mount_time));
  const std::uint64_t apart = later - earlier;
  if (apart > vote_window_ns) {
    return error(errc::corrupt,
                 "cannot choose a superblock: two copies of one generation were "
                 "written more than a minute apart");
  }
  if (apart != 0) {
    return copy.sb.mount_time > best.sb.mount_time;
  }
  return (best.sb.state & state_bits::clean) != 0 &&
         (copy.sb.state & state_bits::clean) == 0;
}

result<void> vote(core& c) {
  block_device& device = *c.device;
  const std::string at = fmt::format("{}:0 (superblock)", device.name());
  if (is_wiped(device)) {
    return error(errc::corrupt, "cannot open the volume: it was wiped").at(at);
  }
  WEIR_TRY(const ballot votes, collect(device));
  if (votes.copies.empty()) {
    return error(
               errc::corrupt,
               fmt::format(
                   "cannot open \"{}\" as an HN4 volume: {}, and no other copy is valid",
                   device.name(), votes.north_problem))
        .at(at);
  }
  const found_copy* best = &votes.copies.front();
  for (const found_copy& copy : votes.copies) {
    auto better = beats(copy, *best);
    if (!better) {
      return std::move(better).error().at(
          fmt::format("{}:{} (superblock)", device.name(), copy.offset));
    }
    best = *better ? &copy : best;
  }
  c.sb = best->sb;
  if (!votes.north_problem.empty()) {
    c.warnings.push_back(
        fmt::format("superblock at byte 0 is damaged ({}); used the copy at byte {}",
                    votes.north_problem, best->offset));
  }
  const copy_places places = places_of_copies(device.size(), c.sb.block);
  for (const std::uint64_t offset : {places.east, places.west, places.south}) {
    const bool seen =
        std::any_of(votes.copies.begin(), votes.copies.end(),
                    [&](const found_copy& x) { return x.offset == offset; });
    if (offset != 0 && !seen) {
      c.warnings.push_back(
          fmt::format("superblock copy at byte {} is missing or damaged", offset));
    }
  }
  return {};
}

result<void> check_geometry(core& c) {
  const std::string at = fmt::format("{}:0 (superblock)", c.device->name());
  auto geometry = geometry_of(c.sb);
  if (!geometry) {
    return std::move(geometry).error().at(at);
  }
  c.geometry = *geometry;
  c.space = space_of(c.sb, c.geometry);
  if (c.sb.capacity > c.device->size()) {
    return error(errc::torn,
                 fmt::format("cannot open \"{}\": expected {} bytes, found {}",
                             c.device->name(), c.sb.capacity, c.device->size()))
        .at(at)
        .hint("the file was cut; copy it again");
  }
  return {};
}

void force_read_only(core& c, std::string why) {
  if (c.read_only_reason.empty()) {
    c.read_only_reason = why;
  }
  c.warnings.push_back(std::move(why));
}

result<void> check_epoch(core& c) {
  std::uint64_t offset = 0;
  if (c.sb.epoch_block >= c.geometry.blocks) {
    return error(errc::corrupt,
                 fmt::format("cannot read the epoch: expected a block below {}, "
                             "found {}",
                             c.geometry.blocks, c.sb.epoch_block))
        .at(c.place(0, "superblock"));
  }
  offset = c.sb.epoch_block * c.geometry.block;
  std::array<std::byte, epoch_bytes> entry{};
  WEIR_CHECK(c.device->read(offset, entry));
  const std::uint32_t actual = crc32(0, std::span<const std::byte>(entry).first(124));
  if (load_le<std::uint32_t>(entry.data() + 124) != actual) {
    c.unclean = true;
    force_read_only(c, fmt::format("epoch entry at byte {} has a bad checksum", offset));
    return {};
  }
  const std::uint64_t id = load_le<std::uint64_t>(entry.data());
  const std::uint64_t ahead = id - c.sb.epoch_id;
  const std::uint64_t behind = c.sb.epoch_id - id;
  if (ahead != 0) {
    if (ahead > 5000 && behind > 100) {
      return error(errc::corrupt,
                   fmt::format("cannot use the epoch: expected {}, found {}",
                               c.sb.epoch_id, id))
          .at(c.place(offset, "epoch entry"));
    }
    force_read_only(
        c, fmt::format("epoch entry at byte {} is not the superblock's: expected {}, "
                       "found {}",
                       offset, c.sb.epoch_id, id));
  }
  return {};
}

result<void> check_state(core& c) {
  using namespace state_bits;
  const std::uint32_t s = c.sb.state;
  const std::string at = c.place(0, "superblock");
  const bool wounded = (s & (panic | toxic)) != 0;
  if ((s & (wipe | locked)) != 0 && !wounded) {
    return error((s & wipe) != 0 ? errc::corrupt : errc::locked,
                 fmt::format("cannot open the volume: it is marked {}",
                             (s & wipe) != 0 ? "for wiping" : "locked"))
        .at(at);
  }
  if (c.sb.incompatible != 0) {
    return error(errc::unsupported_version,
                 fmt::format("cannot open the volume: expected no incompatible features, "
                             "found {:#x}",
                             c.sb.incompatible))
        .at(at);
  }
  if ((s & zeroed) == 0) {
    return error(errc::corrupt,
                 "cannot open the volume: its metadata was never initialised")
        .at(at);
  }
  if (wounded || (s & (upgrade | locked | wipe)) != 0 || c.sb.read_only_compatible != 0 ||
      (c.sb.mount_intent & 2) != 0) {
    force_read_only(c, fmt::format("volume is marked read-only (state {:#x})", s));
  }
  if ((s & dirty) != 0 || (s & clean) == 0) {
    force_read_only(c, fmt::format("volume was not closed cleanly (state {:#x})", s));
  }
  c.unclean = c.unclean || (s & (dirty | panic | degraded)) != 0;
  return {};
}

// Visits the parts of [begin, end) that may hold data, in pieces that start at multiples
// of `unit`.
template <class Visit>
result<void> scan(block_device& device, std::uint64_t begin, std::uint64_t end,
                  std::uint64_t unit, Visit visit) {
  byte_vector buffer;
  for (std::uint64_t at = begin; at < end;) {
    WEIR_TRY(const extent data, device.next_data(at, end));
    if (data.size == 0) {
      break;
    }
    at = begin + align_down(data.offset - begin, unit);
    const std::uint64_t stop = std::min(end, begin + align_up(data.end() - begin, unit));
    for (; at < stop; at += buffer.size()) {
      buffer.resize(
          static_cast<std::size_t>(std::min<std::uint64_t>(stop - at, scan_bytes)));
      WEIR_CHECK(device.read(at, buffer));
      visit(at, bytes_view(buffer));
    }
  }
  return {};
}

result<void> read_bits(core& c) {
  auto bits = std::make_shared<block_bits>();
  bits->blind = c.geometry.profile == hn4_profile::pico;
  if (!bits->blind) {
    const std::uint64_t bytes = (c.geometry.blocks + 7) / 8;
    if (bytes > largest_bitmap) {
      return error(errc::unsupported,
                   fmt::format("cannot open the volume: expected a bitmap of at "
                               "most {} bytes, found {}",
                               largest_bitmap, bytes))
          .at(c.place(c.geometry.bitmap, "bitmap"));
    }
    bits->bits.resize(static_cast<std::size_t>(bytes));
    WEIR_CHECK(scan(*c.device, c.geometry.bitmap, c.geometry.bitmap + bytes, 1,
                    [&](std::uint64_t at, bytes_view piece) {
                      std::memcpy(bits->bits.data() + (at - c.geometry.bitmap),
                                  piece.data(), piece.size());
                    }));
  }
  c.bits = std::move(bits);
  return {};
}

bool all_zero(bytes_view bytes) noexcept {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < anchor_bytes; i += 8) {
    seen |= load_le<std::uint64_t>(bytes.data() + i);
  }
  return seen == 0;
}

result<void> read_directory(core& c) {
  const std::uint64_t end = c.slot_offset(c.slots());
  WEIR_CHECK(scan(*c.device, c.geometry.cortex, end, anchor_bytes,
                  [&](std::uint64_t at, bytes_view piece) {
                    for (std::size_t i = 0; i + anchor_bytes <= piece.size();
                         i += anchor_bytes) {
                      const bytes_view bytes = piece.subspan(i, anchor_bytes);
                      if (all_zero(bytes)) {
                        continue;
                      }
                      entry e;
                      e.slot = (at + i - c.geometry.cortex) / anchor_bytes;
                      const bool good = load_anchor(bytes, e.a);
                      (good ? c.entries : c.damaged).push_back(e);
                    }
                  }));
  for (const entry& e : c.damaged) {
    c.warnings.push_back(
        fmt::format("directory entry at byte {} (slot {}) has a bad checksum",
                    c.slot_offset(e.slot), e.slot));
  }
  return {};
}

}  // namespace

std::string core::place(std::uint64_t offset, const std::string& what) const {
  return fmt::format("{}:{} ({})", device->name(), offset, what);
}

result<std::shared_ptr<core>> mount(std::shared_ptr<block_device> device,
                                    device_mode mode) {
  auto c = std::make_shared<core>();
  c->device = std::move(device);
  WEIR_CHECK(vote(*c));
  WEIR_CHECK(check_geometry(*c));
  WEIR_CHECK(check_epoch(*c));
  WEIR_CHECK(check_state(*c));
  c->writable = mode == device_mode::writable;
  if (c->writable && !c->read_only_reason.empty()) {
    return error(errc::unsupported, fmt::format("cannot open \"{}\" for writing: {}",
                                                c->device->name(), c->read_only_reason))
        .at(c->place(0, "superblock"))
        .hint("open it for reading, and put its tags into a new volume");
  }
  WEIR_CHECK(read_bits(*c));
  WEIR_CHECK(read_directory(*c));
  return c;
}

}  // namespace weir::storage::hn4
