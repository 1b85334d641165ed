// SPDX-License-Identifier: Apache-2.0
/// @file
/// C interface to Tensogram v3. Every function returns a tgm_error; out parameters are
/// set only with TGM_OK. A pointer that a function needs and that is NULL is a
/// TGM_INVALID_ARG; bytes may be NULL where their length is 0. Handles are const and may
/// be read by several threads at once, except iterators and encoders, which belong to one
/// thread. Texts and bytes are a pointer and a length and live as long as the handle they
/// came from; a tgm_bytes is the caller's and goes back through tgm_bytes_free. No
/// exception leaves a function.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TGM_API __attribute__((visibility("default")))
#else
#define TGM_API
#endif

typedef enum tgm_error {
  TGM_OK = 0,
  TGM_FRAMING = 1,
  TGM_METADATA = 2,
  TGM_ENCODING = 3,
  TGM_COMPRESSION = 4,
  TGM_OBJECT = 5,
  TGM_IO = 6,
  TGM_HASH_MISMATCH = 7,
  TGM_INVALID_ARG = 8,
  TGM_END_OF_ITER = 9,
  TGM_REMOTE = 10,
  TGM_MISSING_HASH = 11,
  TGM_TIMEOUT = 12,
  TGM_CANCELLED = 13
} tgm_error;

/** Name of a code, e.g. "FRAMING". */
TGM_API const char* tgm_error_string(tgm_error code);
/** Text of the last failure of this thread: message, place, hint, causes. */
TGM_API const char* tgm_last_error(void);
TGM_API const char* tgm_version(void);

typedef struct tgm_bytes {
  uint8_t* data;
  size_t length;
} tgm_bytes;
TGM_API void tgm_bytes_free(tgm_bytes bytes);

typedef enum tgm_hash_list {
  TGM_LIST_AUTO = 0,
  TGM_LIST_NONE = 1,
  TGM_LIST_HEADER = 2,
  TGM_LIST_FOOTER = 3,
  TGM_LIST_BOTH = 4
} tgm_hash_list;

typedef struct tgm_token tgm_token;

/** Zeros ask for defaults, except `hashing`: start from tgm_encode_options_default. */
typedef struct tgm_encode_options {
  int hashing;
  tgm_hash_list aggregate_hash;
  uint32_t threads;
  int allow_nan;
  int allow_inf;
  const char* nan_mask_method; /**< NULL: roaring */
  const char* pos_inf_mask_method;
  const char* neg_inf_mask_method;
  uint64_t small_mask_threshold_bytes;
  const tgm_token* token; /**< of tgm_async_stream_open; NULL: none */
} tgm_encode_options;
TGM_API tgm_encode_options tgm_encode_options_default(void);

typedef struct tgm_decode_options {
  int native_byte_order;
  int restore_non_finite;
  int verify_hash; /**< a digest is required; 0: one that is there is still verified */
  int legacy;      /**< digests without their flag, packing keys without sp_ */
  uint32_t threads;
  uint64_t max_object_bytes; /**< 0: 16 GiB */
  const tgm_token* token;    /**< of functions that make a task; NULL: none */
} tgm_decode_options;
TGM_API tgm_decode_options tgm_decode_options_default(void);

/* ---- encoding ------------------------------------------------------------------------
 * `json` is an object: "base" (array of maps), "_extra_" (map), and "descriptors": one
 * map per object with type, dtype, shape, byte_order, encoding, filter, compression and
 * the parameters of the pipeline; what is absent has its default. */
TGM_API tgm_error tgm_encode(const char* json, const void* const* data,
                             const size_t* lengths, size_t count, tgm_bytes* out);
TGM_API tgm_error tgm_encode_with_options(const char* json, const void* const* data,
                                          const size_t* lengths, size_t count,
                                          const tgm_encode_options* options,
                                          tgm_bytes* out);
TGM_API tgm_error tgm_encode_pre_encoded(const char* json, const void* const* data,
                                         const size_t* lengths, size_t count,
                                         const tgm_encode_options* options,
                                         tgm_bytes* out);

/* ---- messages ------------------------------------------------------------------------
 */
typedef struct tgm_message tgm_message;
/** Opens the message at the start of `data` and decodes its objects. */
TGM_API tgm_error tgm_decode(const void* data, size_t length, tgm_message** out);
TGM_API tgm_error tgm_decode_with_options(const void* data, size_t length,
                                          const tgm_decode_options* options,
                                          tgm_message** out);
/** The same without its objects. */
TGM_API tgm_error tgm_decode_metadata(const void* data, size_t length, tgm_message** out);
TGM_API tgm_error tgm_decode_object(const void* data, size_t length, size_t object,
                                    const tgm_decode_options* options, tgm_bytes* out);
/** Elements of several ranges, one behind the other. */
TGM_API tgm_error tgm_decode_range(const void* data, size_t length, size_t object,
                                   const uint64_t* firsts, const uint64_t* counts,
                                   size_t ranges, tgm_bytes* out);
TGM_API void tgm_message_free(tgm_message* message);
TGM_API size_t tgm_message_num_objects(const tgm_message* message);

/* ---- objects -------------------------------------------------------------------------
 */
TGM_API tgm_error tgm_object_data(const tgm_message* message, size_t object,
                                  const uint8_t** data, size_t* length);
TGM_API tgm_error tgm_object_shape(const tgm_message* message, size_t object,
                                   const int64_t** shape, size_t* ndim);
TGM_API tgm_error tgm_object_strides(const tgm_message* message, size_t object,
                                     const uint64_t** strides, size_t* ndim);
/** NULL for an object that is not there. */
TGM_API const char* tgm_object_dtype(const tgm_message* message, size_t object);
TGM_API const char* tgm_object_type(const tgm_message* message, size_t object);
TGM_API const char* tgm_object_byte_order(const tgm_message* message, size_t object);
TGM_API const char* tgm_object_encoding(const tgm_message* message, size_t object);
TGM_API const char* tgm_object_filter(const tgm_message* message, size_t object);
TGM_API const char* tgm_object_compression(const tgm_message* message, size_t object);
/** 16 hexadecimal digits; TGM_MISSING_HASH if the frame has none. */
TGM_API tgm_error tgm_object_hash(const tgm_message* message, size_t object,
                                  char digits[17]);

/* ---- metadata ------------------------------------------------------------------------
 */
typedef struct tgm_value tgm_value;
typedef enum tgm_value_type {
  TGM_NULL = 0,
  TGM_BOOL = 1,
  TGM_INT = 2,
  TGM_FLOAT = 3,
  TGM_STRING = 4,
  TGM_BYTES = 5,
  TGM_ARRAY = 6,
  TGM_MAP = 7,
  TGM_TAG = 8
} tgm_value_type;
/** Value at a dot path: base[0], base[1], ..., then _extra_. NULL if absent. */
TGM_API const tgm_value* tgm_metadata_get(const tgm_message* message, const char* path);
/** The same in base[object] alone. */
TGM_API const tgm_value* tgm_metadata_get_at(const tgm_message* message, size_t object,
                                             const char* path);
TGM_API tgm_value_type tgm_value_kind(const tgm_value* value);
/** 1 and the value, or 0 if it is of another kind or does not fit: nothing is converted.
 */
TGM_API int tgm_value_as_bool(const tgm_value* value, int* out);
TGM_API int tgm_value_as_i64(const tgm_value* value, int64_t* out);
TGM_API int tgm_value_as_u64(const tgm_value* value, uint64_t* out);
TGM_API int tgm_value_as_f64(const tgm_value* value, double* out);
TGM_API int tgm_value_as_string(const tgm_value* value, const char** text,
                                size_t* length);
TGM_API int tgm_value_as_bytes(const tgm_value* value, const uint8_t** bytes,
                               size_t* length);
/** Items of an array or entries of a map. */
TGM_API size_t tgm_value_size(const tgm_value* value);
TGM_API const tgm_value* tgm_value_item(const tgm_value* array, size_t index);
TGM_API const tgm_value* tgm_value_entry(const tgm_value* map, size_t index,
                                         const tgm_value** key);
TGM_API const tgm_value* tgm_value_find(const tgm_value* map, const char* key);

/* ---- many messages -------------------------------------------------------------------
 */
typedef struct tgm_span {
  uint64_t offset;
  uint64_t length;
} tgm_span;
/** `out` is an array of `count` spans; give it back with free(). */
TGM_API tgm_error tgm_scan(const void* data, size_t length, tgm_span** out,
                           size_t* count);
typedef struct tgm_file tgm_file;
TGM_API tgm_error tgm_file_open(const char* path, tgm_file** out);
TGM_API size_t tgm_file_message_count(const tgm_file* file);
/** TGM_OBJECT beyond the last one. */
TGM_API tgm_error tgm_file_read_message(const tgm_file* file, size_t index,
                                        tgm_bytes* out);
TGM_API tgm_error tgm_file_decode_message(const tgm_file* file, size_t index,
                                          const tgm_decode_options* options,
                                          tgm_message** out);
/** Appends a message; what this handle knows of the file is renewed. */
TGM_API tgm_error tgm_file_append(tgm_file* file, const void* message, size_t length);
TGM_API void tgm_file_close(tgm_file* file);

typedef struct tgm_iterator tgm_iterator;
/** Messages of a buffer, which must outlive the iterator, or of a file. */
TGM_API tgm_error tgm_buffer_iterator(const void* data, size_t length,
                                      tgm_iterator** out);
TGM_API tgm_error tgm_file_iterator(const char* path, tgm_iterator** out);
/** TGM_END_OF_ITER behind the last one. */
TGM_API tgm_error tgm_iterator_next(tgm_iterator* iterator,
                                    const tgm_decode_options* options, tgm_message** out);
TGM_API void tgm_iterator_free(tgm_iterator* iterator);

typedef struct tgm_object_iterator tgm_object_iterator;
/** Objects of the message at the start of `data`, which must outlive the iterator; each
 * is decoded when it is asked for. */
TGM_API tgm_error tgm_object_iterator_open(const void* data, size_t length,
                                           const tgm_decode_options* options,
                                           tgm_object_iterator** out);
/** Elements of the next object; they live until the next call. TGM_END_OF_ITER behind the
 * last one. After a failure the next call goes on behind it. */
TGM_API tgm_error tgm_object_iterator_next(tgm_object_iterator* iterator, size_t* object,
                                           const uint8_t** data, size_t* length);
/** Descriptors and metadata of its message, without elements. */
TGM_API const tgm_message* tgm_object_iterator_message(
    const tgm_object_iterator* iterator);
TGM_API void tgm_object_iterator_free(tgm_object_iterator* iterator);

/* ---- tasks ---------------------------------------------------------------------------
 * Work on a thread of its own. A task is joined by one thread; it may be cancelled and
 * asked by any. */
typedef struct tgm_task tgm_task;
/** Cancels all tasks that were started with it, those to come too. Any thread may cancel
 * it; it may be freed before they end. */
TGM_API tgm_error tgm_token_create(tgm_token** out);
TGM_API void tgm_token_cancel(tgm_token* token);
TGM_API int tgm_token_is_cancelled(const tgm_token* token);
TGM_API void tgm_token_free(tgm_token* token);
/** Called once, on the task's thread, when the task has ended; may be NULL. It must not
 * free the task. */
typedef void (*tgm_done)(void* context, tgm_error code);
/** `data` must outlive the task. */
TGM_API tgm_error tgm_decode_async(const void* data, size_t length,
                                   const tgm_decode_options* options, tgm_done done,
                                   void* context, tgm_task** out);
/** The file must stay open until the task has ended. */
TGM_API tgm_error tgm_file_decode_message_async(const tgm_file* file, size_t index,
                                                const tgm_decode_options* options,
                                                tgm_done done, void* context,
                                                tgm_task** out);
TGM_API int tgm_task_is_ready(const tgm_task* task);
/** Waits, 0 ms for as long as it takes, and hands out the message, once; NULL of a task
 * that makes none. TGM_TIMEOUT: not yet; TGM_CANCELLED. */
TGM_API tgm_error tgm_task_join(tgm_task* task, uint32_t timeout_ms, tgm_message** out);
/** Ends a decoding task before its next object; a write that has not begun leaves no
 * trace, one that has is carried out. */
TGM_API void tgm_task_cancel(tgm_task* task);
/** Cancels the task and waits for its end, and for `done` to return. */
TGM_API void tgm_task_free(tgm_task* task);

/* ---- streaming -----------------------------------------------------------------------
 */
typedef struct tgm_stream tgm_stream;
/** Receives bytes in order; anything but 0 ends the stream. */
typedef int (*tgm_sink)(void* context, const uint8_t* bytes, size_t length);
/** `json` as for tgm_encode; its "descriptors" are not looked at. */
TGM_API tgm_error tgm_stream_open(const char* json, tgm_sink sink, void* context,
                                  const tgm_encode_options* options, tgm_stream** out);
/** `json` is a descriptor; `preceder` a map in front of the object, or NULL. */
TGM_API tgm_error tgm_stream_write(tgm_stream* stream, const char* json, const void* data,
                                   size_t length, const char* preceder);
/** The same with a payload that went through the pipeline of its descriptor before. */
TGM_API tgm_error tgm_stream_write_pre_encoded(tgm_stream* stream, const char* json,
                                               const void* data, size_t length,
                                               const char* preceder);
TGM_API tgm_error tgm_stream_finish(tgm_stream* stream);
/** Overwrites bytes of what the sink got, `offset` bytes from its first one; anything but
 * 0 is a failure. */
typedef int (*tgm_patch)(void* context, uint64_t offset, const uint8_t* bytes,
                         size_t length);
/** The same with the length in preamble and postamble. */
TGM_API tgm_error tgm_stream_finish_backfill(tgm_stream* stream, tgm_patch patch,
                                             void* context);
TGM_API size_t tgm_stream_object_count(const tgm_stream* stream);
TGM_API uint64_t tgm_stream_bytes_written(const tgm_stream* stream);
TGM_API void tgm_stream_free(tgm_stream* stream);

typedef struct tgm_async_stream tgm_async_stream;
/** A stream that a thread of its own writes, in the order of the calls; `sink` is called
 * there, but for the start of the stream, which this function writes. */
TGM_API tgm_error tgm_async_stream_open(const char* json, tgm_sink sink, void* context,
                                        const tgm_encode_options* options,
                                        tgm_async_stream** out);
/** As tgm_stream_write, or with `pre_encoded` tgm_stream_write_pre_encoded. `data` must
 * stay until the task has ended; how many wait is up to the caller. */
TGM_API tgm_error tgm_async_stream_write(tgm_async_stream* stream, const char* json,
                                         const void* data, size_t length,
                                         const char* preceder, int pre_encoded,
                                         tgm_done done, void* context, tgm_task** out);
/** With `patch` as tgm_stream_finish_backfill; NULL: lengths stay 0. */
TGM_API tgm_error tgm_async_stream_finish(tgm_async_stream* stream, tgm_patch patch,
                                          void* patch_context, tgm_done done,
                                          void* context, tgm_task** out);
/** Of the tasks that have ended. */
TGM_API size_t tgm_async_stream_object_count(const tgm_async_stream* stream);
TGM_API uint64_t tgm_async_stream_bytes_written(const tgm_async_stream* stream);
/** Cancels what waits, and waits for the end of what is under way. Tasks are freed on
 * their own, before or after. */
TGM_API void tgm_async_stream_free(tgm_async_stream* stream);

/* ---- judging -------------------------------------------------------------------------
 */
/** `level`: "quick", "metadata", "default", "checksum" (digests, nothing is decoded) or
 * "full". JSON as of `weir tgm validate`. */
TGM_API tgm_error tgm_validate(const void* data, size_t length, const char* level,
                               int canonical, tgm_bytes* json);
TGM_API tgm_error tgm_validate_file(const char* path, const char* level, int canonical,
                                    tgm_bytes* json);
/** What this build can do, tried out: JSON as of `weir tgm doctor --json`.
 * TGM_INVALID_ARG, with the JSON, if a test failed. */
TGM_API tgm_error tgm_doctor(tgm_bytes* json);
/** XXH3-64 as 16 hexadecimal digits. */
TGM_API void tgm_compute_hash(const void* data, size_t length, char digits[17]);
TGM_API tgm_error tgm_compute_packing(const double* values, size_t count, unsigned bits,
                                      int32_t decimal, double* reference,
                                      int32_t* binary);

#ifdef __cplusplus
}
#endif
