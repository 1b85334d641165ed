/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The C interface of Tensogram: encoding, decoding, files, iteration, metadata, streaming
 * and validation. The names, types and numbers are those of ecmwf/tensogram 0.24, so a
 * program written for that library compiles and runs with this one. Functions of this
 * library alone are declared in tensogram_x.h. C99 and C++.
 *
 * The following conventions hold for all functions; the comments below do not repeat
 * them.
 *
 * Errors. A function that can fail returns a tgm_error; TGM_ERROR_OK (0) is success. Out
 * parameters are written on success only. tgm_last_error() returns the text of the
 * thread's last failure. A required pointer that is NULL is TGM_ERROR_INVALID_ARG, also
 * the pointer to a buffer of length 0. A text (path, JSON, name) that is not UTF-8 is
 * TGM_ERROR_INVALID_ARG too. An accessor, which cannot fail, returns NULL, 0 or false for
 * a NULL handle, an index out of range, or a key that is absent. No function crashes
 * because of a NULL pointer, and no function throws. A failed allocation is TGM_ERROR_IO.
 *
 * Damaged input. Functions that read return TGM_ERROR_FRAMING if frames, markers, lengths
 * or the order of frames are wrong, TGM_ERROR_METADATA if CBOR or a key in it is wrong,
 * TGM_ERROR_ENCODING if a payload cannot be decoded, and TGM_ERROR_HASH_MISMATCH if a
 * stored digest differs from the digest of the bytes. Stored digests are verified with
 * and without `verify_hash`; with `verify_hash`, an object without a digest is
 * TGM_ERROR_MISSING_HASH.
 *
 * Memory. A compressed object that would decode to more bytes than the limit of
 * tgm_x_set_max_object_bytes (tensogram_x.h; 16 GiB unless it is set) is
 * TGM_ERROR_OBJECT.
 *
 * Ownership. A handle that a function writes to `out` belongs to the caller, who frees it
 * with the function that is named at the type of the handle. A tgm_bytes_t is freed by
 * tgm_bytes_free. A pointer that an accessor returns belongs to the handle and is valid
 * until the handle is freed. Buffers, texts and arrays of the caller are used during the
 * call only, unless the comment of the function says otherwise.
 *
 * Threads. Any thread may call any function. Several threads may use a handle at the same
 * time if all of them pass it as a pointer to const; otherwise one thread at a time may
 * use it.
 *
 * Values. Sizes and offsets are in bytes. Shapes and strides are in elements, with the
 * last dimension varying fastest. An int32_t flag is false if it is 0. `threads` is the
 * number of threads that may help the calling thread; 0 means none, and results do not
 * depend on it. `hash_algo` is "xxh3", which stores a digest in every frame, or NULL or
 * "none", which store none; another name is TGM_ERROR_INVALID_ARG. With
 * `native_byte_order`, elements are returned in the byte order of the machine, otherwise
 * in the byte order of the file.
 *
 * JSON of a message: an object with "descriptors", an array of one object descriptor per
 * data object; "base", an array of objects whose entry i holds the metadata of data
 * object i; and "_extra_" (or "extra"), an object with the keys of the message. Every
 * other key at the top level is added to "_extra_", unless "_extra_" has this key
 * already. The key "_reserved_" is reserved for the library. JSON of a descriptor:
 * "shape" (array of extents) and "dtype" ("float32", "int16", "bitmask", ...) are
 * required; "type" (default: "ntensor"), "ndim", "strides" (row-major), "byte_order"
 * (that of the machine), "encoding", "filter" and "compression" ("none") are optional;
 * all other keys are parameters of the pipeline, such as "zstd_level". JSON that cannot
 * be parsed, or with a missing or wrong key, is TGM_ERROR_METADATA. An unknown encoding,
 * filter or codec, and a parameter that its codec refuses, are TGM_ERROR_ENCODING.
 * @source{Tensogram v3; docs/formats/tensogram.md}
 */
#ifndef TENSOGRAM_H_
#define TENSOGRAM_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TGM_API __attribute__((visibility("default")))
#else
#define TGM_API
#endif

/** Version of the wire format that this library reads and writes. */
#define TGM_WIRE_VERSION 3

#ifdef __cplusplus
extern "C" {
#endif

/** Status of a call: success, or the kind of the error. */
typedef enum tgm_error {
  TGM_ERROR_OK = 0,
  TGM_ERROR_FRAMING = 1,       /**< magic, lengths, markers, types or order of frames */
  TGM_ERROR_METADATA = 2,      /**< CBOR or JSON, their keys and their types */
  TGM_ERROR_ENCODING = 3,      /**< an encoding, filter or codec, or its input */
  TGM_ERROR_COMPRESSION = 4,   /**< a range of szip without the offsets that it needs */
  TGM_ERROR_OBJECT = 5,        /**< an object or message that is absent or too large */
  TGM_ERROR_IO = 6,            /**< the file system */
  TGM_ERROR_HASH_MISMATCH = 7, /**< a stored digest differs from the bytes */
  TGM_ERROR_INVALID_ARG = 8,   /**< an argument of the call itself */
  TGM_ERROR_END_OF_ITER = 9,   /**< the iteration is over; not a failure */
  TGM_ERROR_REMOTE = 10,       /**< a file behind an address cannot be read */
  TGM_ERROR_MISSING_HASH = 11, /**< verify_hash, and no digest is stored */
  TGM_ERROR_TIMEOUT = 12,      /**< a task did not end in time */
  TGM_ERROR_CANCELLED = 13     /**< a task was cancelled */
} tgm_error;

/** Type of a metadata value. */
typedef enum tgm_value_type {
  TGM_VALUE_TYPE_NULL,
  TGM_VALUE_TYPE_BOOL,
  TGM_VALUE_TYPE_INT,
  TGM_VALUE_TYPE_FLOAT,
  TGM_VALUE_TYPE_STRING,
  TGM_VALUE_TYPE_BYTES,
  TGM_VALUE_TYPE_ARRAY,
  TGM_VALUE_TYPE_MAP
} tgm_value_type;

/** Bytes that belong to the caller. Freed by tgm_bytes_free. */
typedef struct tgm_bytes_t {
  uint8_t* data; /**< not NULL, even if `len` is 0 */
  /** Number of bytes. */
  size_t len;
} tgm_bytes_t;

/** Handling of NaN and infinities when elements are encoded. If they are allowed, they
 * are stored as zeros, and masks beside the payload store their positions. Otherwise they
 * are TGM_ERROR_ENCODING. */
typedef struct TgmEncodeMaskOptions {
  /** Accepts NaN. */
  bool allow_nan;
  bool allow_inf; /**< accepts infinities of either sign */
  const char*
      nan_mask_method; /**< "none", "rle", "roaring", "lz4", "zstd"; NULL: roaring */
  /** Method of the mask of positive infinity; as `nan_mask_method`. */
  const char* pos_inf_mask_method;
  /** Method of the mask of negative infinity; as `nan_mask_method`. */
  const char* neg_inf_mask_method;
  ptrdiff_t small_mask_threshold_bytes; /**< masks of at most this many bytes
                                           are stored as bits; negative: 128 */
} TgmEncodeMaskOptions;

/** Handling of masked elements when elements are decoded. */
typedef struct TgmDecodeMaskOptions {
  bool restore_non_finite; /**< false: masked elements are zeros */
} TgmDecodeMaskOptions;

/** The place of a message in a buffer, in bytes. */
typedef struct tgm_scan_entry_t {
  /** First byte of the message, from the start of the buffer. */
  size_t offset;
  /** Length of the message. */
  size_t length;
} tgm_scan_entry_t;

/** Decoded objects with the metadata of their message. Freed by tgm_message_free. */
typedef struct tgm_message_t tgm_message_t;
/** Metadata of a message. Freed by tgm_metadata_free. */
typedef struct tgm_metadata_t tgm_metadata_t;
/** A value in a tgm_metadata_t, which owns it. The caller never frees it. */
typedef struct tgm_value_t tgm_value_t;
/** A file of messages. Freed by tgm_file_close. */
typedef struct tgm_file_t tgm_file_t;
/** Places of messages in a buffer. Freed by tgm_scan_free. */
typedef struct tgm_scan_result_t tgm_scan_result_t;
/** Iterates over the messages of a buffer. Freed by tgm_buffer_iter_free. */
typedef struct tgm_buffer_iter_t tgm_buffer_iter_t;
/** Iterates over the messages of a file. Freed by tgm_file_iter_free. */
typedef struct tgm_file_iter_t tgm_file_iter_t;
/** Iterates over the objects of a message. Freed by tgm_object_iter_free. */
typedef struct tgm_object_iter_t tgm_object_iter_t;
/** A message that is written object by object. Freed by tgm_streaming_encoder_free. */
typedef struct tgm_streaming_encoder_t tgm_streaming_encoder_t;

/* ---- errors and bytes ---------------------------------------------------------------
 */

/** Returns the text of the last failure of this thread, or NULL if no call of this thread
 * has failed. The text has several lines: what failed, where, and a hint. A successful
 * call does not change it. Valid until the next call of this thread. */
TGM_API const char* tgm_last_error(void);
/** Returns a static text for a code, such as "framing error", or "unknown error" for a
 * number that is no code. Never NULL. */
TGM_API const char* tgm_error_string(tgm_error err);
/** Frees bytes. `data` may be NULL. */
TGM_API void tgm_bytes_free(tgm_bytes_t buf);

/* ---- encoding -----------------------------------------------------------------------
 */

/** Encodes a message of `num_objects` data objects. `data_ptrs[i]` points to the elements
 * of object i, `data_lens[i]` bytes in the "byte_order" of its descriptor. Both arrays
 * may be NULL if `num_objects` is 0, and `data_ptrs[i]` may be NULL if `data_lens[i]` is
 * 0.
 * @error{TGM_ERROR_INVALID_ARG; the number of descriptors differs from `num_objects`}
 * @error{TGM_ERROR_METADATA; also a length that differs from that of shape and dtype}
 * @error{TGM_ERROR_ENCODING; also NaN or an infinity} */
TGM_API tgm_error tgm_encode(const char* metadata_json, const uint8_t* const* data_ptrs,
                             const size_t* data_lens, size_t num_objects,
                             const char* hash_algo, uint32_t threads, tgm_bytes_t* out);
/** Encodes as tgm_encode, with masks for NaN and infinities. If `mask_options` is NULL,
 * neither is allowed.
 * @error{TGM_ERROR_INVALID_ARG; also an unknown mask method}
 * @error{TGM_ERROR_METADATA; as tgm_encode}
 * @error{TGM_ERROR_ENCODING; also NaN or an infinity that is not allowed} */
TGM_API tgm_error tgm_encode_with_options(const char* metadata_json,
                                          const uint8_t* const* data_ptrs,
                                          const size_t* data_lens, size_t num_objects,
                                          const char* hash_algo, uint32_t threads,
                                          const TgmEncodeMaskOptions* mask_options,
                                          tgm_bytes_t* out);
/** Encodes a message from payloads that went through the pipeline of their descriptor
 * before. `data_ptrs[i]` is stored unchanged; only parameters and sizes are checked.
 * @error{TGM_ERROR_INVALID_ARG; the number of descriptors differs from `num_objects`}
 * @error{TGM_ERROR_METADATA; also an impossible size or "szip_block_offsets"} */
TGM_API tgm_error tgm_encode_pre_encoded(const char* metadata_json,
                                         const uint8_t* const* data_ptrs,
                                         const size_t* data_lens, size_t num_objects,
                                         const char* hash_algo, uint32_t threads,
                                         tgm_bytes_t* out);
/** Computes the XXH3-64 digest of bytes: 16 hexadecimal digits without a terminating
 * zero. `algo` may be NULL, "xxh3" or "none", without a difference.
 * @error{TGM_ERROR_INVALID_ARG; also another name in `algo`} */
TGM_API tgm_error tgm_compute_hash(const uint8_t* data, size_t data_len, const char* algo,
                                   tgm_bytes_t* out);
/** Computes the parameters of "simple_packing" with the smallest step at which all
 * `num_values` values fit into `bits_per_value` bits:
 * value = reference_value + 2^binary_scale_factor * 10^-decimal_scale_factor * q.
 * @error{TGM_ERROR_ENCODING; more than 64 bits, a value that is not finite, or a range of
 * values that is too wide} */
TGM_API tgm_error tgm_simple_packing_compute_params(const double* values,
                                                    size_t num_values,
                                                    uint32_t bits_per_value,
                                                    int32_t decimal_scale_factor,
                                                    double* out_reference_value,
                                                    int32_t* out_binary_scale_factor);

/* ---- decoding -----------------------------------------------------------------------
 */

/** Decodes all objects of the message at the start of `buf`. Bytes behind the message are
 * ignored. The handle does not refer to `buf`. */
TGM_API tgm_error tgm_decode(const uint8_t* buf, size_t buf_len,
                             int32_t native_byte_order, uint32_t threads,
                             int32_t verify_hash, tgm_message_t** out);
/** Decodes as tgm_decode. If `mask_options` is NULL, NaN and infinities are restored from
 * their masks, as tgm_decode does. */
TGM_API tgm_error tgm_decode_with_options(const uint8_t* buf, size_t buf_len,
                                          int32_t native_byte_order, uint32_t threads,
                                          int32_t verify_hash,
                                          const TgmDecodeMaskOptions* mask_options,
                                          tgm_message_t** out);
/** Reads the metadata of the first metadata frame. `buf` may end behind this frame. A
 * streamed message has the keys there that were known when the stream began;
 * tgm_message_metadata returns the final metadata.
 * @error{TGM_ERROR_FRAMING; also a frame that is incomplete} */
TGM_API tgm_error tgm_decode_metadata(const uint8_t* buf, size_t buf_len,
                                      tgm_metadata_t** out);
/** Decodes object `index`. The message handle has this object only, at index 0, and the
 * metadata of the whole message.
 * @error{TGM_ERROR_OBJECT; the message has no such object} */
TGM_API tgm_error tgm_decode_object(const uint8_t* buf, size_t buf_len, size_t index,
                                    int32_t native_byte_order, uint32_t threads,
                                    int32_t verify_hash, tgm_message_t** out);
/** Decodes ranges of one object, whose elements are counted in row-major order: range i
 * has `ranges_counts[i]` elements from element `ranges_offsets[i]` on. With `join`, `out`
 * receives one buffer with all ranges, and `*out_count` is 1. Otherwise `out` is an array
 * of `num_ranges` buffers, one per range, and `*out_count` is `num_ranges`. Each buffer
 * is freed by tgm_bytes_free. Digests are not verified, and masked values are restored.
 * @error{TGM_ERROR_OBJECT; the message has no such object}
 * @error{TGM_ERROR_ENCODING; a range beyond the object; a filter or a bitmask, which have
 * no ranges}
 * @error{TGM_ERROR_COMPRESSION; a range of szip without the offsets that it needs} */
TGM_API tgm_error tgm_decode_range(const uint8_t* buf, size_t buf_len,
                                   size_t object_index, const uint64_t* ranges_offsets,
                                   const uint64_t* ranges_counts, size_t num_ranges,
                                   int32_t native_byte_order, uint32_t threads,
                                   int32_t join, tgm_bytes_t* out, size_t* out_count);

/* ---- finding messages in a buffer ---------------------------------------------------
 */

/** Finds the messages in a buffer. Bytes between messages are skipped. */
TGM_API tgm_error tgm_scan(const uint8_t* buf, size_t buf_len, tgm_scan_result_t** out);
/** Returns the number of messages that were found; 0 for NULL. */
TGM_API size_t tgm_scan_count(const tgm_scan_result_t* result);
/** Returns the place of message `index`. If the index is out of range, returns
 * {SIZE_MAX, 0} and sets the text of tgm_last_error. */
TGM_API tgm_scan_entry_t tgm_scan_entry(const tgm_scan_result_t* result, size_t index);
/** Frees the handle. NULL is allowed, as in all functions that free. */
TGM_API void tgm_scan_free(tgm_scan_result_t* result);

/* ---- messages and their objects -----------------------------------------------------
 * An index counts the objects of the handle: the one object of tgm_decode_object and of
 * tgm_object_iter_next has index 0. */

/** Returns the version of the wire format, TGM_WIRE_VERSION; 0 for NULL. */
TGM_API uint64_t tgm_message_version(const tgm_message_t* msg);
/** Returns the number of objects of the handle; 0 for NULL. */
TGM_API size_t tgm_message_num_objects(const tgm_message_t* msg);
/** Returns the number of decoded objects, which is tgm_message_num_objects. */
TGM_API size_t tgm_message_num_decoded(const tgm_message_t* msg);
/** Creates a handle for the final metadata of the whole message, with the keys of its
 * preceders and its footer. It stays valid when `msg` is freed. */
TGM_API tgm_error tgm_message_metadata(const tgm_message_t* msg, tgm_metadata_t** out);
/** Frees the handle. Pointers from its accessors become invalid. */
TGM_API void tgm_message_free(tgm_message_t* msg);

/** Returns the number of dimensions; 0 for a scalar. */
TGM_API uint64_t tgm_object_ndim(const tgm_message_t* msg, size_t index);
/** Returns the shape: tgm_object_ndim() extents, in elements. */
TGM_API const uint64_t* tgm_object_shape(const tgm_message_t* msg, size_t index);
/** Returns tgm_object_ndim() strides, in elements, as stored in the descriptor. The
 * elements that tgm_object_data returns are in the order of the file; the strides do not
 * change it. */
TGM_API const uint64_t* tgm_object_strides(const tgm_message_t* msg, size_t index);
/** Returns the element type: "float32", "int16", "bitmask", ... */
TGM_API const char* tgm_object_dtype(const tgm_message_t* msg, size_t index);
/** Returns the "type" of the descriptor, which is usually "ntensor". */
TGM_API const char* tgm_object_type(const tgm_message_t* msg, size_t index);
/** Returns the byte order of the file, "big" or "little". It does not depend on
 * `native_byte_order`. */
TGM_API const char* tgm_object_byte_order(const tgm_message_t* msg, size_t index);
/** Returns the decoded elements, and writes their number of bytes to `out_len` unless it
 * is NULL. Not NULL if the object has no elements. A bitmask has 8 elements per byte; the
 * first element is the most significant bit. */
TGM_API const uint8_t* tgm_object_data(const tgm_message_t* msg, size_t decoded_index,
                                       size_t* out_len);
/** Returns the name of the encoding, or "none". */
TGM_API const char* tgm_payload_encoding(const tgm_message_t* msg, size_t index);
/** Returns the name of the filter, or "none". */
TGM_API const char* tgm_object_filter(const tgm_message_t* msg, size_t index);
/** Returns the name of the codec, or "none". */
TGM_API const char* tgm_object_compression(const tgm_message_t* msg, size_t index);
/** Returns 1 if the frame of the object has a digest, otherwise 0. */
TGM_API int32_t tgm_payload_has_hash(const tgm_message_t* msg, size_t index);
/** Returns "xxh3", or NULL if the object has no digest. */
TGM_API const char* tgm_object_hash_type(const tgm_message_t* msg, size_t index);
/** Returns the digest as 16 hexadecimal digits, or NULL if the object has none. */
TGM_API const char* tgm_object_hash_value(const tgm_message_t* msg, size_t index);

/* ---- metadata -----------------------------------------------------------------------
 * A path is a sequence of keys of nested maps, such as "mars.class". It does not reach
 * elements of arrays; tgm_value_array_get does. A path is looked up in base[0], base[1],
 * ..., and then in "_extra_"; the first match counts. A path that begins with "extra." or
 * "_extra_." is looked up in "_extra_" only. Functions with `_at` look up a path in
 * base[obj_index] only. No path leads to "_reserved_"; tgm_metadata_object and
 * tgm_metadata_reserved show it. */

/** Returns the version of the wire format, TGM_WIRE_VERSION; 0 for NULL. */
TGM_API uint64_t tgm_metadata_version(const tgm_metadata_t* meta);
/** Returns the number of entries in "base", which is the number of objects. */
TGM_API size_t tgm_metadata_num_objects(const tgm_metadata_t* meta);
/** Frees the handle. Its values and texts become invalid. */
TGM_API void tgm_metadata_free(tgm_metadata_t* meta);

/** Returns the value at a path, or NULL if the path is absent. A null in the metadata is
 * a value of type TGM_VALUE_TYPE_NULL. */
TGM_API const tgm_value_t* tgm_metadata_get(const tgm_metadata_t* meta, const char* path);
/** Returns the value at a path of base[obj_index], or NULL if the path is absent. */
TGM_API const tgm_value_t* tgm_metadata_get_at(const tgm_metadata_t* meta,
                                               size_t obj_index, const char* path);
/** Returns true if the path leads to a value. */
TGM_API bool tgm_metadata_has(const tgm_metadata_t* meta, const char* path);
/** Returns true if the path leads to a value in base[obj_index]. */
TGM_API bool tgm_metadata_has_at(const tgm_metadata_t* meta, size_t obj_index,
                                 const char* path);
/** Returns the map base[obj_index], including its "_reserved_". */
TGM_API const tgm_value_t* tgm_metadata_object(const tgm_metadata_t* meta,
                                               size_t obj_index);
/** Returns the map "_extra_" of the message, which may be empty. */
TGM_API const tgm_value_t* tgm_metadata_extra(const tgm_metadata_t* meta);
/** Returns the map "_reserved_" of the message, which may be empty. */
TGM_API const tgm_value_t* tgm_metadata_reserved(const tgm_metadata_t* meta);

/* The following functions convert: integers, floats and booleans to text, and integers to
 * floats. A result equal to the default may also mean that the key is absent. The path
 * "version" is the version of the wire format, as text and as an integer. */

/** Returns the value at a path as text. Returns NULL if the path is absent or leads to
 * null, bytes, an array or a map, and "" for a text that contains a zero byte. */
TGM_API const char* tgm_metadata_get_string(const tgm_metadata_t* meta, const char* key);
/** Returns the integer at a path, or `default_val` if the path is absent or leads to
 * anything else than an integer that int64_t holds. */
TGM_API int64_t tgm_metadata_get_int(const tgm_metadata_t* meta, const char* key,
                                     int64_t default_val);
/** Returns the number at a path, or `default_val` if the path is absent or leads to
 * anything else than a number. */
TGM_API double tgm_metadata_get_float(const tgm_metadata_t* meta, const char* key,
                                      double default_val);
/** Looks up as tgm_metadata_get_string, in base[obj_index] only. */
TGM_API const char* tgm_metadata_get_string_at(const tgm_metadata_t* meta,
                                               size_t obj_index, const char* key);
/** Looks up as tgm_metadata_get_int, in base[obj_index] only. */
TGM_API int64_t tgm_metadata_get_int_at(const tgm_metadata_t* meta, size_t obj_index,
                                        const char* key, int64_t default_val);
/** Looks up as tgm_metadata_get_float, in base[obj_index] only. */
TGM_API double tgm_metadata_get_float_at(const tgm_metadata_t* meta, size_t obj_index,
                                         const char* key, double default_val);
/** Returns base[obj_index] as a JSON object. Bytes become hexadecimal text; NaN and
 * infinities become null. */
TGM_API const char* tgm_metadata_object_to_json(const tgm_metadata_t* meta,
                                                size_t obj_index);
/** Returns the whole metadata as JSON: {"base", "_reserved_", "_extra_"}, without the
 * parts that are empty. */
TGM_API const char* tgm_metadata_to_json(const tgm_metadata_t* meta);

/* ---- values -------------------------------------------------------------------------
 * Values are not converted, except that tgm_value_as_f64 accepts integers. For a value of
 * another type the functions return false, NULL or 0 and write nothing. NULL is treated
 * as a value of type TGM_VALUE_TYPE_NULL. */

/** Returns the type of a value. */
TGM_API tgm_value_type tgm_value_get_type(const tgm_value_t* v);
/** Writes the boolean to `out`. */
TGM_API bool tgm_value_as_bool(const tgm_value_t* v, bool* out);
/** Writes the integer to `out`. Returns false if int64_t cannot hold it. */
TGM_API bool tgm_value_as_i64(const tgm_value_t* v, int64_t* out);
/** Writes the integer to `out`. Returns false if it is negative. */
TGM_API bool tgm_value_as_u64(const tgm_value_t* v, uint64_t* out);
/** Writes the float or integer to `out`. Integers of more than 53 bits are rounded. */
TGM_API bool tgm_value_as_f64(const tgm_value_t* v, double* out);
/** Returns the text, UTF-8 that may contain zero bytes, and writes its number of bytes to
 * `len_out` unless it is NULL. A zero byte follows the text. */
TGM_API const char* tgm_value_as_string(const tgm_value_t* v, size_t* len_out);
/** Returns the bytes and writes their number to `len_out` unless it is NULL. Not NULL for
 * a byte string of length 0. */
TGM_API const uint8_t* tgm_value_as_bytes(const tgm_value_t* v, size_t* len_out);
/** Returns the number of items of an array. */
TGM_API size_t tgm_value_array_len(const tgm_value_t* v);
/** Returns item `index` of an array. */
TGM_API const tgm_value_t* tgm_value_array_get(const tgm_value_t* v, size_t index);
/** Returns the number of entries of a map. */
TGM_API size_t tgm_value_map_len(const tgm_value_t* v);
/** Returns the key of entry `index` in canonical order, or NULL if the key is not a text.
 * Writes its number of bytes to `len_out` unless it is NULL. */
TGM_API const char* tgm_value_map_key_at(const tgm_value_t* v, size_t index,
                                         size_t* len_out);
/** Returns the value of entry `index` in canonical order. */
TGM_API const tgm_value_t* tgm_value_map_value_at(const tgm_value_t* v, size_t index);
/** Returns the value of a key of this map. `key` is not a path. */
TGM_API const tgm_value_t* tgm_value_map_get(const tgm_value_t* v, const char* key);

/* ---- files --------------------------------------------------------------------------
 * Messages are counted from 0. The first call that needs the messages scans the file, and
 * so does the first such call after an append by this handle. Messages that are appended
 * by another handle or program are not found.
 * @error{TGM_ERROR_OBJECT; the file has no such message} */

/** Opens a file for reading and appending.
 * @error{TGM_ERROR_IO; the file does not exist or cannot be read} */
TGM_API tgm_error tgm_file_open(const char* path, tgm_file_t** out);
/** Creates an empty file and its parent folders. Truncates a file that exists.
 * @error{TGM_ERROR_IO; the file cannot be created} */
TGM_API tgm_error tgm_file_create(const char* path, tgm_file_t** out);
/** Returns the path that the file was opened with. */
TGM_API const char* tgm_file_path(const tgm_file_t* file);
/** Frees the handle. Iterators over the file stay valid. */
TGM_API void tgm_file_close(tgm_file_t* file);
/** Counts the messages. */
TGM_API tgm_error tgm_file_message_count(tgm_file_t* file, size_t* out_count);
/** Decodes all objects of message `index`, as tgm_decode. */
TGM_API tgm_error tgm_file_decode_message(tgm_file_t* file, size_t index,
                                          int32_t native_byte_order, uint32_t threads,
                                          int32_t verify_hash, tgm_message_t** out);
/** Reads the bytes of message `index`. They are not checked. */
TGM_API tgm_error tgm_file_read_message(tgm_file_t* file, size_t index, tgm_bytes_t* out);
/** Appends bytes unchanged. After a failure the file is as it was before.
 * @error{TGM_ERROR_IO; the file cannot be written} */
TGM_API tgm_error tgm_file_append_raw(tgm_file_t* file, const uint8_t* buf,
                                      size_t buf_len);
/** Encodes a message, as tgm_encode, and appends it, as tgm_file_append_raw. */
TGM_API tgm_error tgm_file_append(tgm_file_t* file, const char* metadata_json,
                                  const uint8_t* const* data_ptrs,
                                  const size_t* data_lens, size_t num_objects,
                                  const char* hash_algo, uint32_t threads);
/** Encodes a message, as tgm_encode_with_options, and appends it, as
 * tgm_file_append_raw. */
TGM_API tgm_error tgm_file_append_with_options(
    tgm_file_t* file, const char* metadata_json, const uint8_t* const* data_ptrs,
    const size_t* data_lens, size_t num_objects, const char* hash_algo, uint32_t threads,
    const TgmEncodeMaskOptions* mask_options);

/* ---- iteration ----------------------------------------------------------------------
 * A function that ends in `next` returns TGM_ERROR_END_OF_ITER after the last item. */

/** Creates an iterator over the messages of a buffer. The buffer must stay unchanged
 * until tgm_buffer_iter_free. */
TGM_API tgm_error tgm_buffer_iter_create(const uint8_t* buf, size_t buf_len,
                                         tgm_buffer_iter_t** out);
/** Returns the number of all messages of the buffer. */
TGM_API size_t tgm_buffer_iter_count(const tgm_buffer_iter_t* iter);
/** Returns a pointer to the next message, inside the buffer of the caller. */
TGM_API tgm_error tgm_buffer_iter_next(tgm_buffer_iter_t* iter, const uint8_t** out_buf,
                                       size_t* out_len);
/** Frees the handle. */
TGM_API void tgm_buffer_iter_free(tgm_buffer_iter_t* iter);
/** Creates an iterator over the messages that the file has now. `file` may be closed
 * before the iterator is freed. */
TGM_API tgm_error tgm_file_iter_create(tgm_file_t* file, tgm_file_iter_t** out);
/** Reads the bytes of the next message. After a failure the next call continues with the
 * message behind it. */
TGM_API tgm_error tgm_file_iter_next(tgm_file_iter_t* iter, tgm_bytes_t* out);
/** Frees the handle. */
TGM_API void tgm_file_iter_free(tgm_file_iter_t* iter);
/** Creates an iterator over the objects of the message at the start of `buf`. The
 * iterator copies the bytes of the message. */
TGM_API tgm_error tgm_object_iter_create(const uint8_t* buf, size_t buf_len,
                                         int32_t native_byte_order, int32_t verify_hash,
                                         tgm_object_iter_t** out);
/** Decodes the next object into a new message handle, which has this object only and the
 * metadata of the whole message. After a failure the next call continues with the object
 * behind it. */
TGM_API tgm_error tgm_object_iter_next(tgm_object_iter_t* iter, tgm_message_t** out);
/** Frees the handle. Messages that the iterator returned stay valid. */
TGM_API void tgm_object_iter_free(tgm_object_iter_t* iter);

/* ---- streaming ----------------------------------------------------------------------
 * A message is written to a file object by object and is not held in memory. One thread
 * at a time may use an encoder. After tgm_streaming_encoder_finish every further call
 * returns TGM_ERROR_INVALID_ARG. If writing fails (TGM_ERROR_IO), every further call
 * returns this failure again. An object that is refused for another reason leaves the
 * stream unchanged.
 */

/** Creates or truncates the file and writes the beginning of the message. "descriptors"
 * in `metadata_json` is an ordinary key.
 * @error{TGM_ERROR_IO; the file cannot be created} */
TGM_API tgm_error tgm_streaming_encoder_create(const char* path,
                                               const char* metadata_json,
                                               const char* hash_algo, uint32_t threads,
                                               tgm_streaming_encoder_t** out);
/** Creates as tgm_streaming_encoder_create, with masks for NaN and infinities. If
 * `mask_options` is NULL, neither is allowed.
 * @error{TGM_ERROR_IO; the file cannot be created}
 * @error{TGM_ERROR_INVALID_ARG; also an unknown mask method} */
TGM_API tgm_error tgm_streaming_encoder_create_with_options(
    const char* path, const char* metadata_json, const char* hash_algo, uint32_t threads,
    const TgmEncodeMaskOptions* mask_options, tgm_streaming_encoder_t** out);
/** Writes a preceder: metadata of the next object, given as a JSON object.
 * @error{TGM_ERROR_FRAMING; the last preceder was not followed by an object} */
TGM_API tgm_error tgm_streaming_encoder_write_preceder(tgm_streaming_encoder_t* enc,
                                                       const char* metadata_json);
/** Encodes and writes one object. `data` points to `data_len` bytes of elements. */
TGM_API tgm_error tgm_streaming_encoder_write(tgm_streaming_encoder_t* enc,
                                              const char* descriptor_json,
                                              const uint8_t* data, size_t data_len);
/** Writes one object whose payload went through the pipeline of its descriptor before. */
TGM_API tgm_error tgm_streaming_encoder_write_pre_encoded(tgm_streaming_encoder_t* enc,
                                                          const char* descriptor_json,
                                                          const uint8_t* data,
                                                          size_t data_len);
/** Returns the number of objects written so far; 0 after the stream is finished. */
TGM_API size_t tgm_streaming_encoder_count(const tgm_streaming_encoder_t* enc);
/** Writes the footer and closes the file. The caller still frees the handle.
 * @error{TGM_ERROR_FRAMING; the last preceder was not followed by an object} */
TGM_API tgm_error tgm_streaming_encoder_finish(tgm_streaming_encoder_t* enc);
/** Frees the handle. A stream that was not finished stays in the file as an incomplete
 * message. */
TGM_API void tgm_streaming_encoder_free(tgm_streaming_encoder_t* enc);

/* ---- validation ---------------------------------------------------------------------
 * `level` is "quick" (checks the structure), "default" or NULL (also metadata and
 * digests, and decodes every object once), "checksum" (as "default", without decoding),
 * or "full" (as "default", and finds values that are not finite). With `check_canonical`
 * the report has a warning for CBOR that is not canonical. The functions return
 * TGM_ERROR_OK for damaged input too; the report, JSON without a terminating zero, lists
 * the damage.
 * @error{TGM_ERROR_INVALID_ARG; an unknown level} */

/** Validates one message. The report is {"issues", "object_count", "hash_verified"}.
 * `buf` may be NULL if `buf_len` is 0. */
TGM_API tgm_error tgm_validate(const uint8_t* buf, size_t buf_len, const char* level,
                               int32_t check_canonical, tgm_bytes_t* out);
/** Validates a file. The report is {"file_issues", "messages"}, with one report per
 * message.
 * @error{TGM_ERROR_IO; the file does not exist or cannot be read} */
TGM_API tgm_error tgm_validate_file(const char* path, const char* level,
                                    int32_t check_canonical, tgm_bytes_t* out);
/** Tries every codec of this build and reports the results: {"build", "features",
 * "self_test"}, JSON without a terminating zero. */
TGM_API tgm_error tgm_doctor_to_json(tgm_bytes_t* out);

#ifdef __cplusplus
}
#endif

/* The asynchronous functions belong to this interface. */
#include "tensogram_async.h"

#endif
