// SPDX-License-Identifier: Apache-2.0
/// @file
/// Volumes written by the reference implementation: its digests, or an error that has a
/// name and a place.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hn4_support.hpp"
#include "support/fixtures.hpp"
#include "support/temp_folder.hpp"

namespace weir::storage::test {
namespace {

using nlohmann::json;

json manifest(const std::string& folder) {
  const byte_vector text =
      or_throw(read_file(posix_file_system(), folder + "/manifest.json"));
  const json all = json::parse(as_text(text));
  return all["images"];
}

// The 1 TiB image as a sparse file, the others in memory.
std::unique_ptr<block_device> device_of(const json& image, const std::string& folder,
                                        const weir::test::temp_folder& scratch) {
  const std::string packed = folder + "/" + image["file"].get<std::string>();
  const auto size = image["raw_bytes"].get<std::uint64_t>();
  if (!image.contains("extents")) {
    return unpack_image(packed, size);
  }
  auto device = or_throw(create_file_device(scratch / "sparse.img", size));
  byte_vector all;
  unpack(packed, [&](bytes_view piece) { append(all, piece); });
  bytes_view rest = all;
  for (const json& range : image["extents"]) {
    const auto count = range[1].get<std::size_t>();
    or_throw(device->write(range[0], rest.first(count)));
    rest = rest.subspan(count);
  }
  return device;
}

void expect_place(const error& e, const json& tag) {
  EXPECT_FALSE(e.where().empty()) << tag["tag"] << ": " << e.message();
  EXPECT_NE(e.text().find(tag["tag"].get<std::string>()), std::string::npos)
      << e.message();
}

void expect_shards(const hn4_stream& stream, const json& tag) {
  ASSERT_EQ(stream.shards().size(), tag["shards"].size());
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < stream.shards().size(); ++i) {
    const hn4_shard& s = stream.shards()[i];
    const json& want = tag["shards"][i];
    EXPECT_EQ(s.seed.hi, std::stoull(want["seed_hi"].get<std::string>(), nullptr, 16));
    EXPECT_EQ(s.seed.lo, std::stoull(want["seed_lo"].get<std::string>(), nullptr, 16));
    EXPECT_EQ(s.bytes, want["mass"].get<std::uint64_t>());
    EXPECT_EQ(s.generation, want["write_gen"].get<std::uint32_t>());
    EXPECT_EQ(s.create_clock, want["create_clock"].get<std::uint32_t>());
    EXPECT_EQ(s.offset, offset);
    offset += s.bytes;
  }
  EXPECT_EQ(stream.size(), offset);
}

void expect_probes(const hn4_stream& stream, const json& tag) {
  for (const json& probe : tag.value("probes", json::array())) {
    byte_vector part(probe["len"].get<std::size_t>());
    const std::size_t n = or_throw(stream.read(probe["offset"], part));
    part.resize(n);
    EXPECT_EQ(sha256::of(part), probe["sha256"].get<std::string>())
        << tag["tag"] << probe;
  }
}

// The reference read every block of it, and none was a hole.
bool sound(const json& tag) {
  return tag["open_result"] == 0 && tag["read_result"] == 0 &&
         tag["block_results"].empty();
}

// One entry of this image was damaged by hand: the reference leaves its shard out without
// a word.
bool may_lack_a_shard(const json& tag) {
  return tag["tag"] == "model:demo";
}

// Reads one tag strictly; true if the bytes came.
bool expect_digest_or_error(const hn4_volume& volume, const json& tag) {
  hn4_stream_options options;
  options.order = hn4_order::clock_then_seed;
  const auto stream = volume.stream(tag["tag"].get<std::string>(), options);
  if (!stream) {
    EXPECT_TRUE(tag["open_result"] != 0 || may_lack_a_shard(tag))
        << stream.error().message();
    expect_place(stream.error(), tag);
    return false;
  }
  EXPECT_EQ(tag["open_result"], 0) << tag["tag"];
  expect_shards(*stream, tag);
  const auto bytes = stream->read_all();
  if (!bytes) {
    EXPECT_FALSE(sound(tag)) << bytes.error().message();
    expect_place(bytes.error(), tag);
    return false;
  }
  EXPECT_TRUE(sound(tag)) << tag["tag"];
  EXPECT_EQ(sha256::of(*bytes), tag.value("stream_sha256", "")) << tag["tag"];
  expect_probes(*stream, tag);
  return true;
}

TEST(Hn4Fixtures, EveryTagGivesItsDigestOrANamedError) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const weir::test::temp_folder scratch;
  std::size_t read = 0, refused = 0;
  const json images = manifest(folder);
  for (const json& image : images) {
    SCOPED_TRACE(image["name"].get<std::string>());
    const auto device = device_of(image, folder, scratch);
    const auto volume = open_on(*device);
    ASSERT_TRUE(volume) << volume.error().message();
    EXPECT_EQ(volume->label(), image["label"].get<std::string>());
    EXPECT_EQ(volume->state(), image["state_flags"].get<std::uint32_t>());
    EXPECT_EQ(volume->geometry().block, image["block_size"].get<std::uint32_t>());
    EXPECT_EQ(volume->geometry().sector, image["sector_size"].get<std::uint32_t>());
    EXPECT_TRUE(volume->tags());
    for (const json& tag : image["tags"]) {
      (expect_digest_or_error(*volume, tag) ? read : refused) += 1;
    }
  }
  RecordProperty("read", static_cast<int>(read));
  EXPECT_EQ(read + refused, 62U);
  EXPECT_GE(read, 36U);
}

TEST(Hn4Fixtures, OrderBySeedIsTheSpecificationsOrder) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const json images = manifest(folder);
  for (const json& image : images) {
    if (image["name"] == "one" || image["name"] == "five" || image["name"] == "order") {
      const json& tag = image["tags"][0];
      const auto device = unpack_image(folder + "/" + image["file"].get<std::string>(),
                                       image["raw_bytes"]);
      const hn4_volume volume = or_throw(open_on(*device));
      const hn4_stream stream = or_throw(volume.stream(tag["tag"].get<std::string>()));
      const bool contradicts = tag.contains("stream_sha256_seed_order_only");
      EXPECT_EQ(sha256::of(or_throw(stream.read_all())),
                tag[contradicts ? "stream_sha256_seed_order_only" : "stream_sha256"]
                    .get<std::string>());
      EXPECT_EQ(stream.warnings().size(), contradicts ? 1U : 0U);
    }
  }
}

TEST(Hn4Fixtures, HolesReadAsZerosOnlyWhenAsked) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  hn4_stream_options sparse;
  sparse.holes = hn4_holes::zeros;
  sparse.order = hn4_order::clock_then_seed;
  const auto device = unpack_image(folder + "/rot.img.zst", small_capacity);
  std::size_t seen = 0;
  const json images = manifest(folder);
  for (const json& image : images) {
    for (const json& tag : image["tags"]) {
      if (image["name"] == "rot" && !sound(tag) && tag.contains("stream_sha256")) {
        const std::string name = tag["tag"];
        const auto strict = read_tag(*device, name);
        ASSERT_FALSE(strict) << name;
        EXPECT_EQ(strict.error().code(), errc::hole) << strict.error().message();
        EXPECT_EQ(sha256::of(or_throw(read_tag(*device, name, sparse))),
                  tag["stream_sha256"].get<std::string>());
        ++seen;
      }
    }
  }
  EXPECT_EQ(seen, 2U);
}

TEST(Hn4Fixtures, DamageHasItsOwnName) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const auto device = unpack_image(folder + "/rot.img.zst", small_capacity);
  struct {
    const char* tag;
    errc code;
    const char* text;
  } const cases[] = {{"rot:payload", errc::corrupt, "payload checksum"},
                     {"rot:headercrc", errc::corrupt, "header checksum"},
                     {"rot:magic", errc::corrupt, "block magic"},
                     {"rot:wellid", errc::corrupt, "block of shard"},
                     {"rot:seq", errc::corrupt, "block number"},
                     {"rot:gen", errc::generation_skew, "block generation"},
                     {"rot:genhi", errc::generation_skew, "block generation"},
                     {"rot:algo", errc::unsupported, "compression"},
                     {"rot:csize", errc::corrupt, "stored bytes"},
                     {"rot:poison", errc::io, "poison"},
                     {"rot:zeroblk", errc::corrupt, "block magic"},
                     {"rot:tcc", errc::corrupt, "decompress"},
                     {"rot:enccomp", errc::corrupt, "encrypted"},
                     {"rot:masslie", errc::hole, "hole"},
                     {"rot:sparse", errc::hole, "hole"}};
  for (const auto& c : cases) {
    const auto bytes = read_tag(*device, c.tag);
    ASSERT_FALSE(bytes) << c.tag;
    EXPECT_EQ(bytes.error().code(), c.code) << bytes.error().message();
    EXPECT_NE(bytes.error().text().find(c.text), std::string::npos)
        << bytes.error().message();
    EXPECT_NE(bytes.error().where().find("rot.img.zst:"), std::string::npos);
    EXPECT_NE(bytes.error().where().find("shard 0, block"), std::string::npos);
  }
}

TEST(Hn4Fixtures, ForeignVolumesThatWereUnmountedAreNotWritten) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const auto device = unpack_image(folder + "/one.img.zst", small_capacity);
  const auto volume = open_on(*device, device_mode::writable);
  ASSERT_FALSE(volume);
  EXPECT_EQ(volume.error().code(), errc::unsupported);
  EXPECT_NE(volume.error().text().find("epoch"), std::string::npos);
}

}  // namespace
}  // namespace weir::storage::test
