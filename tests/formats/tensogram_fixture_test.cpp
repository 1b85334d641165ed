// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests 17 files of the reference: positions, digests, metadata and values, as their
/// README gives them.
#include <gtest/gtest.h>

#include <map>

#include "formats/support.hpp"
#include "support/fixtures.hpp"
#include "support/sha256.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::test {
namespace {

using namespace formats;

/// A frame as the README of the files describes it.
struct expected_frame {
  std::uint16_t type;
  std::uint64_t offset;
  std::uint64_t length;
  std::string digest;
};

/// A file as the README describes it.
struct expected_file {
  std::string name;
  std::string sha256;
  std::size_t messages;
  std::vector<expected_frame> frames;  ///< of the first message
};

const std::vector<expected_file> golden_table{
    {"simple_f32.tgm",
     "0686b55d56d0e9d373b3b080b2fec7f0195ab40b3518facb87bd9a78e9a85c18",
     1,
     {{1, 24, 245, "0a23ff60cb2ee306"},
      {2, 272, 52, "0ff45fc0f9ff4638"},
      {3, 328, 69, "8b56353cce8fa1e2"},
      {9, 400, 162, "3aeac8603f519c1d"}}},
    {"hash_xxh3.tgm",
     "938426f3c9f7b435f064bdd9e25a23c55c7b6e257c985a83a047fee2e1a7851f",
     1,
     {{1, 24, 245, "65ee51433d4656bd"},
      {2, 272, 52, "0ff45fc0f9ff4638"},
      {3, 328, 69, "8b56353cce8fa1e2"},
      {9, 400, 162, "3aeac8603f519c1d"}}},
    {"mars_metadata.tgm",
     "ee7f3525137430dd5780f79a38c7f458427d2be13cc30d5c625e3f7f64f6ecb6",
     1,
     {{1, 24, 245, "64dd88e5b6090b81"},
      {2, 272, 52, "0222161d34684a69"},
      {3, 328, 69, "337c8921617a89be"},
      {9, 400, 196, "f7900060cb273635"}}},
    {"multi_message.tgm",
     "7157d77dc3491c5dbed3d65398e287bc259e997438798778fcdf8a563a9a1e3f",
     2,
     {{1, 24, 245, "089d8445cd31a124"},
      {2, 272, 52, "d9ca8f7d5fadaae8"},
      {3, 328, 69, "f123a2f537b5c9c5"},
      {9, 400, 154, "8bf8d227c9d389b5"}}},
    {"multi_object.tgm",
     "b23571b422f7fa3d4ee0baa6f4bcdb9dedae00a56a54dc60ff4d8b65435eba49",
     1,
     {{1, 24, 424, "68be2f8d4e30fdbe"},
      {2, 448, 62, "66c1c82f4ebf9343"},
      {3, 512, 103, "3e3f2710e45d0e90"},
      {9, 616, 154, "5070b59b0b67dfe8"},
      {9, 776, 168, "909a18335778f3de"},
      {9, 944, 149, "dca3a5038096aed3"}}},
    {"multi_object_xxh3.tgm",
     "7f11f6e16f07354d1607a8e05ba62ee281aad73ba6c647ccbaa60ae1027ef209",
     1,
     {}},
    {"metadata_parity.tgm",
     "eb2a99ff18fad7cb886772ae0e29f7e846ee08021d00a8c2474aa16c70f5f128",
     1,
     {{1, 24, 444, "567d9e3ad1a0e6c8"},
      {2, 472, 57, "14be06d4e6d8cc02"},
      {3, 536, 86, "3e112343f3877d5b"},
      {9, 624, 175, "cc95ba98e6c565bd"},
      {9, 800, 181, "23dc4589556b96f1"}}},
    {"single-msg.tgm",
     "d104065c3570c36a1eca0cd8b527177bc47f9e410e62867f306702bb3a3db834",
     1,
     {{1, 24, 242, "23736e45f1c7c92c"},
      {2, 272, 52, "d5b2ec625aeaff94"},
      {3, 328, 69, "a67aefe756829841"},
      {9, 400, 165, "21070680e38be39e"}}},
    {"two-msg.tgm",
     "9566710f7ac04fa1358843504789a1acd5343edc9225d1005d6fdfa507f7a0fb",
     2,
     {}},
    {"ten-msg.tgm",
     "93b8e0a858a326f5cb5fd3e54eed014c01a74ecd1de20f4f57727480988cfe35",
     10,
     {}},
    {"hundred-msg.tgm",
     "b55bd1a542307ed6996cf36ffed125d8e327de8d4fb87b655ed9e8cb58726a0b",
     100,
     {}},
    {"thousand-msg.tgm",
     "0adc58b0a3f3b45ae0e302ca863b6d0aedcf0f6ebdb04436bb10e54f3fe9ecb4",
     1000,
     {}},
    {"single-msg-footer.tgm",
     "afcd6180beeffba0dcc2876138d3f924ec3315efd6af3701ae35bd9ac2be1ae4",
     1,
     {{1, 24, 64, "13db4dda9495f009"},
      {9, 88, 165, "21070680e38be39e"},
      {7, 256, 242, "be156ec2d84842b1"},
      {5, 504, 69, "a67aefe756829841"},
      {6, 576, 51, "3ade8952f7490621"}}},
    {"ten-msg-footer.tgm",
     "a2362b10a02653b8d5ce9bfc0786fa15c13bb66a18198863aad04984207fff95",
     10,
     {}},
    {"hundred-msg-footer.tgm",
     "5e54a62f1d1ef5a8f2ec432f36843a6fce5da5d6af5a1e033cf3f0642f9e6227",
     100,
     {}},
    {"thousand-msg-footer.tgm",
     "a672ab801d5034e265f24a9361cf34ea098819829abd10b37f3fe718d8383d62",
     1000,
     {}},
    {"streaming-tail.tgm",
     "7e24d994a3d7becd87e7eed9d00fffdf30d7c31f645972dd50e39bb7470f59f4",
     10,
     {}},
};

/// Returns the table of all files.
const std::vector<expected_file>& golden_files() {
  return golden_table;
}

/// Returns whether a file belongs to the family for remote reading, whose names have
/// hyphens.
bool is_remote(const std::string& name) {
  return name.find('-') != std::string::npos;
}

/// Returns the length of message k. The streamed messages grow when the index needs one
/// byte more for a number.
std::uint64_t remote_length(const std::string& name, std::size_t k) {
  if (name.find("footer") != std::string::npos) {
    return k < 24 ? 656 : 664;
  }
  return name == "streaming-tail.tgm" && k == 9 ? 656 : 592;
}

/// Returns the elements of an object as doubles.
template <class T>
std::vector<double> values(const message_reader& reader, std::size_t i) {
  const byte_vector bytes = or_throw(reader.decode(i));
  std::vector<double> out;
  for (std::size_t offset = 0; offset + sizeof(T) <= bytes.size(); offset += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    out.push_back(static_cast<double>(value));
  }
  return out;
}

using doubles = std::vector<double>;

TEST(tensogram_fixture, every_file_has_the_messages_and_frames_of_its_page) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  ASSERT_EQ(golden_files().size(), 17u);
  for (const expected_file& file : golden_files()) {
    SCOPED_TRACE(file.name);
    const byte_vector bytes = load(folder + "/" + file.name);
    EXPECT_EQ(sha256_text(bytes), file.sha256);
    const auto spans = scan(bytes);
    ASSERT_EQ(spans.size(), file.messages);
    const auto reader = or_throw(message_reader::open(bytes));
    if (file.frames.empty()) {
      continue;
    }
    ASSERT_EQ(reader.frames().size(), file.frames.size());
    for (std::size_t i = 0; i < file.frames.size(); ++i) {
      const frame_info& frame = reader.frames()[i];
      EXPECT_EQ(frame.type, file.frames[i].type);
      EXPECT_EQ(frame.offset, file.frames[i].offset);
      EXPECT_EQ(frame.length, file.frames[i].length);
      EXPECT_EQ(hex64(frame.digest), file.frames[i].digest);
    }
  }
}

// The files for remote reading have digests but lack the flags that say so. A strict
// reader misses the digests; a reader with `legacy_hashes` finds and verifies them.
TEST(tensogram_fixture, the_hash_flag_trap_is_met_both_ways) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  for (const expected_file& file : golden_files()) {
    SCOPED_TRACE(file.name);
    const byte_vector bytes = load(folder + "/" + file.name);
    read_options strict;
    strict.hashes = hash_check::required;
    const auto reader = or_throw(message_reader::open(bytes, strict));
    if (is_remote(file.name)) {
      const auto refused = reader.decode(0);
      ASSERT_FALSE(refused.has_value());
      EXPECT_EQ(refused.error().code(), errc::missing_hash);
    } else {
      EXPECT_TRUE(reader.decode(0).has_value());
      EXPECT_TRUE(reader.verify().has_value());
    }
    read_options legacy = strict;
    legacy.legacy_hashes = true;
    for (const message_span& span : scan(bytes)) {
      const auto part = bytes_view(bytes).subspan(span.offset, span.length);
      const auto old = or_throw(message_reader::open(part, legacy));
      EXPECT_TRUE(old.verify().has_value());
      EXPECT_TRUE(old.decode(0).has_value());
    }
    const file_report now = validate(bytes);
    EXPECT_EQ(now.ok(), !is_remote(file.name));
    validation_options options;
    options.legacy_hashes = true;
    options.level = validation_level::fidelity;
    EXPECT_TRUE(validate(bytes, options).ok());
  }
}

TEST(tensogram_fixture, a_damaged_legacy_digest_is_found_without_being_asked_for) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  byte_vector bytes = load(folder + "/single-msg.tgm");
  bytes[420] ^= std::byte{1};  // inside the payload
  const auto reader = or_throw(message_reader::open(bytes));
  const auto refused = reader.decode(0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), errc::hash_mismatch);
}

TEST(tensogram_fixture, golden_values_are_those_of_the_page) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  for (const char* name : {"simple_f32.tgm", "hash_xxh3.tgm"}) {
    const byte_vector bytes = load(folder + "/" + name);
    const auto reader = or_throw(message_reader::open(bytes));
    EXPECT_EQ(reader.descriptor(0).order, byte_order::big);
    EXPECT_EQ(reader.descriptor(0).shape, (shape_vector{4}));
    EXPECT_EQ(values<float>(reader, 0), (doubles{1, 2, 3, 4}));
  }
  for (const char* name : {"multi_object.tgm", "multi_object_xxh3.tgm"}) {
    const byte_vector bytes = load(folder + "/" + name);
    const auto reader = or_throw(message_reader::open(bytes));
    ASSERT_EQ(reader.object_count(), 3u);
    EXPECT_EQ(values<float>(reader, 0), (doubles{1.5, 2.5}));
    EXPECT_EQ(values<std::int64_t>(reader, 1), (doubles{100, -200, 300}));
    EXPECT_EQ(values<std::uint8_t>(reader, 2), (doubles{10, 20, 30, 40, 50}));
    const char* names[] = {"temperature", "pressure", "humidity"};
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(*reader.metadata(i).find("product")->text(), "efi");
      EXPECT_EQ(*reader.metadata(i).find("parameter")->text(), names[i]);
    }
  }
  const byte_vector two = load(folder + "/multi_message.tgm");
  const auto spans = scan(two);
  EXPECT_EQ(spans[1].offset, 584u);
  const auto second = or_throw(message_reader::open(bytes_view(two).subspan(584)));
  EXPECT_EQ(values<float>(second, 0), (doubles{3, 4}));
  EXPECT_EQ(hex64(second.frames().back().digest), "b171799d18bb401b");
}

TEST(tensogram_fixture, golden_metadata_are_those_of_the_page) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const byte_vector simple = load(folder + "/simple_f32.tgm");
  const auto first = or_throw(message_reader::open(simple));
  EXPECT_EQ(to_json(cbor_value(first.metadata().reserved)).substr(0, 31),
            R"({"time":"2026-04-29T18:12:46Z",)");
  const byte_vector mars = load(folder + "/mars_metadata.tgm");
  const auto reader = or_throw(message_reader::open(mars));
  EXPECT_EQ(to_json(*reader.metadata(0).find("mars")),
            R"({"step":12,"type":"fc","class":"od"})");
  EXPECT_EQ(find_path(reader.metadata(), "mars.step")->int64(), 12);
  EXPECT_EQ(values<double>(reader, 0), (doubles{1, 2, 3, 4, 5, 6}));
  const byte_vector parity = load(folder + "/metadata_parity.tgm");
  const auto p = or_throw(message_reader::open(parity));
  const cbor_map& base = p.metadata(0);
  EXPECT_EQ(base.find("big")->uint64(), 2147483648u);
  EXPECT_EQ(base.find("flag")->boolean(), true);
  EXPECT_EQ(*base.find("note")->text(), "");
  EXPECT_EQ(base.find("count")->int64(), -5);
  EXPECT_EQ(base.find("level")->int64(), 0);
  EXPECT_EQ(base.find("ratio")->real(), 0.5);
  EXPECT_EQ(to_json(*base.find("levels")), "[1000,850,500]");
  EXPECT_EQ(*base.find("shortName")->text(), "2t");
  EXPECT_EQ(*find_path(p.metadata(), "only0")->text(), "x");
  EXPECT_EQ(*p.metadata(1).find("shortName")->text(), "msl");
  EXPECT_EQ(to_json(*p.metadata(1).find("mars")), R"({"class":"ea"})");
  EXPECT_EQ(to_json(cbor_value(p.metadata().extra)), R"({"source":"parity-fixture"})");
  EXPECT_EQ(*find_path(p.metadata(), "extra.source")->text(), "parity-fixture");
  EXPECT_EQ(find_path(p.metadata(), "absent"), nullptr);
}

TEST(tensogram_fixture, remote_files_hold_one_ramp_per_message) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  for (const expected_file& file : golden_files()) {
    if (!is_remote(file.name)) {
      continue;
    }
    SCOPED_TRACE(file.name);
    const byte_vector bytes = load(folder + "/" + file.name);
    const auto spans = scan(bytes);
    for (std::size_t k = 0; k < spans.size(); ++k) {
      const auto part = bytes_view(bytes).subspan(spans[k].offset, spans[k].length);
      EXPECT_EQ(spans[k].length, remote_length(file.name, k));
      const auto reader = or_throw(message_reader::open(part));
      const auto first = static_cast<double>(k);
      EXPECT_EQ(values<float>(reader, 0),
                (doubles{first, first + 1, first + 2, first + 3}));
      EXPECT_EQ(find_path(reader.metadata(0), "fixture.msg_index")->uint64(), k);
      EXPECT_NE(find_path(reader.metadata(0), "_reserved_.tensor"), nullptr);
    }
  }
}

TEST(tensogram_fixture, a_stream_at_the_tail_has_no_length_and_is_found) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const byte_vector bytes = load(folder + "/streaming-tail.tgm");
  const auto spans = scan(bytes);
  ASSERT_EQ(spans.size(), 10u);
  EXPECT_EQ(spans[9], (message_span{5328, 656}));
  const auto reader = or_throw(message_reader::open(bytes_view(bytes).subspan(5328)));
  EXPECT_TRUE(reader.streamed());
  EXPECT_EQ(reader.flags(), 0x00EB);
  EXPECT_EQ(reader.frames()[1].offset, 88u);
  EXPECT_EQ(hex64(reader.frames()[1].digest), "9fd8ea796031e621");
  EXPECT_EQ(reader.frames()[4].offset, 576u);
  EXPECT_EQ(hex64(reader.frames()[4].digest), "3ade8952f7490621");
}

}  // namespace
}  // namespace weir::test
