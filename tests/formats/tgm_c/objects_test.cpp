// SPDX-License-Identifier: Apache-2.0
// The C interface: messages there and back, values, files, streams.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <utility>

#include "formats/tgm_c/messages.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

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
