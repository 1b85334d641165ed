// SPDX-License-Identifier: Apache-2.0
// The C interface: messages there and back, values, files, streams, failures.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "formats/support.hpp"
#include "support/fixtures.hpp"
#include "support/temp_folder.hpp"
#include "weir/tgm.h"

namespace weir::test {
namespace {

const char* const two_objects = R"({
  "base": [{"name": "a", "level": 3, "deep": {"x": [1, 2.5, true, null]}}, {"name": "b"}],
  "_extra_": {"run": "first"},
  "descriptors": [
    {"dtype": "float32", "shape": [2, 2], "byte_order": "little"},
    {"dtype": "float64", "shape": [3], "compression": "lz4", "byte_order": "little"}]})";

struct two_arrays {
  std::vector<float> a{1, 2, 3, 4};
  std::vector<double> b{5, 6, 7};
  std::array<const void*, 2> data() const { return {a.data(), b.data()}; }
  std::array<std::size_t, 2> lengths() const { return {16, 24}; }
};

tgm_bytes encoded() {
  const two_arrays arrays;
  const auto data = arrays.data();
  const auto lengths = arrays.lengths();
  tgm_bytes out{};
  EXPECT_EQ(tgm_encode(two_objects, data.data(), lengths.data(), 2, &out), TGM_OK)
      << tgm_last_error();
  return out;
}

TEST(tgm_c, a_message_goes_there_and_back) {
  const tgm_bytes bytes = encoded();
  tgm_message* message = nullptr;
  ASSERT_EQ(tgm_decode(bytes.data, bytes.length, &message), TGM_OK) << tgm_last_error();
  ASSERT_EQ(tgm_message_num_objects(message), 2u);
  EXPECT_STREQ(tgm_object_dtype(message, 0), "float32");
  EXPECT_STREQ(tgm_object_compression(message, 1), "lz4");
  EXPECT_STREQ(tgm_object_byte_order(message, 1), "little");
  EXPECT_EQ(tgm_object_dtype(message, 2), nullptr);
  const std::int64_t* shape = nullptr;
  std::size_t ndim = 0;
  ASSERT_EQ(tgm_object_shape(message, 0, &shape, &ndim), TGM_OK);
  EXPECT_EQ(std::vector<std::int64_t>(shape, shape + ndim),
            (std::vector<std::int64_t>{2, 2}));
  const std::uint8_t* data = nullptr;
  std::size_t length = 0;
  ASSERT_EQ(tgm_object_data(message, 1, &data, &length), TGM_OK);
  EXPECT_EQ(length, 24u);
  EXPECT_EQ(std::memcmp(data, two_arrays().b.data(), 24), 0);
  std::array<char, 17> digest{};
  EXPECT_EQ(tgm_object_hash(message, 0, digest.data()), TGM_OK);
  EXPECT_EQ(std::string(digest.data()).size(), 16u);
  EXPECT_EQ(tgm_object_data(message, 2, &data, &length), TGM_OBJECT);
  tgm_message_free(message);
  tgm_bytes part{};
  const std::uint64_t first = 1;
  const std::uint64_t count = 2;
  ASSERT_EQ(tgm_decode_range(bytes.data, bytes.length, 1, &first, &count, 1, &part),
            TGM_OK);
  EXPECT_EQ(part.length, 16u);
  EXPECT_EQ(std::memcmp(part.data, two_arrays().b.data() + 1, 16), 0);
  tgm_bytes_free(part);
  tgm_bytes_free(bytes);
}

TEST(tgm_c, values_keep_their_kind) {
  const tgm_bytes bytes = encoded();
  tgm_message* message = nullptr;
  ASSERT_EQ(tgm_decode_metadata(bytes.data, bytes.length, &message), TGM_OK);
  std::int64_t number = 0;
  double real = 0;
  const tgm_value* level = tgm_metadata_get(message, "level");
  ASSERT_NE(level, nullptr);
  EXPECT_EQ(tgm_value_kind(level), TGM_INT);
  EXPECT_EQ(tgm_value_as_i64(level, &number), 1);
  EXPECT_EQ(number, 3);
  EXPECT_EQ(tgm_value_as_f64(level, &real), 0);
  EXPECT_EQ(tgm_metadata_get(message, "absent"), nullptr);
  EXPECT_EQ(tgm_metadata_get_at(message, 1, "level"), nullptr);
  const tgm_value* list = tgm_metadata_get_at(message, 0, "deep.x");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(tgm_value_size(list), 4u);
  EXPECT_EQ(tgm_value_as_f64(tgm_value_item(list, 1), &real), 1);
  EXPECT_EQ(real, 2.5);
  int flag = 0;
  EXPECT_EQ(tgm_value_as_bool(tgm_value_item(list, 2), &flag), 1);
  EXPECT_EQ(tgm_value_kind(tgm_value_item(list, 3)), TGM_NULL);
  EXPECT_EQ(tgm_value_item(list, 4), nullptr);
  const char* text = nullptr;
  std::size_t length = 0;
  ASSERT_EQ(tgm_value_as_string(tgm_metadata_get(message, "extra.run"), &text, &length),
            1);
  EXPECT_EQ(std::string(text, length), "first");
  const tgm_value* deep = tgm_metadata_get_at(message, 0, "deep");
  const tgm_value* key = nullptr;
  EXPECT_NE(tgm_value_entry(deep, 0, &key), nullptr);
  EXPECT_EQ(tgm_value_as_string(key, &text, &length), 1);
  EXPECT_EQ(std::string(text, length), "x");
  EXPECT_EQ(tgm_value_find(deep, "y"), nullptr);
  tgm_message_free(message);
  tgm_bytes_free(bytes);
}

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

TEST(tgm_c, files_and_buffers_are_walked_message_by_message) {
  const temp_folder folder;
  const std::string path = folder.path() + "/two.tgm";
  const tgm_bytes bytes = encoded();
  or_throw(write_file_atomically(
      posix_file_system(), path,
      {reinterpret_cast<const std::byte*>(bytes.data), bytes.length}));
  tgm_file* file = nullptr;
  ASSERT_EQ(tgm_file_open(path.c_str(), &file), TGM_OK) << tgm_last_error();
  EXPECT_EQ(tgm_file_message_count(file), 1u);
  ASSERT_EQ(tgm_file_append(file, bytes.data, bytes.length), TGM_OK) << tgm_last_error();
  EXPECT_EQ(tgm_file_message_count(file), 2u);
  tgm_message* message = nullptr;
  ASSERT_EQ(tgm_file_decode_message(file, 1, nullptr, &message), TGM_OK);
  tgm_message_free(message);
  tgm_bytes raw{};
  EXPECT_EQ(tgm_file_read_message(file, 2, &raw), TGM_OBJECT);
  ASSERT_EQ(tgm_file_read_message(file, 0, &raw), TGM_OK);
  EXPECT_EQ(raw.length, bytes.length);
  tgm_bytes_free(raw);
  tgm_file_close(file);
  tgm_iterator* iterator = nullptr;
  ASSERT_EQ(tgm_file_iterator(path.c_str(), &iterator), TGM_OK);
  int found = 0;
  while (tgm_iterator_next(iterator, nullptr, &message) == TGM_OK) {
    tgm_message_free(message);
    ++found;
  }
  EXPECT_EQ(found, 2);
  tgm_iterator_free(iterator);
  tgm_span* spans = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(tgm_scan(bytes.data, bytes.length, &spans, &count), TGM_OK);
  EXPECT_EQ(count, 1u);
  std::free(spans);
  tgm_bytes report{};
  ASSERT_EQ(tgm_validate_file(path.c_str(), "full", 1, &report), TGM_OK);
  EXPECT_NE(
      std::string(reinterpret_cast<char*>(report.data), report.length).find("\"ok\""),
      std::string::npos);
  tgm_bytes_free(report);
  tgm_bytes_free(bytes);
}

TEST(tgm_c, a_stream_goes_through_a_sink) {
  byte_vector received;
  const tgm_sink sink = [](void* context, const std::uint8_t* bytes, std::size_t n) {
    append(*static_cast<byte_vector*>(context),
           {reinterpret_cast<const std::byte*>(bytes), n});
    return 0;
  };
  tgm_stream* stream = nullptr;
  ASSERT_EQ(tgm_stream_open("{}", sink, &received, nullptr, &stream), TGM_OK)
      << tgm_last_error();
  const std::array<float, 2> values{1.5F, 2.5F};
  ASSERT_EQ(tgm_stream_write(stream, R"({"dtype": "float32", "shape": [2]})",
                             values.data(), 8, R"({"name": "late"})"),
            TGM_OK)
      << tgm_last_error();
  EXPECT_EQ(tgm_stream_finish(stream), TGM_OK);
  EXPECT_EQ(tgm_stream_object_count(stream), 1u);
  EXPECT_EQ(tgm_stream_bytes_written(stream), received.size());
  tgm_stream_free(stream);
  const auto reader = or_throw(formats::message_reader::open(received));
  EXPECT_EQ(reader.find("late"), 0u);
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

TEST(tgm_c, objects_come_one_after_another) {
  const tgm_bytes bytes = encoded();
  tgm_object_iterator* objects = nullptr;
  ASSERT_EQ(tgm_object_iterator_open(bytes.data, bytes.length, nullptr, &objects),
            TGM_OK);
  EXPECT_STREQ(tgm_object_compression(tgm_object_iterator_message(objects), 1), "lz4");
  std::size_t object = 9;
  const std::uint8_t* data = nullptr;
  std::size_t length = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(tgm_object_iterator_next(objects, &object, &data, &length), TGM_OK);
    EXPECT_EQ(object, i);
    EXPECT_EQ(length, two_arrays().lengths()[i]);
    EXPECT_EQ(std::memcmp(data, two_arrays().data()[i], length), 0);
  }
  EXPECT_EQ(tgm_object_iterator_next(objects, &object, &data, &length), TGM_END_OF_ITER);
  tgm_object_iterator_free(objects);
  tgm_bytes_free(bytes);
}

/// What a task told when it ended.
struct told {
  std::atomic<int> calls = 0;
  std::atomic<int> code = -1;
  static void done(void* context, tgm_error code) {
    auto* t = static_cast<told*>(context);
    t->code = code;
    ++t->calls;
  }
};

TEST(tgm_c, a_task_decodes_on_a_thread_of_its_own) {
  const tgm_bytes bytes = encoded();
  told end;
  tgm_task* task = nullptr;
  ASSERT_EQ(tgm_decode_async(bytes.data, bytes.length, nullptr, &told::done, &end, &task),
            TGM_OK);
  tgm_message* message = nullptr;
  ASSERT_EQ(tgm_task_join(task, 0, &message), TGM_OK) << tgm_last_error();
  EXPECT_EQ(tgm_task_is_ready(task), 1);
  const std::uint8_t* data = nullptr;
  std::size_t length = 0;
  ASSERT_EQ(tgm_object_data(message, 1, &data, &length), TGM_OK);
  EXPECT_EQ(std::memcmp(data, two_arrays().b.data(), 24), 0);
  EXPECT_EQ(tgm_task_join(task, 1, &message), TGM_INVALID_ARG) << "it was handed out";
  tgm_task_free(task);
  EXPECT_EQ(end.calls, 1);
  EXPECT_EQ(end.code, TGM_OK);
  tgm_message_free(message);
  tgm_bytes_free(bytes);
}

TEST(tgm_c, a_task_tells_what_went_wrong_and_can_be_cancelled) {
  const tgm_bytes bytes = encoded();
  tgm_task* task = nullptr;
  tgm_message* message = nullptr;
  ASSERT_EQ(tgm_decode_async(bytes.data, 20, nullptr, nullptr, nullptr, &task), TGM_OK);
  EXPECT_EQ(tgm_task_join(task, 0, &message), TGM_FRAMING);
  EXPECT_NE(std::string(tgm_last_error()), "");
  tgm_task_free(task);
  // Whether it ended before it was cancelled is a race that both may win.
  ASSERT_EQ(tgm_decode_async(bytes.data, bytes.length, nullptr, nullptr, nullptr, &task),
            TGM_OK);
  tgm_task_cancel(task);
  const tgm_error code = tgm_task_join(task, 0, &message);
  EXPECT_TRUE(code == TGM_CANCELLED || code == TGM_OK) << code;
  if (code == TGM_OK) {
    tgm_message_free(message);
  }
  tgm_task_free(task);
  tgm_bytes_free(bytes);
}

TEST(tgm_c, a_token_cancels_whatever_was_started_with_it) {
  const tgm_bytes bytes = encoded();
  tgm_token* token = nullptr;
  ASSERT_EQ(tgm_token_create(&token), TGM_OK);
  tgm_decode_options options = tgm_decode_options_default();
  options.token = token;
  tgm_task* task = nullptr;
  tgm_message* message = nullptr;
  ASSERT_EQ(tgm_decode_async(bytes.data, bytes.length, &options, nullptr, nullptr, &task),
            TGM_OK);
  EXPECT_EQ(tgm_task_join(task, 0, &message), TGM_OK);
  tgm_message_free(message);
  tgm_task_free(task);
  EXPECT_EQ(tgm_token_is_cancelled(token), 0);
  tgm_token_cancel(token);
  EXPECT_EQ(tgm_token_is_cancelled(token), 1);
  ASSERT_EQ(tgm_decode_async(bytes.data, bytes.length, &options, nullptr, nullptr, &task),
            TGM_OK);
  tgm_token_free(token);
  EXPECT_EQ(tgm_task_join(task, 0, &message), TGM_CANCELLED);
  tgm_task_free(task);
  tgm_bytes_free(bytes);
}

/// A sink that stops its thread, once it is told to, until it may go on.
struct gated_sink {
  byte_vector got;
  std::atomic<bool> closed = false;
  std::atomic<bool> reached = false;
  static int take(void* context, const std::uint8_t* bytes, std::size_t n) {
    auto* s = static_cast<gated_sink*>(context);
    s->reached = s->closed.load();
    s->reached.notify_all();
    s->closed.wait(true);
    append(s->got, std::as_bytes(std::span(bytes, n)));
    return 0;
  }
  static int patch(void* context, std::uint64_t at, const std::uint8_t* bytes,
                   std::size_t n) {
    std::memcpy(static_cast<gated_sink*>(context)->got.data() + at, bytes, n);
    return 0;
  }
  void open() {
    closed = false;
    closed.notify_all();
  }
};

constexpr const char* two_floats = R"({"dtype": "float32", "shape": [2]})";

TEST(tgm_c, a_stream_is_written_on_a_thread_of_its_own_in_order) {
  const std::array<float, 2> first{1.5F, 2.5F};
  const std::array<float, 2> second{3, 4};
  gated_sink sink;
  told end;
  tgm_async_stream* stream = nullptr;
  ASSERT_EQ(tgm_async_stream_open("{}", &gated_sink::take, &sink, nullptr, &stream),
            TGM_OK)
      << tgm_last_error();
  std::array<tgm_task*, 4> tasks{};
  const auto write = [&](const char* json, const void* data, tgm_task** task) {
    return tgm_async_stream_write(stream, json, data, 8, nullptr, 0, &told::done, &end,
                                  task);
  };
  EXPECT_EQ(write("[", first.data(), &tasks[0]), TGM_METADATA) << "said at once";
  ASSERT_EQ(write(two_floats, first.data(), &tasks[0]), TGM_OK) << tgm_last_error();
  ASSERT_EQ(write(R"({"dtype": "float32", "shape": [3]})", first.data(), &tasks[1]),
            TGM_OK);
  ASSERT_EQ(write(two_floats, second.data(), &tasks[2]), TGM_OK);
  ASSERT_EQ(tgm_async_stream_finish(stream, &gated_sink::patch, &sink, &told::done, &end,
                                    &tasks[3]),
            TGM_OK);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    EXPECT_EQ(tgm_task_join(tasks[i], 0, nullptr), i == 1 ? TGM_METADATA : TGM_OK) << i;
    tgm_task_free(tasks[i]);
  }
  EXPECT_EQ(end.calls, 4);
  EXPECT_EQ(tgm_async_stream_object_count(stream), 2u) << "three values were refused";
  EXPECT_EQ(tgm_async_stream_bytes_written(stream), sink.got.size());
  tgm_async_stream_free(stream);
  const auto reader = or_throw(formats::message_reader::open(sink.got));
  EXPECT_FALSE(reader.streamed());
  ASSERT_EQ(reader.object_count(), 2u);
  EXPECT_EQ(std::memcmp(or_throw(reader.decode(1)).data(), second.data(), 8), 0);
}

TEST(tgm_c, writes_that_wait_can_be_cancelled_one_by_one_or_all) {
  const std::array<float, 2> values{1.5F, 2.5F};
  gated_sink sink;
  tgm_token* token = nullptr;
  ASSERT_EQ(tgm_token_create(&token), TGM_OK);
  tgm_encode_options options = tgm_encode_options_default();
  options.token = token;
  tgm_async_stream* stream = nullptr;
  ASSERT_EQ(tgm_async_stream_open("{}", &gated_sink::take, &sink, &options, &stream),
            TGM_OK);
  sink.closed = true;
  std::array<tgm_task*, 4> tasks{};
  for (tgm_task*& task : tasks) {
    ASSERT_EQ(tgm_async_stream_write(stream, two_floats, values.data(), 8, nullptr, 0,
                                     nullptr, nullptr, &task),
              TGM_OK);
  }
  sink.reached.wait(false);  // the first is under way
  EXPECT_EQ(tgm_task_join(tasks[0], 1, nullptr), TGM_TIMEOUT);
  tgm_task_cancel(tasks[1]);
  sink.open();
  EXPECT_EQ(tgm_task_join(tasks[0], 0, nullptr), TGM_OK);
  EXPECT_EQ(tgm_task_join(tasks[1], 0, nullptr), TGM_CANCELLED);
  EXPECT_EQ(tgm_task_join(tasks[2], 0, nullptr), TGM_OK);
  EXPECT_EQ(tgm_task_join(tasks[3], 0, nullptr), TGM_OK);
  EXPECT_EQ(tgm_async_stream_object_count(stream), 3u);
  tgm_token_cancel(token);
  tgm_token_free(token);
  tgm_task* last = nullptr;
  ASSERT_EQ(tgm_async_stream_finish(stream, nullptr, nullptr, nullptr, nullptr, &last),
            TGM_OK);
  tgm_async_stream_free(stream);
  EXPECT_EQ(tgm_task_join(last, 0, nullptr), TGM_CANCELLED);
  tgm_task_free(last);
  for (tgm_task* task : tasks) {
    tgm_task_free(task);
  }
}

TEST(tgm_c, messages_of_a_file_are_decoded_by_tasks) {
  const temp_folder folder;
  const std::string path = folder / "two.tgm";
  const tgm_bytes bytes = encoded();
  const bytes_view content(reinterpret_cast<const std::byte*>(bytes.data), bytes.length);
  or_throw(write_file_atomically(posix_file_system(), path, content));
  tgm_file* file = nullptr;
  ASSERT_EQ(tgm_file_open(path.c_str(), &file), TGM_OK);
  tgm_task* task = nullptr;
  EXPECT_EQ(tgm_file_decode_message_async(file, 1, nullptr, nullptr, nullptr, &task),
            TGM_OBJECT);
  ASSERT_EQ(tgm_file_decode_message_async(file, 0, nullptr, nullptr, nullptr, &task),
            TGM_OK);
  tgm_message* message = nullptr;
  EXPECT_EQ(tgm_task_join(task, 60'000, &message), TGM_OK);
  EXPECT_EQ(tgm_message_num_objects(message), 2u);
  tgm_message_free(message);
  tgm_task_free(task);
  tgm_file_close(file);
  tgm_bytes_free(bytes);
}

TEST(tgm_c, a_stream_takes_stored_payloads_and_gets_its_length_back) {
  byte_vector got;
  const tgm_sink sink = [](void* to, const std::uint8_t* bytes, std::size_t length) {
    append(*static_cast<byte_vector*>(to), std::as_bytes(std::span(bytes, length)));
    return 0;
  };
  const tgm_patch patch = [](void* to, std::uint64_t at, const std::uint8_t* bytes,
                             std::size_t length) {
    std::memcpy(static_cast<byte_vector*>(to)->data() + at, bytes, length);
    return 0;
  };
  tgm_stream* stream = nullptr;
  ASSERT_EQ(tgm_stream_open("{}", sink, &got, nullptr, &stream), TGM_OK);
  const std::array<std::uint8_t, 8> raw{1, 2, 3, 4, 5, 6, 7, 8};
  const char* const descriptor =
      R"({"dtype": "uint8", "shape": [8], "byte_order": "little"})";
  ASSERT_EQ(tgm_stream_write_pre_encoded(stream, descriptor, raw.data(), 8,
                                         R"({"name": "raw"})"),
            TGM_OK)
      << tgm_last_error();
  ASSERT_EQ(tgm_stream_finish_backfill(stream, patch, &got), TGM_OK);
  tgm_stream_free(stream);
  EXPECT_EQ(load_be<std::uint64_t>(got.data() + 16), got.size());
  tgm_message* message = nullptr;
  ASSERT_EQ(tgm_decode(got.data(), got.size(), &message), TGM_OK) << tgm_last_error();
  const std::uint8_t* data = nullptr;
  std::size_t length = 0;
  ASSERT_EQ(tgm_object_data(message, 0, &data, &length), TGM_OK);
  EXPECT_EQ(std::memcmp(data, raw.data(), 8), 0);
  tgm_message_free(message);
}

TEST(tgm_c, the_doctor_tries_every_codec) {
  tgm_bytes report{};
  ASSERT_EQ(tgm_doctor(&report), TGM_OK) << tgm_last_error();
  const std::string text(reinterpret_cast<const char*>(report.data), report.length);
  for (const char* part : {"\"wire_version\"", "\"roaring\"", "\"multi-message scan\""}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(text.find("failed"), std::string::npos) << text;
  tgm_bytes_free(report);
}

}  // namespace
}  // namespace weir::test
