// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests damaged volumes of the reference implementation and random structures: nothing
/// crashes, and no wrong bytes come without a warning.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "../../../../storage/hn4/directory/directory.hpp"
#include "storage/hn4/support.hpp"
#include "support/fixtures.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4_check.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::test {
namespace {

using nlohmann::json;

constexpr std::uint64_t seed = 17;

/// Returns the list of images.
json images_of(const std::string& folder) {
  const byte_vector text =
      or_throw(read_file(posix_file_system(), folder + "/manifest.json"));
  return json::parse(as_text(text))["images"];
}

/// An image and the streams that it gives while it is sound.
struct victim {
  std::unique_ptr<memory_device> device;
  std::map<std::string, byte_vector> sound;  ///< streams that the undamaged image gives
};

/// Unpacks an image and reads all its tags.
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

/// Calls everything that a damaged volume offers; wrong bytes must come with a warning.
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
    EXPECT_FALSE(volume.error().location().empty()) << volume.error().message();
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
          << "other bytes of " << tag << " were returned without a warning";
    }
  }
}

/// Chooses a place that matters: superblock, epoch, directory entry, bitmap or block.
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
      const std::uint64_t offset = place_of(*core, random, i);
      const flipped_byte flip(*v.device, offset,
                              1U + static_cast<unsigned>(random.below(16 * i + 9, 255)));
      survive(*v.device, v);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", byte " << offset;
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
      for (std::uint64_t offset = 0; offset < size; offset += memory_device::page_bytes) {
        byte_vector piece(static_cast<std::size_t>(
            std::min<std::uint64_t>(memory_device::page_bytes, size - offset)));
        ASSERT_TRUE(v.device->read(offset, piece));
        if (!all_zero(piece)) {
          ASSERT_TRUE(cut->write(offset, piece));
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
    // A superblock with other numbers and a correct checksum.
    byte_vector sb(hn4::superblock_bytes);
    ASSERT_TRUE(device->read(0, sb));
    const philox random(seed, i);
    for (std::uint64_t k = 0; k < 2; ++k) {
      const auto offset = static_cast<std::size_t>(0x08 + random.below(2 * k, 0xF8));
      sb[offset] = static_cast<std::byte>(random.bits(2 * k + 1));
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

/// Returns a directory entry with arbitrary numbers.
hn4::anchor any_entry(const philox& random, std::uint64_t i) {
  std::uint64_t k = 32 * i;
  const auto bits = [&] { return random.bits(k++); };
  const auto below = [&](std::uint64_t n) { return random.below(k++, n); };
  hn4::anchor a;
  a.seed = {bits(), bits()};
  a.public_id =
      below(3) == 0
          ? hn4::public_id_of({static_cast<std::uint32_t>(below(4)),
                               static_cast<std::uint32_t>(below(4)),
                               static_cast<std::uint32_t>(below(3)), below(2) == 0})
          : hn4_id{bits(), bits()};
  a.gravity = below(2) == 0 ? bits() : below(30'000);
  a.mass = below(2) == 0 ? bits() : below(200'000);
  a.data_class = (bits() & bits()) | hn4::class_bits::valid;
  if (below(4) != 0) {
    a.data_class &= ~hn4::class_bits::tombstone;
  }
  a.tag_filter = below(2) == 0 ? UINT64_MAX : hn4::tag_mask("t");
  a.orbit_vector = bits() >> 16;
  a.fractal_scale = static_cast<std::uint16_t>(below(3) == 0 ? bits() : below(12));
  a.write_gen = static_cast<std::uint32_t>(below(2) == 0 ? bits() : below(3));
  a.create_clock = static_cast<std::uint32_t>(bits());
  a.orbit_hints = static_cast<std::uint32_t>(bits());
  store_le(a.name.data(), below(2) == 0 ? std::uint64_t{'t'} : bits() >> below(64));
  return a;
}

TEST(Hn4Fuzz, EntriesWithAnyNumbersInThemDoNoHarm) {
  RecordProperty("seed", static_cast<int>(seed));
  const philox random(seed, 99);
  const byte_vector bytes = noise(20'000, 5);
  for (std::uint64_t i = 0; i < 60; ++i) {
    auto device = formatted();
    {
      hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
      or_throw(volume.put("ours", bytes, fixed_put(2)));
    }
    const auto core = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device)));
    for (std::uint64_t slot = 1; slot < 6; ++slot) {
      byte_vector entry(hn4::anchor_bytes);
      hn4::store_anchor(any_entry(random, 8 * i + slot), entry);
      ASSERT_TRUE(device->write(core->slot_offset(slot + 100 * i), entry));
    }
    (void)hn4_check(std::make_unique<borrowed_device>(*device));
    hn4_volume volume = or_throw(open_on(*device, device_mode::writable));
    ASSERT_TRUE(volume.tags()) << "seed " << seed << " case " << i;
    for (const bool strict : {false, true}) {
      hn4_stream_options options;
      options.strict = strict;
      byte_vector part(50'000);
      if (const auto stream = volume.stream("t", options)) {
        (void)stream->read_partial(0, part);
        (void)stream->read_partial(stream->size() - 1, part);
      }
      EXPECT_TRUE(or_throw(or_throw(volume.stream("ours", options)).read_all()) == bytes);
    }
    (void)volume.put("t", noise(9000, 1), fixed_put());
    (void)volume.remove("t");
    EXPECT_TRUE(or_throw(read_tag(*device, "ours")) == bytes)
        << "seed " << seed << " case " << i;
  }
}

}  // namespace
}  // namespace weir::storage::test
