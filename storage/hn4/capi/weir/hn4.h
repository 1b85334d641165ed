// SPDX-License-Identifier: Apache-2.0
/// @file
/// C interface to the tensor stream of HN4 volumes: it reads the shards of one tag as one
/// run of bytes.
///
/// Conventions of all functions:
/// - Results are those of the reference implementation of the format: 0 for success, 3
/// for
///   success that ended in a hole, which was read as zeros, and negative numbers for
///   errors. `hn4_result_name` returns their names.
/// - Handles are opaque. The caller closes what it has opened: first the tensor contexts
///   of a volume, then the volume.
/// - Output parameters are set only on success, unless the function says otherwise.
/// - A null pointer is HN4_ERR_INVALID_ARGUMENT, except where a function allows it.
/// - Several threads may use one volume and one context at the same time; closing needs
///   that no other thread uses the handle.
/// - No function throws an exception. Memory that cannot be had is HN4_ERR_NOMEM.
/// Source: HN4 Tensor Stream Layer 2.1.
#ifndef WEIR_HN4_H
#define WEIR_HN4_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Result of a call: one of the numbers below or of the reference implementation. */
typedef int32_t hn4_result_t;
/** An open volume. */
typedef struct hn4_volume_t hn4_volume_t;
/** The stream of one tag of an open volume. */
typedef struct hn4_tensor_ctx_t hn4_tensor_ctx_t;

#define HN4_OK 0
#define HN4_INFO_SPARSE 3
#define HN4_ERR_NOT_FOUND (-0x200)
#define HN4_ERR_TAG_OVERFLOW (-0x203)
#define HN4_ERR_HW_IO (-0x400)
#define HN4_ERR_DATA_ROT (-0x401)
#define HN4_ERR_PHANTOM_BLOCK (-0x403)
#define HN4_ERR_HEADER_ROT (-0x450)
#define HN4_ERR_PAYLOAD_ROT (-0x451)
#define HN4_ERR_GENERATION_SKEW (-0x500)
#define HN4_ERR_BAD_SUPERBLOCK (-0x600)
#define HN4_ERR_NOMEM (-0x602)
#define HN4_ERR_GEOMETRY (-0x608)
#define HN4_ERR_INVALID_ARGUMENT (-0x609)
#define HN4_ERR_BUSY (-0x615)

/** Flag: accepts, orders, reads and refuses exactly what the reference implementation
 * does. A shard whose directory entry is damaged or gone is left out without an error. */
#define HN4_VOLUME_STRICT 1u
/** Flag: reads what is left of a tag that has lost shards. Without it, opening a tag
 * fails with HN4_ERR_DATA_ROT if the directory shows that a shard of it may be lost: by a
 * damaged entry, a missing number, or allocated blocks that no entry names. */
#define HN4_VOLUME_RECOVER 2u

/** Opens the volume in a file or block device for reading.
 * `flags` is 0 or a combination of HN4_VOLUME_STRICT and HN4_VOLUME_RECOVER.
 * HN4_ERR_NOT_FOUND: there is no such file; HN4_ERR_BAD_SUPERBLOCK: no superblock is
 * valid; HN4_ERR_GEOMETRY: the layout contradicts itself or the file is too short. */
hn4_result_t hn4_volume_open(const char* path, uint32_t flags, hn4_volume_t** vol);
/** Closes a volume; null does nothing. HN4_ERR_BUSY: tensor contexts are still open. */
hn4_result_t hn4_volume_close(hn4_volume_t* vol);

/** Opens a tag: finds its shards and maps them to one stream.
 * HN4_ERR_NOT_FOUND: there is no such tag; HN4_ERR_TAG_OVERFLOW: it has too many shards;
 * HN4_ERR_DATA_ROT: a shard of it is lost or may be. */
hn4_result_t hn4_tensor_open(hn4_volume_t* vol, const char* model_tag,
                             hn4_tensor_ctx_t** out);
/**
 * Copies `len` bytes of the stream from `global_offset` on, fewer at its end.
 *
 * HN4_ERR_INVALID_ARGUMENT: the offset is at or behind the end and `len` is not 0;
 * HN4_ERR_HEADER_ROT, HN4_ERR_PAYLOAD_ROT, HN4_ERR_PHANTOM_BLOCK,
 * HN4_ERR_GENERATION_SKEW: a block is damaged or another one; HN4_ERR_HW_IO: the device
 * reports an error. After an error the content of `buf` is unspecified.
 */
hn4_result_t hn4_tensor_read(hn4_tensor_ctx_t* ctx, uint64_t global_offset, void* buf,
                             uint64_t len);
/** Reads as `hn4_tensor_read` does, and sets `count` to the number of verified bytes from
 * the front, after an error, too. `count` may be null. */
hn4_result_t hn4_tensor_read_count(hn4_tensor_ctx_t* ctx, uint64_t global_offset,
                                   void* buf, uint64_t len, uint64_t* count);
/** Closes a context; null does nothing. */
void hn4_tensor_close(hn4_tensor_ctx_t* ctx);

/** Returns the length of the stream in bytes; 0 for null. */
uint64_t hn4_tensor_size(const hn4_tensor_ctx_t* ctx);
/** Returns the number of shards of the stream; 0 for null. */
uint32_t hn4_tensor_shard_count(const hn4_tensor_ctx_t* ctx);

/** Returns the name of a result, such as "PAYLOAD_ROT" for -0x451, or "UNKNOWN". The text
 * is constant. */
const char* hn4_result_name(hn4_result_t result);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_HN4_H */
