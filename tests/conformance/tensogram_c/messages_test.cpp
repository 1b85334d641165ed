// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests messages there and back, and what their handles say about the objects.
#include <cmath>
#include <limits>
#include <numeric>

#include "conformance/tensogram_c/support.hpp"

namespace weir::test::tgm {
namespace {

/// Returns the elements of an object of a message as bytes.
std::string elements_of(const tgm_message_t* msg, std::size_t index) {
  std::size_t length = 0;
  const std::uint8_t* data = tgm_object_data(msg, index, &length);
  EXPECT_NE(data, nullptr);
  return {reinterpret_cast<const char*>(data), length};
}
/// Returns the bytes of values.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(tensogram_c, a_message_survives_encoding_and_decoding) {
  const auto found = decode(encode_two(), true);
  ASSERT_EQ(found.code, TGM_ERROR_OK) << last_error();
  const tgm_message_t* msg = found.get();
  EXPECT_EQ(tgm_message_version(msg), 3u);
  ASSERT_EQ(tgm_message_num_objects(msg), 2u);
  EXPECT_EQ(tgm_message_num_decoded(msg), 2u);
  EXPECT_EQ(tgm_object_ndim(msg, 0), 2u);
  EXPECT_EQ(tgm_object_ndim(msg, 1), 1u);
  EXPECT_EQ(tgm_object_shape(msg, 0)[0], 2u);
  EXPECT_EQ(tgm_object_shape(msg, 0)[1], 2u);
  EXPECT_EQ(tgm_object_shape(msg, 1)[0], 3u);
  EXPECT_EQ(tgm_object_strides(msg, 0)[0], 2u);
  EXPECT_EQ(tgm_object_strides(msg, 0)[1], 1u);
  EXPECT_STREQ(tgm_object_type(msg, 0), "ntensor");
  EXPECT_STREQ(tgm_object_dtype(msg, 0), "float32");
  EXPECT_STREQ(tgm_object_dtype(msg, 1), "float64");
  EXPECT_STREQ(tgm_object_byte_order(msg, 1), "little");
  EXPECT_STREQ(tgm_payload_encoding(msg, 1), "none");
  EXPECT_STREQ(tgm_object_filter(msg, 1), "none");
  EXPECT_STREQ(tgm_object_compression(msg, 0), "none");
  EXPECT_STREQ(tgm_object_compression(msg, 1), "lz4");
  EXPECT_EQ(elements_of(msg, 0), bytes_of(two_arrays().a));
  EXPECT_EQ(elements_of(msg, 1), bytes_of(two_arrays().b));
}

TEST(tensogram_c, strides_that_are_given_are_kept_and_others_are_those_of_rows) {
  const std::vector<float> values(4);
  const std::uint8_t* const data = as_u8(values.data());
  const std::size_t length = 16;
  for (const std::string strides : {R"("strides": [1, 2], )", ""}) {
    const std::string json = R"({"descriptors": [{"type": "ntensor", "shape": [2, 2], )" +
                             strides + R"("dtype": "float32"}]})";
    owned out;
    ASSERT_EQ(tgm_encode(json.c_str(), &data, &length, 1, "xxh3", 0, &out.bytes),
              TGM_ERROR_OK)
        << last_error();
    const auto found = decode(out.text(), true);
    ASSERT_EQ(found.code, TGM_ERROR_OK) << last_error();
    EXPECT_EQ(tgm_object_strides(found.get(), 0)[0], strides.empty() ? 2u : 1u);
    EXPECT_EQ(tgm_object_strides(found.get(), 0)[1], strides.empty() ? 1u : 2u);
  }
}

TEST(tensogram_c, an_object_that_is_not_there_has_empty_answers) {
  const auto found = decode(encode_two());
  for (const std::size_t index :
       {std::size_t{2}, std::size_t{1} << 40, std::numeric_limits<std::size_t>::max()}) {
    std::size_t length = 99;
    EXPECT_EQ(tgm_object_ndim(found.get(), index), 0u);
    EXPECT_EQ(tgm_object_shape(found.get(), index), nullptr);
    EXPECT_EQ(tgm_object_strides(found.get(), index), nullptr);
    EXPECT_EQ(tgm_object_dtype(found.get(), index), nullptr);
    EXPECT_EQ(tgm_object_type(found.get(), index), nullptr);
    EXPECT_EQ(tgm_object_byte_order(found.get(), index), nullptr);
    EXPECT_EQ(tgm_object_filter(found.get(), index), nullptr);
    EXPECT_EQ(tgm_object_compression(found.get(), index), nullptr);
    EXPECT_EQ(tgm_payload_encoding(found.get(), index), nullptr);
    EXPECT_EQ(tgm_payload_has_hash(found.get(), index), 0);
    EXPECT_EQ(tgm_object_hash_type(found.get(), index), nullptr);
    EXPECT_EQ(tgm_object_hash_value(found.get(), index), nullptr);
    EXPECT_EQ(tgm_object_data(found.get(), index, &length), nullptr);
    EXPECT_EQ(length, 0u);
    EXPECT_EQ(tgm_object_data(found.get(), index, nullptr), nullptr);
  }
}

TEST(tensogram_c, one_object_comes_as_object_0_with_the_metadata_of_all) {
  std::string bytes = encode_two();
  auto found = make<message>(tgm_decode_object, as_u8(bytes), bytes.size(),
                             std::size_t{1}, 1, 0u, 1);
  bytes.assign(bytes.size(), 'x');  // the handle must not need the buffer any more
  ASSERT_EQ(found.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(tgm_message_num_objects(found.get()), 1u);
  EXPECT_EQ(elements_of(found.get(), 0), bytes_of(two_arrays().b));
  EXPECT_STREQ(tgm_object_dtype(found.get(), 0), "float64");
  EXPECT_EQ(tgm_object_dtype(found.get(), 1), nullptr);
  auto meta = make<metadata>(tgm_message_metadata, found.get());
  ASSERT_EQ(meta.code, TGM_ERROR_OK);
  found.handle.reset();  // the metadata outlive the message
  EXPECT_EQ(tgm_metadata_num_objects(meta.get()), 2u);
  EXPECT_STREQ(tgm_metadata_get_string(meta.get(), "name"), "a");
  EXPECT_STREQ(tgm_metadata_get_string_at(meta.get(), 1, "name"), "b");
}

TEST(tensogram_c, objects_come_one_after_another) {
  std::string bytes = encode_two();
  const auto objects =
      make<object_iter>(tgm_object_iter_create, as_u8(bytes), bytes.size(), 1, 1);
  ASSERT_EQ(objects.code, TGM_ERROR_OK) << last_error();
  bytes.assign(bytes.size(), 'x');  // the iterator has its own copy
  const two_arrays arrays;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto one = make<message>(tgm_object_iter_next, objects.get());
    ASSERT_EQ(one.code, TGM_ERROR_OK) << last_error();
    EXPECT_EQ(tgm_message_num_objects(one.get()), 1u);
    EXPECT_EQ(elements_of(one.get(), 0),
              i == 0 ? bytes_of(arrays.a) : bytes_of(arrays.b));
    EXPECT_STREQ(tgm_object_compression(one.get(), 0), i == 0 ? "none" : "lz4");
    EXPECT_EQ(tgm_payload_has_hash(one.get(), 0), 1);
    const auto meta = make<metadata>(tgm_message_metadata, one.get());
    EXPECT_EQ(tgm_metadata_num_objects(meta.get()), 2u);
  }
  for (int again = 0; again < 2; ++again) {
    const auto none = make<message>(tgm_object_iter_next, objects.get());
    EXPECT_EQ(none.code, TGM_ERROR_END_OF_ITER);
    EXPECT_EQ(none.get(), nullptr);
  }
}

TEST(tensogram_c, digests_have_a_name_and_sixteen_digits) {
  const auto with = decode(encode_two());
  EXPECT_EQ(tgm_payload_has_hash(with.get(), 1), 1);
  EXPECT_STREQ(tgm_object_hash_type(with.get(), 1), "xxh3");
  const std::string digest = tgm_object_hash_value(with.get(), 1);
  EXPECT_EQ(digest.size(), 16u);
  EXPECT_EQ(digest.find_first_not_of("0123456789abcdef"), std::string::npos) << digest;
  EXPECT_NE(digest, tgm_object_hash_value(with.get(), 0));
  for (const char* none : {static_cast<const char*>(nullptr), "none"}) {
    const auto without = decode(encode_two(none));
    EXPECT_EQ(tgm_payload_has_hash(without.get(), 1), 0);
    EXPECT_EQ(tgm_object_hash_type(without.get(), 1), nullptr);
    EXPECT_EQ(tgm_object_hash_value(without.get(), 1), nullptr);
  }
  for (const char* name : {static_cast<const char*>(nullptr), "xxh3", "none"}) {
    owned out;
    ASSERT_EQ(tgm_compute_hash(as_u8("hello world"), 11, name, &out.bytes), TGM_ERROR_OK);
    EXPECT_EQ(out.text(), "d447b1ea40e6988b");
  }
}

TEST(tensogram_c, objects_without_elements_or_dimensions_are_objects) {
  const std::uint8_t* const nothing = nullptr;
  const std::size_t none = 0;
  owned out;
  ASSERT_EQ(tgm_encode(R"({"descriptors": [{"dtype": "float32", "shape": [0]}]})",
                       &nothing, &none, 1, nullptr, 0, &out.bytes),
            TGM_ERROR_OK)
      << last_error();
  const auto empty = decode(out.text());
  std::size_t length = 99;
  EXPECT_NE(tgm_object_data(empty.get(), 0, &length), nullptr);
  EXPECT_EQ(length, 0u);
  owned no_objects;
  ASSERT_EQ(tgm_encode("{}", nullptr, nullptr, 0, nullptr, 0, &no_objects.bytes),
            TGM_ERROR_OK)
      << last_error();
  EXPECT_EQ(tgm_message_num_objects(decode(no_objects.text()).get()), 0u);
  owned scalar;
  ASSERT_EQ(encode_one(R"({"descriptors": [{"dtype": "float32", "shape": []}]})",
                       four_floats, 4, scalar),
            TGM_ERROR_OK)
      << last_error();
  const auto found = decode(scalar.text());
  EXPECT_EQ(tgm_object_ndim(found.get(), 0), 0u);
  EXPECT_NE(tgm_object_shape(found.get(), 0), nullptr);
  EXPECT_NE(tgm_object_strides(found.get(), 0), nullptr);
  EXPECT_EQ(elements_of(found.get(), 0).size(), 4u);
}

TEST(tensogram_c, elements_come_in_the_byte_order_that_is_asked_for) {
  const std::uint8_t big_endian[4] = {0x01, 0x02, 0x03, 0x04};
  owned out;
  ASSERT_EQ(encode_one(R"({"descriptors": [{"dtype": "uint16", "shape": [2],
                           "byte_order": "big"}]})",
                       big_endian, 4, out),
            TGM_ERROR_OK)
      << last_error();
  const std::string bytes = out.text();
  const std::string in_file(big_endian, big_endian + 4);
  const std::string native = bytes_of(std::vector<std::uint16_t>{0x0102, 0x0304});
  for (const int order : {0, 1, 2}) {
    const std::string& expected = order != 0 ? native : in_file;
    const auto whole =
        make<message>(tgm_decode, as_u8(bytes), bytes.size(), order, 0u, 0);
    EXPECT_EQ(elements_of(whole.get(), 0), expected);
    EXPECT_STREQ(tgm_object_byte_order(whole.get(), 0), "big")
        << "the object keeps the byte order of the file";
    const auto one = make<message>(tgm_decode_object, as_u8(bytes), bytes.size(),
                                   std::size_t{0}, order, 0u, 0);
    EXPECT_EQ(elements_of(one.get(), 0), expected);
    const std::uint64_t offset = 1;
    const std::uint64_t count = 1;
    owned part;
    std::size_t found = 0;
    ASSERT_EQ(tgm_decode_range(as_u8(bytes), bytes.size(), 0, &offset, &count, 1, order,
                               0, 1, &part.bytes, &found),
              TGM_ERROR_OK);
    EXPECT_EQ(part.text(), expected.substr(2));
  }
}

TEST(tensogram_c, ranges_come_joined_or_one_by_one) {
  const std::string bytes = encode_two();
  const two_arrays arrays;
  const std::uint64_t offsets[3] = {2, 0, 1};
  const std::uint64_t counts[3] = {1, 2, 0};
  std::size_t found = 0;
  owned joined;
  ASSERT_EQ(tgm_decode_range(as_u8(bytes), bytes.size(), 1, offsets, counts, 3, 1, 0, 1,
                             &joined.bytes, &found),
            TGM_ERROR_OK)
      << last_error();
  EXPECT_EQ(found, 1u);
  const std::string b = bytes_of(arrays.b);
  EXPECT_EQ(joined.text(), b.substr(16) + b.substr(0, 16));
  tgm_bytes_t parts[3];
  ASSERT_EQ(tgm_decode_range(as_u8(bytes), bytes.size(), 1, offsets, counts, 3, 1, 0, 0,
                             parts, &found),
            TGM_ERROR_OK)
      << last_error();
  ASSERT_EQ(found, 3u);
  EXPECT_EQ(parts[0].len, 8u);
  EXPECT_EQ(parts[1].len, 16u);
  EXPECT_EQ(parts[2].len, 0u);
  EXPECT_NE(parts[2].data, nullptr);
  EXPECT_EQ(std::memcmp(parts[0].data, &arrays.b[2], 8), 0);
  EXPECT_EQ(std::memcmp(parts[1].data, arrays.b.data(), 16), 0);
  for (const tgm_bytes_t& part : parts) {
    tgm_bytes_free(part);
  }
  ASSERT_EQ(tgm_decode_range(as_u8(bytes), bytes.size(), 1, nullptr, nullptr, 0, 1, 0, 0,
                             parts, &found),
            TGM_ERROR_OK);
  EXPECT_EQ(found, 0u);
}

TEST(tensogram_c, elements_that_are_not_finite_come_back_unless_they_shall_not) {
  const float values[4] = {1, std::numeric_limits<float>::quiet_NaN(),
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity()};
  const TgmEncodeMaskOptions masks{true, true, "rle", nullptr, "lz4", 0};
  const std::string json = four_floats_json();
  const std::uint8_t* const data = as_u8(values);
  const std::size_t size = 16;
  owned out;
  ASSERT_EQ(tgm_encode_with_options(json.c_str(), &data, &size, 1, "xxh3", 0, &masks,
                                    &out.bytes),
            TGM_ERROR_OK)
      << last_error();
  const std::string bytes = out.text();
  const auto decoded = [&](const TgmDecodeMaskOptions* options) {
    const auto found = make<message>(tgm_decode_with_options, as_u8(bytes), bytes.size(),
                                     1, 0u, 1, options);
    std::vector<float> out(4);
    std::memcpy(out.data(), elements_of(found.get(), 0).data(), 16);
    return out;
  };
  const TgmDecodeMaskOptions restore{true};
  const TgmDecodeMaskOptions keep{false};
  for (const std::vector<float>& back : {decoded(nullptr), decoded(&restore)}) {
    EXPECT_EQ(back[0], 1);
    EXPECT_TRUE(std::isnan(back[1]));
    EXPECT_EQ(back[2], values[2]);
    EXPECT_EQ(back[3], values[3]);
  }
  EXPECT_EQ(decoded(&keep), (std::vector<float>{1, 0, 0, 0}));
}

TEST(tensogram_c, results_do_not_depend_on_the_number_of_threads) {
  std::vector<double> values(20000);
  std::iota(values.begin(), values.end(), 0.25);
  std::string first;
  for (const std::uint32_t threads : {0u, 1u, 3u}) {
    tgm_x_encode_options_t options{};
    options.struct_size = sizeof options;
    options.hash_algo = "xxh3";
    options.threads = threads;
    options.reproducible = true;
    const std::uint8_t* const data = as_u8(values.data());
    const std::size_t length = values.size() * 8;
    owned out;
    ASSERT_EQ(tgm_x_encode(R"({"descriptors": [{"dtype": "float64", "shape": [20000],
                               "filter": "shuffle", "shuffle_element_size": 8,
                               "compression": "zstd"}]})",
                           &data, &length, 1, &options, &out.bytes),
              TGM_ERROR_OK)
        << last_error();
    const std::string bytes = out.text();
    EXPECT_TRUE(first.empty() || first == bytes) << threads;
    first = bytes;
    const auto found =
        make<message>(tgm_decode, as_u8(bytes), bytes.size(), 1, threads, 1);
    ASSERT_EQ(found.code, TGM_ERROR_OK) << last_error();
    EXPECT_TRUE(elements_of(found.get(), 0) == bytes_of(values)) << threads;
  }
}

TEST(tensogram_c, payloads_that_went_through_their_pipeline_are_stored_as_they_are) {
  std::vector<std::uint8_t> values(1000, 7);
  const std::string json = R"({"descriptors": [{"dtype": "uint8", "shape": [1000],
      "compression": "zstd"}]})";
  owned encoded;
  ASSERT_EQ(encode_one(json, values.data(), 1000, encoded), TGM_ERROR_OK) << last_error();
  const std::string bytes = encoded.text();
  // A zstd frame begins with these bytes.
  const std::size_t start = bytes.find("\x28\xB5\x2F\xFD");
  ASSERT_NE(start, std::string::npos);
  // The payload ends where its descriptor begins, a CBOR map, somewhere before the first
  // of its keys. Every length up to there is tried.
  const std::size_t keys = bytes.find("compression", start);
  const std::uint8_t* const payload = as_u8(bytes) + start;
  for (std::size_t length = keys - start - 2; length > 0; --length) {
    owned stored;
    if (tgm_encode_pre_encoded(json.c_str(), &payload, &length, 1, "xxh3", 0,
                               &stored.bytes) != TGM_ERROR_OK) {
      continue;
    }
    const auto found = decode(stored.text());
    if (found.code == TGM_ERROR_OK) {
      EXPECT_EQ(elements_of(found.get(), 0), bytes_of(values));
      return;
    }
  }
  FAIL() << "no length of the payload decodes";
}

}  // namespace
}  // namespace weir::test::tgm
