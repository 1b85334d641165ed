// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests volumes that this writer makes, fills, lists and reads, and requests that it
/// refuses.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <thread>

#include "../../../storage/hn4/directory/directory.hpp"
#include "support.hpp"
#include "support/temp_folder.hpp"
#include "weir/base/hash.hpp"

namespace weir::storage::test {
namespace {

constexpr std::size_t cap = 4048;

TEST(Hn4Format, ANewVolumeIsCleanAndEmpty) {
  for (const std::uint32_t sector : {512U, 4096U}) {
    const auto device = formatted(sector);
    const hn4_volume volume = or_throw(open_on(*device));
    EXPECT_EQ(volume.state(), 0x2001U);
    EXPECT_EQ(volume.label(), "test");
    EXPECT_EQ(volume.geometry().sector, sector);
    EXPECT_EQ(volume.geometry().payload, cap);
    EXPECT_TRUE(volume.warnings().empty());
    EXPECT_TRUE(or_throw(volume.tags()).empty());
    EXPECT_EQ(volume.stream("x").error().code(), errc::not_found);
  }
}

TEST(Hn4Format, TheSameOptionsGiveTheSameBytes) {
  const auto made = [] {
    auto device = formatted();
    hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
    or_throw(volume.put("tag", noise(9000, 1), fixed_put(2)));
    return device;
  };
  const auto a = made();
  const auto b = made();
  for (std::uint64_t offset = 0; offset < small_capacity;
       offset += memory_device::page_bytes) {
    const bytes_view x = a->view(offset, memory_device::page_bytes);
    const bytes_view y = b->view(offset, memory_device::page_bytes);
    ASSERT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end())) << offset;
  }
}

// Checks the bytes on the device as the reference implementation does when it mounts a
// volume.
TEST(Hn4Format, AllFourSuperblocksAndTheEpochAreInPlace) {
  const auto device = formatted();
  byte_vector north(8192), other(8192);
  ASSERT_TRUE(device->read(0, north));
  for (const std::uint64_t offset :
       {std::uint64_t{44294144}, std::uint64_t{88584192}, small_capacity - 8192}) {
    ASSERT_TRUE(device->read(offset, other));
    EXPECT_TRUE(north == other) << offset;
  }
  hn4::superblock sb;
  ASSERT_EQ(hn4::load_superblock(north, sb), std::nullopt);
  EXPECT_EQ(sb.epoch_lba, 16U);
  EXPECT_EQ(sb.cortex_lba, 2064U);
  EXPECT_EQ(sb.bitmap_lba, 7312U);
  EXPECT_EQ(sb.qmask_lba, 7320U);
  EXPECT_EQ(sb.flux_lba, 8192U);
  EXPECT_EQ(sb.horizon_lba, 215432U);
  EXPECT_EQ(sb.journal_lba, 241648U);
  EXPECT_EQ(sb.epoch_block, 2U);
  byte_vector epoch(128), quality(16);
  ASSERT_TRUE(device->read(8192, epoch));
  EXPECT_EQ(load_le<std::uint32_t>(epoch.data() + 124),
            crc32(0, bytes_view(epoch).first(124)));
  EXPECT_EQ(load_le<std::uint64_t>(epoch.data()), sb.epoch_id);
  ASSERT_TRUE(device->read(7320 * 512, quality));
  EXPECT_TRUE(quality == byte_vector(16, std::byte{0xAA}));
}

TEST(Hn4Format, OptionsOutOfRangeAreRefused) {
  const weir::test::temp_folder scratch;
  const auto refused = [&](auto change) {
    hn4_format_options options;
    change(options);
    const auto made = hn4_format(scratch / "v", options);
    EXPECT_FALSE(posix_file_system().exists(scratch / "v"));
    return made ? errc::internal : made.error().code();
  };
  EXPECT_EQ(refused([](auto& o) { o.capacity = 1 << 20; }), errc::invalid_argument);
  EXPECT_EQ(refused([](auto& o) { o.capacity += 1; }), errc::invalid_argument);
  EXPECT_EQ(refused([](auto& o) { o.sector = 1024; }), errc::invalid_argument);
  EXPECT_EQ(refused([](auto& o) { o.label = std::string(32, 'x'); }),
            errc::invalid_argument);
}

TEST(Hn4Format, AnExistingFileIsKeptUnlessAsked) {
  const weir::test::temp_folder scratch;
  ASSERT_TRUE(hn4_format(scratch / "v", fixed_format()));
  EXPECT_EQ(hn4_format(scratch / "v", fixed_format()).error().code(),
            errc::already_exists);
  hn4_format_options options = fixed_format();
  options.overwrite = true;
  options.label = "second";
  ASSERT_TRUE(hn4_format(scratch / "v", options));
  EXPECT_EQ(or_throw(hn4_volume::open(scratch / "v")).label(), "second");
}

TEST(Hn4Volume, WhatIsStoredComesBack) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  const std::size_t sizes[] = {1,       cap - 1,      cap,          cap + 1,
                               3 * cap, 64 * cap + 5, 300 * cap + 7};
  std::uint64_t seed = 0;
  for (const std::size_t size : sizes) {
    for (const std::uint32_t shards : {0U, 1U, 3U}) {
      if (shards > size) {
        continue;
      }
      const byte_vector bytes = noise(size, ++seed);
      const std::string tag = fmt::format("t:{}", seed);
      ASSERT_TRUE(volume.put(tag, bytes, fixed_put(shards)));
      EXPECT_TRUE(or_throw(or_throw(volume.stream(tag)).read_all()) == bytes) << tag;
      EXPECT_TRUE(or_throw(read_tag(*device, tag)) == bytes) << tag;
      EXPECT_EQ(or_throw(volume.stream(tag)).shards().size(), std::max(shards, 1U));
    }
  }
  EXPECT_EQ(or_throw(or_throw(open_on(*device)).tags()).size(), seed);
}

TEST(Hn4Volume, AnyRangeOfAStreamIsThatRangeOfTheSource) {
  constexpr std::uint64_t seed = 11;
  RecordProperty("seed", static_cast<int>(seed));
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  const byte_vector bytes = noise(700'000, seed);
  hn4_put_options options = fixed_put();
  options.shard_bytes = 90'001;
  ASSERT_TRUE(volume.put("ranges", bytes, options));
  const hn4_stream stream = or_throw(volume.stream("ranges"));
  EXPECT_EQ(stream.shards().size(), 8U);
  const philox random(seed, 2);
  for (std::uint64_t i = 0; i < 400; ++i) {
    const std::uint64_t offset = random.below(3 * i, bytes.size());
    byte_vector part(random.below(3 * i + 1, i % 4 == 0 ? 300'000 : 9000));
    const std::size_t n = or_throw(stream.read(offset, part));
    ASSERT_EQ(n, std::min<std::uint64_t>(part.size(), bytes.size() - offset));
    ASSERT_EQ(std::memcmp(part.data(), bytes.data() + offset, n), 0)
        << "seed " << seed << " case " << i;
  }
}

TEST(Hn4Volume, RangesOfAScatteredReadMayOverlapAndTheLastOneStays) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  const byte_vector bytes = noise(20'000, 5);
  ASSERT_TRUE(volume.put("t", bytes, fixed_put(3)));
  const hn4_stream stream = or_throw(volume.stream("t"));
  byte_vector to(12'000);
  const mutable_bytes all(to);
  const std::array<hn4_piece, 3> pieces{{{100, all.first(9000)},
                                         {6000, all.subspan(5000, 7000)},
                                         {6500, all.subspan(8000, 10)}}};
  ASSERT_TRUE(stream.read_scattered(pieces));
  byte_vector wanted(12'000);
  std::memcpy(wanted.data(), bytes.data() + 100, 9000);
  std::memcpy(wanted.data() + 5000, bytes.data() + 6000, 7000);
  std::memcpy(wanted.data() + 8000, bytes.data() + 6500, 10);
  EXPECT_TRUE(to == wanted);
  EXPECT_EQ(stream.read_scattered(std::array<hn4_piece, 1>{{{19'990, all.first(11)}}})
                .error()
                .code(),
            errc::out_of_range);
}

TEST(Hn4Volume, ExtentsSayWhereEveryByteLies) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  const byte_vector bytes = noise(90'000, 3);
  ASSERT_TRUE(volume.put("before", noise(9000, 1), fixed_put()));
  ASSERT_TRUE(volume.put("t", noise(20'000, 2), fixed_put()));
  ASSERT_TRUE(volume.remove("before"));
  ASSERT_TRUE(volume.put("t", bytes, fixed_put(30)));
  const auto extents = or_throw(volume.stream("t")).extents();
  EXPECT_GE(extents.size(), 2U);
  std::uint64_t total = 0, end = 0;
  for (const hn4_extent& e : extents) {
    EXPECT_GE(e.device_offset, end)
        << "extents are in the order of the device and do not overlap";
    end = e.device_offset + e.blocks * 4096;
    total += e.bytes;
    for (std::uint64_t n = 0, offset = e.offset; n < e.blocks; ++n) {
      byte_vector block(4096);
      ASSERT_TRUE(device->read(e.device_offset + n * 4096, block));
      const std::size_t stored = load_le<std::uint32_t>(&block[40]) >> 4;
      ASSERT_TRUE(std::equal(block.begin() + 48,
                             block.begin() + 48 + static_cast<std::ptrdiff_t>(stored),
                             bytes.begin() + static_cast<std::ptrdiff_t>(offset)));
      offset += stored;
    }
  }
  EXPECT_EQ(total, bytes.size());
}

TEST(Hn4Volume, ReadingAtAndPastTheEnd) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  ASSERT_TRUE(volume.put("t", noise(10, 1), fixed_put()));
  const hn4_stream stream = or_throw(volume.stream("t"));
  byte_vector part(4);
  EXPECT_EQ(or_throw(stream.read(8, part)), 2U);
  EXPECT_EQ(stream.read(10, part).error().code(), errc::out_of_range);
  EXPECT_EQ(or_throw(stream.read(10, {})), 0U);
  EXPECT_EQ(stream.read(UINT64_MAX, part).error().code(), errc::out_of_range);
}

TEST(Hn4Volume, FilesHoldVolumesToo) {
  const weir::test::temp_folder scratch;
  const std::string path = scratch / "vol.hn4";
  ASSERT_TRUE(hn4_format(path, fixed_format(4096)));
  const byte_vector bytes = noise(1'500'000, 3);
  {
    hn4_volume volume = or_throw(hn4_volume::open(path, device_mode::writable));
    ASSERT_TRUE(volume.put("prose", bytes));
    EXPECT_EQ(hn4_volume::open(path, device_mode::writable).error().code(), errc::locked);
  }
  const hn4_stream stream = or_throw(or_throw(hn4_volume::open(path)).stream("prose"));
  EXPECT_TRUE(or_throw(stream.read_all()) == bytes)
      << "the stream stays usable after its volume object has been destroyed";
  ASSERT_TRUE(
      or_throw(posix_file_system().open(path, open_mode::read_write))->resize(1 << 20));
  const auto cut = hn4_volume::open(path);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code(), errc::torn) << cut.error().message();
  byte_vector part(10);
  EXPECT_EQ(stream.read(0, part).error().code(), errc::torn)
      << "reading is refused because the file shrank";
}

TEST(Hn4Volume, ThingsThatAreNoVolumeAreNamed) {
  const weir::test::temp_folder scratch;
  EXPECT_EQ(hn4_volume::open(scratch / "none").error().code(), errc::not_found);
  EXPECT_EQ(hn4_volume::open(scratch.path()).error().code(), errc::invalid_argument);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{100}, std::size_t{9000}, std::size_t{3} << 20}) {
    ASSERT_TRUE(
        write_file_atomically(posix_file_system(), scratch / "noise", noise(size, size)));
    const auto volume = hn4_volume::open(scratch / "noise");
    ASSERT_FALSE(volume);
    EXPECT_EQ(volume.error().code(), errc::corrupt);
    EXPECT_NE(volume.error().location().find("noise:0"), std::string::npos);
  }
}

TEST(Hn4Volume, NamesOfEveryLengthWork) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  for (const std::size_t length :
       {1U, 15U, 16U, 23U, 24U, 25U, 26U, 40U, 41U, 254U, 255U}) {
    std::string tag = "m:";
    while (tag.size() < length) {
      tag += static_cast<char>('a' + tag.size() % 26);
    }
    tag.resize(length);
    const byte_vector bytes = noise(5000, length);
    ASSERT_TRUE(volume.put(tag, bytes, fixed_put(2))) << length;
    EXPECT_TRUE(or_throw(read_tag(*device, tag)) == bytes) << length;
  }
  EXPECT_EQ(or_throw(or_throw(open_on(*device)).tags()).size(), 11U);
}

TEST(Hn4Volume, TagsOfEqualMasksStayApart) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  ASSERT_EQ(hn4::tag_mask("a:b"), hn4::tag_mask("b/a"));
  ASSERT_TRUE(volume.put("a:b", noise(5000, 1), fixed_put()));
  ASSERT_TRUE(volume.put("b/a", noise(6000, 2), fixed_put()));
  EXPECT_TRUE(or_throw(read_tag(*device, "a:b")) == noise(5000, 1));
  EXPECT_TRUE(or_throw(read_tag(*device, "b/a")) == noise(6000, 2));
  const auto missing = read_tag(*device, "b:a");
  EXPECT_EQ(missing.error().code(), errc::not_found);
  EXPECT_NE(missing.error().text().find("did you mean"), std::string::npos);
}

// The reference stops after 4096 entries with a fitting filter and reads a doubled entry
// twice. The strict mode repeats both and warns.
TEST(Hn4Volume, ShardsThatTheReferenceLeavesOutOrReadsTwiceAreReported) {
  const auto device = formatted();
  {
    hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
    ASSERT_TRUE(volume.put("a:b", noise(8000, 1), fixed_put(4000)));
    ASSERT_TRUE(volume.put("c", noise(90, 3), fixed_put(1)));
  }
  hn4_stream_options strict;
  strict.strict = true;
  EXPECT_TRUE(
      or_throw(or_throw(open_on(*device)).stream("a:b", strict)).warnings().empty());
  {
    hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
    ASSERT_TRUE(volume.put("b:a", noise(600, 2), fixed_put(300)));
  }
  const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
  for (const hn4::entry& e : core->entries) {
    if (e.a.live() && hn4::inline_name(e.a) == "c") {
      byte_vector bytes(hn4::anchor_bytes);
      hn4::store_anchor(e.a, bytes);
      std::uint64_t slot = e.slot;
      while (std::any_of(core->entries.begin(), core->entries.end(),
                         [&](const hn4::entry& x) { return x.slot == slot; })) {
        ++slot;
      }
      ASSERT_TRUE(device->write(core->slot_offset(slot), bytes));
    }
  }
  const hn4_volume volume = or_throw(open_on(*device));
  const hn4_stream cut = or_throw(volume.stream("a:b", strict));
  EXPECT_LT(cut.size(), 8000U);
  ASSERT_EQ(cut.warnings().size(), 1U);
  EXPECT_NE(cut.warnings()[0].find("4096"), std::string::npos) << cut.warnings()[0];
  const hn4_stream whole = or_throw(volume.stream("a:b"));
  EXPECT_TRUE(whole.warnings().empty());
  EXPECT_TRUE(or_throw(whole.read_all()) == noise(8000, 1));
  const hn4_stream twice = or_throw(volume.stream("c", strict));
  EXPECT_EQ(twice.size(), 180U);
  ASSERT_EQ(twice.warnings().size(), 1U);
  EXPECT_NE(twice.warnings()[0].find("read twice"), std::string::npos)
      << twice.warnings()[0];
}

TEST(Hn4Volume, BadRequestsChangeNothing) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  const byte_vector bytes = noise(100, 1);
  const auto code = [&](std::string_view tag, bytes_view source, std::uint32_t shards) {
    const auto put = volume.put(tag, source, fixed_put(shards));
    return put ? errc::internal : put.error().code();
  };
  EXPECT_EQ(code("", bytes, 0), errc::invalid_argument);
  EXPECT_EQ(code(":/", bytes, 0), errc::invalid_argument);
  EXPECT_EQ(code(std::string(256, 'x'), bytes, 0), errc::invalid_argument);
  EXPECT_EQ(code(std::string_view("a\0b", 3), bytes, 0), errc::invalid_argument);
  EXPECT_EQ(code("t", {}, 0), errc::invalid_argument);
  EXPECT_EQ(code("t", bytes, 101), errc::invalid_argument);
  EXPECT_EQ(code("t", bytes, 4096), errc::invalid_argument);
  EXPECT_TRUE(or_throw(volume.tags()).empty());
  EXPECT_EQ(or_throw(open_on(*device)).put("t", bytes).error().code(),
            errc::invalid_argument);
  EXPECT_TRUE(volume.put("t", bytes, fixed_put()))
      << "the volume accepts writes after the failed one";
}

TEST(Hn4Volume, ReplacingFreesWhatWasThere) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  // The stores together are larger than the volume, and more than the 1024 directory
  // slots that a look-up visits.
  for (std::uint32_t i = 1; i <= 40; ++i) {
    const byte_vector bytes = noise(4'000'000, i);
    ASSERT_TRUE(volume.put("prose", bytes, fixed_put(1 + i % 3))) << i;
    if (i % 8 == 0) {
      EXPECT_TRUE(or_throw(read_tag(*device, "prose")) == bytes);
      const auto tags = or_throw(or_throw(open_on(*device)).tags());
      ASSERT_EQ(tags.size(), 1U);
      EXPECT_EQ(tags[0].generation, i);
      EXPECT_EQ(tags[0].bytes, bytes.size());
      EXPECT_EQ(tags[0].shards, 1 + i % 3);
    }
  }
}

TEST(Hn4Volume, AFullVolumeSaysSoAndKeepsWhatItHas) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  const byte_vector big = noise(30'000'000, 1);
  ASSERT_TRUE(volume.put("a", big, fixed_put()));
  const auto one_piece = volume.put("b", noise(45'000'000, 2), fixed_put(1));
  ASSERT_FALSE(one_piece)
      << "one shard cannot be stored, because a superblock copy lies in the way";
  EXPECT_EQ(one_piece.error().code(), errc::no_space);
  ASSERT_TRUE(volume.put("b", noise(45'000'000, 2), fixed_put()));
  EXPECT_GT(or_throw(volume.stream("b")).shards().size(), 1U);
  EXPECT_EQ(volume.put("c", noise(60'000'000, 3), fixed_put()).error().code(),
            errc::no_space);
  EXPECT_TRUE(or_throw(read_tag(*device, "a")) == big);
  EXPECT_TRUE(or_throw(read_tag(*device, "b")) == noise(45'000'000, 2));
}

// Checks that no block is used twice, none lies on the volume's own structures, and
// exactly the used ones are allocated.
TEST(Hn4Volume, TheBitmapSaysExactlyWhatIsUsed) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  for (std::uint64_t i = 0; i < 12; ++i) {
    const std::string tag =
        fmt::format("{}{}", i % 3 == 0 ? "a tag with quite a long name " : "t", i % 5);
    ASSERT_TRUE(volume.put(tag, noise(1 + 50'000 * i, i), fixed_put(i % 2 == 0 ? 0 : 1)));
  }
  const auto c = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
  hn4::block_bits want;
  want.bits.resize(c->bits->bits.size());
  hn4::reserve_metadata(c->geometry, want);
  const auto claim = [&](std::uint64_t block) {
    ASSERT_FALSE(want.test(block)) << block;
    want.set(block);
  };
  for (const hn4::entry& e : c->entries) {
    if (!e.a.live() || e.slot == 0) {
      continue;
    }
    const hn4::trajectory path(c->space, e.a);
    for (std::uint64_t n = 0; n * cap < e.a.mass; ++n) {
      claim(*path.block(n));
    }
    if (e.a.has(hn4::class_bits::extended)) {
      claim(load_le<std::uint64_t>(e.a.name.data()) / 8);
    }
  }
  EXPECT_TRUE(want.bits == c->bits->bits);
}

// Looks an identity up as the reference implementation does: from the hashed slot on,
// until an empty one.
TEST(Hn4Volume, EveryShardIsReachableFromItsHash) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  for (std::uint64_t i = 0; i < 60; ++i) {
    ASSERT_TRUE(volume.put(fmt::format("t{}", i % 20), noise(40'000, i), fixed_put(8)));
  }
  const auto c = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
  std::vector<const hn4::entry*> slots(static_cast<std::size_t>(c->slots()));
  for (const hn4::entry& e : c->entries) {
    slots[static_cast<std::size_t>(e.slot)] = &e;
  }
  std::size_t live = 0;
  for (const hn4::entry& e : c->entries) {
    std::uint64_t slot = hn4::slot_hash(e.a.seed) % c->slots();
    while (slots[static_cast<std::size_t>(slot)] != nullptr && slot != e.slot) {
      slot = (slot + 1) % c->slots();
    }
    EXPECT_EQ(slot, e.slot);
    live += e.a.live() ? 1 : 0;
  }
  EXPECT_EQ(live, 20U * 8 + 1);
}

TEST(Hn4Volume, ManyThreadsReadOneStream) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  const byte_vector bytes = noise(3'000'000, 5);
  ASSERT_TRUE(volume.put("t", bytes, fixed_put(3)));
  const hn4_stream stream = or_throw(volume.stream("t"));
  std::vector<std::thread> threads;
  std::array<bool, 4> same{};
  for (std::size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] {
      const byte_vector all = or_throw(stream.read_all());
      same[t] = all == bytes;
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_TRUE(same == (std::array<bool, 4>{true, true, true, true}));
}

}  // namespace
}  // namespace weir::storage::test
