/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What this library has beyond the interface of tensogram.h, whose conventions hold here
 * too. Every name begins with tgm_x_; a program that includes this header needs this
 * library.
 *
 * Options are structures that begin with `struct_size`, which the caller sets to the size
 * that it was compiled with. A member that is zero asks for its default, and so does a
 * NULL pointer instead of options. Structures grow at their end only: members beyond a
 * shorter `struct_size` are taken as zero, and bytes beyond what the library knows must
 * be zero, or the call is TGM_ERROR_INVALID_ARG.
 * @source{docs/formats/tensogram.md}
 */
#ifndef TENSOGRAM_X_H_
#define TENSOGRAM_X_H_

#include "tensogram.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The version of this library, "0.1.0" for example. */
TGM_API const char* tgm_x_version(void);

/* ---- the limit of an object ---------------------------------------------------------
 */

/** Sets the most bytes that a compressed object may decode to, for all functions of this
 * process that are not given a limit of their own: decoding, ranges, iteration, tasks and
 * validation. 0 asks for the default, 16 GiB. An object beyond the limit is
 * TGM_ERROR_OBJECT before memory is taken for it. Any thread may call this at any time.
 */
TGM_API void tgm_x_set_max_object_bytes(uint64_t bytes);
/** The limit that holds now. */
TGM_API uint64_t tgm_x_get_max_object_bytes(void);

/* ---- encoding -----------------------------------------------------------------------
 */

/** Where the list of all objects' digests goes. */
typedef enum tgm_x_hash_list {
  TGM_X_HASH_LIST_AUTO = 0, /**< the header of a whole message, the footer of a stream */
  TGM_X_HASH_LIST_NONE = 1,
  TGM_X_HASH_LIST_HEADER = 2, /**< not possible in a stream */
  TGM_X_HASH_LIST_FOOTER = 3,
  TGM_X_HASH_LIST_BOTH = 4 /**< not possible in a stream */
} tgm_x_hash_list;

typedef struct tgm_x_encode_options_t {
  size_t struct_size;
  const TgmEncodeMaskOptions* mask_options;
  const char* hash_algo; /**< as in tgm_encode: NULL means no digests */
  tgm_x_hash_list hash_list;
  uint32_t threads;
  /** Payloads begin at multiples of so many bytes from the start of the message, a power
   * of two from 16 to 4096, by padding in metadata and descriptors; 0: as they come. Of
   * whole messages only. */
  uint32_t payload_alignment;
  /** Leaves time and random identifier out: equal input gives equal bytes. */
  bool reproducible;
} tgm_x_encode_options_t;

/** As tgm_encode. @error{TGM_ERROR_INVALID_ARG; also an option that is out of range} */
TGM_API tgm_error tgm_x_encode(const char* metadata_json, const uint8_t* const* data_ptrs,
                               const size_t* data_lens, size_t num_objects,
                               const tgm_x_encode_options_t* options, tgm_bytes_t* out);

/* ---- decoding -----------------------------------------------------------------------
 */

/** Which digests are looked at. */
typedef enum tgm_x_hash_check {
  TGM_X_HASH_CHECK_PRESENT = 0,  /**< every digest that is there */
  TGM_X_HASH_CHECK_REQUIRED = 1, /**< and every object must have one */
  TGM_X_HASH_CHECK_NONE = 2
} tgm_x_hash_check;

typedef struct tgm_x_decode_options_t {
  size_t struct_size;
  uint64_t max_object_bytes; /**< 0: the limit of tgm_x_set_max_object_bytes */
  tgm_x_hash_check hash_check;
  uint32_t threads;
  bool file_byte_order; /**< elements stay in the byte order of the file */
  bool keep_masked;     /**< masked elements stay zeros */
  bool legacy;          /**< reads what writers before 0.21 left: digests without their
                           flag, and packing keys without "sp_" */
} tgm_x_decode_options_t;

/** As tgm_decode. */
TGM_API tgm_error tgm_x_decode(const uint8_t* buf, size_t buf_len,
                               const tgm_x_decode_options_t* options,
                               tgm_message_t** out);
/** As tgm_decode_range with the ranges joined. */
TGM_API tgm_error tgm_x_decode_range(const uint8_t* buf, size_t buf_len,
                                     size_t object_index, const uint64_t* ranges_offsets,
                                     const uint64_t* ranges_counts, size_t num_ranges,
                                     const tgm_x_decode_options_t* options,
                                     tgm_bytes_t* out);
/** Where an object's elements were not finite: three bit lists of one bit per element,
 * the first one highest, without bytes where there were none. Beside them, tgm_x_decode
 * with `keep_masked` gives the elements as they are stored. */
typedef struct tgm_x_masks_t {
  tgm_bytes_t nan;
  tgm_bytes_t positive_infinity;
  tgm_bytes_t negative_infinity;
} tgm_x_masks_t;
/** @error{TGM_ERROR_OBJECT; the message has no such object} */
TGM_API tgm_error tgm_x_decode_masks(const uint8_t* buf, size_t buf_len,
                                     size_t object_index, tgm_x_masks_t* out);
/** Gives all three back. */
TGM_API void tgm_x_masks_free(tgm_x_masks_t masks);
/** Points to an object's elements inside `buf`, without a copy, once its digest has been
 * verified. With `payload_alignment` they are aligned as `buf` is.
 * @error{TGM_ERROR_ENCODING; the object is compressed, encoded, masked, or of another
 * byte order, and must be decoded}
 * @error{TGM_ERROR_OBJECT; the message has no such object} */
TGM_API tgm_error tgm_x_object_view(const uint8_t* buf, size_t buf_len,
                                    size_t object_index, const uint8_t** out_data,
                                    size_t* out_len);
/** Decodes on the library's threads, as tgm_x_decode; tgm_async_task_join_message. `buf`
 * must stay until the task has ended. */
TGM_API tgm_error tgm_x_async_decode(const uint8_t* buf, size_t buf_len,
                                     const tgm_x_decode_options_t* options,
                                     tgm_cancellation_token_t* cancel,
                                     uint64_t timeout_ms, tgm_async_task_t** out_task);
/** The number of a CBOR tag around a value; false if there is none. All other functions
 * see what the tag encloses. */
TGM_API bool tgm_x_value_tag(const tgm_value_t* v, uint64_t* out);

/* ---- finding messages ---------------------------------------------------------------
 */

/** From which end messages are looked for. Sound input gives the same list. */
typedef enum tgm_x_scan_order {
  TGM_X_SCAN_FORWARD = 0,
  TGM_X_SCAN_BACKWARD =
      1, /**< by the lengths at the ends of messages, the rest forward */
  TGM_X_SCAN_BOTH_ENDS = 2 /**< one from each end in turn */
} tgm_x_scan_order;
/** As tgm_scan. */
TGM_API tgm_error tgm_x_scan(const uint8_t* buf, size_t buf_len, tgm_x_scan_order order,
                             tgm_scan_result_t** out);

/** Finds messages in bytes that come piece by piece and once, from a pipe for example:
 * those that tgm_scan finds in all of the bytes, each as soon as its last byte is there;
 * tgm_x_splitter_free. Used by one thread at a time. */
typedef struct tgm_x_splitter_t tgm_x_splitter_t;
/** A message of more than `max_message_bytes` is not looked for; 0: 4 GiB. */
TGM_API tgm_error tgm_x_splitter_create(uint64_t max_message_bytes,
                                        tgm_x_splitter_t** out);
/** Takes the next bytes, which it copies.
 * @error{TGM_ERROR_INVALID_ARG; called after tgm_x_splitter_end} */
TGM_API tgm_error tgm_x_splitter_put(tgm_x_splitter_t* splitter, const uint8_t* buf,
                                     size_t buf_len);
/** Says that no more bytes will come. */
TGM_API tgm_error tgm_x_splitter_end(tgm_x_splitter_t* splitter);
/** Hands out the next message, its offset from the first byte of all, and how many bytes
 * in front of it belong to no message; both numbers may be NULL.
 * @error{TGM_ERROR_END_OF_ITER; more bytes are needed, or none is left} */
TGM_API tgm_error tgm_x_splitter_take(tgm_x_splitter_t* splitter, tgm_bytes_t* out,
                                      uint64_t* out_offset, uint64_t* out_skipped);
/** Bytes that are neither in a message taken nor known to belong to none. */
TGM_API uint64_t tgm_x_splitter_held(const tgm_x_splitter_t* splitter);
/** Bytes behind the last message taken that are known to belong to none. */
TGM_API uint64_t tgm_x_splitter_skipped(const tgm_x_splitter_t* splitter);
/** Whether those begin like a message that was cut short. */
TGM_API bool tgm_x_splitter_cut_short(const tgm_x_splitter_t* splitter);
/** Gives the handle back. */
TGM_API void tgm_x_splitter_free(tgm_x_splitter_t* splitter);

/* ---- streaming ----------------------------------------------------------------------
 */

/** Receives the bytes of a stream in order; anything but 0 is a failure of writing. */
typedef int (*tgm_x_sink)(void* context, const uint8_t* bytes, size_t len);
/** Overwrites bytes, `offset` from the first byte of the stream; anything but 0 is a
 * failure. */
typedef int (*tgm_x_patch)(void* context, uint64_t offset, const uint8_t* bytes,
                           size_t len);
/** Streams into functions of the caller, which are called with `context` during the calls
 * of the encoder; `patch` may be NULL. All functions of tgm_streaming_encoder_t apply.
 * @error{TGM_ERROR_ENCODING; digests in the header or aligned payloads, which a stream
 * cannot have} */
TGM_API tgm_error tgm_x_streaming_encoder_create(const char* metadata_json,
                                                 tgm_x_sink sink, tgm_x_patch patch,
                                                 void* context,
                                                 const tgm_x_encode_options_t* options,
                                                 tgm_streaming_encoder_t** out);
/** As tgm_streaming_encoder_finish, and writes the length of the message into its
 * beginning and end.
 * @error{TGM_ERROR_INVALID_ARG; the stream has no way back to its beginning} */
TGM_API tgm_error tgm_x_streaming_encoder_finish_backfill(tgm_streaming_encoder_t* enc);
/** Bytes of the message so far, also once it is finished. */
TGM_API uint64_t
tgm_x_streaming_encoder_bytes_written(const tgm_streaming_encoder_t* enc);

/* ---- validation ---------------------------------------------------------------------
 */

typedef struct tgm_x_validate_options_t {
  size_t struct_size;
  uint64_t max_object_bytes; /**< 0: the limit of tgm_x_set_max_object_bytes */
  bool check_canonical;
  bool legacy; /**< see tgm_x_decode_options_t */
} tgm_x_validate_options_t;
/** As tgm_validate, for all messages of `buf` and the bytes between them, with the report
 * of tgm_validate_file. `level` may also be "metadata" (structure, CBOR and keys). */
TGM_API tgm_error tgm_x_validate(const uint8_t* buf, size_t buf_len, const char* level,
                                 const tgm_x_validate_options_t* options,
                                 tgm_bytes_t* out);

#ifdef __cplusplus
}
#endif

#endif
