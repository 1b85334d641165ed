// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests messages that are written object by object, to a file and through functions.
#include <array>
#include <filesystem>
#include <limits>

#include "conformance/tensogram_c/support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test::tgm {
namespace {

/// Opens a stream to a file.
made<encoder> stream_to(const std::string& path, const char* json = "{}",
                        const char* hash_algorithm = "xxh3") {
  return make<encoder>(tgm_streaming_encoder_create, path.c_str(), json, hash_algorithm,
                       0u);
}
/// Writes an object of four floats.
tgm_error write_floats(tgm_streaming_encoder_t* enc, const float* values = four_floats,
                       std::size_t length = 16) {
  return tgm_streaming_encoder_write(enc, four_floats_descriptor, as_u8(values), length);
}
/// Returns the big-endian u64 at an offset.
std::uint64_t big_endian(const std::string& bytes, std::size_t offset) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    out = out << 8 | as_u8(bytes)[offset + i];
  }
  return out;
}

/// The bytes that the functions of a stream have received.
struct received {
  std::string bytes;
  int answer = 0;  ///< the value that the functions return

  /// Receives bytes.
  static int take(void* context, const std::uint8_t* bytes, std::size_t length) {
    auto* r = static_cast<received*>(context);
    r->bytes.append(reinterpret_cast<const char*>(bytes), length);
    return r->answer;
  }
  /// Replaces bytes that were received before.
  static int patch(void* context, std::uint64_t offset, const std::uint8_t* bytes,
                   std::size_t length) {
    auto* r = static_cast<received*>(context);
    r->bytes.replace(offset, length, reinterpret_cast<const char*>(bytes), length);
    return r->answer;
  }
};

TEST(tensogram_c, a_stream_writes_objects_and_their_metadata_to_a_file) {
  const temp_folder folder;
  const std::string path = folder / "stream.tgm";
  const auto stream = stream_to(path, R"({"run": "first"})");
  ASSERT_EQ(stream.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(tgm_streaming_encoder_count(stream.get()), 0u);
  ASSERT_EQ(write_floats(stream.get()), TGM_ERROR_OK) << last_error();
  ASSERT_EQ(tgm_streaming_encoder_write_preceder(stream.get(), R"({"name": "late"})"),
            TGM_ERROR_OK)
      << last_error();
  EXPECT_EQ(tgm_streaming_encoder_write_pre_encoded(stream.get(), four_floats_descriptor,
                                                    as_u8(four_floats), 16),
            TGM_ERROR_OK)
      << last_error();
  EXPECT_EQ(tgm_streaming_encoder_count(stream.get()), 2u);
  ASSERT_EQ(tgm_streaming_encoder_finish(stream.get()), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(tgm_streaming_encoder_count(stream.get()), 0u)
      << "a finished stream has no objects";
  const std::string bytes = read_whole(path);
  const auto found = decode(bytes, true);
  ASSERT_EQ(found.code, TGM_ERROR_OK) << last_error();
  ASSERT_EQ(tgm_message_num_objects(found.get()), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(std::memcmp(tgm_object_data(found.get(), i, nullptr), four_floats, 16), 0);
  }
  const auto meta = make<metadata>(tgm_message_metadata, found.get());
  EXPECT_STREQ(tgm_metadata_get_string_at(meta.get(), 1, "name"), "late");
  EXPECT_FALSE(tgm_metadata_has_at(meta.get(), 0, "name"));
  EXPECT_STREQ(tgm_metadata_get_string(meta.get(), "run"), "first");
  const auto early = make<metadata>(tgm_decode_metadata, as_u8(bytes), bytes.size());
  EXPECT_STREQ(tgm_metadata_get_string(early.get(), "run"), "first");
}

TEST(tensogram_c, a_stream_that_is_finished_takes_nothing_more) {
  const temp_folder folder;
  const auto stream = stream_to(folder / "stream.tgm");
  ASSERT_EQ(write_floats(stream.get()), TGM_ERROR_OK);
  ASSERT_EQ(tgm_streaming_encoder_finish(stream.get()), TGM_ERROR_OK);
  EXPECT_EQ(write_floats(stream.get()), TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(tgm_streaming_encoder_write_pre_encoded(stream.get(), four_floats_descriptor,
                                                    as_u8(four_floats), 16),
            TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(tgm_streaming_encoder_write_preceder(stream.get(), "{}"),
            TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(tgm_streaming_encoder_finish(stream.get()), TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(tgm_x_streaming_encoder_finish_backfill(stream.get()), TGM_ERROR_INVALID_ARG);
}

TEST(tensogram_c, a_preceder_needs_its_object_and_only_one_stands_in_front_of_it) {
  const temp_folder folder;
  const std::string path = folder / "stream.tgm";
  const auto stream = stream_to(path);
  ASSERT_EQ(tgm_streaming_encoder_write_preceder(stream.get(), R"({"name": "a"})"),
            TGM_ERROR_OK);
  EXPECT_EQ(tgm_streaming_encoder_write_preceder(stream.get(), R"({"name": "b"})"),
            TGM_ERROR_FRAMING);
  EXPECT_EQ(tgm_streaming_encoder_finish(stream.get()), TGM_ERROR_FRAMING);
  for (const char* json : {"[1]", "x", R"({"_reserved_": {}})"}) {
    EXPECT_EQ(tgm_streaming_encoder_write_preceder(stream.get(), json),
              TGM_ERROR_METADATA)
        << json;
  }
  ASSERT_EQ(write_floats(stream.get()), TGM_ERROR_OK);
  EXPECT_EQ(tgm_streaming_encoder_finish(stream.get()), TGM_ERROR_OK) << last_error();
  const auto found = decode(read_whole(path));
  const auto meta = make<metadata>(tgm_message_metadata, found.get());
  EXPECT_STREQ(tgm_metadata_get_string_at(meta.get(), 0, "name"), "a");
}

TEST(tensogram_c, an_object_that_is_refused_leaves_no_trace_in_a_stream) {
  const temp_folder folder;
  const std::string path = folder / "stream.tgm";
  const auto stream = stream_to(path);
  const float nan[4] = {1, std::numeric_limits<float>::quiet_NaN(), 3, 4};
  EXPECT_EQ(tgm_streaming_encoder_write_preceder(stream.get(), R"({"name": "a"})"),
            TGM_ERROR_OK);
  EXPECT_EQ(write_floats(stream.get(), nan), TGM_ERROR_ENCODING);
  EXPECT_EQ(write_floats(stream.get(), four_floats, 15), TGM_ERROR_METADATA);
  for (const char* json : {R"({"x": 1})", "[", "5"}) {
    EXPECT_EQ(tgm_streaming_encoder_write(stream.get(), json, as_u8(four_floats), 16),
              TGM_ERROR_METADATA)
        << json;
  }
  EXPECT_EQ(tgm_streaming_encoder_count(stream.get()), 0u);
  EXPECT_EQ(write_floats(stream.get()), TGM_ERROR_OK) << last_error();
  EXPECT_EQ(tgm_streaming_encoder_finish(stream.get()), TGM_ERROR_OK) << last_error();
  const auto found = decode(read_whole(path), true);
  ASSERT_EQ(tgm_message_num_objects(found.get()), 1u) << last_error();
  const auto meta = make<metadata>(tgm_message_metadata, found.get());
  EXPECT_STREQ(tgm_metadata_get_string_at(meta.get(), 0, "name"), "a")
      << "the preceder belongs to the next object that is accepted";
}

TEST(tensogram_c, a_stream_that_cannot_begin_has_a_code_and_leaves_a_file_alone) {
  const temp_folder folder;
  const std::string path = folder / "stream.tgm";
  write_whole(path, "precious");
  EXPECT_EQ(stream_to(path, "x").code, TGM_ERROR_METADATA);
  EXPECT_EQ(stream_to(path, R"({"base": 5})").code, TGM_ERROR_METADATA);
  EXPECT_EQ(stream_to(path, "{}", "sha1").code, TGM_ERROR_INVALID_ARG);
  const TgmEncodeMaskOptions bogus{true, true, "bogus", nullptr, nullptr, -1};
  EXPECT_EQ(make<encoder>(tgm_streaming_encoder_create_with_options, path.c_str(), "{}",
                          "xxh3", 0u, &bogus)
                .code,
            TGM_ERROR_INVALID_ARG);
  EXPECT_EQ(read_whole(path), "precious");
  const auto announced = stream_to(path, R"({"base": [{}, {}]})");
  ASSERT_EQ(announced.code, TGM_ERROR_OK) << last_error();
  EXPECT_EQ(write_floats(announced.get()), TGM_ERROR_OK);
  EXPECT_EQ(tgm_streaming_encoder_finish(announced.get()), TGM_ERROR_METADATA)
      << "finishing fails while one of the two announced objects is missing";
}

TEST(tensogram_c, masks_are_written_by_a_stream) {
  const temp_folder folder;
  const std::string path = folder / "stream.tgm";
  const TgmEncodeMaskOptions masks{true, false, nullptr, nullptr, nullptr, -1};
  const auto stream = make<encoder>(tgm_streaming_encoder_create_with_options,
                                    path.c_str(), "{}", nullptr, 0u, &masks);
  const float nan[4] = {1, std::numeric_limits<float>::quiet_NaN(), 3, 4};
  ASSERT_EQ(write_floats(stream.get(), nan), TGM_ERROR_OK) << last_error();
  ASSERT_EQ(tgm_streaming_encoder_finish(stream.get()), TGM_ERROR_OK);
  const auto found = decode(read_whole(path));
  EXPECT_EQ(std::memcmp(tgm_object_data(found.get(), 0, nullptr), nan, 16), 0);
  EXPECT_EQ(tgm_payload_has_hash(found.get(), 0), 0);
}

TEST(tensogram_c, a_stream_that_is_not_finished_is_no_message) {
  const temp_folder folder;
  const std::string path = folder / "stream.tgm";
  {
    const auto stream = stream_to(path);
    ASSERT_EQ(write_floats(stream.get()), TGM_ERROR_OK);
  }
  const std::string bytes = read_whole(path);
  EXPECT_GT(bytes.size(), 16u) << "the bytes that were written stay in the file";
  EXPECT_EQ(decode(bytes).code, TGM_ERROR_FRAMING);
}

TEST(tensogram_c, a_stream_goes_through_functions_and_gets_its_length_back) {
  for (const bool patched : {false, true}) {
    received got;
    const auto stream =
        make<encoder>(tgm_x_streaming_encoder_create, "{}", &received::take,
                      patched ? &received::patch : nullptr, &got, nullptr);
    ASSERT_EQ(stream.code, TGM_ERROR_OK) << last_error();
    ASSERT_EQ(tgm_streaming_encoder_write_preceder(stream.get(), R"({"name": "raw"})"),
              TGM_ERROR_OK);
    ASSERT_EQ(write_floats(stream.get()), TGM_ERROR_OK) << last_error();
    EXPECT_EQ(tgm_x_streaming_encoder_finish_backfill(stream.get()),
              patched ? TGM_ERROR_OK : TGM_ERROR_INVALID_ARG);
    EXPECT_EQ(tgm_streaming_encoder_finish(stream.get()),
              patched ? TGM_ERROR_INVALID_ARG : TGM_ERROR_OK);
    EXPECT_EQ(tgm_x_streaming_encoder_bytes_written(stream.get()), got.bytes.size());
    EXPECT_EQ(big_endian(got.bytes, 16), patched ? got.bytes.size() : 0u);
    const auto found = decode(got.bytes);
    ASSERT_EQ(found.code, TGM_ERROR_OK) << last_error();
    const auto meta = make<metadata>(tgm_message_metadata, found.get());
    EXPECT_STREQ(tgm_metadata_get_string(meta.get(), "name"), "raw");
  }
}

TEST(tensogram_c, a_function_that_refuses_bytes_is_a_failure_to_write_that_stays) {
  received deaf;
  deaf.answer = 1;
  EXPECT_EQ(make<encoder>(tgm_x_streaming_encoder_create, "{}", &received::take, nullptr,
                          &deaf, nullptr)
                .code,
            TGM_ERROR_IO);
  received later;
  const auto stream = make<encoder>(tgm_x_streaming_encoder_create, "{}", &received::take,
                                    nullptr, &later, nullptr);
  ASSERT_EQ(stream.code, TGM_ERROR_OK);
  later.answer = -1;
  EXPECT_EQ(write_floats(stream.get()), TGM_ERROR_IO);
  later.answer = 0;
  EXPECT_EQ(write_floats(stream.get()), TGM_ERROR_IO)
      << "every later write fails, because bytes are missing in between";
  EXPECT_EQ(tgm_streaming_encoder_finish(stream.get()), TGM_ERROR_IO);
}

TEST(tensogram_c, a_stream_has_no_digests_in_its_header_and_no_aligned_payloads) {
  received got;
  const auto opened = [&](tgm_x_encode_options_t options) {
    options.struct_size = sizeof options;
    options.hash_algo = "xxh3";
    return make<encoder>(tgm_x_streaming_encoder_create, "{}", &received::take, nullptr,
                         &got, &options)
        .code;
  };
  tgm_x_encode_options_t options{};
  for (const auto list : {TGM_X_HASH_LIST_HEADER, TGM_X_HASH_LIST_BOTH}) {
    options.hash_list = list;
    EXPECT_EQ(opened(options), TGM_ERROR_ENCODING) << list;
  }
  for (const auto list :
       {TGM_X_HASH_LIST_AUTO, TGM_X_HASH_LIST_NONE, TGM_X_HASH_LIST_FOOTER}) {
    options.hash_list = list;
    EXPECT_EQ(opened(options), TGM_ERROR_OK) << list;
  }
  options.payload_alignment = 64;
  EXPECT_EQ(opened(options), TGM_ERROR_ENCODING);
}

}  // namespace
}  // namespace weir::test::tgm
