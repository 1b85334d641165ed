// SPDX-License-Identifier: Apache-2.0
/// @file
/// Damage to volumes of the reference: no crash, and no other bytes without a word.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "../../../storage/hn4/core.hpp"
#include "support.hpp"
#include "support/fixtures.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_check.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::test {
namespace {

using nlohmann::json;

constexpr std::uint64_t seed = 17;

json images_of(const std::string& folder) {
  const byte_vector text =
      or_throw(read_file(posix_file_system(), folder + "/manifest.json"));
  return json::parse(as_text(text))["images"];
}

struct victim {
  std::unique_ptr<memory_device> device;
  std::map<std::string, byte_vector> sound;  ///< streams that the undamaged image gives
};

victim victim_of(const json& image, const std::string& folder) {
  victim v;
  v.device =
      unpack_image(folder + "/" + image["file"].get<std::string>(), image["raw_bytes"]);
  const hn4_volume volume = or_throw(open_on(*v.device));
  for (const hn4_tag& tag : or_throw(volume.tags())) {
    const auto stream = volume.stream(tag.name);
    const auto bytes = stream ? stream->read_all() : result<byte_vector>(stream.error());
    if (bytes) {
      v.sound[tag.name] = *bytes;
    }
  }
  return v;
}

// Everything that a damaged volume can be asked for; wrong bytes must come with a
// warning.
void survive(block_device& device, const victim& v) {
  if (const auto strict =
          hn4_volume::open_strictly(std::make_unique<borrowed_device>(device))) {
    for (const auto& [tag, bytes] : v.sound) {
      if (const auto stream = strict->stream(tag); stream && stream->size() < 1 << 21) {
        (void)stream->read_all();
      }
    }
  }
  (void)hn4_check(std::make_unique<borrowed_device>(device));
  const auto volume = open_on(device);
  if (!volume) {
    EXPECT_FALSE(volume.error().where().empty()) << volume.error().message();
    return;
  }
  (void)volume->tags();
  for (const auto& [tag, bytes] : v.sound) {
    const auto stream = volume->stream(tag);
    if (!stream) {
      continue;
    }
    const auto now = stream->read_all();
    if (now && *now != bytes) {
      EXPECT_FALSE(stream->warnings().empty() && stream->recoveries().empty() &&
                   volume->warnings().empty())
          << "other bytes of " << tag << " without a word";
    }
  }
}

// A place that matters: superblock, epoch, directory entry, bitmap, block.
std::uint64_t place_of(const hn4::core& c, const philox& random, std::uint64_t i) {
  const auto pick = [&](std::uint64_t k, std::uint64_t n) {
    return random.below(16 * i + k, n);
  };
  const hn4::entry& e = c.entries[static_cast<std::size_t>(pick(0, c.entries.size()))];
  switch (i % 5) {
    case 0: return pick(1, 0x120);
    case 1: return c.geometry.epoch + pick(1, 0x2000);
    case 2: return c.geometry.bitmap + pick(1, c.geometry.qmask - c.geometry.bitmap);
    case 3: return c.slot_offset(e.slot) + pick(1, hn4::anchor_bytes);
    default: {
      const auto block = hn4::trajectory(c.space, e.a).block(pick(2, 3));
      return block.value_or(c.space.flux) * c.geometry.block + pick(3, 100);
    }
  }
}

TEST(Hn4Fuzz, FlippedBytesOfEveryImageDoNoHarm) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  RecordProperty("seed", static_cast<int>(seed));
  for (const json& image : images_of(folder)) {
    if (image.contains("extents") || image["name"] == "gaming") {
      continue;
    }
    SCOPED_TRACE(image["name"].get<std::string>());
    const victim v = victim_of(image, folder);
    const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*v.device)));
    const philox random(seed, v.device->size());
    for (std::uint64_t i = 0; i < 15; ++i) {
      const std::uint64_t at = place_of(*core, random, i);
      const flipped_byte flip(*v.device, at,
                              1U + static_cast<unsigned>(random.below(16 * i + 9, 255)));
      survive(*v.device, v);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", byte " << at;
    }
  }
}

TEST(Hn4Fuzz, EveryCutImageIsGeometryInStrictMode) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  for (const json& image : images_of(folder)) {
    if (image["name"] != "one" && image["name"] != "pico" && image["name"] != "usb") {
      continue;
    }
    const victim v = victim_of(image, folder);
    for (const std::uint64_t size :
         {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{512}, std::uint64_t{8191},
          std::uint64_t{8192}, std::uint64_t{100'000}, v.device->size() / 2,
          v.device->size() - 512, v.device->size() - 1}) {
      auto cut = std::make_unique<memory_device>(size, "cut.img");
      for (std::uint64_t at = 0; at < size; at += memory_device::page_bytes) {
        byte_vector piece(static_cast<std::size_t>(
            std::min<std::uint64_t>(memory_device::page_bytes, size - at)));
        ASSERT_TRUE(v.device->read(at, piece));
        if (!all_zero(piece)) {
          ASSERT_TRUE(cut->write(at, piece));
        }
      }
      survive(*cut, v);
      const auto strict = hn4_volume::open_strictly(std::move(cut));
      ASSERT_FALSE(strict) << size;
      EXPECT_EQ(code_of(strict.error()), hn4_code::geometry)
          << size << " " << strict.error().message();
    }
  }
}

TEST(Hn4Fuzz, NoiseInPlaceOfStructuresDoesNoHarm) {
  for (std::uint64_t i = 0; i < 40; ++i) {
    auto device = formatted();
    byte_vector bytes = noise(20'000, 5);
    {
      hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
      or_throw(volume.put("t", bytes, fixed_put(2)));
    }
    const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
    // A superblock with other numbers and a good checksum.
    byte_vector sb(hn4::superblock_bytes);
    ASSERT_TRUE(device->read(0, sb));
    const philox random(seed, i);
    for (std::uint64_t k = 0; k < 2; ++k) {
      const auto at = static_cast<std::size_t>(0x08 + random.below(2 * k, 0xF8));
      sb[at] = static_cast<std::byte>(random.bits(2 * k + 1));
    }
    store_le(sb.data() + 0x1FFC, crc32(0, bytes_view(sb).first(0x1FFC)));
    ASSERT_TRUE(device->write(0, sb));
    victim v;
    v.sound["t"] = bytes;
    if (const auto volume = open_on(*device)) {
      (void)volume->tags();
      if (const auto stream = volume->stream("t")) {
        const auto now = stream->read_all();
        EXPECT_TRUE(!now || *now == bytes) << "seed " << seed << " case " << i;
      }
    }
    (void)hn4_volume::open_strictly(std::make_unique<borrowed_device>(*device));
  }
}

}  // namespace
}  // namespace weir::storage::test
