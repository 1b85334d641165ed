// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls every function that takes a pointer with NULL for each of its pointers: nothing
/// crashes, and the answer is that of the reference.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>

#include "conformance/tensogram_c/support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test::tgm {
namespace {

/// Returns the names of the functions that were called with NULL so far.
std::set<std::string>& names_called() {
  static std::set<std::string> names;
  return names;
}

#define EXPECT_INVALID(function, ...)                                  \
  EXPECT_EQ((names_called().insert(#function), function(__VA_ARGS__)), \
            TGM_ERROR_INVALID_ARG)                                     \
      << #function "(" #__VA_ARGS__ ")"
#define EXPECT_ANSWER(answer, function, ...)                                   \
  EXPECT_EQ((names_called().insert(#function), function(__VA_ARGS__)), answer) \
      << #function "(" #__VA_ARGS__ ")"
#define EXPECT_HARMLESS(function, ...) \
  names_called().insert(#function), function(__VA_ARGS__)

constexpr std::size_t no_size = std::numeric_limits<std::size_t>::max();

/// Returns the functions in the list of prototypes that have a pointer among their
/// parameters.
std::set<std::string> names_with_pointers() {
  std::set<std::string> out;
  std::ifstream in(WEIR_PROTOTYPES);
  for (std::string line; std::getline(in, line);) {
    const std::size_t open = line.find('(');
    const std::size_t name = line.find_last_of(" *", open) + 1;
    if (line.find('*', open) != std::string::npos) {
      out.insert(line.substr(name, open - name));
    }
  }
  return out;
}

/// Checks the functions that encode.
void encode_with_null(const two_arrays& arrays) {
  const auto* data = arrays.data.data();
  const auto* lengths = arrays.lengths.data();
  const std::uint8_t* const missing[2] = {nullptr, nullptr};
  owned out;
  for (const auto encode : {tgm_encode, tgm_encode_pre_encoded}) {
    EXPECT_EQ(encode(nullptr, data, lengths, 2, nullptr, 0, &out.bytes),
              TGM_ERROR_INVALID_ARG);
    EXPECT_EQ(encode(two_objects, nullptr, lengths, 2, nullptr, 0, &out.bytes),
              TGM_ERROR_INVALID_ARG);
    EXPECT_EQ(encode(two_objects, missing, lengths, 2, nullptr, 0, &out.bytes),
              TGM_ERROR_INVALID_ARG);
  }
  EXPECT_INVALID(tgm_encode, two_objects, data, nullptr, 2, nullptr, 0, &out.bytes);
  EXPECT_INVALID(tgm_encode, two_objects, data, lengths, 2, nullptr, 0, nullptr);
  EXPECT_INVALID(tgm_encode_pre_encoded, two_objects, data, nullptr, 2, nullptr, 0,
                 &out.bytes);
  EXPECT_INVALID(tgm_encode_pre_encoded, two_objects, data, lengths, 2, nullptr, 0,
                 nullptr);
  EXPECT_INVALID(tgm_encode_with_options, nullptr, data, lengths, 2, nullptr, 0, nullptr,
                 &out.bytes);
  EXPECT_INVALID(tgm_encode_with_options, two_objects, data, lengths, 2, nullptr, 0,
                 nullptr, nullptr);
  EXPECT_INVALID(tgm_compute_hash, nullptr, 0, nullptr, &out.bytes);
  EXPECT_INVALID(tgm_compute_hash, nullptr, 8, "xxh3", &out.bytes);
  EXPECT_INVALID(tgm_compute_hash, as_u8("x"), 1, nullptr, nullptr);
  double reference = 0;
  std::int32_t binary = 0;
  EXPECT_INVALID(tgm_simple_packing_compute_params, nullptr, 0, 8, 0, &reference,
                 &binary);
  EXPECT_INVALID(tgm_simple_packing_compute_params, &reference, 1, 8, 0, nullptr,
                 &binary);
  EXPECT_INVALID(tgm_simple_packing_compute_params, &reference, 1, 8, 0, &reference,
                 nullptr);
  EXPECT_HARMLESS(tgm_bytes_free, tgm_bytes_t{nullptr, 0});
}

/// Checks the functions that decode, scan and validate a buffer.
void decode_with_null(const std::string& bytes) {
  const std::uint8_t* buf = as_u8(bytes);
  const std::size_t size = bytes.size();
  tgm_message_t* message = nullptr;
  tgm_metadata_t* metadata = nullptr;
  tgm_scan_result_t* scan = nullptr;
  EXPECT_INVALID(tgm_decode, nullptr, size, 1, 0, 0, &message);
  EXPECT_INVALID(tgm_decode, nullptr, 0, 1, 0, 0, &message);
  EXPECT_INVALID(tgm_decode, buf, size, 1, 0, 0, nullptr);
  EXPECT_INVALID(tgm_decode_with_options, nullptr, size, 1, 0, 0, nullptr, &message);
  EXPECT_INVALID(tgm_decode_with_options, buf, size, 1, 0, 0, nullptr, nullptr);
  EXPECT_INVALID(tgm_decode_metadata, nullptr, 0, &metadata);
  EXPECT_INVALID(tgm_decode_metadata, buf, size, nullptr);
  EXPECT_INVALID(tgm_decode_object, nullptr, size, 0, 1, 0, 0, &message);
  EXPECT_INVALID(tgm_decode_object, buf, size, 0, 1, 0, 0, nullptr);
  EXPECT_EQ(message, nullptr);
  EXPECT_EQ(metadata, nullptr);
  const std::uint64_t one = 1;
  owned out;
  std::size_t count = 0;
  EXPECT_INVALID(tgm_decode_range, nullptr, size, 0, &one, &one, 1, 1, 0, 1, &out.bytes,
                 &count);
  EXPECT_INVALID(tgm_decode_range, buf, size, 0, nullptr, &one, 1, 1, 0, 1, &out.bytes,
                 &count);
  EXPECT_INVALID(tgm_decode_range, buf, size, 0, &one, nullptr, 1, 1, 0, 1, &out.bytes,
                 &count);
  EXPECT_INVALID(tgm_decode_range, buf, size, 0, &one, &one, 1, 1, 0, 1, nullptr, &count);
  EXPECT_INVALID(tgm_decode_range, buf, size, 0, &one, &one, 1, 1, 0, 1, &out.bytes,
                 nullptr);
  EXPECT_INVALID(tgm_scan, nullptr, size, &scan);
  EXPECT_INVALID(tgm_scan, nullptr, 0, &scan);
  EXPECT_INVALID(tgm_scan, buf, size, nullptr);
  EXPECT_ANSWER(0u, tgm_scan_count, nullptr);
  EXPECT_EQ((names_called().insert("tgm_scan_entry"), tgm_scan_entry(nullptr, 0)).offset,
            no_size);
  EXPECT_HARMLESS(tgm_scan_free, nullptr);
  EXPECT_INVALID(tgm_validate, nullptr, size, nullptr, 0, &out.bytes);
  EXPECT_INVALID(tgm_validate, buf, size, nullptr, 0, nullptr);
  EXPECT_INVALID(tgm_doctor_to_json, nullptr);
}

/// Checks the functions that describe a message.
void look_at_null_message() {
  std::size_t length = 7;
  tgm_metadata_t* metadata = nullptr;
  EXPECT_ANSWER(0u, tgm_message_version, nullptr);
  EXPECT_ANSWER(0u, tgm_message_num_objects, nullptr);
  EXPECT_ANSWER(0u, tgm_message_num_decoded, nullptr);
  EXPECT_INVALID(tgm_message_metadata, nullptr, &metadata);
  EXPECT_ANSWER(0u, tgm_object_ndim, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_object_shape, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_object_strides, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_object_dtype, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_object_type, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_object_byte_order, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_payload_encoding, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_object_filter, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_object_compression, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_object_hash_type, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_object_hash_value, nullptr, 0);
  EXPECT_ANSWER(0, tgm_payload_has_hash, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_object_data, nullptr, 0, &length);
  EXPECT_EQ(length, 0u);
  EXPECT_ANSWER(nullptr, tgm_object_data, nullptr, 0, nullptr);
  EXPECT_HARMLESS(tgm_message_free, nullptr);
}

/// Checks the functions on metadata, without a handle and without a key.
void look_at_null_metadata(const tgm_metadata_t* meta) {
  EXPECT_ANSWER(0u, tgm_metadata_version, nullptr);
  EXPECT_ANSWER(0u, tgm_metadata_num_objects, nullptr);
  EXPECT_ANSWER(nullptr, tgm_metadata_object, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_metadata_extra, nullptr);
  EXPECT_ANSWER(nullptr, tgm_metadata_reserved, nullptr);
  EXPECT_ANSWER(nullptr, tgm_metadata_to_json, nullptr);
  EXPECT_ANSWER(nullptr, tgm_metadata_object_to_json, nullptr, 0);
  for (const auto& [handle, key] :
       {std::pair<const tgm_metadata_t*, const char*>(nullptr, "name"),
        {meta, nullptr}}) {
    EXPECT_ANSWER(nullptr, tgm_metadata_get, handle, key);
    EXPECT_ANSWER(nullptr, tgm_metadata_get_at, handle, 0, key);
    EXPECT_ANSWER(false, tgm_metadata_has, handle, key);
    EXPECT_ANSWER(false, tgm_metadata_has_at, handle, 0, key);
    EXPECT_ANSWER(nullptr, tgm_metadata_get_string, handle, key);
    EXPECT_ANSWER(7, tgm_metadata_get_int, handle, key, 7);
    EXPECT_ANSWER(1.5, tgm_metadata_get_float, handle, key, 1.5);
    EXPECT_ANSWER(nullptr, tgm_metadata_get_string_at, handle, 0, key);
    EXPECT_ANSWER(7, tgm_metadata_get_int_at, handle, 0, key, 7);
    EXPECT_ANSWER(1.5, tgm_metadata_get_float_at, handle, 0, key, 1.5);
  }
  EXPECT_HARMLESS(tgm_metadata_free, nullptr);
}

/// Checks the functions on values.
void look_at_null_value(const tgm_value_t* map, const tgm_value_t* count) {
  bool flag = false;
  std::int64_t signed_number = 0;
  std::uint64_t number = 0;
  double real = 0;
  std::size_t length = 7;
  EXPECT_ANSWER(TGM_VALUE_TYPE_NULL, tgm_value_get_type, nullptr);
  EXPECT_ANSWER(false, tgm_value_as_bool, nullptr, &flag);
  EXPECT_ANSWER(false, tgm_value_as_i64, nullptr, &signed_number);
  EXPECT_ANSWER(false, tgm_value_as_u64, nullptr, &number);
  EXPECT_ANSWER(false, tgm_value_as_f64, nullptr, &real);
  EXPECT_ANSWER(false, tgm_value_as_i64, count, nullptr);
  EXPECT_ANSWER(false, tgm_value_as_u64, count, nullptr);
  EXPECT_ANSWER(false, tgm_value_as_f64, count, nullptr);
  EXPECT_ANSWER(false, tgm_value_as_bool, count, nullptr);
  EXPECT_ANSWER(nullptr, tgm_value_as_string, nullptr, &length);
  EXPECT_EQ(length, 0u);
  EXPECT_ANSWER(nullptr, tgm_value_as_bytes, nullptr, nullptr);
  EXPECT_ANSWER(0u, tgm_value_array_len, nullptr);
  EXPECT_ANSWER(nullptr, tgm_value_array_get, nullptr, 0);
  EXPECT_ANSWER(0u, tgm_value_map_len, nullptr);
  EXPECT_ANSWER(nullptr, tgm_value_map_key_at, nullptr, 0, &length);
  EXPECT_ANSWER(nullptr, tgm_value_map_value_at, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_value_map_get, nullptr, "name");
  EXPECT_ANSWER(nullptr, tgm_value_map_get, map, nullptr);
}

/// Checks the functions on files.
void use_null_files(const std::string& path, tgm_file_t* open) {
  const two_arrays arrays;
  tgm_file_t* file = nullptr;
  std::size_t count = 0;
  tgm_message_t* message = nullptr;
  owned out;
  EXPECT_INVALID(tgm_file_open, nullptr, &file);
  EXPECT_INVALID(tgm_file_open, path.c_str(), nullptr);
  EXPECT_INVALID(tgm_file_create, nullptr, &file);
  EXPECT_INVALID(tgm_file_create, path.c_str(), nullptr);
  EXPECT_INVALID(tgm_file_message_count, nullptr, &count);
  EXPECT_INVALID(tgm_file_message_count, open, nullptr);
  EXPECT_INVALID(tgm_file_decode_message, nullptr, 0, 1, 0, 0, &message);
  EXPECT_INVALID(tgm_file_decode_message, open, 0, 1, 0, 0, nullptr);
  EXPECT_INVALID(tgm_file_read_message, nullptr, 0, &out.bytes);
  EXPECT_INVALID(tgm_file_read_message, open, 0, nullptr);
  EXPECT_INVALID(tgm_file_append_raw, nullptr, as_u8("x"), 1);
  EXPECT_INVALID(tgm_file_append_raw, open, nullptr, 4);
  EXPECT_INVALID(tgm_file_append_raw, open, nullptr, 0);
  EXPECT_ANSWER(nullptr, tgm_file_path, nullptr);
  const auto* data = arrays.data.data();
  const auto* lengths = arrays.lengths.data();
  EXPECT_INVALID(tgm_file_append, nullptr, two_objects, data, lengths, 2, nullptr, 0);
  EXPECT_INVALID(tgm_file_append, open, nullptr, data, lengths, 2, nullptr, 0);
  EXPECT_INVALID(tgm_file_append, open, two_objects, nullptr, lengths, 2, nullptr, 0);
  EXPECT_INVALID(tgm_file_append_with_options, nullptr, two_objects, data, lengths, 2,
                 nullptr, 0, nullptr);
  EXPECT_INVALID(tgm_file_append_with_options, open, two_objects, data, nullptr, 2,
                 nullptr, 0, nullptr);
  EXPECT_HARMLESS(tgm_file_close, nullptr);
  EXPECT_INVALID(tgm_validate_file, nullptr, nullptr, 0, &out.bytes);
  EXPECT_INVALID(tgm_validate_file, path.c_str(), nullptr, 0, nullptr);
}

/// Checks the functions that iterate.
void iterate_over_null(const std::string& bytes, tgm_file_t* open) {
  const std::uint8_t* buf = as_u8(bytes);
  const auto buffer = make<buffer_iter>(tgm_buffer_iter_create, buf, bytes.size());
  const auto files = make<file_iter>(tgm_file_iter_create, open);
  const auto objects = make<object_iter>(tgm_object_iter_create, buf, bytes.size(), 1, 0);
  tgm_buffer_iter_t* one = nullptr;
  tgm_file_iter_t* two = nullptr;
  tgm_object_iter_t* three = nullptr;
  tgm_message_t* message = nullptr;
  owned out;
  std::size_t length = 0;
  EXPECT_INVALID(tgm_buffer_iter_create, nullptr, 0, &one);
  EXPECT_INVALID(tgm_buffer_iter_create, buf, bytes.size(), nullptr);
  EXPECT_ANSWER(0u, tgm_buffer_iter_count, nullptr);
  EXPECT_INVALID(tgm_buffer_iter_next, nullptr, &buf, &length);
  EXPECT_INVALID(tgm_buffer_iter_next, buffer.get(), nullptr, &length);
  EXPECT_INVALID(tgm_buffer_iter_next, buffer.get(), &buf, nullptr);
  EXPECT_HARMLESS(tgm_buffer_iter_free, nullptr);
  EXPECT_INVALID(tgm_file_iter_create, nullptr, &two);
  EXPECT_INVALID(tgm_file_iter_create, open, nullptr);
  EXPECT_INVALID(tgm_file_iter_next, nullptr, &out.bytes);
  EXPECT_INVALID(tgm_file_iter_next, files.get(), nullptr);
  EXPECT_HARMLESS(tgm_file_iter_free, nullptr);
  EXPECT_INVALID(tgm_object_iter_create, nullptr, 0, 1, 0, &three);
  EXPECT_INVALID(tgm_object_iter_create, buf, bytes.size(), 1, 0, nullptr);
  EXPECT_INVALID(tgm_object_iter_next, nullptr, &message);
  EXPECT_INVALID(tgm_object_iter_next, objects.get(), nullptr);
  EXPECT_HARMLESS(tgm_object_iter_free, nullptr);
}

/// Checks the functions that write a stream.
void stream_with_null(const std::string& path) {
  const auto open =
      make<encoder>(tgm_streaming_encoder_create, path.c_str(), "{}", nullptr, 0u);
  ASSERT_EQ(open.code, TGM_ERROR_OK) << last_error();
  tgm_streaming_encoder_t* enc = nullptr;
  const std::uint8_t* data = as_u8(four_floats);
  EXPECT_INVALID(tgm_streaming_encoder_create, nullptr, "{}", nullptr, 0, &enc);
  EXPECT_INVALID(tgm_streaming_encoder_create, path.c_str(), nullptr, nullptr, 0, &enc);
  EXPECT_INVALID(tgm_streaming_encoder_create, path.c_str(), "{}", nullptr, 0, nullptr);
  EXPECT_INVALID(tgm_streaming_encoder_create_with_options, nullptr, "{}", nullptr, 0,
                 nullptr, &enc);
  EXPECT_INVALID(tgm_streaming_encoder_create_with_options, path.c_str(), "{}", nullptr,
                 0, nullptr, nullptr);
  EXPECT_INVALID(tgm_streaming_encoder_write_preceder, nullptr, "{}");
  EXPECT_INVALID(tgm_streaming_encoder_write_preceder, open.get(), nullptr);
  EXPECT_INVALID(tgm_streaming_encoder_write, nullptr, "{}", data, 16);
  EXPECT_INVALID(tgm_streaming_encoder_write, open.get(), nullptr, data, 16);
  EXPECT_INVALID(tgm_streaming_encoder_write, open.get(), four_floats_descriptor, nullptr,
                 16);
  EXPECT_INVALID(tgm_streaming_encoder_write_pre_encoded, nullptr, "{}", data, 16);
  EXPECT_INVALID(tgm_streaming_encoder_write_pre_encoded, open.get(), nullptr, data, 16);
  EXPECT_INVALID(tgm_streaming_encoder_write_pre_encoded, open.get(),
                 four_floats_descriptor, nullptr, 16);
  EXPECT_ANSWER(0u, tgm_streaming_encoder_count, nullptr);
  EXPECT_INVALID(tgm_streaming_encoder_finish, nullptr);
  EXPECT_HARMLESS(tgm_streaming_encoder_free, nullptr);
}

/// Checks the functions on tasks and cancellation tokens.
void join_null(tgm_async_task_t* ready) {
  std::uint64_t size = 0;
  owned bytes;
  tgm_message_t* message = nullptr;
  tgm_metadata_t* metadata = nullptr;
  tgm_async_file_t* file = nullptr;
  tgm_async_streaming_encoder_t* enc = nullptr;
  tgm_bytes_t* array = nullptr;
  std::size_t count = 0;
  EXPECT_INVALID(tgm_async_task_join_void, nullptr);
  EXPECT_INVALID(tgm_async_task_join_size, nullptr, &size);
  EXPECT_INVALID(tgm_async_task_join_size, ready, nullptr);
  EXPECT_INVALID(tgm_async_task_join_bytes, nullptr, &bytes.bytes);
  EXPECT_INVALID(tgm_async_task_join_bytes, ready, nullptr);
  EXPECT_INVALID(tgm_async_task_join_message, nullptr, &message);
  EXPECT_INVALID(tgm_async_task_join_message, ready, nullptr);
  EXPECT_INVALID(tgm_async_task_join_metadata, nullptr, &metadata);
  EXPECT_INVALID(tgm_async_task_join_metadata, ready, nullptr);
  EXPECT_INVALID(tgm_async_task_join_async_file, nullptr, &file);
  EXPECT_INVALID(tgm_async_task_join_async_file, ready, nullptr);
  EXPECT_INVALID(tgm_async_task_join_async_streaming_encoder, nullptr, &enc);
  EXPECT_INVALID(tgm_async_task_join_async_streaming_encoder, ready, nullptr);
  EXPECT_INVALID(tgm_async_task_join_multi_bytes, nullptr, &array, &count);
  EXPECT_INVALID(tgm_async_task_join_multi_bytes, ready, nullptr, &count);
  EXPECT_INVALID(tgm_async_task_join_multi_bytes, ready, &array, nullptr);
  EXPECT_INVALID(
      tgm_async_task_set_completion, nullptr, [](void*) {}, nullptr);
  EXPECT_INVALID(tgm_async_task_set_completion, ready, nullptr, nullptr);
  EXPECT_ANSWER(false, tgm_async_task_is_ready, nullptr);
  EXPECT_HARMLESS(tgm_async_task_cancel, nullptr);
  EXPECT_HARMLESS(tgm_async_task_free, nullptr);
  EXPECT_HARMLESS(tgm_multi_bytes_free, nullptr, 0);
  EXPECT_HARMLESS(tgm_cancellation_token_cancel, nullptr);
  EXPECT_HARMLESS(tgm_cancellation_token_free, nullptr);
  EXPECT_ANSWER(false, tgm_cancellation_token_is_cancelled, nullptr);
}

/// Checks the functions that launch tasks on files.
void launch_with_null(const std::string& path, tgm_async_file_t* file) {
  tgm_async_task_t* task = nullptr;
  const std::uint64_t one = 1;
  const char* const texts[1] = {"x"};
  const char* const missing[1] = {nullptr};
  EXPECT_INVALID(tgm_async_file_open, nullptr, nullptr, 0, &task);
  EXPECT_INVALID(tgm_async_file_open, path.c_str(), nullptr, 0, nullptr);
  EXPECT_INVALID(tgm_async_file_open_remote, nullptr, nullptr, nullptr, 0, false, nullptr,
                 0, &task);
  EXPECT_INVALID(tgm_async_file_open_remote, "s3://a", nullptr, texts, 1, false, nullptr,
                 0, &task);
  EXPECT_INVALID(tgm_async_file_open_remote, "s3://a", texts, missing, 1, false, nullptr,
                 0, &task);
  EXPECT_INVALID(tgm_async_file_open_remote, "s3://a", nullptr, nullptr, 0, false,
                 nullptr, 0, nullptr);
  EXPECT_ANSWER(nullptr, tgm_async_file_path, nullptr);
  EXPECT_HARMLESS(tgm_async_file_close, nullptr);
  EXPECT_INVALID(tgm_async_file_message_count, nullptr, nullptr, 0, &task);
  EXPECT_INVALID(tgm_async_file_message_count, file, nullptr, 0, nullptr);
  EXPECT_INVALID(tgm_async_file_read_message, nullptr, 0, nullptr, 0, &task);
  EXPECT_INVALID(tgm_async_file_read_message, file, 0, nullptr, 0, nullptr);
  EXPECT_INVALID(tgm_async_file_decode_message, nullptr, 0, true, 0, true, false, nullptr,
                 0, &task);
  EXPECT_INVALID(tgm_async_file_decode_message, file, 0, true, 0, true, false, nullptr, 0,
                 nullptr);
  EXPECT_INVALID(tgm_async_file_decode_metadata, nullptr, 0, nullptr, 0, &task);
  EXPECT_INVALID(tgm_async_file_decode_metadata, file, 0, nullptr, 0, nullptr);
  EXPECT_INVALID(tgm_async_file_decode_object, nullptr, 0, 0, true, 0, true, false,
                 nullptr, 0, &task);
  EXPECT_INVALID(tgm_async_file_decode_object, file, 0, 0, true, 0, true, false, nullptr,
                 0, nullptr);
  EXPECT_INVALID(tgm_async_file_decode_range, nullptr, 0, 0, &one, &one, 1, true, 0,
                 nullptr, 0, &task);
  EXPECT_INVALID(tgm_async_file_decode_range, file, 0, 0, nullptr, &one, 1, true, 0,
                 nullptr, 0, &task);
  EXPECT_INVALID(tgm_async_file_decode_range, file, 0, 0, &one, nullptr, 1, true, 0,
                 nullptr, 0, &task);
  EXPECT_INVALID(tgm_async_file_decode_range, file, 0, 0, &one, &one, 1, true, 0, nullptr,
                 0, nullptr);
  EXPECT_EQ(task, nullptr);
}

/// Checks the functions that write a stream by tasks.
void stream_by_task_with_null(const std::string& path,
                              tgm_async_streaming_encoder_t* enc) {
  tgm_async_task_t* task = nullptr;
  std::size_t count = 0;
  const std::uint8_t* data = as_u8(four_floats);
  EXPECT_INVALID(tgm_async_streaming_encoder_create, nullptr, "{}", nullptr, 0, nullptr,
                 0, &task);
  EXPECT_INVALID(tgm_async_streaming_encoder_create, path.c_str(), nullptr, nullptr, 0,
                 nullptr, 0, &task);
  EXPECT_INVALID(tgm_async_streaming_encoder_create, path.c_str(), "{}", nullptr, 0,
                 nullptr, 0, nullptr);
  const std::vector write{tgm_async_streaming_encoder_write_object,
                          tgm_async_streaming_encoder_write_pre_encoded};
  names_called().insert("tgm_async_streaming_encoder_write_object");
  names_called().insert("tgm_async_streaming_encoder_write_pre_encoded");
  for (const auto each : write) {
    EXPECT_EQ(each(nullptr, "{}", data, 16, nullptr, 0, &task), TGM_ERROR_INVALID_ARG);
    EXPECT_EQ(each(enc, nullptr, data, 16, nullptr, 0, &task), TGM_ERROR_INVALID_ARG);
    EXPECT_EQ(each(enc, "{}", nullptr, 16, nullptr, 0, &task), TGM_ERROR_INVALID_ARG);
    EXPECT_EQ(each(enc, "{}", data, 16, nullptr, 0, nullptr), TGM_ERROR_INVALID_ARG);
  }
  EXPECT_INVALID(tgm_async_streaming_encoder_write_preceder, nullptr, "{}", nullptr, 0,
                 &task);
  EXPECT_INVALID(tgm_async_streaming_encoder_write_preceder, enc, nullptr, nullptr, 0,
                 &task);
  EXPECT_INVALID(tgm_async_streaming_encoder_write_preceder, enc, "{}", nullptr, 0,
                 nullptr);
  EXPECT_INVALID(tgm_async_streaming_encoder_finish, nullptr, false, nullptr, 0, &task);
  EXPECT_INVALID(tgm_async_streaming_encoder_finish, enc, false, nullptr, 0, nullptr);
  EXPECT_ANSWER(nullptr, tgm_async_streaming_encoder_path, nullptr);
  EXPECT_ANSWER(no_size, tgm_async_streaming_encoder_object_count, nullptr);
  EXPECT_ANSWER(TGM_OBJECT_COUNT_STATUS_NULL_HANDLE,
                tgm_async_streaming_encoder_try_object_count, nullptr, &count);
  EXPECT_ANSWER(TGM_OBJECT_COUNT_STATUS_NULL_HANDLE,
                tgm_async_streaming_encoder_try_object_count, enc, nullptr);
  EXPECT_HARMLESS(tgm_async_streaming_encoder_free, nullptr);
  EXPECT_EQ(task, nullptr);
}

/// Takes the bytes of a stream and drops them.
int take_nothing(void* /*context*/, const std::uint8_t* /*bytes*/, std::size_t /*n*/) {
  return 0;
}

/// Checks the functions that only this library has.
void extend_with_null(const std::string& bytes) {
  const two_arrays arrays;
  const std::uint8_t* const data = as_u8(bytes);
  const std::size_t size = bytes.size();
  const std::uint64_t one = 1;
  owned out;
  tgm_message_t* msg = nullptr;
  tgm_async_task_t* task = nullptr;
  tgm_x_masks_t masks{};
  const std::uint8_t* view = nullptr;
  std::size_t length = 0;
  std::uint64_t number = 0;
  tgm_scan_result_t* scan = nullptr;
  tgm_streaming_encoder_t* enc = nullptr;
  EXPECT_INVALID(tgm_x_encode, nullptr, arrays.data.data(), arrays.lengths.data(), 2,
                 nullptr, &out.bytes);
  EXPECT_INVALID(tgm_x_encode, two_objects, nullptr, arrays.lengths.data(), 2, nullptr,
                 &out.bytes);
  EXPECT_INVALID(tgm_x_encode, two_objects, arrays.data.data(), nullptr, 2, nullptr,
                 &out.bytes);
  EXPECT_INVALID(tgm_x_encode, two_objects, arrays.data.data(), arrays.lengths.data(), 2,
                 nullptr, nullptr);
  EXPECT_INVALID(tgm_x_decode, nullptr, size, nullptr, &msg);
  EXPECT_INVALID(tgm_x_decode, data, size, nullptr, nullptr);
  EXPECT_INVALID(tgm_x_decode_range, nullptr, size, 0, &one, &one, 1, nullptr,
                 &out.bytes);
  EXPECT_INVALID(tgm_x_decode_range, data, size, 0, nullptr, &one, 1, nullptr,
                 &out.bytes);
  EXPECT_INVALID(tgm_x_decode_range, data, size, 0, &one, nullptr, 1, nullptr,
                 &out.bytes);
  EXPECT_INVALID(tgm_x_decode_range, data, size, 0, &one, &one, 1, nullptr, nullptr);
  EXPECT_INVALID(tgm_x_decode_masks, nullptr, size, 0, &masks);
  EXPECT_INVALID(tgm_x_decode_masks, data, size, 0, nullptr);
  tgm_x_masks_free(masks);
  EXPECT_INVALID(tgm_x_object_view, nullptr, size, 0, &view, &length);
  EXPECT_INVALID(tgm_x_object_view, data, size, 0, nullptr, &length);
  EXPECT_INVALID(tgm_x_object_view, data, size, 0, &view, nullptr);
  EXPECT_INVALID(tgm_x_async_decode, nullptr, size, nullptr, nullptr, 0, &task);
  EXPECT_INVALID(tgm_x_async_decode, data, size, nullptr, nullptr, 0, nullptr);
  EXPECT_ANSWER(false, tgm_x_value_tag, nullptr, &number);
  EXPECT_INVALID(tgm_x_scan, nullptr, size, TGM_X_SCAN_BACKWARD, &scan);
  EXPECT_INVALID(tgm_x_scan, data, size, TGM_X_SCAN_BACKWARD, nullptr);
  EXPECT_INVALID(tgm_x_streaming_encoder_create, nullptr, &take_nothing, nullptr, nullptr,
                 nullptr, &enc);
  EXPECT_INVALID(tgm_x_streaming_encoder_create, "{}", nullptr, nullptr, nullptr, nullptr,
                 &enc);
  EXPECT_INVALID(tgm_x_streaming_encoder_create, "{}", &take_nothing, nullptr, nullptr,
                 nullptr, nullptr);
  EXPECT_INVALID(tgm_x_streaming_encoder_finish_backfill, nullptr);
  EXPECT_ANSWER(0u, tgm_x_streaming_encoder_bytes_written, nullptr);
  EXPECT_INVALID(tgm_x_validate, nullptr, size, nullptr, nullptr, &out.bytes);
  EXPECT_INVALID(tgm_x_validate, data, size, nullptr, nullptr, nullptr);
  EXPECT_EQ(out.bytes.data, nullptr);
}

/// Checks the functions that split bytes into messages.
void split_null(const std::string& bytes) {
  owned out;
  const auto split = make<splitter>(tgm_x_splitter_create, std::uint64_t{0});
  EXPECT_INVALID(tgm_x_splitter_create, 0, nullptr);
  EXPECT_INVALID(tgm_x_splitter_put, nullptr, as_u8(bytes), bytes.size());
  EXPECT_INVALID(tgm_x_splitter_put, split.get(), nullptr, 0);
  EXPECT_INVALID(tgm_x_splitter_end, nullptr);
  EXPECT_INVALID(tgm_x_splitter_take, nullptr, &out.bytes, nullptr, nullptr);
  EXPECT_INVALID(tgm_x_splitter_take, split.get(), nullptr, nullptr, nullptr);
  EXPECT_ANSWER(0u, tgm_x_splitter_held, nullptr);
  EXPECT_ANSWER(0u, tgm_x_splitter_skipped, nullptr);
  EXPECT_ANSWER(false, tgm_x_splitter_cut_short, nullptr);
  EXPECT_HARMLESS(tgm_x_splitter_free, nullptr);
}

TEST(tensogram_c, null_is_an_invalid_argument_or_an_empty_answer_of_every_function) {
  const temp_folder folder;
  const std::string path = folder / "two.tgm";
  const std::string bytes = encode_two();
  write_whole(path, bytes);
  encode_with_null(two_arrays());
  decode_with_null(bytes);
  look_at_null_message();
  const auto meta = make<metadata>(tgm_decode_metadata, as_u8(bytes), bytes.size());
  ASSERT_EQ(meta.code, TGM_ERROR_OK);
  look_at_null_metadata(meta.get());
  look_at_null_value(tgm_metadata_object(meta.get(), 0),
                     tgm_metadata_get(meta.get(), "count"));
  const auto open = make<file>(tgm_file_open, path.c_str());
  use_null_files(path, open.get());
  iterate_over_null(bytes, open.get());
  stream_with_null(folder / "stream.tgm");
  const auto opening = make<task>(tgm_async_file_open, path.c_str(), nullptr, 0u);
  join_null(opening.get());
  const auto async = make<async_file>(tgm_async_task_join_async_file, opening.get());
  ASSERT_EQ(async.code, TGM_ERROR_OK) << "a failed join must not take the result away";
  launch_with_null(path, async.get());
  const auto creating =
      make<task>(tgm_async_streaming_encoder_create, (folder / "async.tgm").c_str(), "{}",
                 nullptr, 0u, nullptr, 0u);
  const auto async_stream =
      make<async_encoder>(tgm_async_task_join_async_streaming_encoder, creating.get());
  stream_by_task_with_null(folder / "other.tgm", async_stream.get());
  extend_with_null(bytes);
  split_null(bytes);
  EXPECT_NE(last_error().find("null pointer"), std::string::npos) << last_error();
  names_called().erase("tgm_bytes_free");  // it takes a structure, not a pointer
  EXPECT_EQ(names_called(), names_with_pointers());
}

}  // namespace
}  // namespace weir::test::tgm
