// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the check of whole volumes and their repair: a sound volume has no finding, and
/// every kind of damage has its own.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../../../storage/hn4/directory/directory.hpp"
#include "support.hpp"
#include "support/fixtures.hpp"
#include "support/temp_folder.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_check.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::test {
namespace {

/// Returns whether a list contains a finding of a kind.
bool has(const std::vector<hn4_finding>& list, const std::string& kind) {
  return std::any_of(list.begin(), list.end(),
                     [&](const hn4_finding& f) { return f.kind == kind; });
}

/// Returns a volume with two tags, one with a long name, and with entries of a replaced
/// stream.
std::unique_ptr<memory_device> filled() {
  auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  or_throw(volume.put("a", noise(9000, 1), fixed_put(2)));
  or_throw(volume.put("a tag whose name needs a block", noise(50'000, 2), fixed_put(3)));
  or_throw(volume.put("a", noise(12'000, 3), fixed_put(2)));
  return device;
}

TEST(Hn4Check, WhatWeWriteIsClean) {
  const auto device = filled();
  const hn4_check_report report = checked(*device);
  EXPECT_TRUE(report.findings.empty()) << all_of(report.findings);
  EXPECT_EQ(report.tags, 2U);
  EXPECT_EQ(report.shards, 5U);
  EXPECT_EQ(report.bytes, 62'000U);
  EXPECT_TRUE(has(report.notes, "tombstone"));
  EXPECT_FALSE(has(report.notes, "unowned")) << all_of(report.notes);
  EXPECT_FALSE(report.map.empty());
}

TEST(Hn4Check, EachKindOfDamageIsFound) {
  const auto device = filled();
  const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
  const hn4_geometry& g = core->geometry;
  const auto live =
      std::find_if(core->entries.begin(), core->entries.end(),
                   [](const hn4::entry& e) { return e.slot != 0 && e.a.live(); });
  const std::uint64_t block = *hn4::trajectory(core->space, live->a).block(0);
  const hn4::copy_places places = hn4::places_of_copies(g.capacity, g.block);
  const struct {
    const char* kind;
    std::uint64_t offset;
  } cases[] = {{"superblock_copy", places.east + 900},
               {"superblock_copy", places.south + 8000},
               {"superblock_copy", 100},
               {"epoch", g.epoch + 3},
               {"quality", g.qmask + 10},
               {"root", g.cortex + 0x68},
               {"anchor", core->slot_offset(live->slot) + 0x40},
               {"block", block * g.block + 0x24},
               {"block", block * g.block + 700},
               {"bitmap", g.bitmap + block / 8}};
  for (const auto& c : cases) {
    const flipped_byte flip(*device, c.offset,
                            c.kind == std::string("bitmap") ? 1U << (block % 8) : 0x10U);
    const hn4_check_report report = checked(*device);
    EXPECT_TRUE(has(report.findings, c.kind)) << c.kind << "\n"
                                              << all_of(report.findings);
  }
  EXPECT_TRUE(checked(*device).findings.empty());
}

// One shard has more bad blocks than are listed one by one, the other has a single one.
// Both losses must be reported as exact ranges of the tag.
TEST(Hn4Check, LostBytesAreRangesOfTheirTag) {
  const auto device = formatted_small();
  {
    hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
    or_throw(volume.put("first", noise(1000, 1), fixed_put()));
    or_throw(volume.put("t", noise(150'000, 2), fixed_put(2)));
  }
  const hn4_stream whole = or_throw(or_throw(open_on(*device)).stream("t"));
  const std::uint64_t cap = whole.payload();
  const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
  auto shards = or_throw(hn4::entries_named(*core, "t")).live;
  std::sort(shards.begin(), shards.end(),
            [](const hn4::entry& x, const hn4::entry& y) { return x.a.seed < y.a.seed; });
  const auto break_block = [&](const hn4::entry& e, std::uint64_t n) {
    const std::uint64_t block = *hn4::trajectory(core->space, e.a).block(n);
    const std::uint64_t offset = block * core->geometry.block + 60;
    byte_vector byte(1);
    or_throw(device->read(offset, byte));
    byte[0] ^= std::byte{1};
    or_throw(device->write(offset, byte));
  };
  for (std::uint64_t n = 3; n < 143; ++n) {
    break_block(shards[0], n);
  }
  break_block(shards[1], 5);
  const hn4_check_report report = checked(*device);
  ASSERT_EQ(report.lost.size(), 2U) << all_of(report.findings);
  EXPECT_EQ(report.lost[0].tag, "t");
  EXPECT_EQ(report.lost[0].offset, 3 * cap);
  EXPECT_EQ(report.lost[0].bytes, 140 * cap);
  EXPECT_EQ(report.lost[1].offset, 75'000 + 5 * cap);
  EXPECT_EQ(report.lost[1].bytes, cap);
  EXPECT_EQ(report.tags, 2U) << "the directory still has all entries of both tags";
  byte_vector some(10);
  EXPECT_TRUE(whole.read(3 * cap - 10, some));
  EXPECT_FALSE(whole.read(3 * cap, some));
}

TEST(Hn4Check, ALostShardIsReportedWithItsPlaceInTheStream) {
  const auto device = filled();
  const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
  auto shards = or_throw(hn4::entries_named(*core, "a")).live;
  std::sort(shards.begin(), shards.end(),
            [](const hn4::entry& x, const hn4::entry& y) { return x.a.seed < y.a.seed; });
  ASSERT_EQ(shards.size(), 2U);
  or_throw(
      device->write(core->slot_offset(shards[1].slot), byte_vector(hn4::anchor_bytes)));
  const hn4_check_report report = checked(*device);
  ASSERT_EQ(report.lost.size(), 1U) << all_of(report.findings);
  EXPECT_EQ(report.lost[0].tag, "a");
  EXPECT_EQ(report.lost[0].offset, 6000U);
  EXPECT_FALSE(report.lost[0].bytes) << "the length of the lost shard is unknown";
  EXPECT_TRUE(has(report.findings, "lost")) << all_of(report.findings);
  EXPECT_TRUE(has(report.findings, "orphan")) << all_of(report.findings);
  EXPECT_EQ(report.tags, 1U);
}

/// Writes a changed superblock over all copies, with a right checksum, so that the vote
/// between the copies cannot correct it.
void write_superblocks(block_device& device, mutable_bytes sb) {
  store_le(sb.data() + 0x1FFC, crc32(0, bytes_view(sb).first(0x1FFC)));
  const hn4::copy_places places = hn4::places_of_copies(small_capacity, 4096);
  for (const std::uint64_t offset :
       {std::uint64_t{0}, places.east, places.west, places.south}) {
    or_throw(device.write(offset, sb));
  }
}

// Each entry is copied into the next free slot, with the same generation and with the one
// before.
TEST(Hn4Check, AShardThatStandsTwiceIsOneFindingAndCountsOnce) {
  for (const std::uint32_t behind : {0U, 1U}) {
    const auto device = filled();
    const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
    const auto taken = [&](std::uint64_t slot) {
      return std::any_of(core->entries.begin(), core->entries.end(),
                         [&](const hn4::entry& e) { return e.slot == slot; });
    };
    for (hn4::entry e : core->entries) {
      if (e.slot == 0 || !e.a.live() || e.a.write_gen <= behind) {
        continue;
      }
      std::uint64_t slot = e.slot;
      while (taken(slot)) {
        ++slot;
      }
      e.a.write_gen -= behind;
      byte_vector bytes(hn4::anchor_bytes);
      hn4::store_anchor(e.a, bytes);
      ASSERT_TRUE(device->write(core->slot_offset(slot), bytes));
      const hn4_check_report report = checked(*device);
      ASSERT_EQ(report.findings.size(), 1U) << all_of(report.findings);
      EXPECT_EQ(report.findings[0].kind, "duplicate") << report.findings[0].text;
      EXPECT_EQ(report.shards, 5U);
      EXPECT_EQ(report.bytes, 62'000U);
      ASSERT_TRUE(device->write(core->slot_offset(slot), byte_vector(128)));
    }
  }
}

TEST(Hn4Check, WhatFormatLeavesZeroInASuperblockIsZero) {
  const struct {
    const char* kind;
    std::size_t offset;
    unsigned value;
  } cases[] = {{"label", 0xEF, 'x'},   {"label", 0xD0, 0xFF},   {"label", 0xD8, 'x'},
               {"padding", 0x78, 1},   {"padding", 0x10F, 1},   {"padding", 0x118, 1},
               {"padding", 0x1FFB, 1}, {"padding", 0x1000, 255}};
  for (const auto& c : cases) {
    const auto device = filled();
    byte_vector sb(hn4::superblock_bytes);
    ASSERT_TRUE(device->read(0, sb));
    sb[c.offset] = static_cast<std::byte>(c.value);
    write_superblocks(*device, sb);
    const hn4_check_report report = checked(*device);
    ASSERT_EQ(report.findings.size(), 1U) << c.offset << "\n" << all_of(report.findings);
    EXPECT_EQ(report.findings[0].kind, c.kind) << c.offset;
  }
}

TEST(Hn4Check, ACopyOfAnImpossibleLayoutIsAFindingNotAFailure) {
  const hn4::copy_places places = hn4::places_of_copies(small_capacity, 4096);
  // The offsets of the fields for the ring of epochs, the capacity, the bitmap and the
  // quality mask.
  for (const std::size_t field : {0x20U, 0x28U, 0x38U, 0x58U}) {
    for (const std::uint64_t offset : {std::uint64_t{0}, places.east, places.south}) {
      const auto device = filled();
      byte_vector sb(hn4::superblock_bytes);
      ASSERT_TRUE(device->read(offset, sb));
      store_le(sb.data() + field, std::uint64_t{17});
      store_le(sb.data() + 0x1FFC, crc32(0, bytes_view(sb).first(0x1FFC)));
      ASSERT_TRUE(device->write(offset, sb));
      const auto report = hn4_check(std::make_unique<borrowed_device>(*device));
      ASSERT_TRUE(report) << field << report.error().message();
      ASSERT_EQ(report->findings.size(), 1U) << field << all_of(report->findings);
      EXPECT_EQ(report->findings[0].kind, "superblock_copy");
      EXPECT_EQ(report->findings[0].offset, offset);
      const auto volume = open_on(*device);
      ASSERT_TRUE(volume) << field << volume.error().message();
      ASSERT_EQ(volume->warnings().size(), 1U) << field;
      EXPECT_NE(volume->warnings()[0].find("byte " + std::to_string(offset)),
                std::string::npos)
          << volume->warnings()[0];
      EXPECT_TRUE(or_throw(read_tag(*device, "a")) == noise(12'000, 3)) << field;
    }
    // The layout is the error if no copy has a possible one, and in strict mode, in which
    // the layout is checked only after the vote.
    const auto device = filled();
    byte_vector sb(hn4::superblock_bytes);
    ASSERT_TRUE(device->read(0, sb));
    store_le(sb.data() + field, std::uint64_t{17});
    write_superblocks(*device, sb);
    for (const auto& volume :
         {open_on(*device),
          hn4_volume::open_strictly(std::make_unique<borrowed_device>(*device))}) {
      ASSERT_FALSE(volume) << field;
      EXPECT_EQ(code_of(volume.error()), hn4_code::geometry) << volume.error().message();
    }
    EXPECT_FALSE(hn4_check(std::make_unique<borrowed_device>(*device))) << field;
  }
}

TEST(Hn4Check, AnImageOfAnotherSizeIsAFindingNotAFailure) {
  const weir::test::temp_folder scratch;
  const std::string path = scratch / "v";
  ASSERT_TRUE(hn4_format(path, fixed_format()));
  for (const std::uint64_t size : {small_capacity - 512, small_capacity / 2,
                                   std::uint64_t{16384}, small_capacity + 4096}) {
    ASSERT_TRUE(
        or_throw(posix_file_system().open(path, open_mode::read_write))->resize(size));
    const auto report =
        hn4_check(or_throw(open_file_device(path, device_mode::read_only)));
    ASSERT_TRUE(report) << size << report.error().message();
    EXPECT_TRUE(has(report->findings, "size")) << size;
  }
  ASSERT_TRUE(
      or_throw(posix_file_system().open(path, open_mode::read_write))->resize(100));
  EXPECT_FALSE(hn4_check(or_throw(open_file_device(path, device_mode::read_only))));
}

TEST(Hn4Check, VolumesOfTheReferenceHaveTheirKnownFindings) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const byte_vector text =
      or_throw(read_file(posix_file_system(), folder + "/manifest.json"));
  const nlohmann::json all = nlohmann::json::parse(as_text(text));
  for (const auto& image : all["images"]) {
    const std::string name = image["name"];
    if (image.contains("extents")) {
      continue;
    }
    const auto device =
        unpack_image(folder + "/" + image["file"].get<std::string>(), image["raw_bytes"]);
    const hn4_check_report report = checked(*device);
    EXPECT_EQ(has(report.findings, "epoch"), name != "dirty") << name;
    EXPECT_EQ(has(report.findings, "state"), name == "dirty") << name;
    if (name == "one" || name == "five" || name == "usb" || name == "gaming" ||
        name == "system" || name == "pico") {
      // The reference implementation puts data on its own log and on copies of the
      // superblock.
      for (const hn4_finding& f : report.findings) {
        EXPECT_TRUE(f.kind == "epoch" || f.kind == "overlap") << name << " " << f.text;
      }
    }
    EXPECT_EQ(has(report.findings, "order"), name == "order") << name;
    EXPECT_EQ(has(report.findings, "hint"), name == "hintloss") << name;
    EXPECT_EQ(has(report.findings, "block"), name == "rot" || name == "skew")
        << name << "\n"
        << all_of(report.findings);
  }
}

TEST(Hn4Check, WhatCanBeReadIsSavedIntoANewVolume) {
  const weir::test::temp_folder scratch;
  {
    ASSERT_TRUE(hn4_format(scratch / "v", fixed_format()));
    hn4_volume volume = or_throw(hn4_volume::open(scratch / "v", device_mode::writable));
    ASSERT_TRUE(volume.put("good", noise(30'000, 1), fixed_put(2)));
    ASSERT_TRUE(volume.put("bad", noise(30'000, 2), fixed_put(1)));
  }
  {
    const auto device = or_throw(open_file_device(scratch / "v", device_mode::writable));
    const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
    for (const hn4::entry& e : core->entries) {
      if (or_throw(hn4::name_of_entry(*core, e.a)).text == "bad") {
        const std::uint64_t offset =
            *hn4::trajectory(core->space, e.a).block(3) * 4096 + 99;
        ASSERT_TRUE(device->write(offset, noise(8, 9)));
      }
    }
  }
  const auto saved = or_throw(hn4_repair(scratch / "v", scratch / "w"));
  ASSERT_EQ(saved.size(), 2U);
  EXPECT_EQ(saved[0].name, "bad");
  EXPECT_NE(saved[0].problem.find("-0x451"), std::string::npos) << saved[0].problem;
  EXPECT_TRUE(saved[1].problem.empty()) << saved[1].problem;
  const hn4_volume volume = or_throw(hn4_volume::open(scratch / "w"));
  EXPECT_TRUE(or_throw(or_throw(volume.stream("good")).read_all()) == noise(30'000, 1));
  EXPECT_TRUE(hn4_check(or_throw(open_file_device(scratch / "w", device_mode::read_only)))
                  ->findings.empty());
  EXPECT_EQ(hn4_repair(scratch / "v", scratch / "w").error().code(),
            errc::already_exists);
}

TEST(Hn4Check, OfACutAndLockedVolumeIsSavedWhatIsThere) {
  const weir::test::temp_folder scratch;
  const std::string path = scratch / "v";
  std::uint64_t end = 0;
  {
    ASSERT_TRUE(hn4_format(path, fixed_format()));
    hn4_volume volume = or_throw(hn4_volume::open(path, device_mode::writable));
    hn4_put_options packed = fixed_put(3);
    packed.compress = true;
    ASSERT_TRUE(volume.put("front", byte_vector(30'000, std::byte{7}), packed));
    ASSERT_TRUE(volume.put("back", noise(30'000, 2), fixed_put(1)));
    end = or_throw(volume.stream("back")).extents().front().device_offset + 4096;
  }
  {
    const auto device = or_throw(open_file_device(path, device_mode::writable));
    const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
    core->sb.state |= hn4::state_bits::locked;
    ASSERT_TRUE(hn4::write_superblocks(*device, core->sb));
  }
  EXPECT_EQ(hn4_volume::open(path).error().code(), errc::locked);
  std::filesystem::resize_file(path, end);
  const auto saved = or_throw(hn4_repair(path, scratch / "w"));
  ASSERT_EQ(saved.size(), 2U);
  EXPECT_EQ(saved[0].name, "back");
  EXPECT_NE(saved[0].problem.find("-0x4"), std::string::npos) << saved[0].problem;
  EXPECT_TRUE(saved[1].problem.empty()) << saved[1].problem;
  const hn4_stream front =
      or_throw(or_throw(hn4_volume::open(scratch / "w")).stream("front"));
  EXPECT_TRUE(or_throw(front.read_all()) == byte_vector(30'000, std::byte{7}));
  EXPECT_EQ(front.shards().size(), 3U);
  EXPECT_TRUE(front.shards().front().compressed);
}

}  // namespace
}  // namespace weir::storage::test
