// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that memory follows the input: a reader takes memory only for what the bytes of
/// a message have shown. The meter counts all allocations of the process.
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "formats/support.hpp"
#include "support/allocation_meter.hpp"
#include "support/case_count.hpp"
#include "support/fixtures.hpp"
#include "support/folders.hpp"
#include "tensogram/wire/metadata.hpp"
#include "tensogram/wire/wire.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::test {
namespace {

using namespace formats;

constexpr std::int64_t mebibyte = 1 << 20;
constexpr std::int64_t allowance = 64 * mebibyte;

/// Appends a frame without a digest, padded to the alignment of frames.
void put_frame(byte_vector& to, std::uint16_t type, std::uint16_t flags, bytes_view body,
               bytes_view tail) {
  const std::uint64_t length =
      frame_header_size + body.size() + tail.size() + frame_tail_size;
  append(to, make_frame_header(type, flags, length));
  append(to, body);
  append(to, tail);
  append(to, make_frame_tail(0));
  to.resize(align_up(to.size(), frame_alignment));
}

/// Returns a message that no writer has checked: any descriptor over any payload, without
/// digests.
byte_vector unchecked_message(const cbor_map& descriptor, bytes_view payload) {
  byte_vector out(preamble_size);
  put_frame(out, frame_type::header_metadata, 0, encode_cbor(cbor_map{}), {});
  byte_vector body(payload.begin(), payload.end());
  append(body, encode_cbor(descriptor));
  byte_vector offset(8);
  store_be<std::uint64_t>(offset.data(), frame_header_size + payload.size());
  put_frame(out, frame_type::object, frame_flag::descriptor_after_payload, body, offset);
  const std::uint64_t total = out.size() + postamble_size;
  append(out, make_postamble({out.size(), total}));
  const auto head = make_preamble({preamble_flag::header_metadata, total});
  std::copy(head.begin(), head.end(), out.begin());
  return out;
}

/// An object whose shape promises more than its payload holds.
struct boast {
  const char* name;
  dtype type = dtype::fp64;
  std::int64_t elements = 0;
  const char* encoding = "none";
  const char* compression = "none";
  cbor_map parameters;
  byte_vector payload;
};

/// Returns the descriptor of such an object.
cbor_map descriptor_of(const boast& b) {
  object_descriptor d;
  d.type = b.type;
  d.shape = {b.elements};
  d.encoding = b.encoding;
  d.compression = b.compression;
  d.parameters = b.parameters;
  return or_throw(make_descriptor(d));
}

/// Returns a size as u32 in the given byte order, followed by other bytes.
byte_vector with_size(std::uint32_t size, bool big, bytes_view rest) {
  byte_vector out(4);
  big ? store_be(out.data(), size) : store_le(out.data(), size);
  append(out, rest);
  return out;
}

/// Returns the bytes of a hexadecimal text, repeated.
byte_vector repeated(std::string_view hex, std::size_t count) {
  byte_vector out;
  for (std::size_t i = 0; i < count; ++i) {
    append(out, from_hex(hex));
  }
  return out;
}

/// Returns descriptors and payloads of small messages that promise up to terabytes of
/// elements, one for every codec. None of them can be decoded.
std::vector<boast> lies() {
  constexpr std::int64_t g = std::int64_t{1} << 30;
  const cbor_map szip{{"szip_rsi", 128}, {"szip_block_size", 16}, {"szip_flags", 8}};
  const cbor_map wide{{"szip_rsi", 4096}, {"szip_block_size", 4096}, {"szip_flags", 72}};
  const auto zfp = [](const char* mode, const char* key, cbor_value value) {
    return cbor_map{{"zfp_mode", mode}, {key, std::move(value)}};
  };
  const cbor_map one_bit{{"sp_bits_per_value", 1},
                         {"sp_reference_value", 1.0},
                         {"sp_binary_scale_factor", 0},
                         {"sp_decimal_scale_factor", 0}};
  const byte_vector zeros(64);
  // Blocks of zstd that stand for 128 KiB each, followed by a damaged one.
  byte_vector zstd = from_hex("28B52FFD 00 58");
  append(zstd, repeated("020010 00", 200));
  append(zstd, from_hex("050000 FF"));
  const auto zstd_bytes = std::int64_t{200} * 128 * 1024 + 4096;
  std::vector<boast> out;
  out.push_back({"raw", dtype::fp64, g, "none", "none", {}, zeros});
  out.push_back({"one bit", dtype::fp64, g, "simple_packing", "none", one_bit, zeros});
  out.push_back({"lz4",
                 dtype::uint8,
                 250'000,
                 "none",
                 "lz4",
                 {},
                 with_size(250'000, false, byte_vector(1000, std::byte{0xFF}))});
  out.push_back({"zstd", dtype::uint8, zstd_bytes, "none", "zstd", {}, zstd});
  out.push_back({"zstd of bits", dtype::fp64, 8 * zstd_bytes, "simple_packing", "zstd",
                 one_bit, zstd});
  out.push_back({"szip", dtype::fp32, g, "none", "szip", szip, byte_vector(32)});
  // Segments of empty blocks, 1 MiB each, followed by the code of an impossible pair of
  // samples.
  byte_vector runs = repeated("0040 1002 0080 4010 0200 80", 60);
  append(runs, from_hex("FFFFFFFF 00000000 00000000 00000000"));
  out.push_back({"szip runs", dtype::uint8, 600 * 262'144, "none", "szip", wide, runs});
  for (const auto& keys :
       {zfp("fixed_rate", "zfp_rate", 16.0), zfp("fixed_accuracy", "zfp_tolerance", 0.1),
        zfp("fixed_precision", "zfp_precision", 0)}) {
    out.push_back({"zfp", dtype::fp64, g, "none", "zfp", keys, zeros});
    out.push_back({"empty zfp", dtype::fp64, g, "none", "zfp", keys, {}});
  }
  const byte_vector one_run = from_hex("00 FFFFFFFF7F");
  out.push_back(
      {"rle", dtype::bitmask, 32 * g, "none", "rle", {}, with_size(0, true, one_run)});
  out.push_back({"long rle",
                 dtype::bitmask,
                 (std::int64_t{1} << 32) - 8,
                 "none",
                 "rle",
                 {},
                 with_size(0xFFFF'FFF8, true, one_run)});
  out.push_back({"roaring",
                 dtype::bitmask,
                 (std::int64_t{1} << 32) - 8,
                 "none",
                 "roaring",
                 {},
                 with_size(0xFFFF'FFF8, true, from_hex("3A300000 FFFFFFFF"))});
  return out;
}

/// Returns options that check no digests, so that damage reaches the decoders.
read_options bare() {
  read_options out;
  out.hashes = hash_check::none;
  return out;
}

/// Calls everything that reads a message. Returns the number of bytes that were decoded
/// from it.
std::uint64_t read_all(bytes_view message, const read_options& options) {
  std::uint64_t decoded = 0;
  validation_options checks;
  checks.max_object_bytes = options.max_object_bytes;
  (void)validate_message(message, checks);
  checks.level = validation_level::fidelity;
  (void)validate_message(message, checks);
  const auto reader = message_reader::open(message, options);
  if (!reader) {
    return decoded;
  }
  (void)reader->verify();
  for (std::size_t i = 0; i < reader->object_count(); ++i) {
    if (const auto elements = reader->decode(i)) {
      decoded += elements->size();
    }
    const std::int64_t count = element_count(reader->descriptor(i).shape);
    const auto all = static_cast<std::uint64_t>(std::max<std::int64_t>(0, count));
    (void)reader->decode_range(i, all / 2, all - all / 2);
    (void)reader->masks(i);
    (void)reader->stored_region(i);
  }
  return decoded;
}

// If the meter missed an allocator, the tests below could not fail.
TEST(tensogram_memory, the_meter_counts_every_way_to_take_memory) {
  const allocation_meter meter;
  const auto vector = std::make_unique<byte_vector>(3 * mebibyte);
  EXPECT_GE(meter.peak(), 3 * mebibyte);
  void* c = std::malloc(5 * mebibyte);
  EXPECT_GE(meter.peak(), 8 * mebibyte);
  c = std::realloc(c, 7 * mebibyte);
  EXPECT_NE(c, nullptr);
  std::free(c);
  EXPECT_GE(meter.peak(), 10 * mebibyte);
  EXPECT_LT(meter.peak(), 20 * mebibyte);
  EXPECT_LT(allocation_meter().peak(), mebibyte);
}

TEST(tensogram_memory, a_small_message_that_lies_is_refused_before_memory_is_taken) {
  for (const boast& lie : lies()) {
    SCOPED_TRACE(lie.name);
    const byte_vector message = unchecked_message(descriptor_of(lie), lie.payload);
    EXPECT_LT(message.size(), 1600u);
    const allocation_meter meter;
    EXPECT_EQ(read_all(message, bare()), 0u);
    EXPECT_LT(meter.peak(), allowance);
  }
}

// Packing with 0 bits a value describes 16 GiB of equal values in an empty payload. Only
// the limit protects a reader, and reading a range takes memory for that range alone.
TEST(tensogram_memory, an_honest_small_message_is_bounded_by_max_object_bytes) {
  const std::int64_t elements = std::int64_t{1} << 31;  // 16 GiB of equal values
  boast honest{"zeros", dtype::fp64, elements, "simple_packing", "none", {}, {}};
  honest.parameters = {{"sp_bits_per_value", 0},
                       {"sp_reference_value", 1.0},
                       {"sp_binary_scale_factor", 0},
                       {"sp_decimal_scale_factor", 0}};
  const byte_vector message = unchecked_message(descriptor_of(honest), {});
  read_options options = bare();
  EXPECT_EQ(options.max_object_bytes, default_max_object_bytes);
  const allocation_meter meter;
  EXPECT_TRUE(validate_message(message).ok())
      << "validation needs no memory for the elements";
  options.max_object_bytes = default_max_object_bytes - 1;
  validation_options checks;
  checks.max_object_bytes = options.max_object_bytes;
  EXPECT_FALSE(validate_message(message, checks).ok());
  const auto reader = or_throw(message_reader::open(message, options));
  EXPECT_EQ(reader.decode(0).error().code(), errc::out_of_range);
  EXPECT_EQ(reader.decode_range(0, 0, 1).error().code(), errc::out_of_range);
  const auto wider = or_throw(message_reader::open(message, bare()));
  EXPECT_EQ(or_throw(wider.decode_range(0, 1'000'000'000, 100)).size(), 800u);
  EXPECT_LT(meter.peak(), mebibyte);
}

/// Returns the files of the conformance suite and, where they are present, those of the
/// reference.
std::vector<std::string> sound_files() {
  std::vector<std::string> out;
  const std::string own = source_folder() + "/tests/conformance/tensogram";
  for (const std::string& folder : {own, fixture_folder("tensogram")}) {
    if (folder.empty()) {
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".tgm") {
        out.push_back(entry.path().string());
      }
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Returns a message with one of the objects under a larger shape, its payload left as it
/// is or damaged.
byte_vector inflated(numbers& random, const message_reader& reader) {
  const std::size_t i = random.below(reader.object_count());
  object_descriptor d = reader.descriptor(i);
  const std::int64_t factor = std::int64_t{1} << random.below(30);
  const std::int64_t count = std::max<std::int64_t>(1, element_count(d.shape));
  d.shape = {count * factor + static_cast<std::int64_t>(random.below(3))};
  d.strides.clear();
  byte_vector payload = or_throw(reader.stored_region(i));
  if (!payload.empty() && random.below(2) == 0) {
    payload[random.below(payload.size())] ^=
        static_cast<std::byte>(1u << random.below(8));
  }
  if (payload.size() >= 4 && random.below(2) == 0) {
    // The sizes that lz4, rle and roaring store in front are changed to agree with the
    // shape.
    const std::uint64_t bytes = or_throw(decoded_size(d));
    d.compression == "lz4"
        ? store_le(payload.data(), static_cast<std::uint32_t>(bytes))
        : store_be(payload.data(), static_cast<std::uint32_t>(8 * bytes));
  }
  auto descriptor = make_descriptor(d);
  return descriptor ? unchecked_message(*descriptor, payload) : byte_vector();
}

/// Returns a copy of a message in which up to four bytes are changed.
byte_vector mutated(numbers& random, bytes_view message) {
  byte_vector out(message.begin(), message.end());
  for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
    const std::size_t place = random.below(out.size());
    switch (random.below(4)) {
      case 0: out[place] = static_cast<std::byte>(random.below(256)); break;
      case 1: out[place] = std::byte{0xFF}; break;
      case 2: out[place] ^= static_cast<std::byte>(1u << random.below(8)); break;
      default: out[place] = out[random.below(out.size())];
    }
  }
  return out;
}

/// Returns the number of mutations for each file; `WEIR_TEST_MUTATIONS` sets another.
std::uint64_t mutation_count() {
  return case_count("WEIR_TEST_MUTATIONS", 12);
}

TEST(tensogram_memory, mutations_take_little_more_than_the_sound_file) {
  read_options options = bare();
  options.max_object_bytes = 256 * mebibyte;
  for (const std::string& path : sound_files()) {
    const byte_vector file = load(path);
    const auto spans = scan(bytes_view(file));
    for (std::uint64_t seed = 0; seed < mutation_count() && !spans.empty(); ++seed) {
      SCOPED_TRACE(path + ", seed " + std::to_string(seed));
      numbers random(seed);
      const message_span span = spans[random.below(spans.size())];
      const bytes_view message = bytes_view(file).subspan(span.offset, span.length);
      const allocation_meter sound;
      (void)read_all(message, options);
      const std::int64_t need = sound.peak();
      const auto reader = message_reader::open(message, options);
      const bool inflate = reader && reader->object_count() > 0 && random.below(2) == 0;
      const byte_vector other =
          inflate ? inflated(random, *reader) : mutated(random, message);
      const allocation_meter meter;
      const std::uint64_t decoded = read_all(other, options);
      // A mutation may be valid and describe larger objects, so the bytes that were
      // decoded are allowed as well.
      EXPECT_LT(meter.peak(), need + allowance + 4 * static_cast<std::int64_t>(decoded));
    }
  }
}

}  // namespace
}  // namespace weir::test
