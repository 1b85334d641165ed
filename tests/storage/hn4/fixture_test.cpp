// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests volumes that the reference implementation has written: reads give its digests,
/// or an error with a code and a place.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "support.hpp"
#include "support/fixtures.hpp"
#include "support/sha256.hpp"
#include "support/temp_folder.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage::test {
namespace {

using nlohmann::json;

/// Returns the list of images with the results of the reference implementation.
json manifest(const std::string& folder) {
  const byte_vector text =
      or_throw(read_file(posix_file_system(), folder + "/manifest.json"));
  const json all = json::parse(as_text(text));
  return all["images"];
}

/// Makes the image of 1 TiB as a sparse file, the others in memory.
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

/// Expects that an error has a place and names the tag.
void expect_place(const error& e, const json& tag) {
  EXPECT_FALSE(e.location().empty()) << tag["tag"] << ": " << e.message();
  EXPECT_NE(e.text().find(tag["tag"].get<std::string>()), std::string::npos)
      << e.message();
}

/// Compares the shards of a stream with the manifest.
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

/// Reads the ranges that the manifest lists and compares their digests.
void expect_probes(const hn4_stream& stream, const json& tag) {
  for (const json& probe : tag.value("probes", json::array())) {
    byte_vector part(probe["len"].get<std::size_t>());
    const std::size_t n = or_throw(stream.read(probe["offset"], part));
    part.resize(n);
    EXPECT_EQ(weir::test::sha256_text(part), probe["sha256"].get<std::string>())
        << tag["tag"] << probe;
  }
}

/// Returns the options that read exactly as the reference implementation does.
hn4_stream_options strictly() {
  hn4_stream_options options;
  options.strict = true;
  return options;
}

/// Returns the number of a result in the reference implementation.
int code_of_partial(const hn4_partial& part) {
  if (part.failure) {
    return static_cast<int>(code_of(*part.failure));
  }
  return part.ended_in_hole ? static_cast<int>(hn4_code::sparse) : 0;
}

/// Reads every block on its own: exactly the blocks that the manifest lists are damaged.
void expect_blocks(const hn4_stream& stream, const json& tag) {
  std::map<std::pair<std::size_t, std::uint64_t>, int> want;
  for (const json& row : tag["block_results"]) {
    want[{row["shard"], row["block"]}] = row["code"];
  }
  byte_vector one(stream.payload());
  for (std::size_t i = 0; i < stream.shards().size(); ++i) {
    const hn4_shard& s = stream.shards()[i];
    for (std::uint64_t n = 0; n < s.blocks && want.size() < 40; ++n) {
      const std::uint64_t local = n * stream.payload();
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(one.size(), s.bytes - local));
      const int got = code_of_partial(
          stream.read_partial(s.offset + local, mutable_bytes(one).first(count)));
      const auto row = want.find({i, n});
      EXPECT_EQ(got, row == want.end() ? 0 : row->second)
          << tag["tag"] << " shard " << i << " block " << n;
    }
  }
}

/// Compares a tag with what the reference implementation returned, code for code and byte
/// for byte.
void expect_strict(const hn4_volume& volume, const json& tag) {
  const auto stream = volume.stream(tag["tag"].get<std::string>(), strictly());
  EXPECT_EQ(stream ? 0 : static_cast<int>(code_of(stream.error())),
            tag["open_result"].get<int>())
      << tag["tag"];
  if (!stream) {
    EXPECT_FALSE(stream.error().location().empty());
    return;
  }
  expect_shards(*stream, tag);
  byte_vector all(stream->size());
  const hn4_partial part = stream->read_partial(0, all);
  EXPECT_EQ(code_of_partial(part), tag["read_result"].get<int>()) << tag["tag"];
  if (part.failure) {
    expect_place(*part.failure, tag);
  }
  if (tag.contains("stream_sha256")) {
    EXPECT_EQ(weir::test::sha256_text(all), tag["stream_sha256"].get<std::string>())
        << tag["tag"];
  }
  expect_blocks(*stream, tag);
  expect_probes(*stream, tag);
}

/// Opens all images, one after another.
template <class Visit>
void with_every_image(const std::string& folder, Visit visit) {
  const weir::test::temp_folder scratch;
  const json images = manifest(folder);
  for (const json& image : images) {
    SCOPED_TRACE(image["name"].get<std::string>());
    const auto device = device_of(image, folder, scratch);
    const auto volume = open_on(*device);
    ASSERT_TRUE(volume) << volume.error().message();
    visit(image, *volume);
  }
}

TEST(Hn4Fixtures, StrictReadsReturnWhatTheReferenceReturns) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  std::size_t tags = 0, probes = 0;
  with_every_image(folder, [&](const json& image, const hn4_volume& volume) {
    for (const json& tag : image["tags"]) {
      expect_strict(volume, tag);
      ++tags;
      probes += tag.value("probes", json::array()).size();
    }
  });
  EXPECT_EQ(tags, 62U);
  EXPECT_EQ(probes, 310U);
}

/// Returns whether the reference implementation read every block and met no hole.
bool sound(const json& tag) {
  return tag["open_result"] == 0 && tag["read_result"] == 0 &&
         tag["block_results"].empty();
}

/// Returns the options that read what is left of a damaged tag.
hn4_stream_options recovering() {
  hn4_stream_options how;
  how.recover = true;
  return how;
}

/// Expects that a tag with a damaged directory entry, which the reference implementation
/// reads without that shard, is an error that names the slot, and that `recover` reads
/// the rest.
void expect_refused_for_a_lost_shard(const hn4_volume& volume, const json& tag,
                                     const error& refused) {
  EXPECT_EQ(refused.code(), hn4_error(hn4_code::data_rot, "").code());
  EXPECT_NE(refused.location().find("directory slot"), std::string::npos);
  EXPECT_NE(refused.hint().find("--recover"), std::string::npos);
  const auto left = volume.stream(tag["tag"].get<std::string>(), recovering());
  ASSERT_TRUE(left) << left.error().message();
  ASSERT_FALSE(left->warnings().empty());
  EXPECT_NE(left->warnings().back().find("a shard is missing"), std::string::npos);
  EXPECT_EQ(weir::test::sha256_text(or_throw(left->read_all())),
            tag["stream_sha256"].get<std::string>());
}

/// Expects that everything whose correctness can be proved is read, and that the rest is
/// an error with a place.
bool expect_recovered_or_error(const hn4_volume& volume, const json& tag) {
  const auto stream = volume.stream(tag["tag"].get<std::string>());
  if (!stream && tag["open_result"] == 0) {
    expect_refused_for_a_lost_shard(volume, tag, stream.error());
    return false;
  }
  if (!stream) {
    expect_place(stream.error(), tag);
    return false;
  }
  EXPECT_EQ(tag["open_result"], 0) << tag["tag"];
  const auto bytes = stream->read_all();
  const bool recoverable = tag.value("recoverable_by_lenient_probe", false);
  if (!bytes) {
    EXPECT_FALSE(sound(tag) || recoverable) << bytes.error().message();
    expect_place(bytes.error(), tag);
    return false;
  }
  if (recoverable) {
    EXPECT_EQ(weir::test::sha256_text(*bytes),
              tag["original_data_sha256"].get<std::string>());
    EXPECT_FALSE(stream->recoveries().empty());
  } else if (sound(tag)) {
    EXPECT_EQ(weir::test::sha256_text(*bytes),
              tag.value("stream_sha256_seed_order_only",
                        tag["stream_sha256"].get<std::string>()))
        << tag["tag"];
  } else {
    EXPECT_EQ(weir::test::sha256_text(*bytes), tag.value("original_data_sha256", ""));
    EXPECT_FALSE(stream->recoveries().empty());
  }
  return true;
}

TEST(Hn4Fixtures, TheDefaultRecoversWhatIsOnTheDisk) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  std::size_t read = 0, refused = 0;
  with_every_image(folder, [&](const json& image, const hn4_volume& volume) {
    EXPECT_EQ(volume.label(), image["label"].get<std::string>());
    EXPECT_EQ(volume.state(), image["state_flags"].get<std::uint32_t>());
    EXPECT_EQ(volume.geometry().block, image["block_size"].get<std::uint32_t>());
    EXPECT_EQ(volume.geometry().sector, image["sector_size"].get<std::uint32_t>());
    EXPECT_TRUE(volume.tags());
    for (const json& tag : image["tags"]) {
      (expect_recovered_or_error(volume, tag) ? read : refused) += 1;
    }
  });
  RecordProperty("read", static_cast<int>(read));
  EXPECT_EQ(read + refused, 62U);
  EXPECT_GE(read, 39U);
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
      EXPECT_EQ(weir::test::sha256_text(or_throw(stream.read_all())),
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
        EXPECT_EQ(weir::test::sha256_text(or_throw(read_tag(*device, name, sparse))),
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
    EXPECT_NE(bytes.error().location().find("rot.img.zst:"), std::string::npos);
    EXPECT_NE(bytes.error().location().find("shard 0, block"), std::string::npos);
  }
}

TEST(Hn4Fixtures, AShardThatIsTooLongAndASumThatOverflowsHaveDifferentErrors) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const auto device = unpack_image(folder + "/tags.img.zst", small_capacity);
  hn4_stream_options strict;
  strict.strict = true;
  const error alone = read_tag(*device, "model:ovf").error();
  const error together = read_tag(*device, "model:ovf", strict).error();
  EXPECT_EQ(code_of(alone), hn4_code::geometry) << alone.message();
  EXPECT_EQ(code_of(together), hn4_code::geometry) << together.message();
  EXPECT_NE(alone.text().find("32768 blocks"), std::string::npos) << alone.message();
  EXPECT_NE(together.text().find("2^64"), std::string::npos) << together.message();
}

TEST(Hn4Fixtures, VolumesLeftByTheReferenceAreMendedBeforeTheyAreWritten) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const json images = manifest(folder);
  for (const json& image : images) {
    if (image["name"] == "ai" || image["name"] == "rot") {
      continue;
    }
    SCOPED_TRACE(image["name"].get<std::string>());
    const auto device =
        unpack_image(folder + "/" + image["file"].get<std::string>(), image["raw_bytes"]);
    const std::uint64_t bytes = image["name"] == "pico" ? 9000 : 70'000;
    {
      auto volume = open_on(*device, device_mode::writable);
      ASSERT_TRUE(volume) << volume.error().message();
      ASSERT_FALSE(volume->warnings().empty());
      EXPECT_NE(volume->warnings().back().find("recovered"), std::string::npos);
      ASSERT_TRUE(volume->put("ours", noise(bytes, 5), fixed_put(2)));
    }
    const hn4_volume again = or_throw(open_on(*device));
    EXPECT_EQ(again.state(), 0x2001U);
    EXPECT_TRUE(again.warnings().empty() || image["name"] == "tags")
        << again.warnings().front();
    EXPECT_TRUE(or_throw(read_tag(*device, "ours")) == noise(bytes, 5));
    EXPECT_TRUE(or_throw(read_tag(*device, "ours", strictly())) == noise(bytes, 5));
    for (const json& tag : image["tags"]) {
      if (sound(tag) && !tag.contains("stream_sha256_seed_order_only")) {
        EXPECT_EQ(weir::test::sha256_text(or_throw(
                      read_tag(*device, tag["tag"].get<std::string>(), recovering()))),
                  tag["stream_sha256"].get<std::string>());
      }
    }
  }
}

}  // namespace
}  // namespace weir::storage::test
