// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the pipeline through whole messages: refusals, masks, threads, alignment, stored
/// objects, old keys, and scans from both ends.
#include <gtest/gtest.h>
#include <lz4.h>
#include <zstd.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "formats/support.hpp"
#include "support/temp_folder.hpp"
#include "tensogram/codec/pipeline.hpp"
#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::test {
namespace {

using namespace formats;

/// Returns a smooth field of doubles, which every codec can compress.
sample_object smooth_field(std::size_t n) {
  sample_object out = sample(1, dtype::fp64, {static_cast<std::int64_t>(n)});
  for (std::size_t i = 0; i < n; ++i) {
    const double value =
        250 + static_cast<double>(i % 97) / 4 + 1e-3 * std::sin(static_cast<double>(i));
    std::memcpy(out.data.data() + 8 * i, &value, 8);
  }
  return out;
}

/// Returns the parameters that szip needs.
cbor_map szip_keys() {
  return {{"szip_rsi", 16}, {"szip_block_size", 16}, {"szip_flags", 8}};
}

/// Encodes a message of one object.
result<byte_vector> encode(const sample_object& object,
                           const message_options& options = {}) {
  return encode_message(to_write({object}), options);
}

TEST(tensogram_pipeline, pairs_that_readers_fail_on_are_refused_with_the_reason) {
  const auto refusal = [](sample_object object, const char* reason) {
    const auto message = encode(object);
    ASSERT_FALSE(message.has_value()) << reason;
    EXPECT_NE(message.error().text().find(reason), std::string::npos)
        << message.error().text();
    EXPECT_EQ(message.error().location(), "object 0");
  };
  sample_object szip = smooth_field(100);
  szip.descriptor.compression = "szip";
  szip.descriptor.parameters = szip_keys();
  refusal(szip, "32 bits");
  szip.descriptor.encoding = "simple_packing";
  szip.descriptor.parameters.set("sp_bits_per_value", 12);
  refusal(szip, "no true values");
  szip.descriptor.parameters.set("sp_bits_per_value", 16);
  szip.descriptor.parameters.set("szip_flags", 40);
  refusal(szip, "padded");
  szip.descriptor.parameters.set("szip_flags", 8);
  szip.descriptor.parameters.set("szip_block_size", 10);
  refusal(szip, "8, 16, 32 or 64");
  sample_object zfp = smooth_field(100);
  zfp.descriptor.compression = "zfp";
  refusal(zfp, "zfp_mode");
  zfp.descriptor.parameters = {{"zfp_mode", "fixed_rate"}, {"zfp_rate", 8}};
  EXPECT_TRUE(encode(zfp).has_value());
  zfp.descriptor.order = byte_order::big;
  swap_units(zfp.data, 8);
  refusal(zfp, "little-endian");
  sample_object floats = sample(1, dtype::fp32, {100});
  floats.descriptor.compression = "zfp";
  floats.descriptor.parameters = {{"zfp_mode", "fixed_rate"}, {"zfp_rate", 8}};
  refusal(floats, "float64");
  floats.descriptor.compression = "rle";
  refusal(floats, "bitmask");
  floats.descriptor.compression = "blosc2";
  floats.descriptor.parameters = {{"blosc2_codec", "zlib"}};
  refusal(floats, "only read");
  sample_object packed = smooth_field(99);
  packed.descriptor.encoding = "simple_packing";
  packed.descriptor.compression = "blosc2";
  packed.descriptor.parameters = {{"sp_bits_per_value", 27}};
  refusal(packed, "whole items");
  packed.descriptor.compression = "none";
  packed.descriptor.parameters.set("sp_reference_value", 1.0);
  refusal(packed, "or neither");
  sample_object shuffled = smooth_field(99);
  shuffled.descriptor.filter = "shuffle";
  shuffled.descriptor.parameters = {{"shuffle_element_size", 7}};
  refusal(shuffled, "divisor");
  message_options blosc;
  blosc.masks = {
      true, true, mask_method::blosc2, mask_method::blosc2, mask_method::blosc2, 0};
  sample_object holes = smooth_field(99);
  store_le<std::uint64_t>(holes.data.data(), 0x7FF8'0000'0000'0000);
  EXPECT_EQ(encode(holes, blosc).error().code(), errc::unsupported);
}

/// Returns the same field through seven different pipelines.
std::vector<sample_object> staged_objects(std::size_t n) {
  std::vector<sample_object> out(7, smooth_field(n));
  out[1].descriptor.encoding = "simple_packing";
  out[1].descriptor.parameters = {{"sp_bits_per_value", 24}};
  out[2].descriptor = out[1].descriptor;
  out[2].descriptor.compression = "szip";
  out[2].descriptor.parameters = szip_keys();
  out[2].descriptor.parameters.set("sp_bits_per_value", 24);
  out[3].descriptor.filter = "shuffle";
  out[3].descriptor.compression = "zstd";
  out[3].descriptor.parameters = {{"shuffle_element_size", 8}};
  out[4].descriptor.compression = "lz4";
  out[5].descriptor.compression = "blosc2";
  out[6].descriptor.compression = "zfp";
  out[6].descriptor.parameters = {{"zfp_mode", "fixed_rate"}, {"zfp_rate", 16}};
  return out;
}

TEST(tensogram_pipeline, the_number_of_threads_changes_no_byte) {
  const auto objects = staged_objects(30'000);
  for (const auto& some :
       {objects, std::vector<sample_object>{objects[2]},
        std::vector<sample_object>{objects[1]}, std::vector<sample_object>{objects[3]}}) {
    message_options options;
    const byte_vector one = or_throw(encode_message(to_write(some), options));
    const auto alone = or_throw(or_throw(message_reader::open(one)).decode_all());
    for (const unsigned threads : {2u, 4u}) {
      options.threads = threads;
      EXPECT_EQ(or_throw(encode_message(to_write(some), options)), one);
      read_options reading;
      reading.threads = threads;
      EXPECT_EQ(or_throw(or_throw(message_reader::open(one, reading)).decode_all()),
                alone);
    }
  }
}

TEST(tensogram_pipeline, a_reader_is_shared_by_threads) {
  const byte_vector message = or_throw(encode_message(to_write(staged_objects(2000))));
  const auto reader =
      std::make_shared<message_reader>(or_throw(message_reader::open(message)));
  std::vector<std::future<result<byte_vector>>> later;
  for (int k = 0; k < 3; ++k) {
    for (std::size_t i = 0; i < reader->object_count(); ++i) {
      later.push_back(decode_later(reader, i));
    }
  }
  for (std::size_t k = 0; k < later.size(); ++k) {
    EXPECT_EQ(or_throw(later[k].get()),
              or_throw(reader->decode(k % reader->object_count())));
  }
}

TEST(tensogram_pipeline, ranges_are_parts_of_the_whole) {
  const byte_vector message = or_throw(encode_message(to_write(staged_objects(5000))));
  const auto reader = or_throw(message_reader::open(message));
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    SCOPED_TRACE(i);
    const byte_vector all = or_throw(reader.decode(i));
    for (const auto& [first, count] :
         std::vector<std::pair<std::uint64_t, std::uint64_t>>{
             {0, 5000}, {1, 7}, {257, 1030}, {4999, 1}, {5000, 0}, {3, 0}}) {
      const auto part = reader.decode_range(i, first, count);
      if (reader.descriptor(i).filter == "shuffle" && count > 0) {
        EXPECT_EQ(part.error().code(), errc::unsupported);
        continue;
      }
      ASSERT_TRUE(part.has_value()) << part.error().message();
      EXPECT_TRUE(part->size() == 8 * count &&
                  std::equal(part->begin(), part->end(),
                             all.begin() + static_cast<std::ptrdiff_t>(8 * first)));
    }
    EXPECT_EQ(reader.decode_range(i, 4000, 1001).error().code(), errc::out_of_range);
    EXPECT_EQ(reader.decode_range(i, ~std::uint64_t{0}, 2).error().code(),
              errc::out_of_range);
  }
}

TEST(tensogram_pipeline, payloads_stand_where_they_are_asked_to) {
  for (const std::uint32_t alignment : {16u, 64u, 512u, 4096u}) {
    for (const std::size_t count : {1u, 2u, 9u, 40u}) {
      std::vector<sample_object> objects;
      for (std::size_t i = 0; i < count; ++i) {
        objects.push_back(
            sample(i, dtype::uint8, {static_cast<std::int64_t>(i * 37 % 91)}));
        objects.back().metadata = {{"name", "object" + std::to_string(i)}};
      }
      message_options options;
      options.payload_alignment = alignment;
      const byte_vector message = or_throw(encode_message(to_write(objects), options));
      const auto reader = or_throw(message_reader::open(message));
      std::size_t i = 0;
      for (const frame_info& frame : reader.frames()) {
        if (frame.type == 9) {
          EXPECT_EQ((frame.offset + 16) % alignment, 0u) << alignment << " " << i;
          EXPECT_EQ(or_throw(reader.decode(i)), objects[i].data);
          ++i;
        }
      }
      EXPECT_TRUE(validate(bytes_view(message)).ok());
    }
  }
  message_options odd;
  odd.payload_alignment = 24;
  EXPECT_EQ(encode(smooth_field(3), odd).error().code(), errc::invalid_argument);
}

// The elements are complex, so one element can hold NaN and an infinity. Each element
// must be in one list only.
TEST(tensogram_pipeline, masks_hold_each_value_in_one_list) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  sample_object object = sample(1, dtype::complex128, {5});
  const std::array<double, 10> values{nan, inf, inf, -inf, -inf, 1, 2, 3, 4, inf};
  std::memcpy(object.data.data(), values.data(), 80);
  message_options options;
  options.masks.nan = options.masks.infinity = true;
  const byte_vector message = or_throw(encode(object, options));
  const auto reader = or_throw(message_reader::open(message));
  const value_masks masks = or_throw(reader.masks(0));
  EXPECT_EQ(to_hex(masks.nan), "80");
  EXPECT_EQ(to_hex(masks.positive_infinity), "48");
  EXPECT_EQ(to_hex(masks.negative_infinity), "20");
  const byte_vector back = or_throw(reader.decode(0));
  std::array<double, 10> restored{};
  std::memcpy(restored.data(), back.data(), 80);
  EXPECT_TRUE(std::isnan(restored[0]) && std::isnan(restored[1]));
  EXPECT_EQ(restored[2], inf);
  EXPECT_EQ(restored[3], inf);
  EXPECT_EQ(restored[4], -inf);
  EXPECT_EQ(restored[6], 2);
  EXPECT_TRUE(
      validate(bytes_view(message), {validation_level::fidelity, false, false}).ok());
  options.masks.infinity = false;
  EXPECT_NE(encode(object, options).error().text().find("infinity"), std::string::npos);
  options.floats = non_finite::store;
  const byte_vector half = or_throw(encode(object, options));
  EXPECT_TRUE(
      or_throw(or_throw(message_reader::open(half)).masks(0)).positive_infinity.empty());
}

TEST(tensogram_pipeline, zero_bits_pack_the_first_value_and_leave_the_rest_to_masks) {
  sample_object object = smooth_field(3);
  object.descriptor.encoding = "simple_packing";
  object.descriptor.parameters = {{"sp_bits_per_value", 0}};
  const auto set = [&](std::size_t i, double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    object.descriptor.order == byte_order::little
        ? store_le(object.data.data() + 8 * i, bits)
        : store_be(object.data.data() + 8 * i, bits);
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  message_options options;
  for (const byte_order order : {byte_order::little, byte_order::big}) {
    object.descriptor.order = order;
    set(0, 1);
    set(1, infinity);
    set(2, 3);
    EXPECT_EQ(encode(object).error().code(), errc::invalid_argument);
    options.masks.infinity = true;
    const byte_vector message = or_throw(encode(object, options));
    const auto reader = or_throw(message_reader::open(message));
    const byte_vector back = or_throw(reader.decode(0));
    const std::array<double, 3> expected{1, infinity, 1};
    EXPECT_EQ(std::memcmp(back.data(), expected.data(), back.size()), 0);
    set(0, infinity);
    EXPECT_EQ(encode(object, options).error().code(), errc::unknown_key);
  }
}

TEST(tensogram_pipeline, small_masks_are_stored_as_they_are) {
  for (const std::int64_t n : {1024, 1032}) {
    sample_object object = smooth_field(static_cast<std::size_t>(n));
    store_le<std::uint64_t>(object.data.data() + 800, 0x7FF8'0000'0000'0000);
    message_options options;
    options.masks.nan = true;
    const byte_vector message = or_throw(encode(object, options));
    const auto reader = or_throw(message_reader::open(message));
    EXPECT_EQ(*find_path(reader.descriptor(0).masks, "nan.method")->text(),
              n == 1024 ? "none" : "roaring");
    EXPECT_EQ(or_throw(reader.decode(0)), object.data);
    EXPECT_EQ(or_throw(reader.decode_range(0, 99, 3)).size(), 24u);
  }
}

TEST(tensogram_pipeline, stored_objects_pass_through_with_their_masks) {
  std::vector<sample_object> objects = staged_objects(500);
  store_le<std::uint64_t>(objects[4].data.data() + 80, 0xFFF0'0000'0000'0000);
  message_options options;
  options.masks.infinity = true;
  const byte_vector message = or_throw(encode_message(to_write(objects), options));
  const auto reader = or_throw(message_reader::open(message));
  std::vector<byte_vector> regions;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    regions.push_back(or_throw(reader.stored_region(i)));
  }
  std::vector<object_to_write> stored;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    stored.push_back({reader.descriptor(i), {}, regions[i], true});
  }
  EXPECT_EQ(or_throw(encode_message(stored)), message);
  stored[0].data = bytes_view(regions[0]).first(80);
  EXPECT_EQ(encode_message(stored).error().code(), errc::invalid_argument);
  stored[0].data = regions[0];
  stored[0].descriptor.parameters = {{"szip_block_offsets", cbor_array{0}}};
  EXPECT_EQ(encode_message(stored).error().code(), errc::invalid_argument);
}

/// Decodes an object of `decoded` bytes whose payload another writer has made.
result<byte_vector> read_stored(const char* compression, std::size_t decoded,
                                bytes_view payload) {
  object_to_write one;
  one.descriptor.type = dtype::uint8;
  one.descriptor.shape = {static_cast<std::int64_t>(decoded)};
  one.descriptor.compression = compression;
  one.data = payload;
  one.stored = true;
  const byte_vector message = or_throw(encode_message({&one, 1}));
  return or_throw(message_reader::open(message)).decode(0);
}

/// Returns a frame of zstd with or without the size of its content and a checksum.
byte_vector zstd_frame(bytes_view bytes, bool with_size, bool with_checksum) {
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                        ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, with_size ? 1 : 0);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, with_checksum ? 1 : 0);
  byte_vector out(ZSTD_compressBound(bytes.size()));
  out.resize(
      ZSTD_compress2(context.get(), out.data(), out.size(), bytes.data(), bytes.size()));
  return out;
}

TEST(tensogram_pipeline, zstd_frames_of_every_kind_are_read_and_no_other_size) {
  byte_vector data = random_bytes(1, 400);
  data.resize(1000, std::byte{7});
  const bytes_view all(data);
  const byte_vector whole = zstd_frame(all, true, false);
  const byte_vector open_ended = zstd_frame(all, false, true);
  byte_vector parts = zstd_frame(all.first(300), false, false);
  // Decoders must ignore this skippable frame.
  append(parts, from_hex("502A4D18 04000000 DEADBEEF"));
  append(parts, zstd_frame(all.subspan(300), true, true));
  for (const byte_vector& payload : {whole, open_ended, parts}) {
    EXPECT_EQ(or_throw(read_stored("zstd", 1000, payload)), data);
    for (const std::size_t other : {999u, 1001u, 700u}) {
      EXPECT_EQ(read_stored("zstd", other, payload).error().code(), errc::corrupt);
    }
    byte_vector longer = payload;
    longer.push_back(std::byte{1});
    EXPECT_EQ(read_stored("zstd", 1000, longer).error().code(), errc::corrupt);
    EXPECT_FALSE(read_stored("zstd", 1000, bytes_view(payload).first(40)).has_value());
  }
}

TEST(tensogram_pipeline, lz4_blocks_must_keep_the_size_in_front_of_them) {
  const byte_vector data(1000, std::byte{7});
  byte_vector payload(4 + static_cast<std::size_t>(LZ4_compressBound(1000)));
  store_le<std::uint32_t>(payload.data(), 1000);
  payload.resize(4 + static_cast<std::size_t>(LZ4_compress_default(
                         reinterpret_cast<const char*>(data.data()),
                         reinterpret_cast<char*>(payload.data() + 4), 1000,
                         static_cast<int>(payload.size() - 4))));
  EXPECT_EQ(or_throw(read_stored("lz4", 1000, payload)), data);
  for (const std::uint32_t lie : {0u, 999u, 1001u, 0xFFFF'FFFFu}) {
    store_le(payload.data(), lie);
    EXPECT_EQ(read_stored("lz4", 1000, payload).error().code(), errc::corrupt) << lie;
  }
  store_le<std::uint32_t>(payload.data(), 1001);
  EXPECT_FALSE(read_stored("lz4", 1001, payload).has_value())
      << "the block decodes to 1000 bytes and not to 1001";
  store_le<std::uint32_t>(payload.data(), 1000);
  EXPECT_FALSE(read_stored("lz4", 1000, bytes_view(payload).first(8)).has_value());
}

TEST(tensogram_pipeline, packing_keys_of_old_writers_are_read_on_request) {
  sample_object object = smooth_field(64);
  object.descriptor.encoding = "simple_packing";
  object.descriptor.parameters = {{"sp_bits_per_value", 16}};
  const byte_vector now = or_throw(encode(object));
  const auto reader = or_throw(message_reader::open(now));
  object_descriptor old = reader.descriptor(0);
  cbor_map keys;
  for (const cbor_entry& entry : old.parameters) {
    keys.set(entry.key.text()->substr(3), entry.value);
  }
  old.parameters = keys;
  const byte_vector payload = or_throw(reader.stored_payload(0));
  read_options options;
  EXPECT_EQ(plan_reading(old, payload.size(), options).error().code(), errc::corrupt);
  options.legacy_packing = true;
  const pipeline plan = or_throw(plan_reading(old, payload.size(), options));
  byte_vector elements(plan.decoded);
  or_throw(decode_payload(plan, payload, memory_at(elements), 1));
  EXPECT_EQ(elements, or_throw(reader.decode(0)));
}

TEST(tensogram_pipeline, a_shape_asks_for_no_more_than_the_limit) {
  sample_object object = smooth_field(64);
  object.descriptor.encoding = "simple_packing";
  object.descriptor.parameters = {{"sp_bits_per_value", 0}};
  byte_vector message = or_throw(encode(object));
  read_options options;
  options.max_object_bytes = 511;
  const auto reader = or_throw(message_reader::open(message, options));
  EXPECT_EQ(reader.decode(0).error().code(), errc::out_of_range);
  options.max_object_bytes = 512;
  EXPECT_EQ(or_throw(or_throw(message_reader::open(message, options)).decode(0)).size(),
            512u);
}

// A file with garbage, streams and markers between messages is cut at many places. All
// three orders of scanning must find the same messages.
TEST(tensogram_scan, messages_are_the_same_from_either_end) {
  byte_vector bytes;
  byte_vector stream;
  auto writer = or_throw(stream_writer::open([&](bytes_view piece) {
    append(stream, piece);
    return result<void>();
  }));
  or_throw(writer.write(smooth_field(5).to_write()));
  or_throw(writer.finish());
  for (const bool streams : {false, true}) {
    bytes.clear();
    bytes.reserve(1 << 16);
    append(bytes, as_view("garbage"));
    for (int k = 0; k < 7; ++k) {
      append(bytes,
             streams && k % 3 == 1
                 ? stream
                 : or_throw(encode(smooth_field(3u + 7u * static_cast<unsigned>(k)))));
      append(bytes, as_view(k == 3 ? "39277777" : ""));
    }
    const memory_byte_source source{bytes_view(bytes)};
    const auto forward = or_throw(scan(source));
    EXPECT_EQ(forward.size(), 7u);
    EXPECT_EQ(or_throw(scan(source, scan_order::backward)), forward);
    EXPECT_EQ(or_throw(scan(source, scan_order::both_ends)), forward);
    for (std::size_t cut = 0; cut < bytes.size(); cut += 13) {
      const memory_byte_source part(bytes_view(bytes).first(cut));
      const auto expected = or_throw(scan(part));
      EXPECT_EQ(or_throw(scan(part, scan_order::backward)), expected) << cut;
      EXPECT_EQ(or_throw(scan(part, scan_order::both_ends)), expected) << cut;
    }
  }
}

TEST(tensogram_source, a_mapped_file_is_read_in_place) {
  const temp_folder folder;
  const std::string path = folder / "mapped.tgm";
  const byte_vector message = or_throw(encode(smooth_field(100)));
  or_throw(write_file_atomically(posix_file_system(), path, message));
  const auto source = or_throw(mapped_source::open(path));
  const auto reader = or_throw(message_reader::open(source, or_throw(scan(*source))[0]));
  EXPECT_EQ(or_throw(reader.view(0)).data(),
            source->view()->data() + reader.frames().back().offset + 16);
  EXPECT_EQ(or_throw(reader.decode(0)), smooth_field(100).data);
  EXPECT_EQ(mapped_source::open(folder / "absent").error().code(), errc::not_found);
  or_throw(write_file_atomically(posix_file_system(), path, bytes_view()));
  EXPECT_EQ(or_throw(mapped_source::open(path))->size(), 0u);
}

TEST(tensogram_metadata, the_first_frame_alone_gives_it) {
  sample_object object = smooth_field(3);
  object.metadata = {{"name", "t"}};
  byte_vector message = or_throw(encode(object));
  const auto found = or_throw(read_metadata(message));
  EXPECT_EQ(*find_path(found, "name")->text(), "t");
  message[60] ^= std::byte{1};
  EXPECT_EQ(read_metadata(message).error().code(), errc::hash_mismatch);
  for (std::size_t cut = 0; cut < 100; ++cut) {
    EXPECT_FALSE(read_metadata(bytes_view(message).first(cut)).has_value());
  }
}

}  // namespace
}  // namespace weir::test
