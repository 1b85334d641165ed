// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests one damaged byte anywhere in a volume: a read gives the right bytes, or an error
/// that names the file and the place.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hn4/directory/directory.hpp"
#include "storage/hn4/damage/foreign.hpp"
#include "storage/hn4/support.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_check.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::test {
namespace {

const std::string long_tag = "model:with a name that needs a block of its own";

/// A volume with its tags, their streams, and its mounted structures.
struct stored {
  std::unique_ptr<memory_device> device;
  std::vector<std::string> tags;
  std::vector<byte_vector> bytes;
  std::shared_ptr<hn4::core> core;
};

/// Makes a volume with three tags, one of them with a long name.
stored make_stored() {
  stored s;
  s.device = formatted();
  s.tags = {"prose", "other:x", long_tag};
  hn4_volume volume = or_throw(open_on(*s.device, device_mode::writable));
  // The first tag is stored a second time, so that the directory holds entries that have
  // ended.
  or_throw(volume.put("prose", noise(9000, 77), fixed_put(2)));
  for (std::size_t i = 0; i < s.tags.size(); ++i) {
    s.bytes.push_back(noise(13'000 + 4000 * i, i));
    or_throw(volume.put(s.tags[i], s.bytes[i], fixed_put(i == 1 ? 1 : 3)));
  }
  s.core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*s.device)));
  return s;
}

/// The result of reading a tag.
enum class outcome { same, failed };

/// Reads a tag. Fails the test unless the bytes are right or the error names a place.
outcome look(stored& s, std::size_t i) {
  const auto bytes = read_tag(*s.device, s.tags[i]);
  if (bytes) {
    EXPECT_TRUE(*bytes == s.bytes[i]) << "WRONG BYTES of " << s.tags[i];
    return outcome::same;
  }
  EXPECT_NE(bytes.error().location().find("vol.img:"), std::string::npos)
      << bytes.error().message();
  return outcome::failed;
}

/// Returns whether a directory entry belongs to a tag.
bool belongs(const hn4::core& c, const hn4::entry& e, const std::string& tag) {
  return or_throw(hn4::name_of_entry(c, e.a)).text == tag;
}

TEST(Hn4Damage, AnEntryOfATagBreaksThatTagAloneAndSaysWhere) {
  stored s = make_stored();
  for (const hn4::entry& e : s.core->entries) {
    for (std::uint64_t byte = 0; byte < hn4::anchor_bytes; ++byte) {
      const flipped_byte flip(*s.device, s.core->slot_offset(e.slot) + byte,
                              1U << (byte % 8));
      for (std::size_t i = 0; i < s.tags.size(); ++i) {
        const bool mine = e.a.live() && belongs(*s.core, e, s.tags[i]);
        ASSERT_EQ(look(s, i), mine ? outcome::failed : outcome::same)
            << s.tags[i] << ", slot " << e.slot << ", byte " << byte;
        if (mine) {
          const error failure = read_tag(*s.device, s.tags[i]).error();
          EXPECT_NE(failure.location().find(std::to_string(s.core->slot_offset(e.slot))),
                    std::string::npos)
              << failure.message();
        }
      }
    }
  }
}

TEST(Hn4Damage, EveryHeaderByteAndAnyPayloadByteOfABlockIsNoticed) {
  stored s = make_stored();
  std::size_t blocks = 0;
  for (std::size_t i = 0; i < s.tags.size(); ++i) {
    for (const hn4::entry& e : s.core->entries) {
      if (!e.a.live() || !belongs(*s.core, e, s.tags[i])) {
        continue;
      }
      const hn4::trajectory path(s.core->space, e.a);
      for (std::uint64_t n = 0; n * 4048 < e.a.mass; ++n, ++blocks) {
        const std::uint64_t start = *path.block(n) * 4096;
        for (std::uint64_t byte = 0; byte < 4096; byte += byte < 48 ? 1 : 97) {
          const flipped_byte flip(*s.device, start + byte, 0x10);
          const auto bytes = read_tag(*s.device, s.tags[i]);
          ASSERT_FALSE(bytes) << s.tags[i] << " block " << n << " byte " << byte;
          EXPECT_NE(
              bytes.error().location().find("vol.img:" + std::to_string(start) + " "),
              std::string::npos)
              << bytes.error().message();
          ASSERT_EQ(look(s, (i + 1) % s.tags.size()), outcome::same);
        }
      }
    }
  }
  EXPECT_GE(blocks, 13U);
}

TEST(Hn4Damage, LongNamesAreNoticed) {
  stored s = make_stored();
  for (const hn4::entry& e : s.core->entries) {
    if (!e.a.live() || !e.a.has(hn4::class_bits::extended)) {
      continue;
    }
    const std::uint64_t start = load_le<std::uint64_t>(e.a.name.data()) * 512;
    const std::size_t rest = long_tag.size() - hn4::fragment_bytes;
    // The magic, the kind and the name with its end. The pointer to a next block does not
    // matter, because the name ends before.
    for (std::uint64_t byte = 0; byte < 16 + rest + 1; byte += byte == 7 ? 9 : 1) {
      const flipped_byte flip(*s.device, start + byte, 0x04);
      ASSERT_EQ(look(s, 2), outcome::failed) << byte;
      ASSERT_EQ(look(s, 0), outcome::same);
      EXPECT_NE(
          read_tag(*s.device, long_tag).error().location().find(std::to_string(start)),
          std::string::npos);
      // Neither the tag nor the damaged name is whole; both errors say what is wrong.
      const hn4_volume volume = or_throw(open_on(*s.device));
      ASSERT_EQ(or_throw(volume.tags()).size(), 2U) << byte;
      const auto damaged = or_throw(volume.damaged_tags());
      for (const hn4_damaged_tag& tag : damaged) {
        EXPECT_TRUE(tag.name.starts_with(long_tag.substr(0, 16))) << tag.name;
        EXPECT_EQ(code_of(read_tag(*s.device, tag.name).error()), hn4_code::data_rot)
            << byte;
      }
      // A damaged name may be empty.
      ASSERT_GE(damaged.size(), 1U) << byte;
      hn4_stream_options left;
      left.recover = true;
      const hn4_stream stream = or_throw(volume.stream(long_tag, left));
      EXPECT_TRUE(or_throw(stream.read_all()) == s.bytes[2]) << "the tag loses no byte";
      EXPECT_EQ(stream.warnings().size(), 1U);
    }
  }
}

// Flips bits of the bitmap one by one. A block whose bit is cleared must still be read
// and reported; the strict mode reads a hole there, as the reference does.
TEST(Hn4Damage, ABlockUnderAClearedBitIsFoundAndReported) {
  stored s = make_stored();
  const std::uint64_t bitmap = s.core->geometry.bitmap;
  std::vector<bool> used(static_cast<std::size_t>(s.core->geometry.blocks));
  for (const hn4::entry& e : s.core->entries) {
    const hn4::trajectory path(s.core->space, e.a);
    for (std::uint64_t n = 0; e.a.live() && n * 4048 < e.a.mass; ++n) {
      used[static_cast<std::size_t>(*path.block(n))] = true;
    }
  }
  hn4_stream_options strict;
  strict.strict = true;
  for (std::uint64_t block = 0; block < s.core->geometry.blocks;
       block += block < 1100 ? 1 : 61) {
    const flipped_byte flip(*s.device, bitmap + block / 8, 1U << (block % 8));
    std::size_t reported = 0, holes = 0;
    for (std::size_t i = 0; i < s.tags.size(); ++i) {
      const hn4_volume volume = or_throw(open_on(*s.device));
      const hn4_stream stream = or_throw(volume.stream(s.tags[i]));
      ASSERT_TRUE(or_throw(stream.read_all()) == s.bytes[i]) << block;
      reported += stream.recoveries().size();
      byte_vector all(stream.size());
      holes += or_throw(volume.stream(s.tags[i], strict)).read_partial(0, all).holes;
    }
    const std::size_t expected = used[static_cast<std::size_t>(block)] ? 1 : 0;
    ASSERT_EQ(reported, expected) << block;
    ASSERT_EQ(holes, expected) << "the reference reads zeros on a clean volume";
  }
}

TEST(Hn4Damage, OneSuperblockMayBeLostAndIsReported) {
  stored s = make_stored();
  const hn4::copy_places places = hn4::places_of_copies(small_capacity, 4096);
  for (const std::uint64_t start :
       {std::uint64_t{0}, places.east, places.west, places.south}) {
    for (std::uint64_t byte = 0; byte < 8192; byte += byte < 0x120 ? 1 : 131) {
      const flipped_byte flip(*s.device, start + byte, 0x80);
      const hn4_volume volume = or_throw(open_on(*s.device));
      ASSERT_EQ(volume.warnings().size(), 1U) << start + byte;
      EXPECT_NE(volume.warnings()[0].find("byte " + std::to_string(start)),
                std::string::npos);
      ASSERT_EQ(look(s, byte % 3), outcome::same);
    }
  }
  std::vector<std::unique_ptr<flipped_byte>> all;
  for (const std::uint64_t start :
       {std::uint64_t{0}, places.east, places.west, places.south}) {
    all.push_back(std::make_unique<flipped_byte>(*s.device, start + 0x20, 1U));
  }
  EXPECT_EQ(open_on(*s.device).error().code(), errc::corrupt);
}

TEST(Hn4Damage, ASuperblockWithImpossibleSizesAndAGoodChecksumIsRefused) {
  stored s = make_stored();
  for (const std::uint32_t block : {0U, 1U, 47U, 1U << 27, UINT32_MAX}) {
    const auto device = s.device->clone();
    byte_vector sb(hn4::superblock_bytes);
    ASSERT_TRUE(device->read(0, sb));
    store_le(sb.data() + 0x0C, block);
    store_le(sb.data() + 0x1FFC, crc32(0, bytes_view(sb).first(0x1FFC)));
    const hn4::copy_places places = hn4::places_of_copies(small_capacity, 4096);
    for (const std::uint64_t offset :
         {std::uint64_t{0}, places.east, places.west, places.south}) {
      ASSERT_TRUE(device->write(offset, sb));
    }
    const auto volume = open_on(*device);
    ASSERT_FALSE(volume) << block;
    EXPECT_EQ(volume.error().code(), errc::corrupt) << volume.error().message();
    const auto strict =
        hn4_volume::open_strictly(std::make_unique<borrowed_device>(*device));
    ASSERT_FALSE(strict) << block;
    (void)hn4_check(std::make_unique<borrowed_device>(*device));
  }
}

// One copy has the flag "wormhole", the others do not.
TEST(Hn4Damage, CopiesThatDisagreeAboutTheMountIntentAreNamed) {
  stored s = make_stored();
  const hn4::copy_places places = hn4::places_of_copies(small_capacity, 4096);
  for (const std::uint64_t start :
       {std::uint64_t{0}, places.east, places.west, places.south}) {
    const auto device = s.device->clone();
    byte_vector sb(hn4::superblock_bytes);
    ASSERT_TRUE(device->read(start, sb));
    sb[0xA4] |= std::byte{1};
    store_le(sb.data() + 0x1FFC, crc32(0, bytes_view(sb).first(0x1FFC)));
    ASSERT_TRUE(device->write(start, sb));
    const hn4_volume volume = or_throw(open_on(*device));
    ASSERT_EQ(volume.warnings().size(), start == 0 ? 3U : 1U);
    for (const std::string& warning : volume.warnings()) {
      EXPECT_NE(warning.find("mount intent"), std::string::npos) << warning;
      EXPECT_NE(warning.find(fmt::format(" {} ", start)), std::string::npos) << warning;
    }
    EXPECT_TRUE(or_throw(read_tag(*device, s.tags[0])) == s.bytes[0]);
    const auto strict =
        hn4_volume::open_strictly(std::make_unique<borrowed_device>(*device));
    ASSERT_FALSE(strict) << start;
    EXPECT_EQ(code_of(strict.error()), hn4_code::hw_io);
    EXPECT_NE(strict.error().location().find(fmt::format(":{} (", start)),
              std::string::npos)
        << strict.error().message();
  }
}

/// A device that counts the bytes that are read through it.
class metered_device final : public borrowed_device {
 public:
  metered_device(block_device& to, std::uint64_t& bytes)
      : borrowed_device(to), bytes_(bytes) {}
  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    bytes_ += to.size();
    return borrowed_device::read(offset, to);
  }

 private:
  std::uint64_t& bytes_;
};

/// Measures what each of these operations reads. It does not matter whether they succeed.
std::vector<std::uint64_t> costs(block_device& device,
                                 const std::vector<std::string>& tags) {
  std::vector<std::uint64_t> bytes(4);
  const auto metered = [&](std::size_t i) {
    return std::make_unique<metered_device>(device, bytes[i]);
  };
  if (const auto v = hn4_volume::open(metered(0), device_mode::read_only)) {
    (void)v->tags();
    for (const std::string& tag : tags) {
      (void)v->stream(tag);
    }
  }
  if (const auto v = hn4_volume::open(metered(1), device_mode::read_only)) {
    for (const std::string& tag : tags) {
      const auto stream = v->stream(tag);
      (void)(stream ? stream->read_all() : result<byte_vector>(stream.error()));
    }
  }
  if (const auto v = hn4_volume::open_strictly(metered(2))) {
    for (const std::string& tag : tags) {
      (void)v->stream(tag);
    }
  }
  (void)hn4_check(metered(3));
  return bytes;
}

// A volume with blocks of 64 KiB, with tags of both writers, and with an epoch entry that
// makes the reference implementation rebuild bits when it opens the volume.
TEST(Hn4Damage, CostsAtMostTwiceWhatASoundVolumeCosts) {
  auto device = std::make_unique<memory_device>(small_capacity, "vol.img");
  hn4_format_options options = fixed_format();
  options.profile = hn4_profile::usb;
  or_throw(hn4_format(*device, options));
  const std::vector<std::string> tags{"t", "foreign"};
  for (const std::string& tag : tags) {
    or_throw(or_throw(open_on(*device, device_mode::writable))
                 .put(tag, noise(900, 1), fixed_put(1)));
  }
  make_foreign(*device, "foreign");
  const flipped_byte epoch(*device, or_throw(open_on(*device)).geometry().epoch + 124,
                           0x10);
  const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
  const hn4_geometry& g = core->geometry;
  std::vector<std::uint64_t> places{
      3, 0x30, 0x88, g.epoch + 9, g.cortex + 17, g.cortex + 100'000, g.journal + 4};
  for (const hn4::entry& e : core->entries) {
    const std::uint64_t offset = core->slot_offset(e.slot);
    places.insert(places.end(),
                  {offset, offset + 0x23, offset + 0x2B, offset + 0x31, offset + 0x70});
    if (const auto block = hn4::trajectory(core->space, e.a).block(0)) {
      const std::uint64_t byte = *block * g.block;
      places.insert(places.end(),
                    {byte, byte + 0x20, byte + 0x29, byte + 5000, g.bitmap + *block / 8});
    }
  }
  const auto sound = costs(*device, tags);
  for (const std::uint64_t offset : places) {
    for (const unsigned bit : {0x01U, 0x80U}) {
      const flipped_byte flip(*device, offset, bit);
      const auto damaged = costs(*device, tags);
      for (std::size_t i = 0; i < sound.size(); ++i) {
        EXPECT_LE(damaged[i], 2 * sound[i]) << "byte " << offset << ", part " << i;
      }
    }
  }
}

TEST(Hn4Damage, ABadEpochIsAWarningAndIsMendedBeforeWriting) {
  stored s = make_stored();
  for (std::uint64_t byte = 0; byte < hn4::epoch_bytes; ++byte) {
    const flipped_byte flip(*s.device, s.core->geometry.epoch + byte, 0x02);
    const hn4_volume volume = or_throw(open_on(*s.device));
    EXPECT_EQ(volume.warnings().size(), 1U);
    ASSERT_EQ(look(s, byte % 3), outcome::same);
  }
  for (const std::uint64_t byte : {0U, 8U, 127U}) {
    const auto device = s.device->clone();
    const flipped_byte flip(*device, s.core->geometry.epoch + byte, 0x02);
    EXPECT_EQ(or_throw(open_on(*device, device_mode::writable)).warnings().size(), 2U);
    const hn4_volume volume = or_throw(open_on(*device));
    EXPECT_TRUE(volume.warnings().empty());
    EXPECT_TRUE(or_throw(read_tag(*device, s.tags[0])) == s.bytes[0]);
  }
}

TEST(Hn4Damage, AByteAnywhereNeverGivesWrongBytes) {
  constexpr std::uint64_t seed = 2024;
  RecordProperty("seed", static_cast<int>(seed));
  stored s = make_stored();
  const philox random(seed, 0);
  // Half of the damaged bytes lie in the data, the others before it.
  const std::uint64_t flux = s.core->geometry.flux;
  for (std::uint64_t i = 0; i < 1500; ++i) {
    const std::uint64_t offset =
        i % 2 == 0 ? random.below(3 * i, flux) : flux + random.below(3 * i, 30 * 4096);
    const flipped_byte flip(*s.device, offset,
                            1U + static_cast<unsigned>(random.below(3 * i + 1, 255)));
    for (std::size_t t = 0; t < s.tags.size(); ++t) {
      look(s, t);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", byte " << offset;
    }
  }
}

// A whole sector of the directory is lost. No checksum is wrong then, but the shards
// carry numbers, and some of them are missing.
TEST(Hn4Damage, LostEntriesAreMissed) {
  stored s = make_stored();
  for (const hn4::entry& e : s.core->entries) {
    if (!e.a.live() || e.slot == 0) {
      continue;
    }
    const std::uint64_t sector =
        align_down(s.core->slot_offset(e.slot), std::uint64_t{512});
    byte_vector before(512);
    const byte_vector zeros(512);
    ASSERT_TRUE(s.device->read(sector, before));
    ASSERT_TRUE(s.device->write(sector, zeros));
    for (std::size_t i = 0; i < s.tags.size(); ++i) {
      if (belongs(*s.core, e, s.tags[i])) {
        EXPECT_EQ(look(s, i), outcome::failed) << s.tags[i];
      }
    }
    ASSERT_TRUE(s.device->write(sector, before));
  }
}

}  // namespace
}  // namespace weir::storage::test
