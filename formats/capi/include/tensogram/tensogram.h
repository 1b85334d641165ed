/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The C interface of Tensogram: encoding, decoding, files, iteration, metadata, streaming
 * and validation. The names, types and numbers are those of ecmwf/tensogram 0.24, so a
 * program written for that library compiles and runs with this one. What only this
 * library has is declared in tensogram_x.h. C99 and C++.
 *
 * The conventions of all functions, which the comments below do not repeat:
 *
 * Errors. A function that can fail returns a tgm_error, and TGM_ERROR_OK (0) is success.
 * Out parameters are written on success alone. tgm_last_error() gives the text of the
 * thread's last failure. A pointer that a function needs and that is NULL is
 * TGM_ERROR_INVALID_ARG, a buffer also where its length is 0; so is a text (path, JSON,
 * name) that is not UTF-8. An accessor that cannot fail answers NULL, 0 or false for a
 * NULL handle, an index that is out of range, or a key that is absent. No function
 * crashes because of NULL, and no exception leaves a function. Memory that runs out is
 * TGM_ERROR_IO.
 *
 * Damaged input. Reading functions return TGM_ERROR_FRAMING where frames, markers,
 * lengths or their order are wrong, TGM_ERROR_METADATA where CBOR or a key in it is
 * wrong, TGM_ERROR_ENCODING where a payload does not decode, and TGM_ERROR_HASH_MISMATCH
 * where a digest that is there differs: digests are verified whether or not `verify_hash`
 * asks. With `verify_hash` an object without a digest is TGM_ERROR_MISSING_HASH.
 *
 * Memory. A compressed object that would decode to more bytes than the limit of
 * tgm_x_set_max_object_bytes (tensogram_x.h) is TGM_ERROR_OBJECT.
 *
 * Ownership. A handle that a function writes to `out` belongs to the caller, who gives it
 * back with the function named beside its type. A tgm_bytes_t goes back through
 * tgm_bytes_free. Pointers that accessors return belong to the handle and live as long as
 * the handle. Buffers, texts and arrays that a caller passes are used during the call
 * only, unless the function says otherwise.
 *
 * Threads. Functions may be called from any thread. Handles of type const are read
 * concurrently without harm; a handle that is not const is used by one thread at a time.
 *
 * Values. Sizes and offsets are in bytes, shapes and strides in elements, the last
 * dimension varying fastest. Flags of type int32_t are false when 0. `threads` is how
 * many threads may help the caller's with one call; 0 is none, and results do not depend
 * on it. `hash_algo` is "xxh3" for a digest in every frame, or NULL or "none" for none;
 * another name is TGM_ERROR_INVALID_ARG. `native_byte_order` asks for elements in the
 * byte order of the machine, otherwise they stay in that of the file.
 *
 * JSON of a message: an object with "descriptors", an array with one object descriptor
 * per data object; "base", an array of objects whose entry i holds the metadata of data
 * object i; and "_extra_" (or "extra"), an object of keys of the message. Every other key
 * at the top joins "_extra_", where "_extra_" itself has the first word. The key
 * "_reserved_" is the library's. JSON of a descriptor: "shape" (array of extents) and
 * "dtype" ("float32", "int16", "bitmask", ...) are required; "type" ("ntensor"), "ndim",
 * "strides" (row-major), "byte_order" (the machine's), "encoding", "filter" and
 * "compression" ("none") may be left out; all other keys are parameters of the pipeline,
 * such as "zstd_level". JSON that does not parse, or that lacks or misuses a key, is
 * TGM_ERROR_METADATA; a stage of no known name, or a value that its codec does not take,
 * is TGM_ERROR_ENCODING.
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

/** The version of the format that messages have. */
#define TGM_WIRE_VERSION 3

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tgm_error {
  TGM_ERROR_OK = 0,
  TGM_ERROR_FRAMING = 1,     /**< magic, lengths, markers, types or order of frames */
  TGM_ERROR_METADATA = 2,    /**< CBOR or JSON, their keys and their types */
  TGM_ERROR_ENCODING = 3,    /**< an encoding, filter or codec, or what it was given */
  TGM_ERROR_COMPRESSION = 4, /**< a range of szip without the offsets that it needs */
  TGM_ERROR_OBJECT = 5,      /**< an object or message that is not there, or too large */
  TGM_ERROR_IO = 6,          /**< the file system */
  TGM_ERROR_HASH_MISMATCH = 7, /**< a digest differs from that of its bytes */
  TGM_ERROR_INVALID_ARG = 8,   /**< an argument of the call itself */
  TGM_ERROR_END_OF_ITER = 9,   /**< nothing is left to iterate over; not a failure */
  TGM_ERROR_REMOTE = 10,       /**< an address that cannot be read */
  TGM_ERROR_MISSING_HASH = 11, /**< verification was asked for, and there is no digest */
  TGM_ERROR_TIMEOUT = 12,      /**< a task did not end in time */
  TGM_ERROR_CANCELLED = 13     /**< a task was cancelled */
} tgm_error;

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

/** Bytes that belong to the caller, until tgm_bytes_free. */
typedef struct tgm_bytes_t {
  uint8_t* data; /**< not NULL, also where `len` is 0 */
  size_t len;
} tgm_bytes_t;

/** What happens to NaN and infinities when elements are encoded. Where they are allowed,
 * they become zeros, and masks beside the payload say where they were. */
typedef struct TgmEncodeMaskOptions {
  bool allow_nan;
  bool allow_inf; /**< of either sign */
  const char*
      nan_mask_method; /**< "none", "rle", "roaring", "lz4", "zstd"; NULL: roaring */
  const char* pos_inf_mask_method;
  const char* neg_inf_mask_method;
  ptrdiff_t small_mask_threshold_bytes; /**< a mask of up to so many bytes is stored as
                                           bits; negative: 128 */
} TgmEncodeMaskOptions;

typedef struct TgmDecodeMaskOptions {
  bool restore_non_finite; /**< false: masked elements stay zeros */
} TgmDecodeMaskOptions;

/** The place of a message in a buffer. */
typedef struct tgm_scan_entry_t {
  size_t offset;
  size_t length;
} tgm_scan_entry_t;

/** Decoded objects with the metadata of their message; tgm_message_free. */
typedef struct tgm_message_t tgm_message_t;
/** The metadata of a message; tgm_metadata_free. */
typedef struct tgm_metadata_t tgm_metadata_t;
/** A value in a tgm_metadata_t, which owns it: never freed. */
typedef struct tgm_value_t tgm_value_t;
/** A file of messages; tgm_file_close. */
typedef struct tgm_file_t tgm_file_t;
/** Places of messages; tgm_scan_free. */
typedef struct tgm_scan_result_t tgm_scan_result_t;
/** Iterators; tgm_buffer_iter_free, tgm_file_iter_free, tgm_object_iter_free. */
typedef struct tgm_buffer_iter_t tgm_buffer_iter_t;
typedef struct tgm_file_iter_t tgm_file_iter_t;
typedef struct tgm_object_iter_t tgm_object_iter_t;
/** A message that is written object by object; tgm_streaming_encoder_free. */
typedef struct tgm_streaming_encoder_t tgm_streaming_encoder_t;

/* ---- errors and bytes ---------------------------------------------------------------
 */

/** The text of the last failure of this thread: what failed, where, and a hint, over
 * several lines. NULL if nothing has failed yet; a success does not change it. Valid
 * until the next call of this thread. */
TGM_API const char* tgm_last_error(void);
/** A static text for a code, "framing error" for example; "unknown error" for other
 * numbers. Never NULL. */
TGM_API const char* tgm_error_string(tgm_error err);
/** Gives bytes back; `data` may be NULL. */
TGM_API void tgm_bytes_free(tgm_bytes_t buf);

/* ---- encoding -----------------------------------------------------------------------
 */

/** Encodes a message of `num_objects` data objects. `data_ptrs[i]` are the elements of
 * object i in its "byte_order", `data_lens[i]` bytes; both arrays may be NULL for no
 * objects, and an element pointer for no bytes.
 * @error{TGM_ERROR_INVALID_ARG; the number of descriptors differs from `num_objects`}
 * @error{TGM_ERROR_METADATA; also a length that shape and dtype do not give}
 * @error{TGM_ERROR_ENCODING; also NaN or an infinity} */
TGM_API tgm_error tgm_encode(const char* metadata_json, const uint8_t* const* data_ptrs,
                             const size_t* data_lens, size_t num_objects,
                             const char* hash_algo, uint32_t threads, tgm_bytes_t* out);
/** The same, with masks for NaN and infinities; NULL options allow none.
 * @error{TGM_ERROR_INVALID_ARG; also a mask method of no known name} */
TGM_API tgm_error tgm_encode_with_options(const char* metadata_json,
                                          const uint8_t* const* data_ptrs,
                                          const size_t* data_lens, size_t num_objects,
                                          const char* hash_algo, uint32_t threads,
                                          const TgmEncodeMaskOptions* mask_options,
                                          tgm_bytes_t* out);
/** The same for payloads that went through the pipeline of their descriptor before:
 * `data_ptrs[i]` is stored as it is, and only parameters and sizes are checked.
 * @error{TGM_ERROR_METADATA; also a size, or "szip_block_offsets", that cannot be} */
TGM_API tgm_error tgm_encode_pre_encoded(const char* metadata_json,
                                         const uint8_t* const* data_ptrs,
                                         const size_t* data_lens, size_t num_objects,
                                         const char* hash_algo, uint32_t threads,
                                         tgm_bytes_t* out);
/** The digest of bytes as hexadecimal text of 16 digits, without a terminating zero.
 * `algo`: NULL, "xxh3" or "none" all mean XXH3-64. */
TGM_API tgm_error tgm_compute_hash(const uint8_t* data, size_t data_len, const char* algo,
                                   tgm_bytes_t* out);
/** The parameters with which all values fit into so many bits at the finest step:
 * value = reference + 2^binary * 10^-decimal * q.
 * @error{TGM_ERROR_ENCODING; more than 64 bits, a value that is not finite, or a range
 * that is too wide} */
TGM_API tgm_error tgm_simple_packing_compute_params(const double* values,
                                                    size_t num_values,
                                                    uint32_t bits_per_value,
                                                    int32_t decimal_scale_factor,
                                                    double* out_reference_value,
                                                    int32_t* out_binary_scale_factor);

/* ---- decoding -----------------------------------------------------------------------
 */

/** Decodes all objects of the message at the start of `buf`; bytes behind it are not
 * looked at. The handle does not use `buf` afterwards. */
TGM_API tgm_error tgm_decode(const uint8_t* buf, size_t buf_len,
                             int32_t native_byte_order, uint32_t threads,
                             int32_t verify_hash, tgm_message_t** out);
/** The same; NULL options restore NaN and infinities from their masks, as tgm_decode. */
TGM_API tgm_error tgm_decode_with_options(const uint8_t* buf, size_t buf_len,
                                          int32_t native_byte_order, uint32_t threads,
                                          int32_t verify_hash,
                                          const TgmDecodeMaskOptions* mask_options,
                                          tgm_message_t** out);
/** The metadata of the first metadata frame alone. `buf` may hold the beginning of a
 * message: its first frames are enough. Of a stream these are the keys that were known
 * when it began; tgm_message_metadata gives the final ones.
 * @error{TGM_ERROR_FRAMING; also a frame that is not yet complete} */
TGM_API tgm_error tgm_decode_metadata(const uint8_t* buf, size_t buf_len,
                                      tgm_metadata_t** out);
/** Decodes object `index` alone. The message handle has one object, at index 0, and the
 * metadata of the whole message.
 * @error{TGM_ERROR_OBJECT; the message has no such object} */
TGM_API tgm_error tgm_decode_object(const uint8_t* buf, size_t buf_len, size_t index,
                                    int32_t native_byte_order, uint32_t threads,
                                    int32_t verify_hash, tgm_message_t** out);
/** Elements of several ranges of one object, flattened in row-major order: range i has
 * `ranges_counts[i]` elements from `ranges_offsets[i]` on. With `join` they come as one
 * buffer in `out[0]`, and `*out_count` is 1; else `out` has room for `num_ranges`
 * buffers, one per range. Digests are not verified; masked values are restored.
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

/** Finds the messages of a buffer; bytes between them are skipped. */
TGM_API tgm_error tgm_scan(const uint8_t* buf, size_t buf_len, tgm_scan_result_t** out);
/** The messages found; 0 for NULL. */
TGM_API size_t tgm_scan_count(const tgm_scan_result_t* result);
/** {SIZE_MAX, 0}, and a text in tgm_last_error, for an index that is out of range. */
TGM_API tgm_scan_entry_t tgm_scan_entry(const tgm_scan_result_t* result, size_t index);
/** Gives the handle back; NULL is allowed, as in all functions that free. */
TGM_API void tgm_scan_free(tgm_scan_result_t* result);

/* ---- messages and their objects -----------------------------------------------------
 * An index counts the objects of the handle: the one object of tgm_decode_object and of
 * tgm_object_iter_next has index 0. */

/** The version of the format, TGM_WIRE_VERSION; 0 for NULL. */
TGM_API uint64_t tgm_message_version(const tgm_message_t* msg);
/** The objects of the handle; 0 for NULL. */
TGM_API size_t tgm_message_num_objects(const tgm_message_t* msg);
/** The same number. */
TGM_API size_t tgm_message_num_decoded(const tgm_message_t* msg);
/** A handle of its own for the metadata of the whole message, the keys of preceders and
 * of the footer included. It outlives `msg`. */
TGM_API tgm_error tgm_message_metadata(const tgm_message_t* msg, tgm_metadata_t** out);
/** Gives the handle back. Pointers from its accessors end with it. */
TGM_API void tgm_message_free(tgm_message_t* msg);

/** The number of dimensions; 0 for a scalar. */
TGM_API uint64_t tgm_object_ndim(const tgm_message_t* msg, size_t index);
/** tgm_object_ndim() extents, in elements. */
TGM_API const uint64_t* tgm_object_shape(const tgm_message_t* msg, size_t index);
/** tgm_object_ndim() strides, as the descriptor has them. Elements are in row-major order
 * whatever they say. */
TGM_API const uint64_t* tgm_object_strides(const tgm_message_t* msg, size_t index);
/** "float32", "int16", "bitmask", ... */
TGM_API const char* tgm_object_dtype(const tgm_message_t* msg, size_t index);
/** "ntensor" in general. */
TGM_API const char* tgm_object_type(const tgm_message_t* msg, size_t index);
/** "big" or "little": what the file has, whatever order was asked for. */
TGM_API const char* tgm_object_byte_order(const tgm_message_t* msg, size_t index);
/** The decoded elements, not NULL where there are none; `out_len`, which may be NULL,
 * gets their bytes. A bitmask has 8 elements in a byte, the first one highest. */
TGM_API const uint8_t* tgm_object_data(const tgm_message_t* msg, size_t decoded_index,
                                       size_t* out_len);
/** The encoding of the payload: "none" or its name. */
TGM_API const char* tgm_payload_encoding(const tgm_message_t* msg, size_t index);
/** The filter: "none" or its name. */
TGM_API const char* tgm_object_filter(const tgm_message_t* msg, size_t index);
/** The codec: "none" or its name. */
TGM_API const char* tgm_object_compression(const tgm_message_t* msg, size_t index);
/** 1 if the frame of the object holds a digest. */
TGM_API int32_t tgm_payload_has_hash(const tgm_message_t* msg, size_t index);
/** "xxh3"; NULL if there is no digest. */
TGM_API const char* tgm_object_hash_type(const tgm_message_t* msg, size_t index);
/** The digest as 16 hexadecimal digits; NULL if there is none. */
TGM_API const char* tgm_object_hash_value(const tgm_message_t* msg, size_t index);

/* ---- metadata -----------------------------------------------------------------------
 * A path names keys of nested maps, "mars.class" for example; elements of arrays are had
 * through tgm_value_array_get. In the whole message the first match in base[0], base[1],
 * ..., then in "_extra_" counts; "extra." or "_extra_." in front of a path looks in
 * "_extra_" alone. The functions with `_at` look in base[obj_index] alone. "_reserved_"
 * is hidden from paths, and shown by tgm_metadata_object and tgm_metadata_reserved. */

/** The version of the format, TGM_WIRE_VERSION; 0 for NULL. */
TGM_API uint64_t tgm_metadata_version(const tgm_metadata_t* meta);
/** The number of entries in "base", which is that of the objects. */
TGM_API size_t tgm_metadata_num_objects(const tgm_metadata_t* meta);
/** Gives the handle back. Its values and texts end with it. */
TGM_API void tgm_metadata_free(tgm_metadata_t* meta);

/** The value at a path; NULL if it is absent. A value that is null is there. */
TGM_API const tgm_value_t* tgm_metadata_get(const tgm_metadata_t* meta, const char* path);
/** The same in base[obj_index] alone. */
TGM_API const tgm_value_t* tgm_metadata_get_at(const tgm_metadata_t* meta,
                                               size_t obj_index, const char* path);
/** Whether the path leads to a value. */
TGM_API bool tgm_metadata_has(const tgm_metadata_t* meta, const char* path);
/** The same in base[obj_index] alone. */
TGM_API bool tgm_metadata_has_at(const tgm_metadata_t* meta, size_t obj_index,
                                 const char* path);
/** The map base[obj_index], with its "_reserved_". */
TGM_API const tgm_value_t* tgm_metadata_object(const tgm_metadata_t* meta,
                                               size_t obj_index);
/** The map "_extra_" of the message, which may be empty. */
TGM_API const tgm_value_t* tgm_metadata_extra(const tgm_metadata_t* meta);
/** The map "_reserved_" of the message, which may be empty. */
TGM_API const tgm_value_t* tgm_metadata_reserved(const tgm_metadata_t* meta);

/* Shortcuts that convert, and that cannot tell an absent key from a default. Integers,
 * floats and booleans become text; integers become floats. The path "version" is the
 * version of the format, as text and as an integer. */

/** NULL if the path is absent or leads to null, bytes, an array or a map; "" for a text
 * with a zero inside. */
TGM_API const char* tgm_metadata_get_string(const tgm_metadata_t* meta, const char* key);
/** `default_val` if the path is absent or leads to anything but an integer of 64 bits. */
TGM_API int64_t tgm_metadata_get_int(const tgm_metadata_t* meta, const char* key,
                                     int64_t default_val);
/** `default_val` if the path is absent or leads to anything but a number. */
TGM_API double tgm_metadata_get_float(const tgm_metadata_t* meta, const char* key,
                                      double default_val);
/** tgm_metadata_get_string in base[obj_index] alone. */
TGM_API const char* tgm_metadata_get_string_at(const tgm_metadata_t* meta,
                                               size_t obj_index, const char* key);
/** tgm_metadata_get_int in base[obj_index] alone. */
TGM_API int64_t tgm_metadata_get_int_at(const tgm_metadata_t* meta, size_t obj_index,
                                        const char* key, int64_t default_val);
/** tgm_metadata_get_float in base[obj_index] alone. */
TGM_API double tgm_metadata_get_float_at(const tgm_metadata_t* meta, size_t obj_index,
                                         const char* key, double default_val);
/** base[obj_index] as a JSON object. Bytes become hexadecimal text, NaN and infinities
 * null. */
TGM_API const char* tgm_metadata_object_to_json(const tgm_metadata_t* meta,
                                                size_t obj_index);
/** The whole metadata as JSON: {"base", "_reserved_", "_extra_"}, empty parts left out.
 */
TGM_API const char* tgm_metadata_to_json(const tgm_metadata_t* meta);

/* ---- values -------------------------------------------------------------------------
 * Nothing is converted, but for integers that tgm_value_as_f64 widens: a value of another
 * type gives false or NULL. A NULL value has the type null. */

TGM_API tgm_value_type tgm_value_get_type(const tgm_value_t* v);
/** Writes a boolean to `out`. */
TGM_API bool tgm_value_as_bool(const tgm_value_t* v, bool* out);
/** False also if the integer does not fit. */
TGM_API bool tgm_value_as_i64(const tgm_value_t* v, int64_t* out);
/** False also if the integer is negative. */
TGM_API bool tgm_value_as_u64(const tgm_value_t* v, uint64_t* out);
/** A float, or an integer, rounded if it has more than 53 bits. */
TGM_API bool tgm_value_as_f64(const tgm_value_t* v, double* out);
/** UTF-8 text of `*len_out` bytes, which may hold zeros; `len_out` may be NULL. */
TGM_API const char* tgm_value_as_string(const tgm_value_t* v, size_t* len_out);
/** Not NULL for bytes that are none. */
TGM_API const uint8_t* tgm_value_as_bytes(const tgm_value_t* v, size_t* len_out);
/** The items of an array; 0 for all else. */
TGM_API size_t tgm_value_array_len(const tgm_value_t* v);
/** An item; NULL for all else. */
TGM_API const tgm_value_t* tgm_value_array_get(const tgm_value_t* v, size_t index);
/** The entries of a map; 0 for all else. */
TGM_API size_t tgm_value_map_len(const tgm_value_t* v);
/** The key of entry `index`, in canonical order; NULL if it is not a text. */
TGM_API const char* tgm_value_map_key_at(const tgm_value_t* v, size_t index,
                                         size_t* len_out);
/** The value of entry `index`; NULL beyond the last one. */
TGM_API const tgm_value_t* tgm_value_map_value_at(const tgm_value_t* v, size_t index);
/** The value under one key, which is not a path. */
TGM_API const tgm_value_t* tgm_value_map_get(const tgm_value_t* v, const char* key);

/* ---- files --------------------------------------------------------------------------
 * Messages are counted from 0. A file is scanned when it is first asked for, and again
 * after this handle has appended to it; what others append is not seen.
 * @error{TGM_ERROR_OBJECT; the file has no such message} */

/** Opens a file for reading and appending.
 * @error{TGM_ERROR_IO; it is not there or cannot be read} */
TGM_API tgm_error tgm_file_open(const char* path, tgm_file_t** out);
/** Creates an empty file, with the folders above it, or empties the one that is there.
 * @error{TGM_ERROR_IO} */
TGM_API tgm_error tgm_file_create(const char* path, tgm_file_t** out);
/** The path that the file was opened with. */
TGM_API const char* tgm_file_path(const tgm_file_t* file);
/** Gives the handle back. Iterators over the file stay valid. */
TGM_API void tgm_file_close(tgm_file_t* file);
/** Counts the messages. */
TGM_API tgm_error tgm_file_message_count(tgm_file_t* file, size_t* out_count);
/** As tgm_decode. */
TGM_API tgm_error tgm_file_decode_message(tgm_file_t* file, size_t index,
                                          int32_t native_byte_order, uint32_t threads,
                                          int32_t verify_hash, tgm_message_t** out);
/** The bytes of a message as they are. */
TGM_API tgm_error tgm_file_read_message(tgm_file_t* file, size_t index, tgm_bytes_t* out);
/** Appends bytes as they are. After a failure the file is as it was before.
 * @error{TGM_ERROR_IO} */
TGM_API tgm_error tgm_file_append_raw(tgm_file_t* file, const uint8_t* buf,
                                      size_t buf_len);
/** Encodes a message as tgm_encode and appends it. */
TGM_API tgm_error tgm_file_append(tgm_file_t* file, const char* metadata_json,
                                  const uint8_t* const* data_ptrs,
                                  const size_t* data_lens, size_t num_objects,
                                  const char* hash_algo, uint32_t threads);
/** Encodes a message as tgm_encode_with_options and appends it. */
TGM_API tgm_error tgm_file_append_with_options(
    tgm_file_t* file, const char* metadata_json, const uint8_t* const* data_ptrs,
    const size_t* data_lens, size_t num_objects, const char* hash_algo, uint32_t threads,
    const TgmEncodeMaskOptions* mask_options);

/* ---- iteration ----------------------------------------------------------------------
 * Every `next` returns TGM_ERROR_END_OF_ITER behind the last one. */

/** Iterates over the messages of a buffer, which must stay as it is until
 * tgm_buffer_iter_free. */
TGM_API tgm_error tgm_buffer_iter_create(const uint8_t* buf, size_t buf_len,
                                         tgm_buffer_iter_t** out);
/** All messages of the buffer, those passed included. */
TGM_API size_t tgm_buffer_iter_count(const tgm_buffer_iter_t* iter);
/** Points to the next message inside the buffer. */
TGM_API tgm_error tgm_buffer_iter_next(tgm_buffer_iter_t* iter, const uint8_t** out_buf,
                                       size_t* out_len);
/** Gives the handle back. */
TGM_API void tgm_buffer_iter_free(tgm_buffer_iter_t* iter);
/** Iterates over the messages that a file has now. `file` may be closed before. */
TGM_API tgm_error tgm_file_iter_create(tgm_file_t* file, tgm_file_iter_t** out);
/** The bytes of the next message. After a failure the next call goes on behind it. */
TGM_API tgm_error tgm_file_iter_next(tgm_file_iter_t* iter, tgm_bytes_t* out);
/** Gives the handle back. */
TGM_API void tgm_file_iter_free(tgm_file_iter_t* iter);
/** Iterates over the objects of the message at the start of `buf`, whose bytes the
 * iterator copies. */
TGM_API tgm_error tgm_object_iter_create(const uint8_t* buf, size_t buf_len,
                                         int32_t native_byte_order, int32_t verify_hash,
                                         tgm_object_iter_t** out);
/** Decodes the next object into a message of its own, which has the metadata of the whole
 * message. After a failure the next call goes on behind the object. */
TGM_API tgm_error tgm_object_iter_next(tgm_object_iter_t* iter, tgm_message_t** out);
/** Gives the handle back. Messages that it made stay valid. */
TGM_API void tgm_object_iter_free(tgm_object_iter_t* iter);

/* ---- streaming ----------------------------------------------------------------------
 * A message is written to a file object by object, without being held in memory. The
 * encoder is used by one thread at a time. After tgm_streaming_encoder_finish every
 * further call returns TGM_ERROR_INVALID_ARG. A failure to write is TGM_ERROR_IO, and
 * from then on every call repeats it; an object that is refused for itself leaves no
 * trace. */

/** Creates the file, or empties it, and writes the beginning of the message. In
 * `metadata_json` "descriptors" has no meaning of its own. */
TGM_API tgm_error tgm_streaming_encoder_create(const char* path,
                                               const char* metadata_json,
                                               const char* hash_algo, uint32_t threads,
                                               tgm_streaming_encoder_t** out);
/** The same, with masks for NaN and infinities; NULL options allow none. */
TGM_API tgm_error tgm_streaming_encoder_create_with_options(
    const char* path, const char* metadata_json, const char* hash_algo, uint32_t threads,
    const TgmEncodeMaskOptions* mask_options, tgm_streaming_encoder_t** out);
/** Metadata of the next object, a JSON object, which goes in front of it.
 * @error{TGM_ERROR_FRAMING; the one before has not got its object yet} */
TGM_API tgm_error tgm_streaming_encoder_write_preceder(tgm_streaming_encoder_t* enc,
                                                       const char* metadata_json);
/** Encodes and writes one object, `data_len` bytes of elements. */
TGM_API tgm_error tgm_streaming_encoder_write(tgm_streaming_encoder_t* enc,
                                              const char* descriptor_json,
                                              const uint8_t* data, size_t data_len);
/** Writes one object whose payload went through its pipeline before. */
TGM_API tgm_error tgm_streaming_encoder_write_pre_encoded(tgm_streaming_encoder_t* enc,
                                                          const char* descriptor_json,
                                                          const uint8_t* data,
                                                          size_t data_len);
/** Objects written so far; 0 once the stream is finished. */
TGM_API size_t tgm_streaming_encoder_count(const tgm_streaming_encoder_t* enc);
/** Writes the footer and closes the file. The handle is freed all the same.
 * @error{TGM_ERROR_FRAMING; a preceder has not got its object} */
TGM_API tgm_error tgm_streaming_encoder_finish(tgm_streaming_encoder_t* enc);
/** A stream that is not finished stays in the file as it is, and is no valid message. */
TGM_API void tgm_streaming_encoder_free(tgm_streaming_encoder_t* enc);

/* ---- validation ---------------------------------------------------------------------
 * `level`: "quick" (structure), "default" or NULL (also metadata, digests and a trial
 * decode), "checksum" (digests instead of a trial decode), "full" (also values that are
 * not finite). `check_canonical` also warns of CBOR that is not canonical. What is wrong
 * is in the report, JSON without a terminating zero, and not in the code.
 * @error{TGM_ERROR_INVALID_ARG; a level of no known name} */

/** Judges one message: {"issues", "object_count", "hash_verified"}. `buf` may be NULL for
 * no bytes. */
TGM_API tgm_error tgm_validate(const uint8_t* buf, size_t buf_len, const char* level,
                               int32_t check_canonical, tgm_bytes_t* out);
/** Judges a file: {"file_issues", "messages"}, one report for each message.
 * @error{TGM_ERROR_IO; it is not there or cannot be read} */
TGM_API tgm_error tgm_validate_file(const char* path, const char* level,
                                    int32_t check_canonical, tgm_bytes_t* out);
/** What this build can do, tried out: {"build", "features", "self_test"} as JSON. */
TGM_API tgm_error tgm_doctor_to_json(tgm_bytes_t* out);

#ifdef __cplusplus
}
#endif

/* The asynchronous functions are a part of this interface. */
#include "tensogram_async.h"

#endif
