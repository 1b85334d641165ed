/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  A program in C99 of somebody else: one message, written and read in every way. Its one
 *  argument is a folder for files. */
#include <stdio.h>
#include <string.h>
#include <tensogram.h>
#include <tensogram/tensogram_x.h>

static int failures = 0;

static void check(int holds, const char* what) {
  if (!holds) {
    const char* error = tgm_last_error();
    fprintf(stderr, "failed: %s; last error: %s\n", what, error != NULL ? error : "none");
    ++failures;
  }
}
#define CHECK(condition) check((condition) ? 1 : 0, #condition)

static const float values[4] = {1.5F, 2.5F, 3.5F, 4.5F};
static const char* const descriptor =
    "{\"type\": \"ntensor\", \"ndim\": 1, \"shape\": [4], \"strides\": [1], \"dtype\": "
    "\"float32\", \"byte_order\": \"little\", \"encoding\": \"none\", \"filter\": "
    "\"none\", \"compression\": \"zstd\"}";

static void check_message(const tgm_message_t* message) {
  size_t length = 0;
  const uint8_t* data = tgm_object_data(message, 0, &length);
  tgm_metadata_t* metadata = NULL;
  CHECK(tgm_message_num_objects(message) == 1);
  CHECK(tgm_object_ndim(message, 0) == 1 && tgm_object_shape(message, 0)[0] == 4);
  CHECK(strcmp(tgm_object_dtype(message, 0), "float32") == 0);
  CHECK(strcmp(tgm_object_compression(message, 0), "zstd") == 0);
  CHECK(length == sizeof values && memcmp(data, values, sizeof values) == 0);
  CHECK(tgm_message_metadata(message, &metadata) == TGM_ERROR_OK);
  CHECK(strcmp(tgm_metadata_get_string(metadata, "mars.param"), "2t") == 0);
  CHECK(tgm_metadata_get_int(metadata, "step", -1) == 12);
  CHECK(tgm_metadata_get(metadata, "absent") == NULL);
  tgm_metadata_free(metadata);
}

static tgm_bytes_t encoded(void) {
  char json[1000];
  const uint8_t* data = (const uint8_t*)values;
  const size_t length = sizeof values;
  tgm_bytes_t out = {NULL, 0};
  snprintf(json, sizeof json,
           "{\"base\": [{\"mars\": {\"param\": \"2t\"}}], \"_extra_\": {\"step\": 12}, "
           "\"descriptors\": [%s]}",
           descriptor);
  CHECK(tgm_encode(json, &data, &length, 1, "xxh3", 0, &out) == TGM_ERROR_OK);
  return out;
}

static void use_buffer(void) {
  tgm_bytes_t bytes = encoded();
  tgm_message_t* message = NULL;
  const uint8_t* view = NULL;
  size_t length = 0;
  CHECK(tgm_decode(bytes.data, bytes.len, 1, 0, 1, &message) == TGM_ERROR_OK);
  check_message(message);
  tgm_message_free(message);
  CHECK(tgm_decode(bytes.data, bytes.len - 1, 1, 0, 1, &message) == TGM_ERROR_FRAMING);
  CHECK(tgm_x_object_view(bytes.data, bytes.len, 0, &view, &length) ==
        TGM_ERROR_ENCODING);
  tgm_bytes_free(bytes);
}

static void use_file(const char* folder) {
  char path[1000];
  tgm_file_t* file = NULL;
  tgm_bytes_t bytes = encoded();
  size_t count = 0;
  snprintf(path, sizeof path, "%s/c.tgm", folder);
  CHECK(tgm_file_create(path, &file) == TGM_ERROR_OK);
  CHECK(tgm_file_append_raw(file, bytes.data, bytes.len) == TGM_ERROR_OK);
  CHECK(tgm_file_append_raw(file, bytes.data, bytes.len) == TGM_ERROR_OK);
  CHECK(tgm_file_message_count(file, &count) == TGM_ERROR_OK && count == 2);
  tgm_file_close(file);
  tgm_bytes_free(bytes);
}

static void use_tasks(const char* folder) {
  char path[1000];
  tgm_async_task_t* task = NULL;
  tgm_async_file_t* file = NULL;
  tgm_message_t* message = NULL;
  snprintf(path, sizeof path, "%s/c.tgm", folder);
  CHECK(tgm_async_file_open(path, NULL, 60000, &task) == TGM_ERROR_OK);
  CHECK(tgm_async_task_join_async_file(task, &file) == TGM_ERROR_OK);
  tgm_async_task_free(task);
  CHECK(tgm_async_file_decode_message(file, 1, true, 0, true, true, NULL, 0, &task) ==
        TGM_ERROR_OK);
  CHECK(tgm_async_task_join_message(task, &message) == TGM_ERROR_OK);
  check_message(message);
  tgm_message_free(message);
  tgm_async_task_free(task);
  tgm_async_file_close(file);
  CHECK(tgm_runtime_shutdown_blocking(60000) == 0);
}

static int count_bytes(void* context, const uint8_t* bytes, size_t length) {
  (void)bytes;
  *(size_t*)context += length;
  return 0;
}

static void use_stream(void) {
  size_t received = 0;
  tgm_streaming_encoder_t* stream = NULL;
  CHECK(tgm_x_streaming_encoder_create("{}", &count_bytes, NULL, &received, NULL,
                                       &stream) == TGM_ERROR_OK);
  CHECK(tgm_streaming_encoder_write(stream, descriptor, (const uint8_t*)values,
                                    sizeof values) == TGM_ERROR_OK);
  CHECK(tgm_streaming_encoder_finish(stream) == TGM_ERROR_OK);
  CHECK(tgm_x_streaming_encoder_bytes_written(stream) == received && received > 0);
  tgm_streaming_encoder_free(stream);
}

int main(int argc, char** argv) {
  CHECK(argc == 2 && TGM_WIRE_VERSION == 3);
  CHECK(tgm_last_error() == NULL);
  CHECK(strcmp(tgm_error_string((tgm_error)99), "unknown error") == 0);
  CHECK(strcmp(tgm_error_string((tgm_error)-1), "unknown error") == 0);
  use_buffer();
  use_file(argv[1]);
  use_tasks(argv[1]);
  use_stream();
  printf("%d failures in C\n", failures);
  return failures == 0 ? 0 : 1;
}
