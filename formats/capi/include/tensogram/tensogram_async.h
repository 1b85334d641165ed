/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The asynchronous half of the C interface of Tensogram; tensogram.h includes it, and its
 * conventions hold here too.
 *
 * Tasks. A function that launches work writes a tgm_async_task_t to `out_task` and
 * returns at once; what goes wrong in the work itself comes out of the join. A task ends
 * once: with its result, with a failure, with TGM_ERROR_CANCELLED as soon as it or its
 * token is cancelled, or with TGM_ERROR_TIMEOUT when `timeout_ms` milliseconds have
 * passed since its launch (0: never). What was under way then is carried on behind the
 * scenes and thrown away, but for writes to a stream, see below. Any thread may launch,
 * wait for, cancel and ask tasks.
 *
 * Joins. Each join waits until the task has ended and hands its result over, once: a
 * second join is TGM_ERROR_INVALID_ARG. A join for another kind of result than the task's
 * is TGM_ERROR_INVALID_ARG as well, and leaves the result where it is.
 *
 * Tokens. One token may be given to any number of tasks, and NULL to none. It may be
 * freed before they end.
 *
 * The library runs tasks on threads of its own, which start with the first task. A task
 * that is launched after tgm_runtime_shutdown_blocking is TGM_ERROR_IO.
 * @source{docs/formats/tensogram.md}
 */
#ifndef TENSOGRAM_ASYNC_H_
#define TENSOGRAM_ASYNC_H_

#include "tensogram.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Work that was launched; tgm_async_task_free. */
typedef struct tgm_async_task_t tgm_async_task_t;
/** Cancels the tasks that were launched with it; tgm_cancellation_token_free. */
typedef struct tgm_cancellation_token_t tgm_cancellation_token_t;
/** A file that many tasks may read at once; tgm_async_file_close. */
typedef struct tgm_async_file_t tgm_async_file_t;
/** A message that tasks write; tgm_async_streaming_encoder_free. */
typedef struct tgm_async_streaming_encoder_t tgm_async_streaming_encoder_t;

/** What tgm_async_streaming_encoder_try_object_count found. */
typedef enum TgmObjectCountStatus {
  TGM_OBJECT_COUNT_STATUS_OK = 0,
  TGM_OBJECT_COUNT_STATUS_NULL_HANDLE = 1,
  TGM_OBJECT_COUNT_STATUS_BUSY = 2, /**< writes were launched that have not ended */
  TGM_OBJECT_COUNT_STATUS_FINISHED = 3
} TgmObjectCountStatus;

/* ---- the library's threads ----------------------------------------------------------
 */

/** Sets how many threads run tasks (0: as many as processors, at most 8) and completion
 * callbacks (0: at most 4). `multipart_part_size_bytes` is accepted, and nothing uses it.
 * @error{TGM_ERROR_INVALID_ARG; called before, or a task has been launched} */
TGM_API tgm_error tgm_runtime_configure(uint32_t workers, uint32_t dispatcher_workers,
                                        uint64_t multipart_part_size_bytes);
/** Waits up to so many milliseconds for the tasks under way, and returns how many have
 * not ended then; those end with TGM_ERROR_CANCELLED. No task can be launched afterwards,
 * in this process; a second call does nothing and returns 0. Not for completion callbacks
 * to call. */
TGM_API uint64_t tgm_runtime_shutdown_blocking(uint64_t timeout_ms);

/* ---- tokens -------------------------------------------------------------------------
 */

/** NULL if memory runs out. */
TGM_API tgm_cancellation_token_t* tgm_cancellation_token_create(void);
/** Cancels all tasks of the token, those that are launched later included. */
TGM_API void tgm_cancellation_token_cancel(tgm_cancellation_token_t* tok);
/** Whether the token was cancelled; false for NULL. */
TGM_API bool tgm_cancellation_token_is_cancelled(const tgm_cancellation_token_t* tok);
/** Gives the handle back. Tasks of the token go on. */
TGM_API void tgm_cancellation_token_free(tgm_cancellation_token_t* tok);

/* ---- tasks --------------------------------------------------------------------------
 */

/** Has `cb` called once with `userdata` when the task has ended, on a thread for such
 * calls; at once if it has ended. `cb` may call any function of this interface but
 * tgm_runtime_shutdown_blocking, and may join and free the task; it must not throw.
 * @error{TGM_ERROR_INVALID_ARG; there is a callback already, or the task was joined} */
TGM_API tgm_error tgm_async_task_set_completion(tgm_async_task_t* task, void (*cb)(void*),
                                                void* userdata);
/** Whether the task has ended. */
TGM_API bool tgm_async_task_is_ready(const tgm_async_task_t* task);
/** Ends the task with TGM_ERROR_CANCELLED, unless it has ended. */
TGM_API void tgm_async_task_cancel(tgm_async_task_t* task);
/** Gives the handle back. A task that has not ended goes on, and its callback is called;
 * a result that nobody has joined is thrown away. */
TGM_API void tgm_async_task_free(tgm_async_task_t* task);
/** Joins a task of a stream other than its creation. */
TGM_API tgm_error tgm_async_task_join_void(tgm_async_task_t* task);
/** Joins tgm_async_file_message_count. */
TGM_API tgm_error tgm_async_task_join_size(tgm_async_task_t* task, uint64_t* out);
/** Joins tgm_async_file_read_message. */
TGM_API tgm_error tgm_async_task_join_bytes(tgm_async_task_t* task, tgm_bytes_t* out);
/** Joins tgm_async_file_decode_message and tgm_async_file_decode_object. */
TGM_API tgm_error tgm_async_task_join_message(tgm_async_task_t* task,
                                              tgm_message_t** out);
/** Joins tgm_async_file_decode_metadata. */
TGM_API tgm_error tgm_async_task_join_metadata(tgm_async_task_t* task,
                                               tgm_metadata_t** out);
/** Joins tgm_async_file_open and tgm_async_file_open_remote. */
TGM_API tgm_error tgm_async_task_join_async_file(tgm_async_task_t* task,
                                                 tgm_async_file_t** out);
/** Joins tgm_async_file_decode_range: an array of `*out_count` buffers, which goes back
 * through tgm_multi_bytes_free. */
TGM_API tgm_error tgm_async_task_join_multi_bytes(tgm_async_task_t* task,
                                                  tgm_bytes_t** out_array,
                                                  size_t* out_count);
/** Joins tgm_async_streaming_encoder_create. */
TGM_API tgm_error tgm_async_task_join_async_streaming_encoder(
    tgm_async_task_t* task, tgm_async_streaming_encoder_t** out);
/** Gives back an array of buffers with all that is in it; `array` may be NULL. */
TGM_API void tgm_multi_bytes_free(tgm_bytes_t* array, size_t count);

/* ---- files --------------------------------------------------------------------------
 * A handle may be used by several threads at once, and may be closed while tasks read. */

/** The path or address that the file was opened with. */
TGM_API const char* tgm_async_file_path(const tgm_async_file_t* file);
/** Gives the handle back. Tasks that were launched go on. */
TGM_API void tgm_async_file_close(tgm_async_file_t* file);
/** Opens a file.
 * @error{TGM_ERROR_IO; it is not there or cannot be read} */
TGM_API tgm_error tgm_async_file_open(const char* path, tgm_cancellation_token_t* cancel,
                                      uint64_t timeout_ms, tgm_async_task_t** out_task);
/** Opens a file at an address, "file:///folder/a.tgm" for example. `storage_keys` and
 * `storage_values` are `nopts` pairs of options of the storage; with `bidirectional`
 * messages are looked for from both ends.
 * @error{TGM_ERROR_REMOTE; the address cannot be read} */
TGM_API tgm_error tgm_async_file_open_remote(
    const char* url, const char* const* storage_keys, const char* const* storage_values,
    size_t nopts, bool bidirectional, tgm_cancellation_token_t* cancel,
    uint64_t timeout_ms, tgm_async_task_t** out_task);
/** Counts the messages. The first task that needs their places scans the file. */
TGM_API tgm_error tgm_async_file_message_count(tgm_async_file_t* file,
                                               tgm_cancellation_token_t* cancel,
                                               uint64_t timeout_ms,
                                               tgm_async_task_t** out_task);
/** The bytes of a message as they are.
 * @error{TGM_ERROR_OBJECT; the file has no such message} */
TGM_API tgm_error tgm_async_file_read_message(tgm_async_file_t* file, size_t index,
                                              tgm_cancellation_token_t* cancel,
                                              uint64_t timeout_ms,
                                              tgm_async_task_t** out_task);
/** As tgm_decode_with_options. A task that ends early stops before the next object. */
TGM_API tgm_error tgm_async_file_decode_message(tgm_async_file_t* file, size_t index,
                                                bool native_byte_order, uint32_t threads,
                                                bool restore_non_finite, bool verify_hash,
                                                tgm_cancellation_token_t* cancel,
                                                uint64_t timeout_ms,
                                                tgm_async_task_t** out_task);
/** As tgm_decode_metadata; no more than the first frames is read. */
TGM_API tgm_error tgm_async_file_decode_metadata(tgm_async_file_t* file, size_t index,
                                                 tgm_cancellation_token_t* cancel,
                                                 uint64_t timeout_ms,
                                                 tgm_async_task_t** out_task);
/** As tgm_decode_object; no other object's payload is read. */
TGM_API tgm_error tgm_async_file_decode_object(
    tgm_async_file_t* file, size_t msg_index, size_t obj_index, bool native_byte_order,
    uint32_t threads, bool restore_non_finite, bool verify_hash,
    tgm_cancellation_token_t* cancel, uint64_t timeout_ms, tgm_async_task_t** out_task);
/** As tgm_decode_range, one buffer for each range. `offsets` and `counts` are needed also
 * for no ranges. */
TGM_API tgm_error tgm_async_file_decode_range(
    tgm_async_file_t* file, size_t msg_index, size_t obj_index, const uint64_t* offsets,
    const uint64_t* counts, size_t n_ranges, bool native_byte_order, uint32_t threads,
    tgm_cancellation_token_t* cancel, uint64_t timeout_ms, tgm_async_task_t** out_task);

/* ---- streaming ----------------------------------------------------------------------
 * Writes are carried out one after another, in the order in which they were launched.
 * Data is copied at the launch. A write that is cancelled or times out before it has
 * begun leaves no trace; one that has begun is carried out, so that the stream stays
 * sound. JSON that cannot be used is said at the launch. A write to a stream that is
 * finished is TGM_ERROR_FRAMING from its join. */

/** The path of the file. */
TGM_API const char* tgm_async_streaming_encoder_path(
    const tgm_async_streaming_encoder_t* enc);
/** Gives the handle back. Writes that were launched are still carried out. */
TGM_API void tgm_async_streaming_encoder_free(tgm_async_streaming_encoder_t* enc);
/** As tgm_streaming_encoder_create; the join hands out the encoder. */
TGM_API tgm_error tgm_async_streaming_encoder_create(
    const char* path, const char* metadata_json, const char* hash_algo, uint32_t threads,
    tgm_cancellation_token_t* cancel, uint64_t timeout_ms, tgm_async_task_t** out_task);
/** As tgm_streaming_encoder_write. */
TGM_API tgm_error tgm_async_streaming_encoder_write_object(
    tgm_async_streaming_encoder_t* enc, const char* descriptor_json, const uint8_t* data,
    size_t len, tgm_cancellation_token_t* cancel, uint64_t timeout_ms,
    tgm_async_task_t** out_task);
/** As tgm_streaming_encoder_write_pre_encoded. */
TGM_API tgm_error tgm_async_streaming_encoder_write_pre_encoded(
    tgm_async_streaming_encoder_t* enc, const char* descriptor_json, const uint8_t* data,
    size_t len, tgm_cancellation_token_t* cancel, uint64_t timeout_ms,
    tgm_async_task_t** out_task);
/** As tgm_streaming_encoder_write_preceder. */
TGM_API tgm_error tgm_async_streaming_encoder_write_preceder(
    tgm_async_streaming_encoder_t* enc, const char* metadata_json,
    tgm_cancellation_token_t* cancel, uint64_t timeout_ms, tgm_async_task_t** out_task);
/** Writes the footer and closes the file; with `backfill` the length of the message is
 * written into its beginning and end, as in a message that was encoded whole. */
TGM_API tgm_error tgm_async_streaming_encoder_finish(tgm_async_streaming_encoder_t* enc,
                                                     bool backfill,
                                                     tgm_cancellation_token_t* cancel,
                                                     uint64_t timeout_ms,
                                                     tgm_async_task_t** out_task);
/** The objects written so far, with TGM_OBJECT_COUNT_STATUS_OK alone. Does not wait.
 * NULL for `out_count` is TGM_OBJECT_COUNT_STATUS_NULL_HANDLE too. */
TGM_API TgmObjectCountStatus tgm_async_streaming_encoder_try_object_count(
    const tgm_async_streaming_encoder_t* enc, size_t* out_count);
/** The same number, or SIZE_MAX for every other status. */
TGM_API size_t
tgm_async_streaming_encoder_object_count(const tgm_async_streaming_encoder_t* enc);

#ifdef __cplusplus
}
#endif

#endif
