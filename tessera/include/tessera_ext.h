/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What the Tessera runtime offers beyond its specification. Structures begin with
 * `structSize`, which the caller sets; they only ever grow at their end. Of a description
 * that is shorter or longer than the library's, members that lie wholly inside the size
 * count; bytes that the library does not know, and reserved members, have to be 0. C89,
 * C99 and C++; every function may be called from any thread. Sizes and counts that a call
 * fills a caller's buffer by follow one rule: a null buffer asks for the size.
 * @source{docs/tessera.md}
 */
#ifndef TESSERA_EXT_H_
#define TESSERA_EXT_H_

#include <stdint.h>

#include "tessera.h"
#include "tessera_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors */

/** Text of a status for people: "invalid argument or configuration". */
TESS_API const char* tessGetErrorString(tessStatus_t status);
/** Name of a status: "TESS_ERR_INVALID_VALUE". */
TESS_API const char* tessGetErrorName(tessStatus_t status);
/** The same as tessGetErrorString. */
TESS_API const char* tessStatusString(tessStatus_t status);
/** What went wrong in the last call of this thread that failed; never null. Valid until
 * the next call of the thread. */
TESS_API const char* tessGetLastErrorMessage(void);
/** Message of the failure that a stream's synchronization returned last. `size` holds the
 *  bytes of `buffer` and gets those of the text, its terminating zero included. */
TESS_API tessStatus_t tessStreamGetLastMessage(tessStream_t stream, char* buffer,
                                               size_t* size);

typedef enum { TESS_LOG_INFO = 1, TESS_LOG_DEBUG = 2, TESS_LOG_TRACE = 3 } tessLogLevel;
typedef void (*tessLogFn)(tessLogLevel level, const char* text, void* user);
/** Contexts made from now on log to `fn`, from any thread; null: to standard error, as
 * TESS_LOG_LEVEL says. `fn` gets lines of the level info always, others as the variable
 * says. It may call what neither enqueues nor waits. */
TESS_API tessStatus_t tessSetLogCallback(tessLogFn fn, void* user);

/** The function of this name, for programs that load the library; null if there is none
 * in an ABI of that minor version. */
TESS_API void (*tessGetProcAddress(const char* name, int minAbiMinor))(void);

/* Devices and meshes */

typedef struct {
  uint32_t structSize;
  int32_t ordinal;
  char name[64];
  char backend[16];
  char arch[32];    /**< what code it runs, e.g. "x86-64-v3" */
  size_t memory;    /**< bytes that can be allocated */
  size_t alignment; /**< of every allocation */
  int32_t maxGrid[3];
  int32_t maxBlock[3];
  int32_t maxThreads; /**< of a block */
  int32_t maxPersistentBlocks;
  size_t maxSharedBytes;
} tessDeviceProps;

TESS_API tessStatus_t tessDeviceGetCount(tessContext_t ctx, int* count);
TESS_API tessStatus_t tessDeviceGetProps(tessContext_t ctx, int device,
                                         tessDeviceProps* props);

typedef struct {
  uint32_t structSize;
  int32_t nDevices;
  tessMeshAxes axes; /**< as sizes: 1 for axes that are absent */
} tessMeshInfo;

TESS_API tessStatus_t tessMeshGetInfo(tessMesh_t mesh, tessMeshInfo* info);
/** Place of a rank along tp, pp, dp, ep. */
TESS_API tessStatus_t tessMeshRankCoords(tessMesh_t mesh, int rank, int coords[4]);
/** Ranks of the group that `rank` is in, ascending. `count` holds the room in `ranks`. */
TESS_API tessStatus_t tessMeshAxisGroup(tessMesh_t mesh, const char* axis, int rank,
                                        int* ranks, int* count);

/* Streams and events */

typedef struct {
  uint32_t structSize;
  int32_t priority; /**< lower is more urgent; see tessStreamGetPriorityRange */
  int32_t rank;     /**< bound to this rank: collectives on it are its share; -1: none */
  int32_t reserved;
  size_t memoryLimit; /**< bytes of tessMallocAsync, scratch and shared; 0: default */
  int64_t timeoutMs;  /**< of tessStreamSynchronize; 0: none, -1: the default */
} tessStreamDesc;

TESS_API tessStatus_t tessStreamCreateEx(tessMesh_t mesh, const tessStreamDesc* desc,
                                         tessStream_t* stream);
/** `done` is 1 if all that the stream was given has ended. If some of it has failed, the
 * status says so, again and again: the failure stays for tessStreamSynchronize. */
TESS_API tessStatus_t tessStreamQuery(tessStream_t stream, int* done);
/** `capturing` is 1 between tessStreamBeginCapture and tessStreamEndCapture, also on
 * streams that have joined by waiting for an event. */
TESS_API tessStatus_t tessStreamIsCapturing(tessStream_t stream, int* capturing);
/** The priorities that make a difference; others count as the nearest. `least` is that of
 * streams that say nothing. Either may be null. Needs no context. */
TESS_API tessStatus_t tessStreamGetPriorityRange(int* least, int* greatest);

typedef struct {
  uint32_t structSize;
  int32_t priority; /**< within the range */
  int32_t rank;     /**< that it is bound to, or -1 */
  int32_t nLanes;   /**< one for each device that it runs on */
  uint64_t id;      /**< its number in traces, graphs and tessDeterminism */
  int32_t capturing;
  int32_t reserved;
} tessStreamInfo;

TESS_API tessStatus_t tessStreamGetInfo(tessStream_t stream, tessStreamInfo* info);
TESS_API tessStatus_t tessStreamSetTimeout(tessStream_t stream, int64_t milliseconds);
TESS_API tessStatus_t tessStreamSetMemoryLimit(tessStream_t stream, size_t bytes);
/** Asks persistent kernels that run on the stream to stop. */
TESS_API tessStatus_t tessStreamRequestStop(tessStream_t stream);
/** Calls `fn(user)` in the stream's order, on a thread of the runtime. It may make no
 * call that enqueues or waits: those return TESS_ERR_INVALID_VALUE there. */
TESS_API tessStatus_t tessLaunchHostFunc(tessStream_t stream, void (*fn)(void* user),
                                         void* user);

/** `done` is 1 if the stream has got as far as the event. The status is that of what
 * failed before it, which stays for the stream's synchronization. */
TESS_API tessStatus_t tessEventQuery(tessEvent_t event, int* done);
TESS_API tessStatus_t tessEventSynchronize(tessEvent_t event);
/** Milliseconds between two recorded events that have been reached. */
TESS_API tessStatus_t tessEventElapsedTime(float* milliseconds, tessEvent_t start,
                                           tessEvent_t end);

/* Memory */

typedef enum {
  TESS_POINTER_UNKNOWN = 0, /**< not known: memory of the program */
  TESS_POINTER_DEVICE = 1,
  TESS_POINTER_HOST = 2,       /**< of tessHostAlloc */
  TESS_POINTER_REGISTERED = 3, /**< of tessHostRegister */
  TESS_POINTER_IMPORTED = 4
} tessPointerKind;

typedef struct {
  uint32_t structSize;
  int32_t kind;   /**< tessPointerKind */
  int32_t device; /**< ordinal, or -1 */
  int32_t rank;   /**< of the instance that the address lies in */
  void* base;     /**< where the allocation begins, on rank 0 */
  size_t bytes;   /**< of one instance */
  size_t offset;  /**< of the address in its instance */
} tessPointerAttributes;

typedef void* (*tessAllocFn)(size_t bytes, size_t alignment, void* user);
typedef void (*tessReleaseFn)(void* at, size_t bytes, void* user);
/** Contexts made from now on take the memory of their devices and of tessHostAlloc from
 * `alloc`, which returns `bytes` bytes at a multiple of `alignment`, or null; both null:
 * from the system. Any thread calls them, also past tessShutdown where an export keeps
 * memory. */
TESS_API tessStatus_t tessSetAllocator(tessAllocFn alloc, tessReleaseFn release,
                                       void* user);
TESS_API tessStatus_t tessMemsetAsync(void* devPtr, int value, size_t bytes,
                                      tessStream_t stream);
/** As tessMemcpyAsync, but only the instance of one rank: on a stream that is bound to a
 * rank, of that one. */
TESS_API tessStatus_t tessMemcpyRankAsync(void* dst, const void* src, size_t bytes,
                                          tessCopyKind kind, int rank,
                                          tessStream_t stream);
/** From host to host, for all calls that take a tessCopyKind. */
enum { TESS_COPY_H2H = 3 };

/** Rows of bytes from one place to another. */
typedef struct {
  uint32_t structSize;
  int32_t kind; /**< tessCopyKind, or TESS_COPY_H2H */
  void* dst;
  const void* src;
  size_t width;  /**< bytes of a row */
  size_t height; /**< rows; 0: one */
  int32_t rank;  /**< as of tessMemcpyRankAsync; -1: as of tessMemcpyAsync */
  int32_t reserved;
  size_t dstPitch, srcPitch; /**< from row to row, at least `width`; not of one row */
} tessCopyDesc;

/** Copies the rows in the order of the stream. On both sides all bytes from the first row
 * to the last have to lie in one allocation, and other operations on any of them are
 * ordered with the copy. What is read and what is written may lie between each other but
 * must not overlap. TESS_ERR_INVALID_VALUE: as tessMemcpyAsync, pitch below width. */
TESS_API tessStatus_t tessCopyAsync(const tessCopyDesc* desc, tessStream_t stream);
/** The same as one call. A width or height of 0 copies nothing. */
TESS_API tessStatus_t tessMemcpy2DAsync(void* dst, size_t dstPitch, const void* src,
                                        size_t srcPitch, size_t width, size_t height,
                                        tessCopyKind kind, tessStream_t stream);
/** Address of the rank's own instance. */
TESS_API tessStatus_t tessMemGetRankPtr(tessMesh_t mesh, void* devPtr, int rank,
                                        void** rankPtr);
TESS_API tessStatus_t tessMemGetInfo(tessMesh_t mesh, int rank, size_t* freeBytes,
                                     size_t* totalBytes);
TESS_API tessStatus_t tessPointerGetAttributes(tessContext_t ctx, const void* ptr,
                                               tessPointerAttributes* attributes);
/** Memory on the stream's mesh that other streams may use behind what the stream has now.
 * It counts against the stream's limit until it is given back. */
TESS_API tessStatus_t tessMallocAsync(void** devPtr, size_t bytes, tessStream_t stream);
/** Gives memory back behind what the stream has now. What tessMallocAsync gave goes to
 * the pool of the mesh, which keeps it for requests of as many bytes: of this stream at
 * once, of others when the stream is that far. */
TESS_API tessStatus_t tessFreeAsync(void* devPtr, tessStream_t stream);

/** A mesh's pool. Bytes are those of one instance. */
typedef struct {
  uint32_t structSize;
  uint32_t reserved;
  size_t usedBytes; /**< handed out by tessMallocAsync and not given back */
  size_t usedPeakBytes;
  size_t reservedBytes; /**< handed out or kept */
  size_t reservedPeakBytes;
  size_t keepBytes; /**< most that is kept; 64 MiB at first */
  uint64_t reuses;  /**< requests that kept memory served */
} tessMemPoolStats;

TESS_API tessStatus_t tessMemPoolGetStats(tessMesh_t mesh, tessMemPoolStats* stats);
/** The pool keeps at most so many bytes from now on; 0: none. */
TESS_API tessStatus_t tessMemPoolSetKeep(tessMesh_t mesh, size_t bytes);
/** Lets go of what was kept longest until at most so many bytes are kept. */
TESS_API tessStatus_t tessMemPoolTrim(tessMesh_t mesh, size_t bytes);
/** What a stream has by tessMallocAsync, and its limit (0: none). Either may be null. */
TESS_API tessStatus_t tessStreamGetMemoryUse(tessStream_t stream, size_t* usedBytes,
                                             size_t* limitBytes);
TESS_API tessStatus_t tessHostRegister(void* hostPtr, size_t bytes);
TESS_API tessStatus_t tessHostUnregister(void* hostPtr);

/* Tensors of other libraries: DLPack 1.x */

enum {
  TESS_TENSOR_READ_ONLY = 1 << 0,
  TESS_TENSOR_UNVERSIONED = 1 << 1 /**< a DLManagedTensor: the form before 1.0 */
};

/** What an export says beside the address of element 0. */
typedef struct {
  uint32_t structSize;
  int32_t dtype; /**< of appendix B, or 32 to 35: uint8, uint16, uint32, uint64 */
  int32_t ndim;
  int32_t rank; /**< whose instance, for an address on rank 0 */
  const int64_t* shape;
  const int64_t* strides; /**< in elements; null: row-major */
  uint32_t flags;         /**< TESS_TENSOR_* */
  uint32_t reserved;
} tessTensorDesc;

/** What an import found. `shape` and `strides` are the tensor's own. */
typedef struct {
  uint32_t structSize;
  int32_t dtype;
  int32_t ndim;
  int32_t readOnly;
  const int64_t* shape;
  const int64_t* strides; /**< null: row-major */
  void* data;             /**< element 0 */
  void* begin;            /**< lowest byte of any element */
  size_t bytes;           /**< from there to the end of the highest */
} tessTensorInfo;

/** `*managed` gets a DLManagedTensorVersioned (or, by flag, a DLManagedTensor) without a
 * copy. It keeps its memory, also past tessFree and tessShutdown, until whoever takes it
 * calls its deleter. Nothing waits: synchronize what writes the memory first. */
TESS_API tessStatus_t tessMemExportDlpack(tessContext_t ctx, const void* ptr,
                                          const tessTensorDesc* desc, void** managed);
/** Takes over a tensor in memory of the host: from here on its bytes are memory of device
 * `device`, or of the host if that is -1. Its deleter is called once, on any thread,
 * after tessMemReleaseImported or tessShutdown when no work uses it. On failure it stays
 * the caller's. `flags` is 0 or TESS_TENSOR_UNVERSIONED. */
TESS_API tessStatus_t tessMemImportDlpack(tessContext_t ctx, void* managed,
                                          unsigned flags, int device,
                                          tessTensorInfo* info);
/** Makes memory of the program known as memory of device `device`, or of the host if that
 * is -1; it has to live until tessMemReleaseImported and the end of the work on it. */
TESS_API tessStatus_t tessMemRegisterExternal(tessContext_t ctx, void* ptr, size_t bytes,
                                              int device);
/** Lets go of an import whose `begin` this is, or of external memory. */
TESS_API tessStatus_t tessMemReleaseImported(tessContext_t ctx, void* begin);

/* Modules */

TESS_API tessStatus_t tessModuleGetKernelCount(tessModule_t module, int* count);
/** The name is valid until the module is unloaded. */
TESS_API tessStatus_t tessModuleGetKernelName(tessModule_t module, int index,
                                              const char** name);

typedef struct {
  uint32_t structSize;
  uint32_t flags; /**< TESS_KERNEL_* */
  uint32_t paramCount;
  uint32_t argBytes; /**< to the end of the last argument */
  uint32_t argBytesPadded;
  uint32_t defaultBlock[3]; /**< 0: the module says nothing */
  uint32_t maxThreads;
  uint32_t sharedBytes;
} tessKernelInfo;

typedef struct {
  uint32_t structSize;
  uint32_t kind;  /**< 0 scalar, 1 pointer, 2 opaque */
  uint32_t dtype; /**< 0: not said */
  uint32_t size;
  uint32_t offset;
  uint32_t space;     /**< LLVM's address space */
  uint32_t direction; /**< 0 in, 1 out, 2 in and out */
  uint32_t reserved;
  const char* name;
} tessParamInfo;

TESS_API tessStatus_t tessKernelGetInfo(tessKernel_t kernel, tessKernelInfo* info);
TESS_API tessStatus_t tessKernelGetParam(tessKernel_t kernel, int index,
                                         tessParamInfo* info);
/** Packs one value per parameter into a parameter buffer. `size` holds the bytes of
 *  `buffer` and gets those of the padded buffer. */
TESS_API tessStatus_t tessPackArgs(tessKernel_t kernel, const void* const* values,
                                   int valueCount, void* buffer, size_t* size);
/** JSON about a module: kernels, parameters, targets present and selected, plans, policy.
 */
TESS_API tessStatus_t tessExplain(tessModule_t module, char* buffer, size_t* size);

/** A function of the program that modules may name instead of bringing code. */
TESS_API tessStatus_t tessRegisterHostKernel(const char* name, void (*entry)(void),
                                             const tessParamInfo* params, int paramCount,
                                             uint32_t flags);
TESS_API tessStatus_t tessUnregisterHostKernel(const char* name);

/* Making modules */

typedef struct tessFatbin* tessFatbin_t;

/** A kernel of a module: its name, parameters (their offsets are worked out), and what
 * the shared object's table says of it. */
typedef struct {
  uint32_t structSize;
  uint32_t flags; /**< TESS_KERNEL_* */
  const char* name;
  const char* symbol; /**< null: the name */
  const tessParamInfo* params;
  int32_t paramCount;
  uint32_t defaultBlock[3]; /**< 0: the module says nothing */
  uint32_t maxThreads;      /**< 0: 1024 */
  uint32_t sharedBytes;
  uint64_t targets; /**< bit i: code i has it; 0: all do */
} tessFatbinKernel;

/** A hint for collectives of some kind, type and size. */
typedef struct {
  uint32_t structSize;
  uint32_t
      collective;     /**< 0 all, 1 all-reduce, 2 reduce-scatter, 3 gather, 4 broadcast */
  uint32_t dtype;     /**< 0: any */
  uint32_t algorithm; /**< 0 none, 1 ring, 2 tree, 3 hierarchical, 4 direct */
  const char* axis;   /**< null: any */
  uint64_t leastBytes;
  uint64_t mostBytes;  /**< included; 0: no limit */
  uint64_t chunkBytes; /**< 0: chosen */
  uint32_t wireDtype;  /**< 0, or a narrower type between ranks where the policy allows */
  uint32_t reserved;
} tessFatbinPlan;

/** An empty module for the ABI of this library. It belongs to no context. */
TESS_API tessStatus_t tessFatbinCreate(tessFatbin_t* fatbin);
TESS_API tessStatus_t tessFatbinDestroy(tessFatbin_t fatbin);
/** `kind` is "CPU_SO", "CPU_REGISTERED" (without bytes), "PTX", "CUBIN", "NVVM_BC",
 * "ROCDL_BC" or "HSACO"; `arch` e.g. "x86-64-v3". The bytes are copied. `index` may be
 * null; it gets the number for tessFatbinKernel.targets. */
TESS_API tessStatus_t tessFatbinAddCode(tessFatbin_t fatbin, const char* kind,
                                        const char* arch, const void* bytes, size_t size,
                                        int* index);
TESS_API tessStatus_t tessFatbinAddKernel(tessFatbin_t fatbin,
                                          const tessFatbinKernel* kernel);
TESS_API tessStatus_t tessFatbinAddPlan(tessFatbin_t fatbin, const tessFatbinPlan* plan);
/** What counts for a context whose program sets nothing. `wireQuantisation` 0 forbids the
 * module's own plans a narrower type between ranks. */
TESS_API tessStatus_t tessFatbinSetPolicy(tessFatbin_t fatbin,
                                          const tessNumericsPolicy* policy,
                                          int wireQuantisation, uint64_t seed);
/** JSON about tiles and fusion for tessExplain. */
TESS_API tessStatus_t tessFatbinSetExplain(tessFatbin_t fatbin, const char* json);
/** SHA-256 of what the module was compiled from. */
TESS_API tessStatus_t tessFatbinSetSourceHash(tessFatbin_t fatbin, const void* hash32);
TESS_API tessStatus_t tessFatbinSetAbi(tessFatbin_t fatbin, int major, int minor);
/** The module's bytes, for tessModuleLoad or a file; the same calls give the same bytes.
 * `secretKey64`, an Ed25519 key as seed and public half, signs it; null: no signature. */
TESS_API tessStatus_t tessFatbinBuild(tessFatbin_t fatbin, const void* secretKey64,
                                      void* buffer, size_t* size);

/* Collectives */

/** Further operations of collectives, beside tessCollOp. */
enum { TESS_COLL_PRODUCT = 3, TESS_COLL_AVERAGE = 4 };

typedef enum {
  TESS_COLLECTIVE_ALL_REDUCE = 0,
  TESS_COLLECTIVE_REDUCE_SCATTER,
  TESS_COLLECTIVE_ALL_GATHER,
  TESS_COLLECTIVE_BROADCAST,
  TESS_COLLECTIVE_REDUCE,
  TESS_COLLECTIVE_GATHER,
  TESS_COLLECTIVE_SCATTER,
  TESS_COLLECTIVE_ALL_TO_ALL,
  TESS_COLLECTIVE_SEND, /**< from `root` to `peer` */
  TESS_COLLECTIVE_BARRIER
} tessCollectiveKind;

/** `count` is that of the full buffer for every kind; shard r of R stands at element
 *  r * count / R of its buffer. `recvbuf` null: in place. */
typedef struct {
  uint32_t structSize;
  int32_t kind; /**< tessCollectiveKind */
  const void* sendbuf;
  void* recvbuf;
  size_t count;
  int32_t dtype;
  int32_t op;       /**< of kinds that reduce */
  const char* axis; /**< "dp", "tp+dp"; null, "" and "world": all ranks */
  int32_t root; /**< rank in the group; kinds without a root do not read it */
  int32_t peer; /**< rank in the group; only sends read it */
  const char* algorithm; /**< "direct", "ring", "tree", "hierarchical"; null: chosen */
  size_t chunkBytes;     /**< 0: chosen */
  int32_t wireDtype;     /**< 0, or a narrower type between ranks if the policy allows */
  int32_t packedShards;  /**< 1: shards stand at the beginning of a buffer of their own */
  /** How long one rank's share waits for the others'; 0: as TESS_COLL_TIMEOUT_MS says,
   * -1: for ever. The shortest of a group counts. */
  int64_t timeoutMs;
} tessCollectiveDesc;

TESS_API tessStatus_t tessCollective(tessMesh_t mesh, const tessCollectiveDesc* desc,
                                     tessStream_t stream);
TESS_API tessStatus_t tessReduce(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                                 size_t count, int dtype, int op, int root,
                                 const char* axis, tessStream_t stream);
TESS_API tessStatus_t tessGather(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                                 size_t count, int dtype, int root, const char* axis,
                                 tessStream_t stream);
TESS_API tessStatus_t tessScatter(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                                  size_t count, int dtype, int root, const char* axis,
                                  tessStream_t stream);
TESS_API tessStatus_t tessAllToAll(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                                   size_t count, int dtype, const char* axis,
                                   tessStream_t stream);
/** From one rank of the mesh to another, in the streams of both: on a mesh stream the one
 *  call does it; on rank-bound streams each of the two ranks calls it, and no other. */
TESS_API tessStatus_t tessSendRecv(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                                   size_t count, int dtype, int source, int target,
                                   tessStream_t stream);
TESS_API tessStatus_t tessBarrier(tessMesh_t mesh, const char* axis, tessStream_t stream);

/** Makes collectives on streams of one rank usable again after one of them has failed.
 *
 * A rank that does not come in time breaks its group: nobody can know whether its next
 * call is the missing one or the one after it. From then on every collective call on that
 * group returns TESS_ERR_TIMEOUT at once, with a message that names the operation and the
 * ranks that did not come; shares that wait end with the same status. Calls that disagree
 * (TESS_ERR_COLLECTIVE_MISMATCH) do not break it, as all ranks have come.
 *
 * Each rank calls this for itself, or one thread with `rank` -1 for all. What the rank
 * calls afterwards meets what the others call after their own recovery, on all groups of
 * the mesh. The call does not wait. Once all ranks have called it, shares from before
 * that still wait end with TESS_ERR_TIMEOUT. TESS_ERR_INVALID_VALUE: no such rank. */
TESS_API tessStatus_t tessMeshRecover(tessMesh_t mesh, int rank);

/** Ends every collective of the mesh that waits for ranks, as if they had not come in
 * time: streams that wait get TESS_ERR_TIMEOUT, and so does every collective of a
 * rank-bound stream until tessMeshRecover. What all ranks have come to runs to its end,
 * and so do persistent kernels; see tessStreamRequestStop. The call does not wait. */
TESS_API tessStatus_t tessMeshAbort(tessMesh_t mesh);
/** Whether collectives that this rank calls on its own streams meet those of others:
 * TESS_ERR_TIMEOUT, with the collective's message, if one of its groups is broken or was
 * aborted. Does not wait and changes nothing. Of a stream's failures: tessStreamQuery. */
TESS_API tessStatus_t tessMeshQuery(tessMesh_t mesh, int rank);

/** Collectives that this thread calls between the two are checked at once and begin
 * together at the outermost end: all, or none if one of the calls failed, whose status
 * the end returns. Nothing of other threads comes between them. Those on the stream of
 * one rank wait for their peers together and may run in any order. All other calls take
 * effect at once. An end without a start is TESS_ERR_INVALID_VALUE. */
TESS_API tessStatus_t tessGroupStart(void);
TESS_API tessStatus_t tessGroupEnd(void);

/* Determinism and cache */

/** What launches are told from now on: the seed of random numbers, instead of TESS_SEED
 * or the module's, and the stable toggles (bits of tessDeterminism.stableToggles),
 * instead of what the policy says. TESS_ERR_DETERMINISM_VIOLATION where TESS_POLICY_LOCK
 * wants all of them. */
TESS_API tessStatus_t tessSetDeterminism(tessContext_t ctx, uint64_t seed,
                                         uint32_t stableToggles);
/** What the stream's last launch or collective was told; all zero before the first. */
TESS_API tessStatus_t tessStreamGetDeterminism(tessStream_t stream, tessDeterminism* out);

typedef struct {
  uint32_t structSize;
  uint32_t enabled; /**< 0: there is no cache; all else is zero then */
  uint64_t hits;
  uint64_t misses;
  uint64_t stale;
  uint64_t quarantined; /**< damaged entries that were renamed */
  uint64_t writes;
  uint64_t entries;
  uint64_t bytes;
} tessCacheStats;

/** Reads every entry: TESS_ERR_CACHE_CORRUPT if one is damaged. */
TESS_API tessStatus_t tessCacheVerify(tessContext_t ctx);
TESS_API tessStatus_t tessCacheClear(tessContext_t ctx);
TESS_API tessStatus_t tessCacheGetStats(tessContext_t ctx, tessCacheStats* stats);

/* Profiling */

typedef struct {
  uint32_t structSize;
  uint32_t reserved;
  /** Operations and calls that are kept, the earliest; 0: as TESS_PROFILER_RECORDS says,
   * or 262144, which take about 100 MB. */
  uint64_t maxRecords;
} tessProfilerDesc;

/** With a limit of its own. The trace's metadata says how many were dropped. */
TESS_API tessStatus_t tessProfilerStartEx(tessContext_t ctx, const tessProfilerDesc* desc,
                                          tessProfiler_t* profiler);

/* Graphs */

typedef struct tessGraph* tessGraph_t;
typedef struct tessGraphExec* tessGraphExec_t;

/** What a capture does about calls of other threads that would enqueue something on its
 * streams, wait for one, or make another stream a part of it. */
typedef enum {
  TESS_CAPTURE_GLOBAL = 0, /**< TESS_ERR_INVALID_VALUE, and so is the capture's end */
  TESS_CAPTURE_THREAD_LOCAL = 1, /**< TESS_ERR_INVALID_VALUE; the capture goes on */
  TESS_CAPTURE_RELAXED = 2       /**< they are recorded */
} tessCaptureMode;

/** From here on the stream records instead of running, and so does every stream that
 * waits for an event of the capture. Arguments, addresses, policy and schedules stay as
 * they are at the calls.
 * * tessGraphLaunch becomes one node with the nodes that the graph has then. A graph with
 *   collectives of rank-bound streams, or one that leaves memory to the program, cannot
 *   be a node (TESS_ERR_UNSUPPORTED).
 * * tessMallocAsync gives memory of the graph, with one address in all runs. What is not
 *   given back by tessFreeAsync in the same capture is the program's after each launch,
 *   at the cost of the stream that it was launched on, until the program gives it back; a
 *   launch before that is TESS_ERR_INVALID_VALUE.
 * * A collective of a rank-bound stream is the rank's share in each run, in the place
 *   that the launch of the run has among the rank's collectives.
 * What cannot be recorded is refused by its call: waiting for the stream or for an event
 * of the capture, waits for events from outside, persistent launches. The mode is
 * TESS_CAPTURE_GLOBAL. @source{docs/tessera.md, graphs} */
TESS_API tessStatus_t tessStreamBeginCapture(tessStream_t stream);
/** The same with another mode. */
TESS_API tessStatus_t tessStreamBeginCaptureEx(tessStream_t stream, tessCaptureMode mode);
/** Called by the thread that began the capture, unless its mode is relaxed. */
TESS_API tessStatus_t tessStreamEndCapture(tessStream_t stream, tessGraph_t* graph);
/** The recording that launches with TESS_LAUNCH_CAPTURE made and a synchronization
 * closed. */
TESS_API tessStatus_t tessStreamTakeGraph(tessStream_t stream, tessGraph_t* graph);
TESS_API tessStatus_t tessGraphGetNodeCount(tessGraph_t graph, size_t* count);
/** `format` is "dot" or "json". A node in JSON has index, kind, name, stream, bytes and
 * after; a launch also has grid, block and arguments, each a hexadecimal number. */
TESS_API tessStatus_t tessGraphExport(tessGraph_t graph, const char* format, char* buffer,
                                      size_t* size);
TESS_API tessStatus_t tessGraphDestroy(tessGraph_t graph);
TESS_API tessStatus_t tessGraphInstantiate(tessGraph_t graph, tessGraphExec_t* exec);
/** Runs the graph behind what the stream has. Runs of one executable graph, and of graphs
 * with the same memory, go one after another. On a stream that captures, the graph
 * becomes a node of the recording. */
TESS_API tessStatus_t tessGraphLaunch(tessGraphExec_t exec, tessStream_t stream);
/** The next four change a node from the next launch on and wait for the runs before it.
 * The node keeps its place and what it waits for. `stream` is one on the devices, and
 * bound to the rank, that it was recorded on. TESS_ERR_INVALID_VALUE: no such node, one
 * of another kind, no bytes or elements, and what the operation's own call refuses. */
TESS_API tessStatus_t tessGraphExecUpdateLaunch(tessGraphExec_t exec, size_t node,
                                                tessKernel_t kernel, tessLaunchConfig cfg,
                                                const void* argBuffer, size_t argSize,
                                                tessStream_t stream);
/** Also from copies of one rank to copies of all, and from one direction to another. */
TESS_API tessStatus_t tessGraphExecUpdateCopy(tessGraphExec_t exec, size_t node,
                                              const tessCopyDesc* desc,
                                              tessStream_t stream);
TESS_API tessStatus_t tessGraphExecUpdateFill(tessGraphExec_t exec, size_t node,
                                              void* devPtr, int value, size_t bytes,
                                              tessStream_t stream);
/** Also from one kind of collective to another. Ranks that meet in a graph each update
 * their own. */
TESS_API tessStatus_t tessGraphExecUpdateCollective(tessGraphExec_t exec, size_t node,
                                                    const tessCollectiveDesc* desc,
                                                    tessStream_t stream);
TESS_API tessStatus_t tessGraphExecDestroy(tessGraphExec_t exec);

#ifdef __cplusplus
}
#endif

#endif
