// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests volumes of every profile: the rules for writers in section 8 of the format,
/// round trips, appending, removing, compacting and compressing.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
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

constexpr std::uint64_t mib = std::uint64_t{1} << 20, gib = mib << 10, tib = gib << 10;

/// A profile with a capacity, a sector size and a medium.
struct kind {
  hn4_profile profile;
  std::uint64_t capacity;
  std::uint32_t sector;
  hn4_medium medium = hn4_medium::ssd;
};

/// Returns the kinds of volumes that are tested.
const std::vector<kind>& kinds() {
  static const std::vector<kind> all{
      {hn4_profile::generic, 128 * mib, 512},
      {hn4_profile::generic, 128 * mib + 4096, 4096, hn4_medium::rotational},
      {hn4_profile::gaming, gib, 512},
      {hn4_profile::gaming, gib, 4096},
      {hn4_profile::ai, tib, 4096},
      {hn4_profile::ai, tib, 512, hn4_medium::rotational},
      {hn4_profile::archive, 10 * gib, 4096},
      {hn4_profile::pico, 2 * mib, 512},
      {hn4_profile::pico, 64 * mib, 512},
      {hn4_profile::system, 128 * mib, 512},
      {hn4_profile::usb, 128 * mib, 4096},
      {hn4_profile::hyper_cloud, 100 * gib, 512},
      {hn4_profile::generic, tib, 4096}};
  return all;
}

/// Makes a volume in a file and returns its path.
std::string made(const weir::test::temp_folder& scratch, const kind& k) {
  const std::string path = scratch / "v.hn4";
  hn4_format_options options = fixed_format(k.sector);
  options.profile = k.profile;
  options.capacity = k.capacity;
  options.medium = k.medium;
  options.overwrite = true;
  or_throw(hn4_format(path, options));
  return path;
}

/// Opens the file of a volume for reading.
std::unique_ptr<block_device> opened(const std::string& path) {
  return or_throw(open_file_device(path, device_mode::read_only));
}

/// Returns the options that read exactly as the reference implementation does.
hn4_stream_options strict_stream() {
  hn4_stream_options options;
  options.strict = true;
  return options;
}

/// Expects that a check of a volume finds nothing.
void expect_clean(const std::string& path) {
  const auto report = or_throw(hn4_check(opened(path)));
  for (const hn4_finding& f : report.findings) {
    ADD_FAILURE() << f.kind << " " << f.offset << ": " << f.text;
  }
}

/// Makes bytes of any size quickly, by repeating noise.
byte_vector repeated_noise(std::size_t size, std::uint64_t seed) {
  byte_vector bytes = noise(std::min<std::size_t>(size, mib - 1), seed);
  bytes.reserve(size);
  while (bytes.size() < size) {
    const std::size_t more = std::min(bytes.size(), size - bytes.size());
    bytes.resize(bytes.size() + more);
    std::memcpy(bytes.data() + bytes.size() - more, bytes.data(), more);
  }
  return bytes;
}

class Hn4EveryProfile : public testing::TestWithParam<std::size_t> {};

TEST_P(Hn4EveryProfile, RoundTripsAndIsClean) {
  const weir::test::temp_folder scratch;
  const kind& k = kinds()[GetParam()];
  SCOPED_TRACE(fmt::format("{} {} {}", name_of(k.profile), k.capacity, k.sector));
  const std::string path = made(scratch, k);
  std::vector<std::pair<std::string, byte_vector>> stored;
  {
    hn4_volume volume = or_throw(hn4_volume::open(path, device_mode::writable));
    EXPECT_TRUE(volume.warnings().empty());
    const std::size_t cap = volume.geometry().payload;
    for (const std::size_t size : {std::size_t{1}, cap - 1, cap, cap + 1}) {
      if (cap > mib && size != 1 && size != cap + 1) {
        continue;
      }
      hn4_put_options put = fixed_put(size > 1 ? 2 : 1);
      put.compress = size == cap;
      byte_vector bytes = repeated_noise(size, size);
      const std::string tag = fmt::format("t:{}:{}", k.sector, size);
      ASSERT_TRUE(volume.put(tag, bytes, put)) << tag;
      stored.emplace_back(tag, std::move(bytes));
    }
  }
  const hn4_volume volume = or_throw(hn4_volume::open(path));
  const hn4_volume strict = or_throw(hn4_volume::open_strictly(opened(path)));
  for (const auto& [tag, bytes] : stored) {
    EXPECT_TRUE(or_throw(or_throw(volume.stream(tag)).read_all()) == bytes) << tag;
    EXPECT_TRUE(or_throw(or_throw(strict.stream(tag)).read_all()) == bytes) << tag;
    EXPECT_TRUE(or_throw(volume.stream(tag)).recoveries().empty());
  }
  expect_clean(path);
}
INSTANTIATE_TEST_SUITE_P(Kinds, Hn4EveryProfile,
                         testing::Range(std::size_t{0}, kinds().size()),
                         [](const auto& each) {
                           const kind& k = kinds()[each.param];
                           return fmt::format("{}_{}_{}", name_of(k.profile),
                                              k.capacity / mib, k.sector);
                         });

// Checks section 8 of the format, item by item, on the bytes of a volume.
TEST(Hn4Writer, AVolumeHoldsWhatTheReferenceLooksFor) {
  const weir::test::temp_folder scratch;
  for (const kind& k : kinds()) {
    SCOPED_TRACE(fmt::format("{} {}", name_of(k.profile), k.capacity));
    const std::string path = made(scratch, k);
    const auto device = opened(path);
    EXPECT_EQ(device->size(), k.capacity);
    byte_vector sb(8192);
    ASSERT_TRUE(device->read(0, sb));
    const auto word = [&](std::size_t offset) {
      return load_le<std::uint64_t>(&sb[offset]);
    };
    const auto half = [&](std::size_t offset) {
      return load_le<std::uint32_t>(&sb[offset]);
    };
    const hn4_geometry g = or_throw(hn4::lay_out(k.profile, k.capacity, k.sector));
    EXPECT_EQ(half(0x08), 0x00060006U);
    EXPECT_EQ(half(0x0C), g.block);
    EXPECT_NE(word(0x10) | word(0x18), 0U);
    EXPECT_EQ(word(0x18) & 0xF000U, 0x7000U);
    EXPECT_EQ(word(0x18) >> 62, 2U);
    EXPECT_EQ(word(0x20) * k.sector, g.epoch);
    EXPECT_EQ(word(0x28), k.capacity);
    EXPECT_EQ(word(0x48), word(0x50));
    EXPECT_EQ(word(0x60), 1U);
    EXPECT_EQ(word(0x68), g.epoch / g.block);
    EXPECT_EQ(word(0x70), 1U);
    EXPECT_EQ(half(0x88), 0x2001U);
    EXPECT_EQ(word(0x94) | word(0x9C) | word(0xA4) | word(0xAC), 0U);
    EXPECT_EQ(word(0xB4), word(0xF8));
    EXPECT_EQ(word(0xBC), word(0xC4));
    EXPECT_EQ(half(0xCC), 0x11223344U);
    EXPECT_EQ(half(0xF0), static_cast<std::uint32_t>(k.profile));
    const bool tape = k.profile == hn4_profile::archive;
    EXPECT_EQ(half(0xF4), tape ? 3U : static_cast<std::uint32_t>(k.medium));
    EXPECT_EQ(word(0x100), 0xEFBEADDEU);
    EXPECT_EQ(word(0x110), 0U);
    EXPECT_EQ(half(0x1FFC), crc32(0, bytes_view(sb).first(0x1FFC)));
    const hn4::copy_places places = hn4::places_of_copies(k.capacity, g.block);
    byte_vector copy(8192);
    for (const std::uint64_t offset : {places.east, places.west, places.south}) {
      ASSERT_TRUE(device->read(offset, copy));
      EXPECT_TRUE(copy == sb) << offset;
    }
    std::array<std::byte, 64> quality{};
    ASSERT_TRUE(device->read(g.flux - 64, quality));
    EXPECT_EQ(quality[0], std::byte{0xAA});
    EXPECT_EQ(quality[63], std::byte{0xAA});
  }
}

TEST(Hn4Writer, LimitsOfProfilesAreKept) {
  const weir::test::temp_folder scratch;
  const auto code = [&](hn4_profile profile, std::uint64_t capacity,
                        std::uint32_t sector) {
    hn4_format_options options = fixed_format(sector);
    options.profile = profile;
    options.capacity = capacity;
    const auto done = hn4_format(scratch / "x", options);
    return done ? hn4_code::ok : code_of(done.error());
  };
  for (std::uint32_t i = 0; i < 8; ++i) {
    const auto profile = static_cast<hn4_profile>(i);
    const hn4_limits limits = limits_of(profile);
    EXPECT_EQ(code(profile, limits.min - 512, 512), hn4_code::invalid_argument);
    EXPECT_EQ(code(profile, limits.max + 1, 512), hn4_code::invalid_argument);
    EXPECT_EQ(code(profile, limits.min + 1, 512), hn4_code::invalid_argument);
  }
  EXPECT_EQ(code(hn4_profile::pico, 4 * mib, 4096), hn4_code::invalid_argument);
  EXPECT_EQ(code(hn4_profile::generic, 128 * mib + 512, 4096),
            hn4_code::invalid_argument);
  EXPECT_EQ(or_throw(hn4_profile_named("hyper_cloud")), hn4_profile::hyper_cloud);
  EXPECT_EQ(or_throw(hn4_profile_named("AI")), hn4_profile::ai);
  EXPECT_EQ(hn4_profile_named("gamming").error().code(), errc::unknown_key);
}

TEST(Hn4Writer, AppendedBytesFollowInBothOrders) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  byte_vector whole;
  for (std::uint64_t i = 0; i < 5; ++i) {
    hn4_put_options put = fixed_put(static_cast<std::uint32_t>(1 + i % 3));
    put.existing = hn4_existing::append;
    // A clock that runs backwards must not matter.
    put.time_ns =
        1'700'000'000'000'000'000 - static_cast<std::int64_t>(i) * 1'000'000'000;
    const byte_vector part = noise(5000 + i * 3000, i);
    ASSERT_TRUE(volume.put("log", part, put)) << i;
    append(whole, part);
    EXPECT_TRUE(or_throw(read_tag(*device, "log")) == whole) << i;
    EXPECT_TRUE(or_throw(read_tag(*device, "log", strict_stream())) == whole) << i;
    EXPECT_TRUE(or_throw(or_throw(open_on(*device)).stream("log")).warnings().empty());
  }
  const byte_vector fresh = noise(777, 9);
  ASSERT_TRUE(volume.put("log", fresh, fixed_put()));
  EXPECT_TRUE(or_throw(read_tag(*device, "log")) == fresh);
  hn4_put_options refuse = fixed_put();
  refuse.existing = hn4_existing::refuse;
  const auto refused = volume.put("log", fresh, refuse);
  EXPECT_EQ(code_of(refused.error()), hn4_code::exists);
  EXPECT_TRUE(volume.put("other", fresh, refuse));
}

TEST(Hn4Writer, ATagOfAsManyShardsAsItMayHaveIsNotAppendedTo) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  ASSERT_TRUE(volume.put("a", noise(4095, 1), fixed_put(4095)));
  hn4_put_options put = fixed_put(0);
  put.existing = hn4_existing::append;
  const auto refused = volume.put("a", noise(3, 2), put);
  ASSERT_FALSE(refused);
  EXPECT_EQ(code_of(refused.error()), hn4_code::tag_overflow);
  EXPECT_NE(refused.error().text().find("at most 4095 shards, found 3 bytes"),
            std::string::npos)
      << refused.error().text();
}

TEST(Hn4Writer, ALostAppendedShardIsMissed) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  ASSERT_TRUE(volume.put("log", noise(5000, 1), fixed_put(1)));
  hn4_put_options put = fixed_put(2);
  put.existing = hn4_existing::append;
  ASSERT_TRUE(volume.put("log", noise(9000, 2), put));
  const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
  for (const hn4::entry& e : core->entries) {
    if (e.slot != 0) {
      const auto copy = device->clone();
      ASSERT_TRUE(copy->write(core->slot_offset(e.slot), byte_vector(128)));
      EXPECT_FALSE(read_tag(*copy, "log")) << e.slot;
    }
  }
}

TEST(Hn4Writer, RemovedTagsAreGoneAndTheirSpaceIsFree) {
  const auto device = formatted();
  for (std::uint64_t i = 0; i < 6; ++i) {
    hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
    ASSERT_TRUE(volume.put("big", noise(50'000'000, i), fixed_put(3))) << i;
    ASSERT_TRUE(volume.put("small", noise(500, i), fixed_put()));
    ASSERT_TRUE(volume.remove("big"));
    EXPECT_EQ(volume.remove("big").error().code(), errc::not_found);
    EXPECT_EQ(read_tag(*device, "big").error().code(), errc::not_found);
    EXPECT_EQ(read_tag(*device, "big", strict_stream()).error().code(), errc::not_found);
    EXPECT_TRUE(or_throw(read_tag(*device, "small")) == noise(500, i));
    EXPECT_EQ(or_throw(volume.tags()).size(), 1U);
  }
  EXPECT_TRUE(
      or_throw(hn4_check(std::make_unique<borrowed_device>(*device))).findings.empty());
}

/// Returns the byte behind the last one that belongs to a shard, to the precision of the
/// map.
std::uint64_t end_of_shards(block_device& device) {
  const auto report = or_throw(hn4_check(std::make_unique<borrowed_device>(device)));
  const auto last = std::find(report.map.rbegin(), report.map.rend(), hn4_use::data);
  return static_cast<std::uint64_t>(report.map.rend() - last) * report.cell_blocks * 4096;
}

TEST(Hn4Writer, CompactingMovesTagsTogether) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  for (std::uint64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(volume.put(fmt::format("t{}", i), noise(5'000'000, i), fixed_put()));
  }
  for (std::uint64_t i = 0; i < 6; i += 2) {
    ASSERT_TRUE(volume.remove(fmt::format("t{}", i)));
  }
  const std::uint64_t before = end_of_shards(*device);
  EXPECT_EQ(or_throw(volume.compact()).moves, 3U);
  EXPECT_EQ(or_throw(volume.compact()).moves, 0U)
      << "compacting a compact volume moves nothing";
  EXPECT_LT(end_of_shards(*device) + 10'000'000, before);
  for (std::uint64_t i = 1; i < 6; i += 2) {
    EXPECT_TRUE(or_throw(read_tag(*device, fmt::format("t{}", i))) ==
                noise(5'000'000, i));
  }
}

// Makes what a store leaves that was never finished: allocated blocks that belong to
// nothing.
TEST(Hn4Writer, CompactingFindsSpaceThatIsMarkedInVain) {
  const auto device = formatted();
  byte_vector marks;
  std::uint64_t bitmap = 0;
  {
    hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
    ASSERT_TRUE(volume.put("t0", noise(5'000'000, 0), fixed_put()));
    ASSERT_TRUE(volume.put("t1", noise(5'000'000, 1), fixed_put()));
    const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
    bitmap = core->geometry.bitmap;
    marks.resize(static_cast<std::size_t>(core->geometry.qmask - bitmap));
    ASSERT_TRUE(device->read(bitmap, marks));
    ASSERT_TRUE(volume.remove("t0"));
  }
  ASSERT_TRUE(device->write(bitmap, marks));
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  EXPECT_EQ(or_throw(volume.compact()).moves, 1U);
  EXPECT_TRUE(or_throw(read_tag(*device, "t1")) == noise(5'000'000, 1));
  EXPECT_TRUE(
      or_throw(hn4_check(std::make_unique<borrowed_device>(*device))).findings.empty());
}

/// A device that counts the bytes that are read through it.
class counting_device : public borrowed_device {
 public:
  counting_device(block_device& to, std::uint64_t& count)
      : borrowed_device(to), count_(count) {}
  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    count_ += to.size();
    return borrowed_device::read(offset, to);
  }

 private:
  std::uint64_t& count_;
};

TEST(Hn4Writer, CompactingDoesNotReadWhatCannotMove) {
  const auto device = formatted();
  std::uint64_t read = 0;
  hn4_volume volume = or_throw(hn4_volume::open(
      std::make_unique<counting_device>(*device, read), device_mode::writable));
  for (std::uint64_t i = 0; i < 3; ++i) {
    const std::size_t size = i == 1 ? 100'000 : 20'000'000;
    ASSERT_TRUE(volume.put(fmt::format("t{}", i), noise(size, i), fixed_put()));
  }
  ASSERT_TRUE(volume.remove("t1"));
  read = 0;
  EXPECT_EQ(or_throw(volume.compact()).moves, 0U);
  EXPECT_LT(read, 10'000'000U) << "t2 is larger than the gap, so it must not be read";
}

TEST(Hn4Writer, ExtentsOfAnImpossibleLengthEndWithTheVolume) {
  const auto device = formatted();
  {
    hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
    ASSERT_TRUE(volume.put("t", noise(10'000, 1), fixed_put()));
  }
  const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
  hn4::anchor a = core->entries.back().a;
  a.mass = 3 * core->geometry.capacity;
  std::array<std::byte, hn4::anchor_bytes> bytes{};
  hn4::store_anchor(a, bytes);
  ASSERT_TRUE(device->write(core->slot_offset(core->entries.back().slot), bytes));
  const hn4_volume volume =
      or_throw(hn4_volume::open_strictly(std::make_unique<borrowed_device>(*device)));
  std::uint64_t blocks = 0;
  for (const hn4_extent& e : or_throw(volume.stream("t")).extents()) {
    blocks += e.blocks;
  }
  EXPECT_LE(blocks, core->geometry.blocks);
}

/// Returns bytes with runs, slopes, sparse words and texts, which compress, and some
/// noise.
byte_vector compressible(std::size_t size, std::uint64_t seed) {
  const philox random(seed, 3);
  byte_vector bytes;
  for (std::uint64_t i = 0; bytes.size() < size; ++i) {
    const std::uint64_t n = 1 + random.below(4 * i, 300);
    const auto value = static_cast<unsigned>(random.below(4 * i + 1, 256));
    switch (random.below(4 * i + 2, 6)) {
      case 0: bytes.insert(bytes.end(), n, static_cast<std::byte>(value)); break;
      case 1:
        for (unsigned k = 0; k < n % 60; ++k) {
          bytes.push_back(static_cast<std::byte>(value + 3 * k));
        }
        break;
      case 2:
        for (std::uint64_t k = 0; k < n; ++k) {
          bytes.push_back(k % 12 < 4 ? static_cast<std::byte>(value + k) : std::byte{0});
        }
        break;
      case 3: append(bytes, as_view("{\"name\":\"value\"} uint64_t timestamp")); break;
      case 4: bytes.insert(bytes.end(), 4 * (n % 8), std::byte{0}); break;
      default: append(bytes, noise(n % 40, i + seed)); break;
    }
  }
  bytes.resize(size);
  return bytes;
}

TEST(Hn4Compression, WhatIsPackedUnpacksToTheSame) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const byte_vector bytes = compressible(1 + seed * 37, seed);
    byte_vector packed(2 * bytes.size() + 64), out(bytes.size());
    const auto n = hn4::tcc_encode(bytes, packed);
    ASSERT_TRUE(n) << "seed " << seed;
    packed.resize(*n);
    const auto got = hn4::tcc_decode(packed, out);
    ASSERT_TRUE(got) << "seed " << seed;
    ASSERT_EQ(*got, bytes.size()) << "seed " << seed;
    ASSERT_TRUE(out == bytes) << "seed " << seed;
    byte_vector small(*n - 1);
    EXPECT_FALSE(hn4::tcc_encode(bytes, small));
  }
}

TEST(Hn4Compression, EveryKindOfTokenShortensItsKindOfData) {
  const auto packed = [](const byte_vector& bytes) {
    byte_vector to(bytes.size() + 64);
    return hn4::tcc_encode(bytes, to).value();
  };
  byte_vector gradient(200), sparse(4000);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<std::byte>(i);
  }
  for (std::size_t i = 0; i < sparse.size(); i += 16) {
    sparse[i + 4] = static_cast<std::byte>(i * 7 + 1);
  }
  EXPECT_LE(packed(byte_vector(4000, std::byte{7})), 20U);
  EXPECT_LE(packed(gradient), 8U);
  EXPECT_LE(packed(sparse), sparse.size() / 3);
  const std::string text = "https://localhost created_at updated_at undefined";
  const bytes_view view = as_view(text);
  EXPECT_LE(packed(byte_vector(view.begin(), view.end())), 24U);
}

TEST(Hn4Compression, BlocksAreCompressedWhereThatIsShorter) {
  const auto device = formatted();
  hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
  hn4_put_options put = fixed_put(2);
  put.compress = true;
  byte_vector bytes = compressible(60'000, 1);
  append(bytes, noise(60'000, 2));
  ASSERT_TRUE(volume.put("mixed", bytes, put));
  EXPECT_TRUE(or_throw(read_tag(*device, "mixed")) == bytes);
  EXPECT_TRUE(or_throw(read_tag(*device, "mixed", strict_stream())) == bytes);
  const auto report = or_throw(hn4_check(std::make_unique<borrowed_device>(*device)));
  EXPECT_TRUE(report.findings.empty());
  EXPECT_GE(report.compressed, 10U);
  EXPECT_LT(report.compressed, report.blocks);
}

TEST(Hn4Vectors, CheckBytesOfWordsAgree) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const byte_vector text =
      or_throw(read_file(posix_file_system(), folder + "/vectors.json"));
  const nlohmann::json all = nlohmann::json::parse(as_text(text));
  ASSERT_FALSE(all["ecc"].empty());
  for (const auto& v : all["ecc"]) {
    const std::uint64_t word = std::stoull(v["data"].get<std::string>(), nullptr, 16);
    EXPECT_EQ(hn4::ecc_of(word), v["ecc"].get<unsigned>()) << v;
  }
}

}  // namespace
}  // namespace weir::storage::test
