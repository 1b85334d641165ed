/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The asynchronous half of the C interface of Tensogram. tensogram.h includes this file,
 * and the conventions of tensogram.h hold here too.
 *
 * Tasks. A function that launches a task writes a tgm_async_task_t to `out_task` and
 * returns without waiting. Its own return value tells whether the arguments are valid and
 * the task was launched; a failure of the task is returned by the join. A task ends
 * exactly once: with a result, with a failure, with TGM_ERROR_CANCELLED as soon as the
 * task or its token is cancelled, or with TGM_ERROR_TIMEOUT when `timeout_ms`
 * milliseconds have passed since the launch (0: no limit). When a task ends early, its
 * requests to a server are ended, other work is finished in the background, and the
 * result of that work is discarded. Writes to a stream are the exception, see below. Any
 * thread may launch, join, cancel and query tasks.
 *
 * Joins. A join waits until the task has ended and moves the result to the caller. A task
 * can be joined once: a second join returns TGM_ERROR_INVALID_ARG. A join function for
 * another kind of result returns TGM_ERROR_INVALID_ARG and leaves the result in the task.
 *
 * Tokens. A token may be passed to any number of tasks; NULL means no token. A token may
 * be freed before its tasks end.
 *
 * Threads. The library runs tasks on its own threads, which start with the first task.
 * After tgm_runtime_shutdown_blocking a launch returns TGM_ERROR_IO.
 * @source{docs/formats/tensogram.md, "From C"}
 */
#ifndef TENSOGRAM_ASYNC_H_
#define TENSOGRAM_ASYNC_H_

#include "tensogram.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A task that was launched. Freed by tgm_async_task_free. */
typedef struct tgm_async_task_t tgm_async_task_t;
/** Cancels the tasks that it was passed to. Freed by tgm_cancellation_token_free. */
typedef struct tgm_cancellation_token_t tgm_cancellation_token_t;
/** A file that several tasks may read at the same time. Freed by tgm_async_file_close. */
typedef struct tgm_async_file_t tgm_async_file_t;
/** A message that tasks write object by object. Freed by
 * tgm_async_streaming_encoder_free. */
typedef struct tgm_async_streaming_encoder_t tgm_async_streaming_encoder_t;

/** Result of tgm_async_streaming_encoder_try_object_count. */
typedef enum TgmObjectCountStatus {
  TGM_OBJECT_COUNT_STATUS_OK = 0,
  TGM_OBJECT_COUNT_STATUS_NULL_HANDLE = 1, /**< a pointer was NULL */
  TGM_OBJECT_COUNT_STATUS_BUSY = 2,        /**< a write has not ended yet */
  TGM_OBJECT_COUNT_STATUS_FINISHED = 3     /**< the stream was finished */
} TgmObjectCountStatus;

/* ---- the library's threads ----------------------------------------------------------
 */

/** Sets the number of threads that run tasks (0: one per processor, at most 8) and the
 * number of threads that run completion callbacks (0: one per processor, at most 4).
 * `multipart_part_size_bytes` has no effect: it is the size of the parts of an upload,
 * and this library does not write to servers. Remote objects are read in parts of 4 MiB.
 * @error{TGM_ERROR_INVALID_ARG; called before, or a task has been launched} */
TGM_API tgm_error tgm_runtime_configure(uint32_t workers, uint32_t dispatcher_workers,
                                        uint64_t multipart_part_size_bytes);
/** Waits up to `timeout_ms` milliseconds for all tasks to end. Cancels the tasks that
 * have not ended by then and returns their number. This process can launch no task
 * afterwards; a second call does nothing and returns 0. A completion callback must not
 * call this function. */
TGM_API uint64_t tgm_runtime_shutdown_blocking(uint64_t timeout_ms);

/* ---- tokens -------------------------------------------------------------------------
 */

/** Creates a token. Returns NULL if memory runs out. */
TGM_API tgm_cancellation_token_t* tgm_cancellation_token_create(void);
/** Cancels all tasks of the token, including tasks that are launched later. */
TGM_API void tgm_cancellation_token_cancel(tgm_cancellation_token_t* tok);
/** Returns true if the token was cancelled, and false for NULL. */
TGM_API bool tgm_cancellation_token_is_cancelled(const tgm_cancellation_token_t* tok);
/** Frees the handle. Tasks of the token continue. */
TGM_API void tgm_cancellation_token_free(tgm_cancellation_token_t* tok);

/* ---- tasks --------------------------------------------------------------------------
 */

/** Registers `cb`, which a thread of the library calls once with `userdata` after the
 * task has ended; also if it has ended already. `cb` may call every function of this
 * interface except tgm_runtime_shutdown_blocking, and may join and free the task. It must
 * not throw.
 * @error{TGM_ERROR_INVALID_ARG; the task has a callback already, or was joined} */
TGM_API tgm_error tgm_async_task_set_completion(tgm_async_task_t* task, void (*cb)(void*),
                                                void* userdata);
/** Returns true if the task has ended. Does not wait. */
TGM_API bool tgm_async_task_is_ready(const tgm_async_task_t* task);
/** Ends the task with TGM_ERROR_CANCELLED, unless it has ended already. Does not wait. */
TGM_API void tgm_async_task_cancel(tgm_async_task_t* task);
/** Frees the handle. A task that has not ended continues, and its callback is called. A
 * result that was not joined is discarded. */
TGM_API void tgm_async_task_free(tgm_async_task_t* task);
/** Joins a task that writes to a stream or finishes it. */
TGM_API tgm_error tgm_async_task_join_void(tgm_async_task_t* task);
/** Joins tgm_async_file_message_count: the number of messages. */
TGM_API tgm_error tgm_async_task_join_size(tgm_async_task_t* task, uint64_t* out);
/** Joins tgm_async_file_read_message: bytes that tgm_bytes_free frees. */
TGM_API tgm_error tgm_async_task_join_bytes(tgm_async_task_t* task, tgm_bytes_t* out);
/** Joins tgm_async_file_decode_message, tgm_async_file_decode_object and
 * tgm_x_async_decode: a handle that tgm_message_free frees. */
TGM_API tgm_error tgm_async_task_join_message(tgm_async_task_t* task,
                                              tgm_message_t** out);
/** Joins tgm_async_file_decode_metadata: a handle that tgm_metadata_free frees. */
TGM_API tgm_error tgm_async_task_join_metadata(tgm_async_task_t* task,
                                               tgm_metadata_t** out);
/** Joins tgm_async_file_open and tgm_async_file_open_remote: a handle that
 * tgm_async_file_close frees. */
TGM_API tgm_error tgm_async_task_join_async_file(tgm_async_task_t* task,
                                                 tgm_async_file_t** out);
/** Joins tgm_async_file_decode_range: an array of `*out_count` buffers, one per range,
 * that tgm_multi_bytes_free frees. */
TGM_API tgm_error tgm_async_task_join_multi_bytes(tgm_async_task_t* task,
                                                  tgm_bytes_t** out_array,
                                                  size_t* out_count);
/** Joins tgm_async_streaming_encoder_create: a handle that
 * tgm_async_streaming_encoder_free frees. */
TGM_API tgm_error tgm_async_task_join_async_streaming_encoder(
    tgm_async_task_t* task, tgm_async_streaming_encoder_t** out);
/** Frees an array of buffers and the buffers in it. `array` may be NULL. */
TGM_API void tgm_multi_bytes_free(tgm_bytes_t* array, size_t count);

/* ---- files --------------------------------------------------------------------------
 * Several threads may use a handle at the same time, and a handle may be closed while
 * tasks read the file. Messages and objects are counted from 0.
 * @error{TGM_ERROR_OBJECT; the file has no such message, or the message no such object}
 * @error{TGM_ERROR_REMOTE; a file behind an address could not be read, or was changed or
 * removed after it was opened} */

/** Returns the path or address that the file was opened with. */
TGM_API const char* tgm_async_file_path(const tgm_async_file_t* file);
/** Frees the handle. Tasks that were launched continue. */
TGM_API void tgm_async_file_close(tgm_async_file_t* file);
/** Opens a file of this machine.
 * @error{TGM_ERROR_IO; the file does not exist or cannot be read} */
TGM_API tgm_error tgm_async_file_open(const char* path, tgm_cancellation_token_t* cancel,
                                      uint64_t timeout_ms, tgm_async_task_t** out_task);
/** Opens the file behind an address of http, https or S3 ("s3://bucket/key") and finds
 * its messages without reading the whole file, or opens a file of this machine
 * ("file:///folder/a.tgm"). With `bidirectional` the search begins at both ends.
 *
 * `storage_keys` and `storage_values` are `nopts` pairs of options with the names of the
 * Rust crate object_store, such as "aws_access_key_id", "aws_region", "aws_endpoint_url",
 * "timeout" ("30s", of one request) and "proxy_url"; the environment variables AWS_* give
 * the options that are not passed. Both arrays may be NULL if `nopts` is 0. An option
 * that no store knows has no effect, and the text of a failure to open names it.
 * @error{TGM_ERROR_INVALID_ARG; a key or a value is NULL or not UTF-8}
 * @error{TGM_ERROR_REMOTE; the file cannot be opened for any reason: an address or option
 * that is malformed, Azure or Google storage, a file that does not exist, a certificate
 * that is not trusted, a server that does not answer as it should} */
TGM_API tgm_error tgm_async_file_open_remote(
    const char* url, const char* const* storage_keys, const char* const* storage_values,
    size_t nopts, bool bidirectional, tgm_cancellation_token_t* cancel,
    uint64_t timeout_ms, tgm_async_task_t** out_task);
/** Counts the messages. The first task that needs the places of messages scans a file of
 * this machine; behind an address they were found when the file was opened. */
TGM_API tgm_error tgm_async_file_message_count(tgm_async_file_t* file,
                                               tgm_cancellation_token_t* cancel,
                                               uint64_t timeout_ms,
                                               tgm_async_task_t** out_task);
/** Reads the bytes of a message. They are not checked. */
TGM_API tgm_error tgm_async_file_read_message(tgm_async_file_t* file, size_t index,
                                              tgm_cancellation_token_t* cancel,
                                              uint64_t timeout_ms,
                                              tgm_async_task_t** out_task);
/** Decodes all objects of a message, as tgm_decode_with_options. A task that ends early
 * stops before the next object. */
TGM_API tgm_error tgm_async_file_decode_message(tgm_async_file_t* file, size_t index,
                                                bool native_byte_order, uint32_t threads,
                                                bool restore_non_finite, bool verify_hash,
                                                tgm_cancellation_token_t* cancel,
                                                uint64_t timeout_ms,
                                                tgm_async_task_t** out_task);
/** Reads the metadata of a message, as tgm_decode_metadata. Behind an address, returns
 * the final metadata of a streamed message, without keys that only a preceder has. */
TGM_API tgm_error tgm_async_file_decode_metadata(tgm_async_file_t* file, size_t index,
                                                 tgm_cancellation_token_t* cancel,
                                                 uint64_t timeout_ms,
                                                 tgm_async_task_t** out_task);
/** Decodes one object, as tgm_decode_object. No other payload is read. Behind an address
 * only the frames of the metadata and the frame of this object are read, so that damage
 * in other objects is not noticed. */
TGM_API tgm_error tgm_async_file_decode_object(
    tgm_async_file_t* file, size_t msg_index, size_t obj_index, bool native_byte_order,
    uint32_t threads, bool restore_non_finite, bool verify_hash,
    tgm_cancellation_token_t* cancel, uint64_t timeout_ms, tgm_async_task_t** out_task);
/** Decodes ranges of one object, as tgm_decode_range, with one buffer per range: range i
 * has `counts[i]` elements from element `offsets[i]` on. Neither array may be NULL, even
 * if `n_ranges` is 0. Reads only the bytes that the ranges need, where the codec of the
 * object allows it.
 * @error{TGM_ERROR_ENCODING; a range beyond the object; a filter or a bitmask, which have
 * no ranges} */
TGM_API tgm_error tgm_async_file_decode_range(
    tgm_async_file_t* file, size_t msg_index, size_t obj_index, const uint64_t* offsets,
    const uint64_t* counts, size_t n_ranges, bool native_byte_order, uint32_t threads,
    tgm_cancellation_token_t* cancel, uint64_t timeout_ms, tgm_async_task_t** out_task);

/* ---- streaming ----------------------------------------------------------------------
 * Writes run one after another, in the order of their launches. The launch copies the
 * data and checks the JSON (TGM_ERROR_METADATA, TGM_ERROR_ENCODING). A write that is
 * cancelled or times out before it has begun changes nothing; a write that has begun is
 * finished, so that the stream stays valid. Several threads may use a handle at the same
 * time.
 * @error{TGM_ERROR_FRAMING; from the join of a write to a stream that is finished}
 * @error{TGM_ERROR_IO; from the join, if the file cannot be written} */

/** Returns the path of the file. */
TGM_API const char* tgm_async_streaming_encoder_path(
    const tgm_async_streaming_encoder_t* enc);
/** Frees the handle. Writes that were launched are finished. */
TGM_API void tgm_async_streaming_encoder_free(tgm_async_streaming_encoder_t* enc);
/** Creates a file and writes the beginning of a message, as tgm_streaming_encoder_create.
 * The join returns the encoder. */
TGM_API tgm_error tgm_async_streaming_encoder_create(
    const char* path, const char* metadata_json, const char* hash_algo, uint32_t threads,
    tgm_cancellation_token_t* cancel, uint64_t timeout_ms, tgm_async_task_t** out_task);
/** Encodes and writes one object of `len` bytes, as tgm_streaming_encoder_write. */
TGM_API tgm_error tgm_async_streaming_encoder_write_object(
    tgm_async_streaming_encoder_t* enc, const char* descriptor_json, const uint8_t* data,
    size_t len, tgm_cancellation_token_t* cancel, uint64_t timeout_ms,
    tgm_async_task_t** out_task);
/** Writes one object whose payload is encoded already, as
 * tgm_streaming_encoder_write_pre_encoded. */
TGM_API tgm_error tgm_async_streaming_encoder_write_pre_encoded(
    tgm_async_streaming_encoder_t* enc, const char* descriptor_json, const uint8_t* data,
    size_t len, tgm_cancellation_token_t* cancel, uint64_t timeout_ms,
    tgm_async_task_t** out_task);
/** Writes metadata in front of the next object, as
 * tgm_streaming_encoder_write_preceder. */
TGM_API tgm_error tgm_async_streaming_encoder_write_preceder(
    tgm_async_streaming_encoder_t* enc, const char* metadata_json,
    tgm_cancellation_token_t* cancel, uint64_t timeout_ms, tgm_async_task_t** out_task);
/** Writes the footer and closes the file. With `backfill` it also writes the length of
 * the message into the preamble and the postamble, as tgm_encode does. */
TGM_API tgm_error tgm_async_streaming_encoder_finish(tgm_async_streaming_encoder_t* enc,
                                                     bool backfill,
                                                     tgm_cancellation_token_t* cancel,
                                                     uint64_t timeout_ms,
                                                     tgm_async_task_t** out_task);
/** Writes the number of objects written so far to `out_count`, if it returns
 * TGM_OBJECT_COUNT_STATUS_OK. Does not wait. Returns TGM_OBJECT_COUNT_STATUS_NULL_HANDLE
 * also if `out_count` is NULL. */
TGM_API TgmObjectCountStatus tgm_async_streaming_encoder_try_object_count(
    const tgm_async_streaming_encoder_t* enc, size_t* out_count);
/** Returns the number of objects written so far, or SIZE_MAX if
 * tgm_async_streaming_encoder_try_object_count returns another status than
 * TGM_OBJECT_COUNT_STATUS_OK. */
TGM_API size_t
tgm_async_streaming_encoder_object_count(const tgm_async_streaming_encoder_t* enc);

#ifdef __cplusplus
}
#endif

#endif
