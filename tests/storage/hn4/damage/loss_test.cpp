// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests lost directory entries: every reader fails with an error that names tag, slot
/// and shard; what is left can be read on request; storing or removing the tag ends the
/// damage.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "storage/hn4/damage/foreign.hpp"
#include "storage/hn4/support.hpp"
#include "support/temp_folder.hpp"
#include "weir/base/hash.hpp"
#include "weir/hn4.h"
#include "weir/storage/hn4_check.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::test {
namespace {

const std::string long_name = "a name that takes a block of its own";

/// Returns the options that read what is left of a damaged tag.
hn4_stream_options what_is_left() {
  hn4_stream_options options;
  options.recover = true;
  return options;
}

/// Reads the structures of a volume.
std::shared_ptr<hn4::core> mounted(block_device& device) {
  return or_throw(hn4::mount(std::make_shared<borrowed_device>(device)));
}

/// Returns the live entries of a tag in the order of the stream.
std::vector<hn4::entry> shards_of(const hn4::core& c, const std::string& tag) {
  auto live = or_throw(hn4::entries_named(c, tag)).live;
  std::sort(live.begin(), live.end(),
            [](const hn4::entry& x, const hn4::entry& y) { return x.a.seed < y.a.seed; });
  return live;
}

/// Overwrites the sector of a directory entry with zeros, its neighbours included.
void lose(block_device& device, const hn4::core& c, const hn4::entry& e) {
  or_throw(device.write(align_down(c.slot_offset(e.slot), sector_bytes),
                        byte_vector(sector_bytes)));
}

/// Returns the error of a result; the test fails if there is none.
template <class T>
error failure_of(const result<T>& r) {
  EXPECT_FALSE(r);
  return r ? error(errc::internal, "it succeeded") : r.error();
}

/// A volume with two tags, one of which a test damages.
struct damaged_volume {
  std::unique_ptr<memory_device> device = formatted_small();
  byte_vector bytes = noise(6000, 1), other = noise(2000, 2);

  explicit damaged_volume(const std::string& tag, std::uint32_t shards = 3) {
    hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
    or_throw(volume.put(tag, bytes, fixed_put(shards)));
    or_throw(volume.put("other", other, fixed_put(2)));
  }
};

/// Calls `visit` for the loss of each shard of a tag: once with a wrong bit in its entry,
/// once with its whole sector lost. The arguments are the volume, the shard, and whether
/// the sector is lost.
void for_each_loss(const std::string& tag, bool foreign,
                   const std::function<void(damaged_volume&, std::size_t, bool)>& visit) {
  for (std::size_t shard = 0; shard < 3; ++shard) {
    for (const bool whole_sector : {false, true}) {
      damaged_volume v(tag);
      if (foreign) {
        make_foreign(*v.device, tag);
      }
      const auto core = mounted(*v.device);
      const hn4::entry e = shards_of(*core, tag)[shard];
      SCOPED_TRACE(fmt::format("{} shard {} of \"{}\" in slot {}",
                               whole_sector ? "sector of" : "bit in", shard, tag,
                               e.slot));
      if (whole_sector) {
        lose(*v.device, *core, e);
        visit(v, shard, true);
      } else {
        const flipped_byte flip(*v.device, core->slot_offset(e.slot) + 0x28, 4);
        visit(v, shard, false);
      }
    }
  }
}

TEST(Hn4Loss, OfAnEntryIsAnErrorThatNamesTagSlotAndShard) {
  for (const std::string& tag : {std::string("t"), long_name}) {
    for (const bool foreign : {false, true}) {
      for_each_loss(tag, foreign, [&](damaged_volume& v, std::size_t shard, bool) {
        const error refused = failure_of(read_tag(*v.device, tag));
        EXPECT_EQ(code_of(refused), hn4_code::data_rot);
        EXPECT_NE(refused.text().find("\"" + tag + "\""), std::string::npos);
        EXPECT_NE(refused.location().find("directory slot "), std::string::npos);
        EXPECT_NE(refused.text().find("directory slot "), std::string::npos)
            << refused.text();
        EXPECT_NE(refused.hint().find("--recover"), std::string::npos);
        const std::string number = fmt::format("shard {}", shard);
        EXPECT_TRUE(foreign || refused.text().find(number) != std::string::npos)
            << refused.text();
      });
    }
  }
}

TEST(Hn4Loss, NamesTheSlotWhereTheEntryWas) {
  damaged_volume v("t");
  const auto core = mounted(*v.device);
  for (const hn4::entry& e : shards_of(*core, "t")) {
    const auto copy = v.device->clone();
    or_throw(copy->write(core->slot_offset(e.slot), byte_vector(hn4::anchor_bytes)));
    const error refused = failure_of(read_tag(*copy, "t"));
    EXPECT_NE(refused.location().find(fmt::format("directory slot {})", e.slot)),
              std::string::npos)
        << refused.message();
  }
}

TEST(Hn4Loss, WhatIsLeftCanBeReadAndWhatIsMissingIsListed) {
  for (const bool foreign : {false, true}) {
    for_each_loss("t", foreign, [&](damaged_volume& v, std::size_t shard, bool) {
      const hn4_volume volume = or_throw(open_on(*v.device));
      const hn4_stream stream = or_throw(volume.stream("t", what_is_left()));
      byte_vector rest = v.bytes;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(2000 * shard),
                 rest.begin() + static_cast<std::ptrdiff_t>(2000 * (shard + 1)));
      EXPECT_TRUE(or_throw(stream.read_all()) == rest);
      ASSERT_EQ(stream.warnings().size(), 1U);
      EXPECT_NE(stream.warnings()[0].find("missing"), std::string::npos);
      const std::string place = fmt::format("(at byte {} of the stream)", 2000 * shard);
      EXPECT_TRUE(foreign || stream.warnings()[0].find(place) != std::string::npos)
          << stream.warnings()[0];
    });
  }
}

TEST(Hn4Loss, TheStrictModeLeavesTheShardOutAsTheReferenceDoes) {
  for_each_loss("t", true, [](damaged_volume& v, std::size_t, bool) {
    hn4_stream_options strict;
    strict.strict = true;
    EXPECT_EQ(or_throw(read_tag(*v.device, "t", strict)).size(), 4000U);
  });
}

TEST(Hn4Loss, ATagThatIsNotWholeIsNotListedButNamed) {
  for_each_loss("t", false, [](damaged_volume& v, std::size_t, bool) {
    const hn4_volume volume = or_throw(open_on(*v.device));
    const auto damaged = or_throw(volume.damaged_tags());
    for (const hn4_tag& tag : or_throw(volume.tags())) {
      EXPECT_EQ(tag.name, "other");
    }
    ASSERT_GE(damaged.size(), 1U);
    EXPECT_EQ(damaged.back().name, "t");
    const auto report = checked(*v.device);
    EXPECT_EQ(report.tags, or_throw(volume.tags()).size());
    EXPECT_TRUE(std::any_of(report.lost.begin(), report.lost.end(),
                            [](const auto& l) { return l.tag == "t"; }));
    EXPECT_NE(all_of(report.findings).find("tag \"t\""), std::string::npos);
  });
}

// No entry bears the name any more, but blocks or the long name of the tag are allocated.
TEST(Hn4Loss, ATagThatLostAllEntriesIsNotMerelyAbsent) {
  for (const std::string& tag : {std::string("t"), long_name}) {
    for (const bool foreign : {false, true}) {
      damaged_volume v(tag, 1);
      if (foreign) {
        make_foreign(*v.device, tag);
      }
      const auto core = mounted(*v.device);
      const hn4::entry e = shards_of(*core, tag).front();
      or_throw(
          v.device->write(core->slot_offset(e.slot), byte_vector(hn4::anchor_bytes)));
      const error refused = failure_of(read_tag(*v.device, tag));
      EXPECT_EQ(code_of(refused), hn4_code::data_rot) << refused.message();
      EXPECT_FALSE(checked(*v.device).findings.empty());
      EXPECT_TRUE(or_throw(read_tag(*v.device, "other")) == v.other)
          << "all numbered shards of the other tag are there";
    }
  }
  damaged_volume v("t", 1);
  EXPECT_EQ(failure_of(read_tag(*v.device, "nobody")).code(), errc::not_found);
}

// The filter of a name is no checksum: a damaged name may have the same filter.
TEST(Hn4Loss, ADamagedNameThatStillAgreesWithItsFilterIsNotBelieved) {
  std::string tag;
  std::size_t index = 0;
  for (int i = 0; tag.empty(); ++i) {
    const std::string name = fmt::format("part{}/of:many", i);
    for (std::size_t k = 4; k < name.size(); ++k) {
      std::string other = name;
      other[k] = static_cast<char>(other[k] ^ 1);
      if (hn4::tag_mask(other) == hn4::tag_mask(name)) {
        tag = name;
        index = k;
      }
    }
  }
  damaged_volume v(tag);
  make_foreign(*v.device, tag);
  const auto core = mounted(*v.device);
  const hn4::entry e = shards_of(*core, tag)[1];
  const flipped_byte flip(*v.device, core->slot_offset(e.slot) + 0x68 + index, 1);
  EXPECT_EQ(code_of(failure_of(read_tag(*v.device, tag))), hn4_code::data_rot);
}

TEST(Hn4Loss, EndsWhenTheTagIsStoredAgain) {
  const byte_vector again = noise(9000, 4);
  for (const std::string& tag : {std::string("t"), long_name}) {
    for_each_loss(tag, false, [&](damaged_volume& v, std::size_t, bool whole_sector) {
      {
        hn4_volume volume = or_throw(open_on(*v.device, device_mode::writable));
        hn4_put_options put = fixed_put(2);
        put.existing = hn4_existing::refuse;
        EXPECT_EQ(code_of(failure_of(volume.put(tag, again, put))), hn4_code::exists);
        put.existing = hn4_existing::append;
        EXPECT_EQ(code_of(failure_of(volume.put(tag, again, put))), hn4_code::data_rot);
        put.existing = hn4_existing::replace;
        ASSERT_TRUE(volume.put(tag, again, put));
        if (whole_sector) {  // "other" may have had an entry in it, and the root
          ASSERT_TRUE(volume.put("other", again, put));
        }
      }
      EXPECT_TRUE(or_throw(read_tag(*v.device, tag)) == again);
      { or_throw(or_throw(open_on(*v.device, device_mode::writable)).compact()); }
      auto findings = checked(*v.device).findings;
      std::erase_if(findings, [](const hn4_finding& f) { return f.kind == "root"; });
      EXPECT_TRUE(findings.empty()) << all_of(findings);
    });
  }
}

TEST(Hn4Loss, EndsWhenTheTagIsRemoved) {
  for (const std::string& tag : {std::string("t"), long_name}) {
    for_each_loss(tag, false, [&](damaged_volume& v, std::size_t, bool whole_sector) {
      {
        hn4_volume volume = or_throw(open_on(*v.device, device_mode::writable));
        ASSERT_TRUE(volume.remove(tag));
        if (whole_sector) {
          (void)volume.remove("other");
        }
      }
      EXPECT_EQ(failure_of(read_tag(*v.device, tag)).code(), errc::not_found);
      { or_throw(or_throw(open_on(*v.device, device_mode::writable)).compact()); }
      auto findings = checked(*v.device).findings;
      std::erase_if(findings, [](const hn4_finding& f) { return f.kind == "root"; });
      EXPECT_TRUE(findings.empty()) << all_of(findings);
    });
  }
}

TEST(Hn4Loss, EndsInADirectoryOfWhichEverySlotWasUsed) {
  damaged_volume v("t");
  const auto core = mounted(*v.device);
  const hn4::entry lost = shards_of(*core, "t")[1];
  std::set<std::uint64_t> used;
  for (const hn4::entry& e : core->entries) {
    used.insert(e.slot);
  }
  used.erase(lost.slot);
  // What a removed shard leaves, in every slot that is free.
  std::array<std::byte, hn4::anchor_bytes> bytes{};
  for (std::uint64_t slot = 0; slot < core->slots(); ++slot) {
    if (!used.contains(slot)) {
      hn4::anchor a = hn4::as_tombstone(lost.a);
      a.seed = {slot + 1, 7};
      hn4::store_anchor(a, bytes);
      or_throw(v.device->write(core->slot_offset(slot), bytes));
    }
  }
  {
    hn4_volume volume = or_throw(open_on(*v.device, device_mode::writable));
    const auto removed = volume.remove("t");
    ASSERT_TRUE(removed) << removed.error().message();
  }
  EXPECT_EQ(failure_of(read_tag(*v.device, "t")).code(), errc::not_found);
  EXPECT_TRUE(or_throw(read_tag(*v.device, "other")) == v.other);
}

// All blocks are allocated, and every entry says that its shard is as long as the volume
// or longer.
TEST(Hn4Loss, IsSearchedForInBoundedTimeWhateverLengthsTheEntriesHave) {
  memory_device device(std::uint64_t{16} << 20, "vol.img");
  hn4_format_options options = fixed_format();
  options.profile = hn4_profile::pico;
  or_throw(hn4_format(device, options));
  const byte_vector text = noise(2000, 2);
  {
    hn4_volume volume = or_throw(open_on(device, device_mode::writable));
    or_throw(volume.put("t", text, fixed_put(1)));
    or_throw(volume.put("other", text, fixed_put(2)));
  }
  const auto core = mounted(device);
  const hn4_geometry& g = core->geometry;
  hn4::block_bits all = *core->bits;
  all.set_range(0, g.blocks);
  or_throw(device.write(
      g.bitmap, hn4::to_armored(all, static_cast<std::size_t>(g.qmask - g.bitmap))));
  std::set<std::uint64_t> used;
  for (const hn4::entry& e : core->entries) {
    used.insert(e.slot);
  }
  std::array<std::byte, hn4::anchor_bytes> bytes{};
  for (std::uint64_t slot = 0; slot < core->slots(); ++slot) {
    if (!used.contains(slot)) {
      hn4::anchor a = shards_of(*core, "t")[0].a;
      a.seed = {slot + 1, 7};
      a.mass = slot % 4 == 0 ? UINT64_MAX - slot : g.blocks * g.payload;
      hn4::store_anchor(a, bytes);
      or_throw(device.write(core->slot_offset(slot), bytes));
    }
  }
  const auto crafted = mounted(device);
  ASSERT_EQ(crafted->entries.size(), core->slots());
  const std::uint64_t bound = 2 * g.blocks + 1024 * (core->slots() + 1);
  ASSERT_LT(bound, core->slots() * g.blocks / 2) << "both numbers multiplied";
  EXPECT_LE(or_throw(crafted->loss_traces())->claims, bound);
  EXPECT_TRUE(or_throw(read_tag(device, "other")) == text);
}

// Blocks of a lost shard stay allocated until the tag is stored again or removed.
TEST(Hn4Loss, DoesNotFreeTheBlocksOfTheShard) {
  damaged_volume v("t", 1);
  const auto core = mounted(*v.device);
  const hn4::entry e = shards_of(*core, "t").front();
  byte_vector entry_before(hn4::anchor_bytes);
  or_throw(v.device->read(core->slot_offset(e.slot), entry_before));
  or_throw(v.device->write(core->slot_offset(e.slot), byte_vector(hn4::anchor_bytes)));
  {
    hn4_volume volume = or_throw(open_on(*v.device, device_mode::writable));
    while (volume.put(fmt::format("more {}", or_throw(volume.tags()).size()),
                      noise(90'000, 3), fixed_put(1))) {
    }
  }
  const auto used = mounted(*v.device);
  if (used->slot_offset(e.slot) != 0) {
    or_throw(v.device->write(core->slot_offset(e.slot), entry_before));
  }
  EXPECT_TRUE(or_throw(read_tag(*v.device, "t")) == v.bytes)
      << "the entry is back, and its blocks were not overwritten";
}

// The entry is lost before the index is written, so the index must not present the tag as
// whole.
TEST(Hn4Loss, IsNotHiddenByAnIndex) {
  const weir::test::temp_folder scratch;
  const std::string path = scratch / "v";
  or_throw(hn4_format(path, fixed_format()));
  {
    hn4_volume volume = or_throw(hn4_volume::open(path, device_mode::writable));
    or_throw(volume.put("t", noise(20'000, 1), fixed_put(3)));
  }
  {
    const auto device = or_throw(open_file_device(path, device_mode::writable));
    make_foreign(*device, "t");
    const auto core = mounted(*device);
    or_throw(device->write(core->slot_offset(shards_of(*core, "t")[1].slot),
                           byte_vector(hn4::anchor_bytes)));
  }
  {
    hn4_volume volume = or_throw(hn4_volume::open(path, device_mode::writable));
    or_throw(volume.put("other", noise(500, 2), fixed_put()));
    or_throw(volume.write_index());
  }
  ASSERT_TRUE(std::filesystem::exists(path + ".index"));
  const hn4_volume volume = or_throw(hn4_volume::open(path));
  EXPECT_TRUE(volume.stream("other"));
  EXPECT_EQ(code_of(failure_of(volume.stream("t"))), hn4_code::data_rot);
}

TEST(Hn4Loss, HasTheSameThreeAnswersInC) {
  const weir::test::temp_folder scratch;
  const std::string path = scratch / "v";
  or_throw(hn4_format(path, fixed_format()));
  {
    hn4_volume volume = or_throw(hn4_volume::open(path, device_mode::writable));
    or_throw(volume.put("t", noise(9000, 1), fixed_put(3)));
  }
  {
    const auto device = or_throw(open_file_device(path, device_mode::writable));
    const auto core = mounted(*device);
    or_throw(device->write(core->slot_offset(shards_of(*core, "t")[2].slot),
                           byte_vector(hn4::anchor_bytes)));
  }
  const struct {
    std::uint32_t flags;
    hn4_result_t code;
    std::uint64_t size;
  } cases[] = {{0, HN4_ERR_DATA_ROT, 0},
               {HN4_VOLUME_RECOVER, HN4_OK, 6000},
               {HN4_VOLUME_STRICT, HN4_OK, 6000}};
  for (const auto& c : cases) {
    hn4_volume_t* volume = nullptr;
    ASSERT_EQ(hn4_volume_open(path.c_str(), c.flags, &volume), HN4_OK);
    hn4_tensor_ctx_t* tensor = nullptr;
    EXPECT_EQ(hn4_tensor_open(volume, "t", &tensor), c.code) << c.flags;
    EXPECT_EQ(hn4_tensor_size(tensor), c.size) << c.flags;
    hn4_tensor_close(tensor);
    EXPECT_EQ(hn4_volume_close(volume), HN4_OK);
  }
}

TEST(Hn4Loss, LeavesATagWhereItIsWhenTheOthersMoveTogether) {
  auto device = formatted_small();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  for (const char* tag : {"gap", "broken", "lost", "moves"}) {
    or_throw(volume.put(tag, noise(30'000, 1), fixed_put(2)));
  }
  or_throw(volume.remove("gap"));
  const auto core = mounted(*device);
  const std::uint64_t block =
      *hn4::trajectory(core->space, shards_of(*core, "broken")[1].a).block(3);
  const flipped_byte rot(*device, block * core->geometry.block + 100, 1);
  const flipped_byte bit(*device,
                         core->slot_offset(shards_of(*core, "lost")[0].slot) + 0x20, 1);
  hn4_volume again = or_throw(open_on(*device, device_mode::writable));
  const hn4_compaction done = or_throw(again.compact());
  EXPECT_EQ(done.moves, 1U);
  ASSERT_EQ(done.left.size(), 2U);
  EXPECT_EQ(done.left[0].name, "lost");
  EXPECT_EQ(done.left[1].name, "broken");
  EXPECT_TRUE(or_throw(read_tag(*device, "moves")) == noise(30'000, 1));
  EXPECT_EQ(code_of(failure_of(read_tag(*device, "broken"))), hn4_code::payload_rot);
  EXPECT_EQ(or_throw(read_tag(*device, "lost", what_is_left())).size(), 15'000U);
}

}  // namespace
}  // namespace weir::storage::test
