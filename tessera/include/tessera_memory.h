/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Memory beyond the specification of Tessera: allocators, copies of rows and of single
 * ranks, pools, properties of addresses, and tensors of other libraries by DLPack.
 * tessera_ext.h includes this header and gives its conventions. C89, C99 and C++.
 * @source{docs/tessera.md, memory}
 */
#ifndef TESSERA_MEMORY_H_
#define TESSERA_MEMORY_H_

#include <stdint.h>

#include "tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Addresses and allocators */

/** Kinds of memory that an address can lie in. */
typedef enum {
  TESS_POINTER_UNKNOWN = 0,    /**< memory that the context does not know */
  TESS_POINTER_DEVICE = 1,     /**< memory of tessMalloc or tessMallocAsync */
  TESS_POINTER_HOST = 2,       /**< memory of tessHostAlloc */
  TESS_POINTER_REGISTERED = 3, /**< memory of tessHostRegister */
  TESS_POINTER_IMPORTED = 4    /**< an import or external memory */
} tessPointerKind;

/** The allocation that an address lies in. */
typedef struct {
  uint32_t structSize; /**< size of this structure in bytes */
  int32_t kind;        /**< tessPointerKind */
  int32_t device;      /**< ordinal of the device, or -1 for the host */
  int32_t rank;        /**< rank of the instance that the address lies in */
  void* base;          /**< begin of the allocation on rank 0 */
  size_t bytes;        /**< size of one instance in bytes */
  size_t offset;       /**< offset of the address in its instance in bytes */
} tessPointerAttributes;

/** Describes the allocation that `ptr` lies in. An unknown address is no error. */
TESS_API tessStatus_t tessPointerGetAttributes(tessContext_t ctx, const void* ptr,
                                               tessPointerAttributes* attributes);

/** Returns `bytes` bytes at a multiple of `alignment`, or NULL.
 * @threads{called from any thread, also from several at once} */
typedef void* (*tessAllocFn)(size_t bytes, size_t alignment, void* user);
/** Takes back the `bytes` bytes at `address` that the allocator gave.
 * @threads{called from any thread, also after tessShutdown where an export keeps memory}
 */
typedef void (*tessReleaseFn)(void* address, size_t bytes, void* user);
/** Sets where contexts that are made from now on take the memory of their devices and of
 * tessHostAlloc from. Both NULL: from the system.
 * @error{TESS_ERR_INVALID_VALUE; only one of the functions is NULL} */
TESS_API tessStatus_t tessSetAllocator(tessAllocFn alloc, tessReleaseFn release,
                                       void* user);

/** Writes the address of the instance that rank `rank` has of the memory at `devPtr`.
 * @error{TESS_ERR_INVALID_VALUE; `devPtr` is not memory of the mesh, or there is no
 * such rank} */
TESS_API tessStatus_t tessMemGetRankPtr(tessMesh_t mesh, void* devPtr, int rank,
                                        void** rankPtr);
/** Writes the free and the total memory of the device of a rank. Each pointer may be
 * NULL. @units{bytes}
 * @error{TESS_ERR_INVALID_VALUE; there is no such rank} */
TESS_API tessStatus_t tessMemGetInfo(tessMesh_t mesh, int rank, size_t* freeBytes,
                                     size_t* totalBytes);
/** Makes memory of the program known to one of the contexts, as a CUDA program would pin
 * it. It must stay valid until tessHostUnregister.
 * @error{TESS_ERR_INVALID_VALUE; NULL, no bytes, or known memory overlaps the range} */
TESS_API tessStatus_t tessHostRegister(void* hostPtr, size_t bytes);
/** Forgets memory of tessHostRegister. No work may use it any more.
 * @error{TESS_ERR_INVALID_VALUE; the address is not the start of a registered range} */
TESS_API tessStatus_t tessHostUnregister(void* hostPtr);

/* Copies and fills */

/** Sets `bytes` bytes of the instances of all ranks to `value`, in the order of the
 * stream. On a rank-bound stream only the instance of that rank. Only the low 8 bits of
 * `value` count. 0 bytes do nothing.
 * @error{TESS_ERR_INVALID_VALUE; the range leaves its allocation} */
TESS_API tessStatus_t tessMemsetAsync(void* devPtr, int value, size_t bytes,
                                      tessStream_t stream);
/** Copies as tessMemcpyAsync, but only to or from the instance of rank `rank`. A
 * rank-bound stream takes its own rank only.
 * @error{TESS_ERR_INVALID_VALUE; no such rank, and the errors of tessMemcpyAsync} */
TESS_API tessStatus_t tessMemcpyRankAsync(void* dst, const void* src, size_t bytes,
                                          tessCopyKind kind, int rank,
                                          tessStream_t stream);
/** Direction from host to host, for all functions that take a tessCopyKind. */
enum { TESS_COPY_H2H = 3 };

/** A copy of rows of bytes. */
typedef struct {
  uint32_t structSize; /**< size of this structure in bytes */
  int32_t kind;        /**< tessCopyKind, or TESS_COPY_H2H */
  void* dst;           /**< first byte of the first row that is written */
  const void* src;     /**< first byte of the first row that is read */
  size_t width;        /**< bytes of a row */
  size_t height;       /**< number of rows; 0 counts as 1 */
  int32_t rank;        /**< rank of tessMemcpyRankAsync, or -1 for tessMemcpyAsync */
  int32_t reserved;    /**< 0 */
  size_t dstPitch;     /**< bytes from row to row at `dst`, at least `width` */
  size_t srcPitch;     /**< bytes from row to row at `src`, at least `width` */
} tessCopyDesc;

/** Copies rows in the order of the stream. All bytes from the first row to the last lie
 * in one allocation on each side, and other operations on any of these bytes are ordered
 * with the copy. Rows that are read and rows that are written may alternate in memory but
 * must not overlap. The pitches of a single row do not matter.
 * @error{TESS_ERR_INVALID_VALUE; a pitch is below the width, and the errors of
 * tessMemcpyAsync} */
TESS_API tessStatus_t tessCopyAsync(const tessCopyDesc* desc, tessStream_t stream);
/** Copies rows as tessCopyAsync. A width or height of 0 copies nothing.
 * @units{pitches and width: bytes; height: rows}
 * @error{TESS_ERR_INVALID_VALUE; the errors of tessCopyAsync} */
TESS_API tessStatus_t tessMemcpy2DAsync(void* dst, size_t dstPitch, const void* src,
                                        size_t srcPitch, size_t width, size_t height,
                                        tessCopyKind kind, tessStream_t stream);

/* Memory in the order of a stream */

/** Allocates `bytes` bytes on the devices of the mesh from its pool, in the order of the
 * stream. Other streams may use the memory behind the operations that this stream has
 * now. It counts against the limit of the stream until it is given back. In a capture the
 * memory belongs to the graph: tessStreamBeginCapture. 0 bytes give NULL.
 * @error{TESS_ERR_OUT_OF_MEMORY; the device or the limit of the stream has not enough} */
TESS_API tessStatus_t tessMallocAsync(void** devPtr, size_t bytes, tessStream_t stream);
/** Gives memory back behind the operations that the stream has now. Memory of
 * tessMallocAsync goes to the pool of the mesh, which keeps it for requests of the same
 * size: of this stream at once, of other streams when this stream is that far. NULL does
 * nothing.
 * @error{TESS_ERR_INVALID_VALUE; the address is not the start of an allocation of the
 * mesh, or a capture took it} */
TESS_API tessStatus_t tessFreeAsync(void* devPtr, tessStream_t stream);

/** State of the pool of a mesh. All sizes are in bytes of one instance. */
typedef struct {
  uint32_t structSize;      /**< size of this structure in bytes */
  uint32_t reserved;        /**< 0 */
  size_t usedBytes;         /**< handed out by tessMallocAsync and not given back */
  size_t usedPeakBytes;     /**< largest value that usedBytes has had */
  size_t reservedBytes;     /**< handed out or kept */
  size_t reservedPeakBytes; /**< largest value that reservedBytes has had */
  size_t keepBytes;         /**< limit of kept memory; 64 MiB at first */
  uint64_t reuses;          /**< requests that kept memory has served */
} tessMemPoolStats;

/** Writes the state of the pool of a mesh. */
TESS_API tessStatus_t tessMemPoolGetStats(tessMesh_t mesh, tessMemPoolStats* stats);
/** Sets how much given back memory the pool keeps from now on. @units{bytes of one
 * instance; 0: none} */
TESS_API tessStatus_t tessMemPoolSetKeep(tessMesh_t mesh, size_t bytes);
/** Frees kept memory, the oldest first, until the pool keeps at most `bytes` bytes. */
TESS_API tessStatus_t tessMemPoolTrim(tessMesh_t mesh, size_t bytes);
/** Writes how much memory of tessMallocAsync the stream holds, and its limit (0: none).
 * Each pointer may be NULL. @units{bytes of one instance} */
TESS_API tessStatus_t tessStreamGetMemoryUse(tessStream_t stream, size_t* usedBytes,
                                             size_t* limitBytes);

/* Tensors of other libraries: DLPack 1.x */

/** Flags of tensors. */
enum {
  TESS_TENSOR_READ_ONLY = 1 << 0,  /**< the receiver must not write */
  TESS_TENSOR_UNVERSIONED = 1 << 1 /**< a DLManagedTensor: the form before DLPack 1.0 */
};

/** Shape and type of a tensor that is to be exported. */
typedef struct {
  uint32_t structSize;    /**< size of this structure in bytes */
  int32_t dtype;          /**< TESS_FP32 and so on, or 32 to 35: uint8, 16, 32, 64 */
  int32_t ndim;           /**< number of dimensions, 0 to 64 */
  int32_t rank;           /**< rank of the instance, if the address is one on rank 0 */
  const int64_t* shape;   /**< `ndim` extents in elements */
  const int64_t* strides; /**< `ndim` strides in elements; NULL: row-major */
  uint32_t flags;         /**< TESS_TENSOR_* */
  uint32_t reserved;      /**< 0 */
} tessTensorDesc;

/** Shape and type of a tensor that was imported. `shape` and `strides` belong to the
 * tensor. */
typedef struct {
  uint32_t structSize;    /**< size of this structure in bytes */
  int32_t dtype;          /**< type of the elements, as in tessTensorDesc */
  int32_t ndim;           /**< number of dimensions */
  int32_t readOnly;       /**< 1 if the memory must not be written */
  const int64_t* shape;   /**< extents in elements */
  const int64_t* strides; /**< strides in elements; NULL: row-major */
  void* data;             /**< address of element 0 */
  void* begin;            /**< lowest byte of any element */
  size_t bytes;           /**< bytes from `begin` to the end of the highest element */
} tessTensorInfo;

/** Makes a DLManagedTensorVersioned (or, by flag, a DLManagedTensor) over memory of the
 * context, without a copy. `ptr` is the address of element 0. The receiver calls its
 * deleter; until then the tensor keeps the memory, also past tessFree and tessShutdown.
 * Does not wait: before, synchronize the stream that writes the memory, or order it with
 * the consumer's stream by tessNativeWaitStream.
 * @error{TESS_ERR_INVALID_VALUE; unknown memory, or the tensor leaves its allocation}
 * @error{TESS_ERR_UNSUPPORTED; DLPack has no such type of elements, or a DLManagedTensor
 * would have to be read-only, which it cannot say} */
TESS_API tessStatus_t tessMemExportDlpack(tessContext_t ctx, const void* ptr,
                                          const tessTensorDesc* desc, void** managed);
/** Takes over a tensor in memory of the host, or of a GPU of the context, without a copy.
 * Its bytes become memory of device `device`, or of the host if that is -1. Its deleter
 * is called once, on any thread, after tessMemReleaseImported or tessShutdown when no
 * work uses the memory. If the call fails, the tensor stays with the caller. `flags` is 0
 * or TESS_TENSOR_UNVERSIONED.
 * @error{TESS_ERR_UNSUPPORTED; memory of another kind of device, or an unknown type of
 * elements}
 * @error{TESS_ERR_ABI_VERSION_MISMATCH; another major version of DLPack}
 * @error{TESS_ERR_INVALID_VALUE; the tensor is malformed, there is no such device, or
 * known memory overlaps a part of the tensor} */
TESS_API tessStatus_t tessMemImportDlpack(tessContext_t ctx, void* managed,
                                          unsigned flags, int device,
                                          tessTensorInfo* info);
/** Makes memory of the program known as memory of device `device`, or of the host if that
 * is -1. It must stay valid until tessMemReleaseImported and the end of the work on it.
 * @error{TESS_ERR_INVALID_VALUE; NULL, no bytes, no such device, or known memory overlaps
 * a part of the range} */
TESS_API tessStatus_t tessMemRegisterExternal(tessContext_t ctx, void* ptr, size_t bytes,
                                              int device);
/** Forgets an import that begins at `begin`, or external memory.
 * @error{TESS_ERR_INVALID_VALUE; no import or external memory begins there} */
TESS_API tessStatus_t tessMemReleaseImported(tessContext_t ctx, void* begin);

#ifdef __cplusplus
}
#endif

#endif
