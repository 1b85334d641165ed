// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares single rules of the format with values that the reference implementation has
/// computed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../../../storage/hn4/disk.hpp"
#include "support.hpp"
#include "support/fixtures.hpp"
#include "weir/base/hash.hpp"

namespace weir::storage::test {
namespace {

using nlohmann::json;

/// Returns a number that is written in hexadecimal.
std::uint64_t from_hex(const json& text) {
  return std::stoull(text.get<std::string>(), nullptr, 16);
}

/// Returns bytes that are written in hexadecimal.
byte_vector bytes_of(const std::string& hex) {
  byte_vector bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

/// Returns the vectors of the reference implementation.
json vectors(const std::string& folder) {
  const byte_vector text =
      or_throw(read_file(posix_file_system(), folder + "/vectors.json"));
  return json::parse(as_text(text));
}

TEST(Hn4Vectors, ChecksumsAgree) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const json all = vectors(folder);
  ASSERT_FALSE(all["crc32"].empty());
  for (const json& v : all["crc32"]) {
    const byte_vector zeros(v.value("in_zeros", std::size_t{0}));
    const std::string text = v.value("in_ascii", std::string());
    const bytes_view in = v.contains("in_zeros") ? bytes_view(zeros) : as_view(text);
    EXPECT_EQ(crc32(v["seed"].get<std::uint32_t>(), in), v["crc"].get<std::uint32_t>())
        << v;
  }
}

TEST(Hn4Vectors, TagMasksAgree) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const json all = vectors(folder);
  ASSERT_FALSE(all["tag_mask"].empty());
  for (const json& v : all["tag_mask"]) {
    const byte_vector tag = bytes_of(v["tag_hex"]);
    EXPECT_EQ(hn4::tag_mask(as_text(tag)), from_hex(v["mask"])) << v;
  }
}

TEST(Hn4Vectors, SlotsAgree) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const json all = vectors(folder);
  ASSERT_FALSE(all["slot_hash"].empty());
  for (const json& v : all["slot_hash"]) {
    const hn4_id seed{from_hex(v["hi"]), from_hex(v["lo"])};
    EXPECT_EQ(hn4::slot_hash(seed), from_hex(v["hash"])) << v;
    EXPECT_EQ(hn4::slot_hash(seed) % 20992, v["slot_of_20992"].get<std::uint64_t>()) << v;
  }
}

TEST(Hn4Vectors, BlockAddressesAgree) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  std::size_t cases = 0;
  const json all = vectors(folder);
  ASSERT_FALSE(all["trajectory"].empty());
  for (const json& g : all["trajectory"]) {
    hn4::superblock sb;
    sb.hardware = g["hw_caps"];
    sb.device_type = g["device_type"];
    hn4_geometry geometry;
    geometry.profile = static_cast<hn4_profile>(g["profile"].get<unsigned>());
    geometry.block = g["block_size"];
    geometry.blocks = g["capacity"].get<std::uint64_t>() / geometry.block;
    geometry.flux =
        g["lba_flux_start"].get<std::uint64_t>() * g["sector_size"].get<std::uint64_t>();
    const hn4::address_space space = hn4::space_of(sb, geometry);
    for (const json& v : g["cases"]) {
      const auto n = v[2].get<std::uint64_t>();
      const auto k = v[4].get<unsigned>();
      const auto got = hn4::ballistic(space, v[0], v[1], n, v[3], k);
      const auto want = v[5].get<std::int64_t>();
      ASSERT_EQ(got ? static_cast<std::int64_t>(*got) : -1, want) << g << v;
      ++cases;
      if (k > 3 || (n >= 256 && k != 0)) {
        continue;
      }
      hn4::anchor a;
      a.gravity = v[0];
      a.orbit_vector = v[1];
      a.fractal_scale = v[3];
      a.orbit_hints = n < 256 ? k << (2 * (n >> 4)) : 0;
      const auto along = hn4::trajectory(space, a).block(n);
      ASSERT_EQ(along, got && *got < space.total ? got : std::nullopt) << v;
    }
  }
  EXPECT_EQ(cases, 660U);
}

TEST(Hn4Vectors, DecompressionAgrees) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const json all = vectors(folder);
  ASSERT_FALSE(all["tcc_decode"].empty());
  for (const json& v : all["tcc_decode"]) {
    byte_vector out(v["cap"].get<std::size_t>());
    const byte_vector in = bytes_of(v["in"]);
    const auto count = hn4::tcc_decode(in, out);
    ASSERT_EQ(count.has_value(), v["result"] == 0) << v;
    if (count) {
      const byte_vector want = bytes_of(v["out"]);
      out.resize(*count);
      EXPECT_EQ(out, want) << v;
    } else {
      EXPECT_EQ(count.error().code(), errc::corrupt);
    }
  }
}

TEST(Hn4Vectors, DecompressionOfNoiseNeverLeavesItsBounds) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const philox random(seed, 9);
    byte_vector in = noise(random.below(0, 300), seed);
    for (std::size_t i = 0; i < in.size(); i += 1 + random.below(i + 1, 8)) {
      in[i] = static_cast<std::byte>(random.bits(i + 500) & 0xC7U);
    }
    byte_vector out(random.below(1, 5000));
    const auto count = hn4::tcc_decode(in, out);
    ASSERT_TRUE(!count || *count <= out.size()) << "seed " << seed;
  }
}

TEST(Hn4Vectors, LayoutsAreThoseOfTheReference) {
  WEIR_NEEDS_FIXTURES(folder, "hn4");
  const byte_vector text =
      or_throw(read_file(posix_file_system(), folder + "/manifest.json"));
  const json all = json::parse(as_text(text));
  ASSERT_EQ(all["images"].size(), 15U);
  for (const json& image : all["images"]) {
    const auto sector = image["sector_size"].get<std::uint32_t>();
    const hn4_geometry g =
        or_throw(hn4::lay_out(static_cast<hn4_profile>(image["profile"].get<unsigned>()),
                              image["raw_bytes"], sector));
    const json& lba = image["lba"];
    EXPECT_EQ(g.block, image["block_size"].get<std::uint32_t>()) << image["name"];
    EXPECT_EQ(g.epoch / sector, lba["epoch"].get<std::uint64_t>()) << image["name"];
    EXPECT_EQ(g.cortex / sector, lba["cortex"].get<std::uint64_t>()) << image["name"];
    EXPECT_EQ(g.bitmap / sector, lba["bitmap"].get<std::uint64_t>()) << image["name"];
    EXPECT_EQ(g.qmask / sector, lba["qmask"].get<std::uint64_t>()) << image["name"];
    EXPECT_EQ(g.flux / sector, lba["flux"].get<std::uint64_t>()) << image["name"];
    EXPECT_EQ(g.horizon / sector, lba["horizon"].get<std::uint64_t>()) << image["name"];
    EXPECT_EQ(g.journal / sector, lba["journal_start"].get<std::uint64_t>())
        << image["name"];
  }
}

}  // namespace
}  // namespace weir::storage::test
