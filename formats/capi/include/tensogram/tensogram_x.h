/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Functions that ecmwf/tensogram does not have. The conventions of tensogram.h hold here
 * too. Every name begins with tgm_x_, and a program that uses this header works with this
 * library only.
 *
 * Options are structures that begin with `struct_size`, which the caller sets to sizeof
 * the structure. A member that is zero has its default value, and a NULL pointer instead
 * of a structure means all defaults. A later version adds members at the end only. If
 * `struct_size` is smaller than the structure of the library, the missing members are
 * zero; if it is larger, the additional bytes must be zero, otherwise the call returns
 * TGM_ERROR_INVALID_ARG.
 * @source{docs/formats/tensogram.md}
 */
#ifndef TENSOGRAM_X_H_
#define TENSOGRAM_X_H_

#include "tensogram.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Returns the version of this library, such as "0.1.0". A static text. */
TGM_API const char* tgm_x_version(void);

/* ---- the limit of an object ---------------------------------------------------------
 */

/** Sets the largest number of bytes that a compressed object may decode to. The limit
 * holds for all functions of this process that have no limit of their own: decoding,
 * ranges, iteration, tasks and validation. 0 sets the default, 16 GiB. An object above
 * the limit is TGM_ERROR_OBJECT, and no memory is allocated for it. Any thread may call
 * this function at any time. */
TGM_API void tgm_x_set_max_object_bytes(uint64_t bytes);
/** Returns the current limit in bytes. */
TGM_API uint64_t tgm_x_get_max_object_bytes(void);

/* ---- encoding -----------------------------------------------------------------------
 */

/** Place of the frame that lists the digests of all objects. */
typedef enum tgm_x_hash_list {
  TGM_X_HASH_LIST_AUTO = 0, /**< header of a whole message, footer of a stream */
  TGM_X_HASH_LIST_NONE = 1,
  TGM_X_HASH_LIST_HEADER = 2, /**< not possible in a stream */
  TGM_X_HASH_LIST_FOOTER = 3,
  TGM_X_HASH_LIST_BOTH = 4 /**< not possible in a stream */
} tgm_x_hash_list;

/** Options of tgm_x_encode. */
typedef struct tgm_x_encode_options_t {
  /** Set to sizeof by the caller. */
  size_t struct_size;
  /** Handling of NaN and infinities; NULL: the default. */
  const TgmEncodeMaskOptions* mask_options;
  const char* hash_algo; /**< as in tgm_encode; NULL: no digests */
  /** Place of the list of digests. */
  tgm_x_hash_list hash_list;
  /** Number of threads that may help the calling thread. */
  uint32_t threads;
  /** Payloads start at multiples of this many bytes from the start of the message. A
   * power of two from 16 to 4096; 0: no alignment. Padding in metadata and descriptors
   * moves the payloads. Not possible in a stream. */
  uint32_t payload_alignment;
  /** Omits the time and the random identifier, so that equal input gives equal bytes. */
  bool reproducible;
} tgm_x_encode_options_t;

/** Encodes as tgm_encode, with options.
 * @error{TGM_ERROR_INVALID_ARG; also an option that is out of range} */
TGM_API tgm_error tgm_x_encode(const char* metadata_json, const uint8_t* const* data_ptrs,
                               const size_t* data_lens, size_t num_objects,
                               const tgm_x_encode_options_t* options, tgm_bytes_t* out);

/* ---- decoding -----------------------------------------------------------------------
 */

/** Digests that are verified. */
typedef enum tgm_x_hash_check {
  TGM_X_HASH_CHECK_PRESENT = 0,  /**< every digest that is stored */
  TGM_X_HASH_CHECK_REQUIRED = 1, /**< every stored digest; each object must have one */
  TGM_X_HASH_CHECK_NONE = 2      /**< none */
} tgm_x_hash_check;

/** Options of tgm_x_decode. */
typedef struct tgm_x_decode_options_t {
  /** Set to sizeof by the caller. */
  size_t struct_size;
  uint64_t max_object_bytes; /**< 0: the limit of tgm_x_set_max_object_bytes */
  /** Digests that are verified. */
  tgm_x_hash_check hash_check;
  /** Number of threads that may help the calling thread. */
  uint32_t threads;
  bool file_byte_order; /**< return elements in the byte order of the file */
  bool keep_masked;     /**< leave masked elements zero */
  bool legacy;          /**< accept files of writers before 0.21: digests without their
                           flag, and packing keys without "sp_" */
} tgm_x_decode_options_t;

/** Decodes as tgm_decode, with options.
 * @error{TGM_ERROR_OBJECT; an object above `max_object_bytes`} */
TGM_API tgm_error tgm_x_decode(const uint8_t* buf, size_t buf_len,
                               const tgm_x_decode_options_t* options,
                               tgm_message_t** out);
/** Decodes ranges as tgm_decode_range with `join`, with options. `out` receives one
 * buffer, which tgm_bytes_free frees. */
TGM_API tgm_error tgm_x_decode_range(const uint8_t* buf, size_t buf_len,
                                     size_t object_index, const uint64_t* ranges_offsets,
                                     const uint64_t* ranges_counts, size_t num_ranges,
                                     const tgm_x_decode_options_t* options,
                                     tgm_bytes_t* out);
/** Positions of the elements that were NaN or infinite: three lists with one bit per
 * element, the first element in the most significant bit. A list without a position has
 * length 0. tgm_x_decode with `keep_masked` returns the stored elements, with zeros at
 * these positions. Freed by tgm_x_masks_free. */
typedef struct tgm_x_masks_t {
  /** Positions of NaN. */
  tgm_bytes_t nan;
  /** Positions of positive infinity. */
  tgm_bytes_t positive_infinity;
  /** Positions of negative infinity. */
  tgm_bytes_t negative_infinity;
} tgm_x_masks_t;
/** Reads the masks of one object; its elements are not decoded.
 * @error{TGM_ERROR_OBJECT; the message has no such object} */
TGM_API tgm_error tgm_x_decode_masks(const uint8_t* buf, size_t buf_len,
                                     size_t object_index, tgm_x_masks_t* out);
/** Frees the three lists. */
TGM_API void tgm_x_masks_free(tgm_x_masks_t masks);
/** Verifies the digest of an object and returns a pointer to its elements inside `buf`,
 * without a copy. If the message was encoded with `payload_alignment` and `buf` has this
 * alignment, the pointer has it too.
 * @error{TGM_ERROR_ENCODING; the object is compressed, encoded, masked, or of another
 * byte order, and must be decoded}
 * @error{TGM_ERROR_OBJECT; the message has no such object} */
TGM_API tgm_error tgm_x_object_view(const uint8_t* buf, size_t buf_len,
                                    size_t object_index, const uint8_t** out_data,
                                    size_t* out_len);
/** Launches a task that decodes as tgm_x_decode. The launch copies `buf`.
 * tgm_async_task_join_message joins the task. */
TGM_API tgm_error tgm_x_async_decode(const uint8_t* buf, size_t buf_len,
                                     const tgm_x_decode_options_t* options,
                                     tgm_cancellation_token_t* cancel,
                                     uint64_t timeout_ms, tgm_async_task_t** out_task);
/** Writes the number of the CBOR tag of a value to `out`, or returns false if the value
 * has no tag. All other functions ignore tags. */
TGM_API bool tgm_x_value_tag(const tgm_value_t* v, uint64_t* out);

/* ---- finding messages ---------------------------------------------------------------
 */

/** Direction of a search for messages. For undamaged input every direction finds the same
 * messages. */
typedef enum tgm_x_scan_order {
  TGM_X_SCAN_FORWARD = 0,
  TGM_X_SCAN_BACKWARD = 1, /**< follows the lengths at the ends of messages, as far as
                              they are valid; the rest forward */
  TGM_X_SCAN_BOTH_ENDS = 2 /**< alternates between the two ends */
} tgm_x_scan_order;
/** Finds the messages in a buffer, as tgm_scan, in this direction. */
TGM_API tgm_error tgm_x_scan(const uint8_t* buf, size_t buf_len, tgm_x_scan_order order,
                             tgm_scan_result_t** out);

/** Finds messages in bytes that arrive in pieces, for example from a pipe. It finds the
 * messages that tgm_scan finds in all of the bytes, each one when its last byte has
 * arrived. One thread at a time may use it. Freed by tgm_x_splitter_free. */
typedef struct tgm_x_splitter_t tgm_x_splitter_t;
/** Creates a splitter. A message of more than `max_message_bytes` is not found; 0: 4 GiB.
 */
TGM_API tgm_error tgm_x_splitter_create(uint64_t max_message_bytes,
                                        tgm_x_splitter_t** out);
/** Adds the next bytes. They are copied.
 * @error{TGM_ERROR_INVALID_ARG; called after tgm_x_splitter_end} */
TGM_API tgm_error tgm_x_splitter_put(tgm_x_splitter_t* splitter, const uint8_t* buf,
                                     size_t buf_len);
/** Declares that no more bytes will arrive. */
TGM_API tgm_error tgm_x_splitter_end(tgm_x_splitter_t* splitter);
/** Returns the next message. `out_offset` receives its offset from the first byte of all,
 * and `out_skipped` the number of bytes in front of it that belong to no message; both
 * may be NULL. tgm_bytes_free frees the message.
 * @error{TGM_ERROR_END_OF_ITER; more bytes are needed, or no message is left} */
TGM_API tgm_error tgm_x_splitter_take(tgm_x_splitter_t* splitter, tgm_bytes_t* out,
                                      uint64_t* out_offset, uint64_t* out_skipped);
/** Returns the number of bytes that the splitter holds: they may belong to a message that
 * is not complete or was not taken yet. */
TGM_API uint64_t tgm_x_splitter_held(const tgm_x_splitter_t* splitter);
/** Returns the number of bytes behind the last taken message that belong to no message.
 */
TGM_API uint64_t tgm_x_splitter_skipped(const tgm_x_splitter_t* splitter);
/** Returns true if the bytes of tgm_x_splitter_skipped start like a message, whose end is
 * then missing. */
TGM_API bool tgm_x_splitter_cut_short(const tgm_x_splitter_t* splitter);
/** Frees the handle. */
TGM_API void tgm_x_splitter_free(tgm_x_splitter_t* splitter);

/* ---- streaming ----------------------------------------------------------------------
 */

/** Receives the bytes of a stream in order. Returns 0 for success; every other value
 * means that writing failed (TGM_ERROR_IO). */
typedef int (*tgm_x_sink)(void* context, const uint8_t* bytes, size_t len);
/** Overwrites bytes of the stream that were written before, from byte `offset` on.
 * Returns 0 for success; every other value means that writing failed (TGM_ERROR_IO). */
typedef int (*tgm_x_patch)(void* context, uint64_t offset, const uint8_t* bytes,
                           size_t len);
/** Creates a streaming encoder that passes its bytes to `sink`, and changes the beginning
 * of the message with `patch`. Both functions are called with `context`, by the thread
 * that calls the encoder and during its call. `patch` may be NULL. All functions for
 * tgm_streaming_encoder_t work with this encoder. tgm_streaming_encoder_free frees it.
 * @error{TGM_ERROR_ENCODING; digests in the header or aligned payloads, which a stream
 * cannot have} */
TGM_API tgm_error tgm_x_streaming_encoder_create(const char* metadata_json,
                                                 tgm_x_sink sink, tgm_x_patch patch,
                                                 void* context,
                                                 const tgm_x_encode_options_t* options,
                                                 tgm_streaming_encoder_t** out);
/** Finishes as tgm_streaming_encoder_finish, and writes the length of the message into
 * the preamble and the postamble.
 * @error{TGM_ERROR_INVALID_ARG; the stream has no `patch`} */
TGM_API tgm_error tgm_x_streaming_encoder_finish_backfill(tgm_streaming_encoder_t* enc);
/** Returns the number of bytes of the message so far. Also valid after the stream is
 * finished. */
TGM_API uint64_t
tgm_x_streaming_encoder_bytes_written(const tgm_streaming_encoder_t* enc);

/* ---- validation ---------------------------------------------------------------------
 */

/** Options of the validation. */
typedef struct tgm_x_validate_options_t {
  /** Set to sizeof by the caller. */
  size_t struct_size;
  uint64_t max_object_bytes; /**< 0: the limit of tgm_x_set_max_object_bytes */
  /** Warns of CBOR that is not canonical. */
  bool check_canonical;
  bool legacy; /**< as in tgm_x_decode_options_t */
} tgm_x_validate_options_t;
/** Validates all messages of `buf` and the bytes between them, with the report of
 * tgm_validate_file. `level` is as in tgm_validate, or "metadata" (structure, CBOR and
 * keys). */
TGM_API tgm_error tgm_x_validate(const uint8_t* buf, size_t buf_len, const char* level,
                                 const tgm_x_validate_options_t* options,
                                 tgm_bytes_t* out);

#ifdef __cplusplus
}
#endif

#endif
