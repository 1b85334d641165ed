// SPDX-License-Identifier: Apache-2.0
// The C interface: what goes wrong, and of which kind it is.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "formats/tgm_c/messages.hpp"
#include "support/fixtures.hpp"

namespace weir::test {
namespace {

TEST(tgm_c, failures_have_the_codes_of_the_reference) {
  const two_arrays arrays;
  const auto data = arrays.data();
  const auto lengths = arrays.lengths();
  tgm_encode_options bare = tgm_encode_options_default();
  bare.hashing = 0;
  tgm_bytes bytes{};
  ASSERT_EQ(
      tgm_encode_with_options(two_objects, data.data(), lengths.data(), 2, &bare, &bytes),
      TGM_OK);
  tgm_message* message = nullptr;
  /// What decoding says with one byte changed; the byte is put back.
  const auto with = [&](std::size_t at, std::uint8_t byte) {
    const std::uint8_t had = std::exchange(bytes.data[at], byte);
    const tgm_error code = tgm_decode(bytes.data, bytes.length, &message);
    bytes.data[at] = had;
    return code;
  };
  EXPECT_EQ(with(0, 'X'), TGM_FRAMING);
  EXPECT_EQ(with(24, 'X'), TGM_FRAMING) << "the first frame";
  EXPECT_EQ(with(40, 0xFF), TGM_METADATA) << "the metadata's first byte of CBOR";
  const std::string text(reinterpret_cast<const char*>(bytes.data), bytes.length);
  EXPECT_EQ(with(text.rfind("float64"), 'g'), TGM_METADATA) << "an unknown dtype";
  const std::size_t payload = text.rfind("FR") + 16;
  EXPECT_EQ(with(payload, 0xEE), TGM_ENCODING) << "the size in front of an LZ4 block";
  EXPECT_NE(std::string(tgm_last_error()).find("object 1"), std::string::npos);
  EXPECT_EQ(with(bytes.length - 1, 'X'), TGM_FRAMING);
  const std::uint8_t had = std::exchange(bytes.data[payload], 0xEE);
  tgm_object_iterator* objects = nullptr;
  ASSERT_EQ(tgm_object_iterator_open(bytes.data, bytes.length, nullptr, &objects),
            TGM_OK);
  std::size_t object = 0;
  const std::uint8_t* elements = nullptr;
  std::size_t length = 0;
  EXPECT_EQ(tgm_object_iterator_next(objects, &object, &elements, &length), TGM_OK);
  EXPECT_EQ(tgm_object_iterator_next(objects, &object, &elements, &length), TGM_ENCODING)
      << "object by object as all at once";
  tgm_object_iterator_free(objects);
  bytes.data[payload] = had;
  tgm_decode_options strict = tgm_decode_options_default();
  strict.verify_hash = 1;
  EXPECT_EQ(tgm_decode_with_options(bytes.data, bytes.length, &strict, &message),
            TGM_MISSING_HASH);
  tgm_bytes out{};
  const std::uint64_t first = 2;
  const std::uint64_t count = 2;
  EXPECT_EQ(tgm_decode_range(bytes.data, bytes.length, 1, &first, &count, 1, &out),
            TGM_ENCODING);
  EXPECT_EQ(tgm_decode_object(bytes.data, bytes.length, 2, nullptr, &out), TGM_OBJECT);
  tgm_bytes_free(bytes);
}

/// What encoding 400 doubles with these keys in the descriptor, and `around` it, says.
tgm_error encoded_with(const std::string& keys, const std::string& around = "") {
  const std::vector<double> values(400);
  const void* data = values.data();
  const std::size_t length = 3200;
  const std::string json = "{" + around +
                           R"("descriptors": [{"dtype": "float64", "shape": [400])" +
                           keys + "}]}";
  tgm_bytes out{};
  const tgm_error code = tgm_encode(json.c_str(), &data, &length, 1, &out);
  tgm_bytes_free(out);
  return code;
}

TEST(tgm_c, keys_that_are_absent_or_of_another_type_are_failures_of_metadata) {
  const std::string packing = R"(, "encoding": "simple_packing")";
  const std::string bits = packing + R"(, "sp_bits_per_value": )";
  const std::string szip = R"(, "filter": "shuffle", "shuffle_element_size": 8,
      "compression": "szip", "szip_block_size": 16, "szip_flags": 8)";
  const std::vector<std::string> metadata{
      packing,
      bits + R"("x")",
      bits + "-1",
      bits + R"(8, "sp_reference_value": 1)",
      bits + R"(8, "sp_decimal_scale_factor": 1099511627776)",
      R"(, "filter": "shuffle")",
      R"(, "compression": "zstd", "zstd_level": "high")",
      R"(, "compression": "blosc2", "blosc2_codec": 1)",
      R"(, "compression": "blosc2", "blosc2_clevel": 2147483648)",
      R"(, "compression": "zfp")",
      R"(, "compression": "zfp", "zfp_mode": "fixed_rate")",
      szip,
      szip + R"(, "szip_rsi": 1.5)",
      R"(, "dtype": "float65")",
      R"(, "shape": [399])",
      R"(, "shape": [1099511627776, 1099511627776])",
      R"(, "shape": "x")",
      R"(, "type": "")",
      R"(, "_reserved_": {})"};
  for (const std::string& keys : metadata) {
    EXPECT_EQ(encoded_with(keys), TGM_METADATA) << keys << ": " << tgm_last_error();
  }
  for (const std::string around :
       {R"("base": [{}, {}], )", R"("base": "x", )", R"("base": [{"_reserved_": {}}], )",
        R"("_reserved_": {}, )", "no JSON"}) {
    EXPECT_EQ(encoded_with("", around), TGM_METADATA) << around;
  }
  const std::vector<std::string> encoding{
      bits + "65",
      R"(, "filter": "shuffle", "shuffle_element_size": 7)",
      R"(, "compression": "zfp", "zfp_mode": "x")",
      R"(, "compression": "rle")",
      R"(, "compression": "blosc2", "blosc2_clevel": -1)",
      R"(, "compression": "blosc2", "blosc2_clevel": 10)",
      R"(, "compression": "brotli")",
      szip + R"(, "szip_rsi": 5000)"};
  for (const std::string& keys : encoding) {
    EXPECT_EQ(encoded_with(keys), TGM_ENCODING) << keys << ": " << tgm_last_error();
  }
}

TEST(tgm_c, a_pointer_that_is_missing_is_an_invalid_argument) {
  const two_arrays arrays;
  const auto data = arrays.data();
  const auto lengths = arrays.lengths();
  const tgm_bytes bytes = encoded();
  const std::uint64_t one = 1;
  tgm_bytes out{};
  tgm_message* message = nullptr;
  tgm_span* spans = nullptr;
  std::size_t count = 0;
  tgm_stream* stream = nullptr;
  const std::vector<tgm_error> refused{
      tgm_encode(nullptr, data.data(), lengths.data(), 2, &out),
      tgm_encode(two_objects, nullptr, lengths.data(), 2, &out),
      tgm_encode(two_objects, data.data(), nullptr, 2, &out),
      tgm_encode(two_objects, data.data(), lengths.data(), 2, nullptr),
      tgm_decode(nullptr, 592, &message),
      tgm_decode(bytes.data, bytes.length, nullptr),
      tgm_decode_metadata(nullptr, 592, &message),
      tgm_decode_object(nullptr, 592, 0, nullptr, &out),
      tgm_decode_range(bytes.data, bytes.length, 0, nullptr, &one, 1, &out),
      tgm_decode_range(bytes.data, bytes.length, 0, &one, nullptr, 1, &out),
      tgm_object_data(nullptr, 0, nullptr, &count),
      tgm_object_hash(nullptr, 0, nullptr),
      tgm_scan(nullptr, 592, &spans, &count),
      tgm_scan(bytes.data, bytes.length, &spans, nullptr),
      tgm_file_open(nullptr, nullptr),
      tgm_file_read_message(nullptr, 0, &out),
      tgm_file_append(nullptr, bytes.data, bytes.length),
      tgm_buffer_iterator(nullptr, 592, nullptr),
      tgm_file_iterator(nullptr, nullptr),
      tgm_iterator_next(nullptr, nullptr, &message),
      tgm_object_iterator_open(nullptr, 592, nullptr, nullptr),
      tgm_object_iterator_next(nullptr, &count, nullptr, &count),
      tgm_decode_async(bytes.data, bytes.length, nullptr, nullptr, nullptr, nullptr),
      tgm_task_join(nullptr, 0, &message),
      tgm_token_create(nullptr),
      tgm_stream_open("{}", nullptr, nullptr, nullptr, &stream),
      tgm_stream_write(nullptr, "{}", bytes.data, bytes.length, nullptr),
      tgm_stream_finish(nullptr),
      tgm_stream_finish_backfill(nullptr, nullptr, nullptr),
      tgm_async_stream_open("{}", nullptr, nullptr, nullptr, nullptr),
      tgm_async_stream_finish(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
      tgm_validate(nullptr, 592, nullptr, 0, &out),
      tgm_validate_file(nullptr, nullptr, 0, &out),
      tgm_doctor(nullptr),
      tgm_compute_packing(nullptr, 1, 16, 0, nullptr, nullptr)};
  for (std::size_t i = 0; i < refused.size(); ++i) {
    EXPECT_EQ(refused[i], TGM_INVALID_ARG) << "call " << i;
  }
  EXPECT_NE(std::string(tgm_last_error()).find("found NULL"), std::string::npos);
  tgm_bytes_free(bytes);
}

TEST(tgm_c, an_object_without_elements_needs_no_pointer) {
  const void* nothing = nullptr;
  const std::size_t none = 0;
  const char* const json = R"({"descriptors": [{"dtype": "float32", "shape": [0]}]})";
  tgm_bytes out{};
  ASSERT_EQ(tgm_encode(json, &nothing, &none, 1, &out), TGM_OK) << tgm_last_error();
  tgm_bytes_free(out);
  ASSERT_EQ(tgm_encode("{}", nullptr, nullptr, 0, &out), TGM_OK) << tgm_last_error();
  tgm_bytes_free(out);
}

TEST(tgm_c, the_same_keys_are_missed_by_readers) {
  const std::vector<double> values(400);
  const void* data = values.data();
  const std::size_t length = 3200;
  tgm_encode_options bare = tgm_encode_options_default();
  bare.hashing = 0;
  tgm_bytes bytes{};
  const char* const json = R"({"descriptors": [{"dtype": "float64", "shape": [400],
      "encoding": "simple_packing", "sp_bits_per_value": 16, "sp_reference_value": 0,
      "sp_binary_scale_factor": 0}]})";
  ASSERT_EQ(tgm_encode_with_options(json, &data, &length, 1, &bare, &bytes), TGM_OK);
  const std::string text(reinterpret_cast<const char*>(bytes.data), bytes.length);
  /// What decoding says with the byte at the end of `key` changed.
  const auto with = [&](const std::string& key, char byte) {
    std::string other = text;
    other[text.rfind(key) + key.size() - 1] = byte;
    tgm_message* message = nullptr;
    const tgm_error code = tgm_decode(other.data(), other.size(), &message);
    tgm_message_free(message);
    return code;
  };
  EXPECT_EQ(with("float64", '4'), TGM_OK);
  EXPECT_EQ(with("sp_bits_per_value", 'x'), TGM_METADATA);
  EXPECT_EQ(with("sp_decimal_scale_factor", 'x'), TGM_METADATA);
  EXPECT_EQ(with("sp_bits_per_value\x10", '\x60'), TGM_METADATA) << "an empty text";
  EXPECT_EQ(with("sp_bits_per_value\x10", '\x11'), TGM_ENCODING) << "17 bits";
  EXPECT_EQ(with("simple_packing", 'x'), TGM_ENCODING);
  tgm_bytes_free(bytes);
}

TEST(tgm_c, malformed_files_fail_as_the_reference_says) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const std::map<std::string, tgm_error> kinds{{"FramingError", TGM_FRAMING},
                                               {"MetadataError", TGM_METADATA},
                                               {"EncodingError", TGM_ENCODING}};
  std::ifstream in(folder + "/wheel/manifest.json");
  const auto files = nlohmann::json::parse(in).at("files");
  std::size_t compared = 0;
  for (const auto& [name, file] : files.items()) {
    if (name.substr(0, 5) != "hand_" || file.at("messages").empty() ||
        !file["messages"][0].contains("decode_error")) {
      continue;
    }
    const std::string said = file["messages"][0]["decode_error"];
    const std::size_t at = said.find(' ') + 1;  // behind the exception's name
    const byte_vector bytes = load(folder + "/wheel/" + name);
    tgm_message* message = nullptr;
    EXPECT_EQ(tgm_decode(bytes.data(), bytes.size(), &message),
              kinds.at(said.substr(at, said.find(':', at) - at)))
        << name << ": " << said << "; here " << tgm_last_error();
    tgm_message_free(message);
    ++compared;
  }
  EXPECT_EQ(compared, 24u);
}

TEST(tgm_c, ranges_of_szip_without_offsets_are_a_failure_of_compression) {
  sample_object one =
      sample(3, dtype::int16, {4096}, formats::byte_order::little, "szip");
  one.descriptor.parameters = {
      {"szip_rsi", 16}, {"szip_block_size", 16}, {"szip_flags", 8}};
  const auto range_of = [](const byte_vector& message) {
    const std::uint64_t first = 1000;
    const std::uint64_t count = 2;
    tgm_bytes out{};
    const tgm_error code =
        tgm_decode_range(message.data(), message.size(), 0, &first, &count, 1, &out);
    tgm_bytes_free(out);
    return code;
  };
  const byte_vector with = or_throw(formats::encode_message(to_write({one})));
  EXPECT_EQ(range_of(with), TGM_OK) << tgm_last_error();
  const auto reader = or_throw(formats::message_reader::open(with));
  formats::object_to_write bare;
  bare.descriptor = reader.descriptor(0);
  ASSERT_TRUE(bare.descriptor.parameters.erase("szip_block_offsets"));
  const byte_vector payload = or_throw(reader.stored_payload(0));
  bare.data = payload;
  bare.stored = true;
  const byte_vector without = or_throw(formats::encode_message({&bare, 1}));
  EXPECT_EQ(range_of(without), TGM_COMPRESSION);
  EXPECT_NE(std::string(tgm_last_error()).find("szip_block_offsets"), std::string::npos);
  tgm_message* message = nullptr;
  ASSERT_EQ(tgm_decode(without.data(), without.size(), &message), TGM_OK);
  tgm_message_free(message);
}

TEST(tgm_c, failures_have_a_code_and_a_text) {
  tgm_bytes out{};
  EXPECT_NE(tgm_encode("[", nullptr, nullptr, 0, &out), TGM_OK);
  EXPECT_NE(std::string(tgm_last_error()).find("JSON"), std::string::npos);
  tgm_message* message = nullptr;
  EXPECT_EQ(tgm_decode("nonsense", 8, &message), TGM_FRAMING);
  EXPECT_STREQ(tgm_error_string(TGM_FRAMING), "FRAMING");
  tgm_bytes bytes = encoded();
  bytes.data[bytes.length - 120] ^= 1;
  EXPECT_NE(tgm_decode(bytes.data, bytes.length, &message), TGM_OK);
  tgm_bytes_free(bytes);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const void* data = &nan;
  const std::size_t length = 4;
  const char* one = R"({"descriptors": [{"dtype": "float32", "shape": []}]})";
  EXPECT_EQ(tgm_encode(one, &data, &length, 1, &out), TGM_ENCODING);
  tgm_encode_options options = tgm_encode_options_default();
  options.allow_nan = 1;
  ASSERT_EQ(tgm_encode_with_options(one, &data, &length, 1, &options, &out), TGM_OK)
      << tgm_last_error();
  tgm_bytes_free(out);
  double reference = 0;
  std::int32_t binary = 0;
  const std::array<double, 3> values{1, 2, 3};
  EXPECT_EQ(tgm_compute_packing(values.data(), 3, 8, 0, &reference, &binary), TGM_OK);
  EXPECT_EQ(reference, 1);
  std::array<char, 17> digest{};
  tgm_compute_hash("hello world", 11, digest.data());
  EXPECT_STREQ(digest.data(), "d447b1ea40e6988b");
}

}  // namespace
}  // namespace weir::test
