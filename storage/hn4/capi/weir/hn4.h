// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tensor stream of HN4 volumes for C: the shards of one tag as one run of bytes.
///
/// Results are 0 (or 3 for a hole that was read as zeros) or negative; the numbers are
/// those of the format's reference implementation. Handles are opaque; `out` parameters
/// are set on success only. No function throws.
#ifndef WEIR_HN4_H
#define WEIR_HN4_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t hn4_result_t;
typedef struct hn4_volume_t hn4_volume_t;
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

/** Accept, order, read and refuse exactly what the reference implementation does. A shard
 * whose directory entry is damaged or gone is left out without an error, as there. */
#define HN4_VOLUME_STRICT 1u
/** Read what is left of a tag that has lost shards. Without this, opening a tag is
 * HN4_ERR_DATA_ROT where the directory shows, by a damaged entry, a missing number or
 * blocks in use by nobody, that a shard of it may be lost. */
#define HN4_VOLUME_RECOVER 2u

/** Opens a volume for reading. */
hn4_result_t hn4_volume_open(const char* path, uint32_t flags, hn4_volume_t** vol);
/** Closes it; BUSY while tensor contexts are open. A null handle is closed already. */
hn4_result_t hn4_volume_close(hn4_volume_t* vol);

/** Finds the shards of a tag and maps them to one stream. */
hn4_result_t hn4_tensor_open(hn4_volume_t* vol, const char* model_tag,
                             hn4_tensor_ctx_t** out);
/**
 * Copies bytes of the stream; cut at its end. An offset at or behind the end is
 * INVALID_ARGUMENT unless `len` is 0. After an error the content of `buf` is undefined.
 * May be called by several threads at once on one context.
 */
hn4_result_t hn4_tensor_read(hn4_tensor_ctx_t* ctx, uint64_t global_offset, void* buf,
                             uint64_t len);
/** The same; `count` is set to the bytes that were verified, also after an error. */
hn4_result_t hn4_tensor_read_count(hn4_tensor_ctx_t* ctx, uint64_t global_offset,
                                   void* buf, uint64_t len, uint64_t* count);
/** Frees a context; null does nothing. */
void hn4_tensor_close(hn4_tensor_ctx_t* ctx);

/** Bytes of the stream; 0 for null. */
uint64_t hn4_tensor_size(const hn4_tensor_ctx_t* ctx);
/** Shards of the stream; 0 for null. */
uint32_t hn4_tensor_shard_count(const hn4_tensor_ctx_t* ctx);

/** "PAYLOAD_ROT" for -0x451; "UNKNOWN" for other numbers. */
const char* hn4_result_name(hn4_result_t result);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_HN4_H */
