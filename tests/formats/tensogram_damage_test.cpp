// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests hostile bytes: messages that are cut, flipped or mutated, and messages that
/// claim more than they hold. Nothing may crash or give wrong values without an error.
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/support.hpp"
#include "support/case_count.hpp"
#include "support/fixtures.hpp"
#include "support/folders.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::test {
namespace {

using namespace formats;

/// Everything that a reader gets from a message.
struct whole_message {
  message_metadata metadata;
  std::vector<object_descriptor> descriptors;
  std::vector<byte_vector> elements;
};

/// Reads a whole message; by default every object must have a digest.
result<whole_message> read_whole(bytes_view bytes,
                                 hash_check hashes = hash_check::required) {
  read_options options;
  options.hashes = hashes;
  options.max_object_bytes = 1 << 20;
  WEIR_TRY(const auto reader, message_reader::open(bytes, options));
  whole_message out;
  out.metadata = reader.metadata();
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    out.descriptors.push_back(reader.descriptor(i));
    WEIR_TRY(byte_vector elements, reader.decode(i));
    out.elements.push_back(std::move(elements));
  }
  return out;
}

/// Returns whether two messages have equal metadata, descriptors and elements.
bool same(const whole_message& a, const whole_message& b) {
  return a.metadata.base == b.metadata.base && a.metadata.extra == b.metadata.extra &&
         a.metadata.reserved == b.metadata.reserved && a.descriptors == b.descriptors &&
         a.elements == b.elements;
}

/// Returns a stream of objects.
byte_vector stream_of(const std::vector<sample_object>& objects) {
  byte_vector out;
  auto writer = or_throw(stream_writer::open([&](bytes_view bytes) {
    append(out, bytes);
    return result<void>();
  }));
  for (const sample_object& object : objects) {
    or_throw(writer.write(object.to_write()));
  }
  or_throw(writer.finish());
  return out;
}

/// Returns messages to damage: one for each place of the digest list, and a stream.
std::vector<byte_vector> victims() {
  const auto objects = small_objects();
  std::vector<byte_vector> out;
  for (const hash_list list : {hash_list::header, hash_list::footer, hash_list::both}) {
    message_options options;
    options.list = list;
    options.extra = {{"run", 7}};
    out.push_back(or_throw(encode_message(to_write(objects), options)));
  }
  out.push_back(stream_of(objects));
  return out;
}

TEST(tensogram_damage, a_message_cut_anywhere_is_refused) {
  for (const byte_vector& message : victims()) {
    for (std::size_t size = 0; size < message.size(); ++size) {
      // The copy has its own allocation, so that a sanitizer sees every read behind its
      // end.
      const byte_vector cut(message.begin(),
                            message.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(read_whole(cut).has_value()) << size << " of " << message.size();
      EXPECT_TRUE(scan(cut).empty()) << size;
      EXPECT_FALSE(validate(cut).ok()) << size;
      EXPECT_FALSE(validate_message(cut).ok()) << size;
    }
  }
}

TEST(tensogram_damage, a_file_without_a_byte_is_refused_with_the_reason) {
  const file_report report = validate(bytes_view());
  EXPECT_FALSE(report.ok());
  ASSERT_EQ(report.file_issues.size(), 1u);
  EXPECT_EQ(report.file_issues[0].length, 0u);
  EXPECT_NE(report.file_issues[0].description.find("no valid messages"),
            std::string::npos);
}

TEST(tensogram_damage, a_flipped_byte_is_found_or_changes_nothing) {
  for (const byte_vector& message : victims()) {
    const whole_message before = or_throw(read_whole(message));
    std::size_t unseen = 0;
    for (std::size_t offset = 0; offset < message.size(); offset += case_step()) {
      for (const int mask : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF}) {
        byte_vector damaged = message;
        damaged[offset] ^= static_cast<std::byte>(mask);
        const auto after = read_whole(damaged);
        unseen += after.has_value() ? 1 : 0;
        EXPECT_TRUE(!after || same(before, *after))
            << "byte " << offset << " mask " << mask;
        const auto present = read_whole(damaged, hash_check::present);
        EXPECT_TRUE(!present || same(before, *present))
            << "byte " << offset << " mask " << mask;
      }
    }
    // Damage may go unnoticed only in reserved fields, frame versions, padding and the
    // flags that announce frames.
    EXPECT_LT(unseen, message.size() * 9 / 10);
  }
}

TEST(tensogram_damage, a_validated_flip_leaves_values_and_metadata_whole) {
  for (const byte_vector& message : victims()) {
    const whole_message before = or_throw(read_whole(message));
    for (std::size_t offset = 0; offset < message.size(); ++offset) {
      byte_vector damaged = message;
      damaged[offset] ^= std::byte{0x04};
      if (validate(damaged).ok()) {
        const auto after = read_whole(damaged, hash_check::none);
        EXPECT_TRUE(after && same(before, *after)) << "byte " << offset;
      }
    }
  }
}

/// Calls everything that reads on arbitrary bytes. No call may report an internal error.
void try_all(bytes_view bytes) {
  const auto spans = scan(bytes);
  for (const message_span& span : spans) {
    EXPECT_LE(span.offset + span.length, bytes.size());
  }
  validation_options options;
  options.level = validation_level::fidelity;
  options.canonical = true;
  options.max_object_bytes = 1 << 20;
  (void)to_json(validate(bytes, options), "fuzz");
  (void)validate_message(bytes, options);
  for (const hash_check hashes :
       {hash_check::none, hash_check::present, hash_check::required}) {
    const auto all = read_whole(bytes, hashes);
    if (!all) {
      EXPECT_NE(all.error().code(), errc::internal) << all.error().message();
    }
  }
}

/// Returns bytes after up to six random changes, some of which copy from another message.
byte_vector mutate(const philox& random, std::uint64_t& draw, byte_vector bytes,
                   bytes_view other) {
  const std::uint64_t times = 1 + random.below(draw++, 6);
  for (std::uint64_t k = 0; k < times && !bytes.empty(); ++k) {
    const std::size_t offset = random.below(draw++, bytes.size());
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
    switch (random.below(draw++, 6)) {
      case 0: *place ^= static_cast<std::byte>(1u << random.below(draw++, 8)); break;
      case 1: *place = static_cast<std::byte>(random.below(draw++, 256)); break;
      case 2: bytes.erase(place); break;
      case 3:
        bytes.insert(place, static_cast<std::byte>(random.below(draw++, 256)));
        break;
      case 4: {  // eight bytes of one kind: lengths and offsets at their limits
        const auto fill =
            static_cast<std::byte>(random.below(draw++, 2) == 0 ? 0x00 : 0xFF);
        std::fill_n(place, std::min<std::size_t>(8, bytes.size() - offset), fill);
        break;
      }
      default: {  // a piece of another message
        const std::size_t from = random.below(draw++, other.size());
        const std::size_t n = std::min({other.size() - from, bytes.size() - offset,
                                        std::size_t{1} + random.below(draw++, 40)});
        std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(from), n, place);
      }
    }
  }
  return bytes;
}

TEST(tensogram_damage, mutated_messages_never_crash) {
  std::vector<byte_vector> corpus = victims();
  const std::string folder = fixture_folder("tensogram");
  for (const char* name :
       {"hand_preceder_stream", "hand_descriptor_first_mask", "hand_unpadded",
        "hand_cbor_indefinite", "damage_none", "hand_both_metadata"}) {
    if (!folder.empty()) {
      corpus.push_back(load(folder + "/wheel/" + name + ".tgm"));
    }
  }
  constexpr std::uint64_t seed = 20261121;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  const philox random(seed, 1);
  std::uint64_t draw = 0;
  for (int round = 0; round < 3000; ++round) {
    const byte_vector& one = corpus[random.below(draw++, corpus.size())];
    const byte_vector& other = corpus[random.below(draw++, corpus.size())];
    try_all(mutate(random, draw, one, other));
  }
}

/// Returns a frame without a digest, padded to 8 bytes.
byte_vector bare_frame(std::uint16_t type, bytes_view body, bytes_view before_slot = {}) {
  byte_vector out = from_hex("4652 0000 0001 0000 0000000000000000");
  store_be<std::uint16_t>(out.data() + 2, type);
  store_be<std::uint16_t>(out.data() + 6, type == 9 ? 1 : 0);
  append(out, body);
  append(out, before_slot);
  append(out, from_hex("0000000000000000 454E4446"));
  store_be<std::uint64_t>(out.data() + 8, out.size());
  out.resize(align_up(out.size(), std::size_t{8}));
  return out;
}

/// Counts the reads of a source that is not in memory.
class counted_source final : public byte_source {
 public:
  explicit counted_source(byte_vector bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  const std::string& name() const noexcept override { return name_; }
  result<void> read(std::uint64_t offset, mutable_bytes to) const override {
    ++reads;
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), to.size(),
                to.begin());
    return {};
  }
  mutable std::uint64_t reads = 0;

 private:
  byte_vector bytes_;
  std::string name_ = "counted";
};

TEST(tensogram_damage, many_damaged_streams_that_share_their_frames_are_scanned_once) {
  constexpr std::uint64_t starts = 1000;
  constexpr std::uint64_t frames = 2000;
  byte_vector bytes;
  // The first frame of each start reaches over all later starts to the same end marker.
  const byte_vector start = from_hex(
      "54454E534F47524D 0003 0000 00000000 0000000000000000"
      "4652 0001 0001 0000 0000000000000000");
  for (std::uint64_t i = 0; i < starts; ++i) {
    append(bytes, start);
    store_be<std::uint64_t>(bytes.data() + bytes.size() - 8,
                            (starts - 1 - i) * start.size() + 16 + 16);
  }
  append(bytes, from_hex("00000000 0000000000000000 454E4446"));
  for (std::uint64_t i = 0; i < frames; ++i) {
    append(bytes, bare_frame(1, {}));
  }
  append(bytes, as_view("no frame and no end of a stream"));
  const counted_source source(bytes);
  EXPECT_TRUE(or_throw(scan(source)).empty());
  // Walking the frames again for each start would take millions of reads.
  EXPECT_LT(source.reads, std::uint64_t{200'000});
}

/// Returns a message without an index whose only object claims `extent` elements of uint8
/// over a payload of any size.
byte_vector boasting_message(std::int64_t extent, const std::string& compression,
                             bytes_view payload) {
  byte_vector body(payload.begin(), payload.end());
  append(body, encode_cbor(cbor_map{{"type", "ntensor"},
                                    {"ndim", 1},
                                    {"shape", cbor_array{extent}},
                                    {"strides", cbor_array{1}},
                                    {"dtype", "uint8"},
                                    {"byte_order", "little"},
                                    {"encoding", "none"},
                                    {"filter", "none"},
                                    {"compression", compression}}));
  byte_vector offset(8);
  store_be<std::uint64_t>(offset.data(), 16 + payload.size());
  byte_vector out = from_hex("54454E534F47524D 0003 0001 00000000 0000000000000000");
  append(out, bare_frame(1, encode_cbor(cbor_map{})));
  append(out, bare_frame(9, body, offset));
  byte_vector end = from_hex("0000000000000000 0000000000000000 3339323737373737");
  store_be<std::uint64_t>(end.data(), out.size());
  append(out, end);
  store_be<std::uint64_t>(out.data() + 16, out.size());
  return out;
}

/// Returns the codes of the issues that a check of the structure alone finds.
std::vector<std::string> structural_codes(bytes_view message) {
  validation_options quick;
  quick.level = validation_level::structure;
  std::vector<std::string> out;
  for (const validation_issue& issue : validate_message(message, quick).issues) {
    EXPECT_EQ(issue.level, validation_level::structure);
    out.push_back(issue.code);
  }
  return out;
}

TEST(tensogram_damage, lengths_that_no_number_can_count_have_codes_of_their_own) {
  using codes = std::vector<std::string>;
  const std::vector<sample_object> objects{sample(1, dtype::fp32, {3})};
  const byte_vector sound = or_throw(encode_message(to_write(objects)));
  const auto with = [&](std::size_t offset, std::uint64_t length) {
    byte_vector message = sound;
    store_be(message.data() + offset, length);
    return structural_codes(message);
  };
  constexpr std::size_t whole = 16;
  constexpr std::size_t first_frame = 24 + 8;
  EXPECT_EQ(with(whole, std::uint64_t{1} << 63), codes{"total_length_overflow"});
  EXPECT_EQ(with(whole, (std::uint64_t{1} << 63) - 1),
            codes{"total_length_exceeds_buffer"});
  EXPECT_EQ(with(first_frame, UINT64_MAX - 23), codes{"frame_length_overflow"});
  EXPECT_EQ(with(first_frame, UINT64_MAX - 24), codes{"frame_exceeds_message"});
}

TEST(tensogram_damage, a_leading_descriptor_that_cannot_be_read_hides_the_payload) {
  byte_vector message =
      load(source_folder() + "/tests/conformance/tensogram/layout/descriptor_first.tgm");
  EXPECT_TRUE(structural_codes(message).empty());
  const std::uint64_t frame =
      or_throw(message_reader::open(message)).frames().back().offset;
  message[frame + 16] = std::byte{0xFF};
  EXPECT_EQ(structural_codes(message),
            std::vector<std::string>{"cbor_before_boundary_unknown"});
}

TEST(tensogram_damage, a_payload_that_does_not_decode_is_found_where_decoding_is_tried) {
  const byte_vector nonsense(24, std::byte{0xEE});
  object_to_write one;
  one.descriptor.type = dtype::fp64;
  one.descriptor.shape = {3};
  one.descriptor.compression = "lz4";
  one.data = nonsense;
  one.stored = true;
  const byte_vector message = or_throw(encode_message(std::span(&one, 1)));
  validation_options options;
  const auto tried = validate_message(message, options);
  ASSERT_EQ(tried.issues.size(), 1u);
  EXPECT_EQ(tried.issues[0].code, "decode_pipeline_failed");
  options.trial_decode = false;
  EXPECT_TRUE(validate_message(message, options).ok());
  options.level = validation_level::fidelity;
  EXPECT_TRUE(validate_message(message, options).ok())
      << "without trial decoding the damage is found at no level";
}

TEST(tensogram_damage, a_shape_beyond_its_payload_is_refused_before_memory_is_taken) {
  const byte_vector zeros(64);
  const byte_vector honest = boasting_message(64, "none", zeros);
  EXPECT_EQ(or_throw(or_throw(message_reader::open(honest)).decode(0)), zeros);
  const byte_vector packed = from_hex("28B52FFD 2040 450000080000013FC0");
  for (const int power : {33, 40, 62}) {
    const auto raw =
        message_reader::open(boasting_message(std::int64_t{1} << power, "none", zeros));
    ASSERT_FALSE(raw.has_value());
    EXPECT_EQ(raw.error().code(), errc::corrupt);
    const byte_vector message =
        boasting_message(std::int64_t{1} << power, "zstd", packed);
    const auto reader = or_throw(message_reader::open(message));
    const auto refused = reader.decode(0);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), errc::corrupt);
    EXPECT_NE(refused.error().text().find("times"), std::string::npos);
  }
}

TEST(tensogram_damage, a_zstd_bomb_is_refused_before_memory_is_taken) {
  sample_object zeros = sample(1, dtype::uint8, {4 << 20}, byte_order::little, "zstd");
  std::fill(zeros.data.begin(), zeros.data.end(), std::byte{});
  const byte_vector message = or_throw(encode_message(to_write({zeros})));
  EXPECT_LT(message.size(), 2000u);
  read_options options;
  options.max_object_bytes = 1 << 20;
  const auto reader = or_throw(message_reader::open(message, options));
  const auto refused = reader.decode(0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), errc::out_of_range);
  EXPECT_EQ(or_throw(or_throw(message_reader::open(message)).decode(0)), zeros.data);
}

}  // namespace
}  // namespace weir::test
