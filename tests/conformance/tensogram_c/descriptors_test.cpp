// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests which code a descriptor has that lacks or misuses a key, when it is written and
/// when it is read.
#include <map>
#include <nlohmann/json.hpp>

#include "conformance/tensogram_c/support.hpp"
#include "support/fixtures.hpp"

namespace weir::test::tgm {
namespace {

const std::string packing = R"(, "encoding": "simple_packing")";
const std::string packing_bits = packing + R"(, "sp_bits_per_value": )";
const std::string szip = R"(, "compression": "szip", "szip_block_size": 16,
    "szip_flags": 8)";
const std::string shuffled_szip =
    R"(, "filter": "shuffle", "shuffle_element_size": 8)" + szip;

/// Encodes 400 doubles, all zero except the first, with these keys in the descriptor.
tgm_error encode_doubles(const std::string& keys, owned& out,
                         const char* hash_algorithm = "xxh3",
                         const std::string& around = "") {
  std::vector<double> values(400);
  values[0] = 1;
  const std::string json = "{" + around +
                           R"("descriptors": [{"dtype": "float64", "shape": [400])" +
                           keys + "}]}";
  return encode_one(json, values.data(), 3200, out, hash_algorithm);
}
/// Returns the code of such an encoding.
tgm_error encoded_with(const std::string& keys, const std::string& around = "") {
  owned out;
  return encode_doubles(keys, out, "xxh3", around);
}

TEST(tensogram_c, keys_that_are_absent_or_of_another_type_are_failures_of_metadata) {
  const std::vector<std::string> metadata{
      packing,
      packing_bits + R"("x")",
      packing_bits + "-1",
      packing_bits + R"(8, "sp_reference_value": 1)",
      packing_bits + R"(8, "sp_decimal_scale_factor": 1099511627776)",
      R"(, "filter": "shuffle")",
      R"(, "compression": "zstd", "zstd_level": "high")",
      R"(, "compression": "blosc2", "blosc2_codec": 1)",
      R"(, "compression": "blosc2", "blosc2_clevel": 2147483648)",
      R"(, "compression": "zfp")",
      R"(, "compression": "zfp", "zfp_mode": "fixed_rate")",
      shuffled_szip,
      shuffled_szip + R"(, "szip_rsi": 1.5)",
      R"(, "dtype": "float65")",
      R"(, "shape": [399])",
      R"(, "shape": [1099511627776, 1099511627776])",
      R"(, "shape": "x")",
      R"(, "ndim": 2)",
      R"(, "byte_order": "middle")",
      R"(, "type": "")",
      R"(, "_reserved_": {})"};
  for (const std::string& keys : metadata) {
    EXPECT_EQ(encoded_with(keys), TGM_ERROR_METADATA) << keys << ": " << last_error();
  }
  for (const std::string around :
       {R"("base": [{}, {}], )", R"("base": "x", )", R"("base": [{"_reserved_": {}}], )",
        R"("_reserved_": {}, )", "no JSON"}) {
    EXPECT_EQ(encoded_with("", around), TGM_ERROR_METADATA) << around;
  }
  for (const std::string one : {R"({"shape": [4]})", R"({"dtype": "float32"})", "5"}) {
    owned out;
    EXPECT_EQ(encode_one(R"({"descriptors": [)" + one + "]}", four_floats, 16, out),
              TGM_ERROR_METADATA)
        << one;
  }
}

TEST(tensogram_c, values_that_a_codec_does_not_take_are_failures_of_encoding) {
  const std::vector<std::string> encoding{
      packing_bits + "65",
      R"(, "filter": "shuffle", "shuffle_element_size": 7)",
      R"(, "compression": "zfp", "zfp_mode": "x")",
      R"(, "compression": "rle")",
      R"(, "compression": "blosc2", "blosc2_clevel": -1)",
      R"(, "compression": "blosc2", "blosc2_clevel": 10)",
      R"(, "compression": "brotli")",
      R"(, "encoding": "x")",
      R"(, "filter": "x")",
      shuffled_szip + R"(, "szip_rsi": 5000)"};
  for (const std::string& keys : encoding) {
    EXPECT_EQ(encoded_with(keys), TGM_ERROR_ENCODING) << keys << ": " << last_error();
  }
}

TEST(tensogram_c, what_a_descriptor_leaves_out_has_a_default) {
  owned out;
  ASSERT_EQ(encode_doubles("", out), TGM_ERROR_OK) << last_error();
  const auto found = decode(out.text());
  ASSERT_EQ(found.code, TGM_ERROR_OK) << last_error();
  EXPECT_STREQ(tgm_object_type(found.get(), 0), "ntensor");
  EXPECT_STREQ(tgm_payload_encoding(found.get(), 0), "none");
  EXPECT_STREQ(tgm_object_filter(found.get(), 0), "none");
  EXPECT_STREQ(tgm_object_compression(found.get(), 0), "none");
  EXPECT_EQ(tgm_object_strides(found.get(), 0)[0], 1u);
  const std::uint16_t one = 1;
  EXPECT_STREQ(tgm_object_byte_order(found.get(), 0), *as_u8(&one) ? "little" : "big");
}

/// Returns the code of decoding `bytes` after the byte at the end of the last `key` was
/// changed.
tgm_error decoding_with(std::string bytes, const std::string& key, char byte) {
  const std::size_t place = bytes.rfind(key);
  EXPECT_NE(place, std::string::npos) << key;
  bytes[place + key.size() - 1] = byte;
  return decode(bytes).code;
}

TEST(tensogram_c, the_same_keys_are_missed_by_readers) {
  owned packed;
  ASSERT_EQ(encode_doubles(packing_bits + R"(16, "sp_reference_value": 0,
      "sp_binary_scale_factor": 0, "byte_order": "little")",
                           packed, nullptr),
            TGM_ERROR_OK)
      << last_error();
  const std::string bytes = packed.text();
  EXPECT_EQ(decoding_with(bytes, "float64", '4'), TGM_ERROR_OK);
  EXPECT_EQ(decoding_with(bytes, "float64", 'x'), TGM_ERROR_METADATA);
  EXPECT_EQ(decoding_with(bytes, "sp_bits_per_value", 'x'), TGM_ERROR_METADATA);
  EXPECT_EQ(decoding_with(bytes, "sp_decimal_scale_factor", 'x'), TGM_ERROR_METADATA);
  EXPECT_EQ(decoding_with(bytes, "sp_bits_per_value\x10", '\x60'), TGM_ERROR_METADATA)
      << "an empty text instead of a number is an error of the metadata";
  EXPECT_EQ(decoding_with(bytes, "sp_bits_per_value\x10", '\x11'), TGM_ERROR_ENCODING)
      << "17 bits per value cannot be decoded";
  EXPECT_EQ(decoding_with(bytes, "simple_packing", 'x'), TGM_ERROR_ENCODING);
}

TEST(tensogram_c, damage_has_the_code_of_the_layer_that_it_is_in) {
  const std::string bytes = encode_two(nullptr);
  /// Returns the code of decoding with one byte changed.
  const auto with = [&](std::size_t place, std::uint8_t byte) {
    std::string changed = bytes;
    changed[place] = static_cast<char>(byte);
    return decode(changed).code;
  };
  EXPECT_EQ(with(0, 'X'), TGM_ERROR_FRAMING);
  EXPECT_EQ(with(24, 'X'), TGM_ERROR_FRAMING)
      << "a damaged magic of the first frame is a framing error";
  EXPECT_EQ(with(40, 0xFF), TGM_ERROR_METADATA)
      << "a damaged first byte of the metadata's CBOR is an error of the metadata";
  EXPECT_EQ(with(bytes.rfind("float64"), 'g'), TGM_ERROR_METADATA);
  EXPECT_EQ(with(bytes.size() - 1, 'X'), TGM_ERROR_FRAMING);
  const std::size_t payload = bytes.rfind("FR") + 16;
  EXPECT_EQ(with(payload, 0xEE), TGM_ERROR_ENCODING)
      << "a damaged size in front of an LZ4 block is an encoding error";
  EXPECT_NE(last_error().find("object 1"), std::string::npos) << last_error();
  std::string damaged = bytes;
  damaged[payload] = '\xEE';
  const auto objects =
      make<object_iter>(tgm_object_iter_create, as_u8(damaged), damaged.size(), 1, 0);
  ASSERT_EQ(objects.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(make<message>(tgm_object_iter_next, objects.get()).code, TGM_ERROR_OK);
  EXPECT_EQ(make<message>(tgm_object_iter_next, objects.get()).code, TGM_ERROR_ENCODING)
      << "the iterator reports the same code as decoding all objects at once";
  EXPECT_EQ(make<message>(tgm_object_iter_next, objects.get()).code,
            TGM_ERROR_END_OF_ITER)
      << "the iterator continues behind the object that failed";
}

TEST(tensogram_c, ranges_of_szip_without_offsets_are_a_failure_of_compression) {
  std::vector<std::int16_t> values(4096);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int16_t>(i * i % 1009);
  }
  owned with;
  ASSERT_EQ(encode_one(R"({"descriptors": [{"dtype": "int16", "shape": [4096],
      "byte_order": "little", "szip_rsi": 16)" +
                           szip + "}]}",
                       values.data(), 8192, with, nullptr),
            TGM_ERROR_OK)
      << last_error();
  const auto range = [&](const std::string& message, owned& out) {
    const std::uint64_t offset = 1000;
    const std::uint64_t count = 2;
    std::size_t found = 0;
    return tgm_decode_range(as_u8(message), message.size(), 0, &offset, &count, 1, 0, 0,
                            1, &out.bytes, &found);
  };
  owned part;
  ASSERT_EQ(range(with.text(), part), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(std::memcmp(part.bytes.data, &values[1000], 4), 0);
  std::string without = with.text();
  const std::string key = "szip_block_offsets";
  without[without.rfind(key) + key.size() - 1] = 'z';  // now the key is unknown
  EXPECT_EQ(range(without, part), TGM_ERROR_COMPRESSION);
  EXPECT_NE(last_error().find(key), std::string::npos) << last_error();
  EXPECT_EQ(decode(without).code, TGM_ERROR_OK) << last_error();
}

TEST(tensogram_c, malformed_files_fail_as_the_reference_says) {
  WEIR_NEEDS_FIXTURES(folder, "tensogram");
  const std::map<std::string, tgm_error> kinds{{"FramingError", TGM_ERROR_FRAMING},
                                               {"MetadataError", TGM_ERROR_METADATA},
                                               {"EncodingError", TGM_ERROR_ENCODING}};
  std::ifstream in(folder + "/wheel/manifest.json");
  const auto files = nlohmann::json::parse(in).at("files");
  std::size_t compared = 0;
  for (const auto& [name, file] : files.items()) {
    if (name.substr(0, 5) != "hand_" || file.at("messages").empty() ||
        !file["messages"][0].contains("decode_error")) {
      continue;
    }
    const std::string said = file["messages"][0]["decode_error"];
    // The kind stands behind the name of the exception.
    const std::size_t kind = said.find(' ') + 1;
    EXPECT_EQ(decode(read_whole(folder + "/wheel/" + name)).code,
              kinds.at(said.substr(kind, said.find(':', kind) - kind)))
        << name << ": " << said << "; here " << last_error();
    ++compared;
  }
  EXPECT_EQ(compared, 24u);
}

}  // namespace
}  // namespace weir::test::tgm
