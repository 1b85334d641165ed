// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which of the four superblock copies counts.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

constexpr std::uint64_t vote_window_ns = 60'000'000'000;

struct found_copy {
  superblock sb;
  std::uint64_t offset = 0;
};

// All valid copies, North first; the problem says why North is not among them.
struct ballot {
  std::vector<found_copy> copies;
  std::string north_problem;
  std::optional<found_copy> impossible;  // the first that is valid but for its layout
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

// The same, and what its layout contradicts: no read could use such a copy. The reference
// asks after the vote.
result<std::optional<std::string>> look_at(const core& c, found_copy& copy,
                                           ballot& votes) {
  WEIR_TRY(auto problem, read_copy(*c.device, copy.offset, copy.sb));
  if (!problem && !c.strict) {
    if (const auto layout = geometry_of(copy.sb); !layout) {
      problem = layout.error().text();
      votes.impossible = votes.impossible ? votes.impossible : copy;
    }
  }
  return problem;
}

result<ballot> collect(core& c) {
  block_device& device = *c.device;
  ballot votes;
  found_copy north;
  WEIR_TRY(const auto problem, look_at(c, north, votes));
  std::vector<std::uint32_t> blocks{512, 4096, 16384, 65536};
  if (problem) {
    votes.north_problem = *problem;
    if (!c.strict) {
      blocks.push_back(64U << 20);  // the reference does not look for these
    }
  } else {
    votes.copies.push_back(north);
    if (north.sb.block != 0 &&
        std::find(blocks.begin(), blocks.end(), north.sb.block) == blocks.end()) {
      blocks.push_back(north.sb.block);
    }
  }
  // While looking for damage, the volume's own size says where its copies belong.
  const std::uint64_t size =
      c.examine && !problem && north.sb.capacity >= superblock_bytes ? north.sb.capacity
                                                                     : device.size();
  for (const std::uint32_t block : blocks) {
    const copy_places places = places_of_copies(size, block);
    for (const std::uint64_t offset : {places.east, places.west, places.south}) {
      found_copy copy;
      copy.offset = offset;
      if (offset == 0) {
        continue;
      }
      WEIR_TRY(const auto why, look_at(c, copy, votes));
      if (!why && copy.sb.block == block) {
        votes.copies.push_back(copy);
      }
    }
  }
  if (votes.copies.empty() && votes.impossible) {
    votes.copies.push_back(*votes.impossible);  // whose layout is then the error
  }
  return votes;
}

// A copy replaces the best one if it is newer, or of the same age and not clean.
result<bool> beats(const found_copy& copy, const found_copy& best) {
  if (copy.sb.generation != best.sb.generation) {
    return copy.sb.uuid == best.sb.uuid && copy.sb.generation > best.sb.generation;
  }
  if (copy.sb.uuid != best.sb.uuid) {
    return hn4_error(hn4_code::tampered,
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
    return hn4_error(hn4_code::tampered,
                     "cannot choose a superblock: two copies of one generation were "
                     "written more than a minute apart");
  }
  if (apart != 0) {
    return copy.sb.mount_time > best.sb.mount_time;
  }
  return (best.sb.state & state_bits::clean) != 0 &&
         (copy.sb.state & state_bits::clean) == 0;
}

result<const found_copy*> elect(const core& c, const ballot& votes) {
  const found_copy* best = &votes.copies.front();
  for (const found_copy& copy : votes.copies) {
    auto better = beats(copy, *best);
    if (!better && c.examine) {
      continue;
    }
    if (!better) {
      return std::move(better).error().at(
          fmt::format("{}:{} (superblock)", c.device->name(), copy.offset));
    }
    best = *better ? &copy : best;
  }
  return best;
}

void note_lost_copies(core& c, const ballot& votes) {
  if (!votes.north_problem.empty()) {
    c.warnings.push_back(fmt::format(
        "superblock at byte 0 is damaged ({}); used another copy", votes.north_problem));
  }
  const copy_places places = places_of_copies(c.device->size(), c.sb.block);
  for (const std::uint64_t offset : {places.east, places.west, places.south}) {
    const bool seen =
        std::any_of(votes.copies.begin(), votes.copies.end(),
                    [&](const found_copy& x) { return x.offset == offset; });
    if (offset != 0 && !seen) {
      c.warnings.push_back(
          fmt::format("superblock copy at byte {} is missing or damaged", offset));
    }
  }
}

// What decides how a volume is read, and never changes while it lives: copies that differ
// in it were not written by one writer.
struct vote_field {
  const char* name;
  std::uint64_t (*of)(const superblock& sb);
};
constexpr std::array<vote_field, 7> lasting_fields{
    vote_field{"mount intent", [](const superblock& sb) { return sb.mount_intent; }},
    vote_field{"incompatible features",
               [](const superblock& sb) { return sb.incompatible; }},
    vote_field{"read-only features",
               [](const superblock& sb) { return sb.read_only_compatible; }},
    vote_field{"hardware features", [](const superblock& sb) { return sb.hardware; }},
    vote_field{"profile", [](const superblock& sb) { return std::uint64_t{sb.profile}; }},
    vote_field{"device type",
               [](const superblock& sb) { return std::uint64_t{sb.device_type}; }},
    vote_field{"capacity", [](const superblock& sb) { return sb.capacity; }}};

void note_disagreements(core& c, const ballot& votes, const found_copy& best) {
  for (const found_copy& copy : votes.copies) {
    if (copy.sb.uuid != best.sb.uuid) {
      continue;
    }
    for (const vote_field& field : lasting_fields) {
      const std::uint64_t wanted = field.of(best.sb), found = field.of(copy.sb);
      if (wanted != found) {
        c.warnings.push_back(fmt::format(
            "superblock copies at bytes {} and {} disagree about the {}: "
            "{:#x} and {:#x}; the one at byte {} is used",
            best.offset, copy.offset, field.name, wanted, found, best.offset));
      }
    }
  }
}

// The reference does not mount a volume that may be a wormhole on a device without strict
// flushes: one copy of the newest generation that says so is enough.
result<void> refuse_wormholes(const core& c, const ballot& votes,
                              const found_copy& best) {
  for (const found_copy& copy : votes.copies) {
    if (c.strict && copy.sb.uuid == best.sb.uuid &&
        copy.sb.generation == best.sb.generation &&
        (copy.sb.mount_intent & intent_bits::wormhole) != 0) {
      return hn4_error(hn4_code::hw_io,
                       "cannot open the volume: expected a device with strict flushes, "
                       "which the mount intent of this superblock copy asks for")
          .at(c.place(copy.offset, "superblock"));
    }
  }
  return {};
}

error nothing_valid(const core& c, const ballot& votes) {
  // Of a volume that was cut, the first bytes still tell what it was.
  std::array<std::byte, 8> head{};
  const bool cut = c.device->size() < superblock_bytes;
  const bool ours = c.device->size() >= 8 && c.device->read(0, head) &&
                    load_le<std::uint64_t>(head.data()) == superblock_magic;
  const std::string text =
      fmt::format("cannot open \"{}\" as an HN4 volume: {}, and no other copy is valid",
                  c.device->name(), votes.north_problem);
  return cut && (ours || c.strict) ? hn4_error(hn4_code::geometry, text, errc::torn)
                                   : hn4_error(hn4_code::bad_superblock, text);
}

}  // namespace

result<void> vote(core& c) {
  const std::string at = fmt::format("{}:0 (superblock)", c.device->name());
  if (is_wiped(*c.device)) {
    return hn4_error(hn4_code::wipe_pending, "cannot open the volume: it was wiped")
        .at(at);
  }
  WEIR_TRY(const ballot votes, collect(c));
  if (votes.copies.empty()) {
    return nothing_valid(c, votes).at(at);
  }
  WEIR_TRY(const found_copy* best, elect(c, votes));
  c.sb = best->sb;
  c.elected_at = best->offset;
  note_lost_copies(c, votes);
  note_disagreements(c, votes, *best);
  return refuse_wormholes(c, votes, *best);
}

}  // namespace weir::storage::hn4
