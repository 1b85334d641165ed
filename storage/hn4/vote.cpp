// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chooses among the four copies of the superblock.
///
/// A volume has the copies North (byte 0), East, West and South. Each crash of a writer
/// may leave some of them old or damaged. The newest valid copy counts; a copy whose
/// layout is impossible has no vote. Record 801 of docs/decisions gives the reason.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::hn4 {

namespace {

/// Largest difference of the mount times of two copies of one generation. Copies of one
/// generation are written by one writer within seconds. A larger difference means that
/// they were put together from two volumes.
constexpr std::uint64_t vote_window_ns = 60'000'000'000;

/// A copy and its place.
///
/// The offset is in bytes.
struct found_copy {
  superblock sb;
  std::uint64_t offset = 0;
};

/// What was found at the places of copies.
struct ballot {
  std::vector<found_copy> copies;  ///< all valid ones, North first
  std::string north_problem;       ///< why North is not among them; empty if it is
  /// The first copy that is valid except for its layout.
  std::optional<found_copy> impossible;
};

/// Reads a copy. The result is a reason why it is not valid, or nothing.
///
/// A failed read of the device is an error, as it may pass; a copy that is not there is
/// a reason.
result<std::optional<std::string>> read_copy(block_device& device, std::uint64_t offset,
                                             superblock& to) {
  if (offset > device.size() || superblock_bytes > device.size() - offset) {
    return std::optional<std::string>("expected 8192 bytes, found the end of the device");
  }
  byte_vector bytes(superblock_bytes);
  WEIR_CHECK(device.read(offset, bytes));
  // Checks magic and checksum.
  return load_superblock(bytes, to);
}

/// Returns whether the volume was wiped: it then begins with 16 bytes of a fixed pattern.
///
/// Such a volume is refused even if another copy survives.
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

/// Reads a copy and checks its layout, too: no read could use a copy whose layout is
/// impossible. The reference implementation checks the layout only after the vote, so
/// strict mode does.
///
/// `copy.offset` says where to read. An impossible layout is kept for the error.
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

/// Reads all copies. The block size decides where they lie; if North is not valid, all
/// known sizes are tried.
///
/// The places of the copies depend on capacity and block size, which the superblock
/// itself holds; this circle is broken by trying.
result<ballot> collect(core& c) {
  block_device& device = *c.device;
  ballot votes;
  found_copy north;
  // North is always at byte 0.
  WEIR_TRY(const auto problem, look_at(c, north, votes));
  std::vector<std::uint32_t> blocks{512, 4096, 16384, 65536};
  if (problem) {
    votes.north_problem = *problem;
    if (!c.strict) {
      blocks.push_back(64U << 20);  // the reference implementation does not try this size
    }
  } else {
    votes.copies.push_back(north);
    // A size that no profile has.
    if (north.sb.block != 0 &&
        std::find(blocks.begin(), blocks.end(), north.sb.block) == blocks.end()) {
      blocks.push_back(north.sb.block);
    }
  }
  // A check takes the size from the superblock, so that it finds the copies of a
  // truncated image.
  const std::uint64_t size =
      c.examine && !problem && north.sb.capacity >= superblock_bytes ? north.sb.capacity
                                                                     : device.size();
  for (const std::uint32_t block : blocks) {
    const copy_places places = places_of_copies(size, block);
    for (const std::uint64_t offset : {places.east, places.west, places.south}) {
      found_copy copy;
      copy.offset = offset;
      if (offset == 0) {
        // There is no such copy.
        continue;
      }
      WEIR_TRY(const auto why, look_at(c, copy, votes));
      // A copy must confirm the size by which it was found; otherwise it belongs to an
      // older layout of the device.
      if (!why && copy.sb.block == block) {
        votes.copies.push_back(copy);
      }
    }
  }
  if (votes.copies.empty() && votes.impossible) {
    votes.copies.push_back(*votes.impossible);  // its layout is then the error
  }
  return votes;
}

/// Returns whether a copy is better than the best so far: it is newer, or it has the same
/// age and is not clean. At equal age the unclean state is the later one. @error{corrupt,
/// the two copies cannot come from one volume}
result<bool> beats(const found_copy& copy, const found_copy& best) {
  // A copy of another volume never beats, whatever its generation.
  if (copy.sb.generation != best.sb.generation) {
    return copy.sb.uuid == best.sb.uuid && copy.sb.generation > best.sb.generation;
  }
  if (copy.sb.uuid != best.sb.uuid) {
    return hn4_error(hn4_code::tampered,
                     "cannot choose a superblock: two copies of one generation have "
                     "different identities");
  }
  // Unsigned, because damaged times may have any value and a signed difference may
  // overflow.
  const auto later =
      static_cast<std::uint64_t>(std::max(copy.sb.mount_time, best.sb.mount_time));
  const auto earlier =
      static_cast<std::uint64_t>(std::min(copy.sb.mount_time, best.sb.mount_time));
  const std::uint64_t apart = later - earlier;
  // One minute.
  if (apart > vote_window_ns) {
    return hn4_error(hn4_code::tampered,
                     "cannot choose a superblock: two copies of one generation were "
                     "written more than a minute apart");
  }
  // The times may differ by the seconds between the writes of two copies.
  if (apart != 0) {
    return copy.sb.mount_time > best.sb.mount_time;
  }
  return (best.sb.state & state_bits::clean) != 0 &&
         (copy.sb.state & state_bits::clean) == 0;
}

/// Chooses the best copy.
///
/// An examination goes on where an opening would refuse.
result<const found_copy*> elect(const core& c, const ballot& votes) {
  // North wins if all are equal, because it comes first.
  const found_copy* best = &votes.copies.front();
  for (const found_copy& copy : votes.copies) {
    auto better = beats(copy, *best);
    if (!better && c.examine) {
      continue;
    }
    if (!better) {
      return std::move(better).error().located(
          fmt::format("{}:{} (superblock)", c.device->name(), copy.offset));
    }
    best = *better ? &copy : best;
  }
  return best;
}

/// Adds warnings for copies that are missing or damaged.
///
/// They do no harm now, but the next damage may be the last.
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

/// A field that decides how a volume is read and never changes. Copies that differ in it
/// were not all written by one writer.
struct vote_field {
  const char* name;
  std::uint64_t (*value)(const superblock& sb);
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

/// Adds warnings for copies that differ from the chosen one in a lasting field.
///
/// The fields are compared for warnings only; the elected copy decides.
void note_disagreements(core& c, const ballot& votes, const found_copy& best) {
  for (const found_copy& copy : votes.copies) {
    if (copy.sb.uuid != best.sb.uuid) {
      continue;
    }
    for (const vote_field& field : lasting_fields) {
      const std::uint64_t wanted = field.value(best.sb), found = field.value(copy.sb);
      if (wanted != found) {
        c.warnings.push_back(fmt::format(
            "superblock copies at bytes {} and {} disagree about the {}: "
            "{:#x} and {:#x}; the one at byte {} is used",
            best.offset, copy.offset, field.name, wanted, found, best.offset));
      }
    }
  }
}

/// Refuses a volume that asks for strict flushes, in strict mode: the reference
/// implementation does not mount it on a device without them. One copy of the newest
/// generation that asks for them is enough.
result<void> refuse_wormholes(const core& c, const ballot& votes,
                              const found_copy& best) {
  for (const found_copy& copy : votes.copies) {
    if (c.strict && copy.sb.uuid == best.sb.uuid &&
        copy.sb.generation == best.sb.generation &&
        (copy.sb.mount_intent & intent_bits::wormhole) != 0) {
      return hn4_error(hn4_code::hw_io,
                       "cannot open the volume: expected a device with strict flushes, "
                       "which the mount intent of this superblock copy asks for")
          .located(c.place(copy.offset, "superblock"));
    }
  }
  return {};
}

/// Makes the error for a volume without any valid copy.
///
/// The code tells a volume that was cut ("geometry") from bytes that are no volume.
error nothing_valid(const core& c, const ballot& votes) {
  // A truncated volume still has its first bytes, so the message can say what the file
  // was.
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

// Strict refusals come last, because they depend on the copy that was elected.
//
// Sets `c.sb` and `c.elected_at`. Nothing else of the volume is known before.
result<void> vote(core& c) {
  const std::string place = fmt::format("{}:0 (superblock)", c.device->name());
  if (is_wiped(*c.device)) {
    return hn4_error(hn4_code::wipe_pending, "cannot open the volume: it was wiped")
        .located(place);
  }
  WEIR_TRY(const ballot votes, collect(c));
  if (votes.copies.empty()) {
    return nothing_valid(c, votes).located(place);
  }
  WEIR_TRY(const found_copy* best, elect(c, votes));
  c.sb = best->sb;
  c.elected_at = best->offset;
  note_lost_copies(c, votes);
  note_disagreements(c, votes, *best);
  return refuse_wormholes(c, votes, *best);
}

}  // namespace weir::storage::hn4
