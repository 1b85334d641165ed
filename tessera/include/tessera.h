/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The interface of the Tessera specification, ABI 1.0: contexts, meshes, streams, events,
 * memory, modules, launches, collectives, numerics policy and profiler. The extensions of
 * this library are declared in tessera_ext.h. C89, C99 and C++.
 *
 * These conventions hold for every function of both headers. The comments below do not
 * repeat them.
 *
 * Errors. A function returns TESS_OK (0) on success. On any other status it has changed
 * nothing and has written no output, unless its comment says otherwise; the text of the
 * failure is tessGetLastErrorMessage(). No function crashes because of NULL, of a handle
 * that was destroyed, or of a count, flag or enumerator that is out of range:
 * * TESS_ERR_NOT_INITIALIZED: the context or mesh is NULL or was destroyed, there is no
 *   context where a function needs one, or the handle was made before a fork by the
 *   parent process.
 * * TESS_ERR_INVALID_VALUE: any other handle is NULL or was destroyed, a required pointer
 *   is NULL, a number is out of range, or objects belong to different contexts.
 * * TESS_ERR_OUT_OF_MEMORY: the host or the device has not enough memory.
 * * TESS_ERR_LAUNCH_FAILED: an unexpected failure inside the library.
 *
 * Errors of work. A function that enqueues work checks its arguments before it returns.
 * Work that fails later poisons its stream: the operations behind it are skipped, and
 * tessStreamSynchronize returns the status of the first failure and clears it. An event
 * that was recorded behind the failure passes it to the streams that wait for the event.
 * Other streams and the context are not affected.
 *
 * Ownership. A function whose name ends in Create, Init, Load or Start gives a handle
 * that belongs to the caller and ends with Destroy, Shutdown, Unload or Stop. Every
 * handle belongs to one context, and tessShutdown ends all handles of its context except
 * events and profilers. A destroyed handle is never reused for another object. Arguments,
 * texts, descriptions and launch arguments are copied before the call returns. Memory
 * that work reads or writes must stay valid until that work has ended.
 *
 * Threads. Every function may be called from any thread at any time. Kernels, functions
 * in streams and callbacks of the library must not call functions that enqueue or wait:
 * those return TESS_ERR_INVALID_VALUE there.
 *
 * Units. Sizes are in bytes and counts in elements. A rank is a position in the list of
 * devices of a mesh. An axis is "tp", "pp", "dp" or "ep", or several joined by "+"; NULL,
 * "" and "world" name all ranks. The group of a rank along an axis contains the ranks
 * that differ from it in the coordinates of that axis alone.
 *
 * Order of operations. A stream has one queue for each device of its mesh; a stream that
 * is bound to a rank has one queue.
 * * Operations of one stream on memory of one device run in the order of the calls.
 *   Devices do not wait for each other, so one may be several operations ahead.
 * * An operation on memory that several devices can reach runs in order with every
 *   operation of its stream that may touch the same memory, in whichever queue. This
 *   concerns memory of the host, copies between ranks, and launches with a pointer
 *   argument into host memory or into another rank's instance. Copies are ordered by the
 *   bytes that they touch, launches by the whole allocations of their pointer arguments.
 *   If several devices run one launch on the same shared memory, they run in rank order.
 * * An event has happened when all queues of its stream have reached it. On a rank-bound
 *   stream that is the queue of the rank.
 * * Operations of different streams are ordered by events and by waiting threads alone.
 * * Collectives of rank-bound streams meet in the order in which each rank has called
 *   them on the group of ranks, on whichever of its streams.
 *
 * ABI. Names, values and structures of this header follow the specification and do not
 * change within major version 1.
 * @source{Tessera Runtime & ABI, sections 4, 6, 7, 12 and 19}
 */
#ifndef TESSERA_H_
#define TESSERA_H_

#include <stddef.h>

#if defined(_WIN32)
#define TESS_API
#else
#define TESS_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Major version of the ABI. Programs and modules of another major version are refused.
 */
#define TESS_ABI_MAJOR 1
/** Minor version of the ABI. It grows when functions are added. */
#define TESS_ABI_MINOR 0
/** Release of this library within the same ABI. */
#define TESS_ABI_PATCH 0

/* 4.1 Initialization and context */

/** A context: devices, their memory, worker threads, policy, and all objects made in it.
 */
typedef struct tessContext* tessContext_t;
/** A mesh: devices of a context along the axes tp, pp, dp and ep. */
typedef struct tessMesh* tessMesh_t;

/** Status of a call or of work. @source{Tessera Runtime & ABI, section 19.A} */
typedef enum {
  TESS_OK = 0,
  TESS_ERR_INVALID_VALUE,       /**< an argument or the configuration is not valid */
  TESS_ERR_OUT_OF_MEMORY,       /**< an allocation failed, or a memory limit is reached */
  TESS_ERR_NOT_INITIALIZED,     /**< the context or mesh does not exist */
  TESS_ERR_LAUNCH_FAILED,       /**< a kernel or function returned an error or threw */
  TESS_ERR_ARCH_MISMATCH,       /**< the module has no code for the devices */
  TESS_ERR_UNSUPPORTED,         /**< valid, but this library does not do it */
  TESS_ERR_COLLECTIVE_MISMATCH, /**< ranks called different collectives */
  TESS_ERR_DETERMINISM_VIOLATION, /**< the numerics policy forbids it */
  TESS_ERR_TIMEOUT,               /**< a time limit passed, or ranks did not come */
  TESS_ERR_ABI_VERSION_MISMATCH,  /**< the module needs another version of the ABI */
  TESS_ERR_CACHE_CORRUPT          /**< an entry of the cache is damaged */
} tessStatus_t;

/** Makes a context with the settings that the environment gives (docs/tessera.md).
 * Several contexts may exist at the same time; each has workers and memory of its own.
 * @error{TESS_ERR_UNSUPPORTED; TESS_BACKEND names a backend that is not built in, or GPUs
 * where there is no driver, an old one, or no device}
 * @error{TESS_ERR_INVALID_VALUE; the cache cannot be used and TESS_CACHE_STRICT is set}
 */
TESS_API tessStatus_t tessInit(tessContext_t* ctx);
/** Ends a context and everything in it: stops persistent kernels, waits up to 5 s for the
 * work of all streams, then gives back memory and threads. Objects that are not destroyed
 * yet are counted in the log. The handle is gone whatever the status is.
 * @error{TESS_ERR_TIMEOUT; work has not ended in time and goes on until it ends} */
TESS_API tessStatus_t tessShutdown(tessContext_t ctx);
/** Writes the version of the library. Each pointer may be NULL. Needs no context. */
TESS_API tessStatus_t tessGetVersion(int* major, int* minor, int* patch);

/* 4.2 Mesh and devices */

/** Number of devices along each axis. 0 counts as 1, and tp varies fastest. */
typedef struct {
  int tp; /**< tensor parallel */
  int pp; /**< pipeline parallel */
  int dp; /**< data parallel */
  int ep; /**< expert parallel */
} tessMeshAxes;

/** Makes a mesh of `nDevices` devices. Rank r is the device `deviceIds[r]`.
 * @shape{deviceIds: nDevices ordinals, each in [0, count of devices) and only once}
 * @error{TESS_ERR_INVALID_VALUE; the product of the axes is not `nDevices`, or a device
 * does not exist or occurs twice} */
TESS_API tessStatus_t tessMeshCreate(tessContext_t ctx, const int* deviceIds,
                                     int nDevices, tessMeshAxes axes,
                                     tessMesh_t* outMesh);
/** Ends a mesh, its streams and its memory. Asks persistent kernels to stop, ends
 * collectives that wait for ranks, and waits without a limit for the work of all streams
 * of the mesh. */
TESS_API tessStatus_t tessMeshDestroy(tessMesh_t mesh);

/* 4.3 Streams and events */

/** A queue of operations on the devices of a mesh, or on one of its ranks. */
typedef struct tessStream* tessStream_t;
/** A point in a stream, for which threads and other streams can wait. */
typedef struct tessEvent* tessEvent_t;

/** Makes a stream on all devices of a mesh. A negative `priority` makes it urgent:
 * workers take its operations first. See tessStreamCreateEx for streams of one rank. */
TESS_API tessStatus_t tessStreamCreate(tessMesh_t mesh, int priority,
                                       tessStream_t* stream);
/** Ends a stream. Does not wait: operations that were enqueued before still run. */
TESS_API tessStatus_t tessStreamDestroy(tessStream_t stream);
/** Makes an event, which belongs to the context of the stream that records it first.
 * Waiting for an event that was never recorded returns at once. */
TESS_API tessStatus_t tessEventCreate(tessEvent_t* event);
/** Ends an event. Streams that wait for it already are not affected. */
TESS_API tessStatus_t tessEventDestroy(tessEvent_t event);
/** Sets the event behind all operations that the stream has now. A later recording
 * replaces an earlier one for calls that come after it. */
TESS_API tessStatus_t tessEventRecord(tessEvent_t event, tessStream_t stream);
/** Lets operations that are enqueued from now on wait for the latest recording of the
 * event. The calling thread does not wait. If operations before the event have failed,
 * the stream fails too.
 * @error{TESS_ERR_INVALID_VALUE; the stream captures and the event was recorded outside
 * of the capture, or in a capture that cannot become part of this one} */
TESS_API tessStatus_t tessStreamWaitEvent(tessStream_t stream, tessEvent_t event);
/** Waits until all operations of the stream have ended, and returns and clears the status
 * of the first that failed (text: tessStreamGetLastMessage).
 * @error{TESS_ERR_TIMEOUT; the limit of the stream passed; the work goes on}
 * @error{TESS_ERR_INVALID_VALUE; the stream captures: the capture is lost}
 * @error{TESS_ERR_LAUNCH_FAILED; a kernel or a function in the stream failed}
 * @error{TESS_ERR_OUT_OF_MEMORY; an operation found no memory, or the stream's limit}
 * @error{TESS_ERR_COLLECTIVE_MISMATCH; ranks called different collectives}
 * @error{TESS_ERR_DETERMINISM_VIOLATION; the policy forbids an operation} */
TESS_API tessStatus_t tessStreamSynchronize(tessStream_t stream);

/* 4.4 Memory */

/** Kind of memory that tessHostAlloc gives. */
typedef enum { TESS_MEM_GLOBAL, TESS_MEM_PINNED_HOST } tessMemKind;

/** Allocates `bytes` bytes on each device of the mesh. `*devPtr` is the address of rank
 * 0's instance. Copies, collectives and pointer parameters of kernels that get it, or an
 * address inside it, use on each rank the rank's own instance. Access behind the last
 * byte is refused. 0 bytes give NULL and TESS_OK. The content is not defined.
 * @error{TESS_ERR_OUT_OF_MEMORY; a device has not enough memory} */
TESS_API tessStatus_t tessMalloc(tessMesh_t mesh, size_t bytes, void** devPtr);
/** Gives memory of tessMalloc back behind the operations that the streams of the mesh
 * have now. Does not wait. NULL does nothing.
 * @error{TESS_ERR_INVALID_VALUE; the address is not the beginning of an allocation of
 * this mesh, or a capture holds it} */
TESS_API tessStatus_t tessFree(tessMesh_t mesh, void* devPtr);
/** Allocates memory of the host in one of the contexts. `kind` is TESS_MEM_PINNED_HOST.
 * Copies take any memory of the host; this memory is also known by its address. */
TESS_API tessStatus_t tessHostAlloc(size_t bytes, void** hostPtr, tessMemKind kind);
/** Gives memory of tessHostAlloc back at once. No work may use it any more. NULL does
 * nothing. */
TESS_API tessStatus_t tessHostFree(void* hostPtr);

/** Direction of a copy: from the host to devices, from a device to the host, or on each
 * device. */
typedef enum { TESS_COPY_H2D, TESS_COPY_D2H, TESS_COPY_D2D } tessCopyKind;

/** Copies `bytes` bytes in the order of the stream: from the host to the instances of all
 * ranks, from the instance of rank 0 to the host, or within each device. On a rank-bound
 * stream the instance is that of the rank. 0 bytes copy nothing.
 * @error{TESS_ERR_INVALID_VALUE; a range leaves its allocation, the ranges overlap, or
 * the direction does not fit the addresses} */
TESS_API tessStatus_t tessMemcpyAsync(void* dst, const void* src, size_t bytes,
                                      tessCopyKind kind, tessStream_t stream);

/* 4.5 Modules and kernels */

/** A loaded module: kernels, constants, plans for collectives and a policy. */
typedef struct tessModule* tessModule_t;
/** A kernel of a module. */
typedef struct tessKernel* tessKernel_t;

/** Loads a module from the `size` bytes at `image`, which may go after the call. The
 * plans of the module count until it is unloaded, and so does its policy if the program
 * has set none; of several policies, that of the module loaded last counts.
 * @error{TESS_ERR_INVALID_VALUE; the image is damaged, or its signature is missing, wrong
 * or not trusted where TESS_REQUIRE_SIGNED or TESS_TRUSTED_KEYS asks for one}
 * @error{TESS_ERR_ARCH_MISMATCH; a kernel has no code that this processor runs}
 * @error{TESS_ERR_UNSUPPORTED; a kernel comes as bitcode only, or no memory may hold code
 * and no cache folder can}
 * @error{TESS_ERR_ABI_VERSION_MISMATCH; the module was built for another ABI}
 * @error{TESS_ERR_CACHE_CORRUPT; its entry in a strict cache is damaged}
 * @source{Tessera Runtime & ABI, section 8} */
TESS_API tessStatus_t tessModuleLoad(tessContext_t ctx, const void* image, size_t size,
                                     tessModule_t* outModule);
/** Ends a module and the handles of its kernels. Launches that were enqueued before still
 * run; the code stays in memory until they and all graphs with it are gone. */
TESS_API tessStatus_t tessModuleUnload(tessModule_t module);
/** Finds a kernel by its name. The same name gives the same handle, which is valid until
 * the module is unloaded and is not destroyed.
 * @error{TESS_ERR_INVALID_VALUE; the module has no kernel of this name} */
TESS_API tessStatus_t tessKernelGet(tessModule_t module, const char* name,
                                    tessKernel_t* out);

/** Extents and flags of a launch. */
typedef struct {
  int grid[3];       /**< blocks along x, y, z; each at least 1 */
  int block[3];      /**< threads along x, y, z; 0: the kernel's own, or chosen */
  size_t shmemBytes; /**< shared memory of each block in bytes, beside the kernel's own */
  unsigned flags;    /**< TESS_LAUNCH_* */
} tessLaunchConfig;

/* 6 Launch flags */
/** A launch without flags. */
#define TESS_LAUNCH_DEFAULT 0
/** Runs under a deterministic policy, whatever that of the context is. */
#define TESS_LAUNCH_DETERMINISTIC (1 << 0)
/** Begins a recording that the next synchronization closes: tessStreamTakeGraph. */
#define TESS_LAUNCH_CAPTURE (1 << 1)
/** Gives every block a thread of its own until it returns. */
#define TESS_LAUNCH_PERSISTENT (1 << 2)
/** Asks workers to take the blocks of this launch first. */
#define TESS_LAUNCH_LOW_LATENCY (1 << 3)

/** Runs a kernel once on each device of the stream. `mesh` is the mesh of the stream. The
 * arguments lie one after another in `argBuffer`, each at the next multiple of its size,
 * at most 8; `argSize` ends behind the last argument or at the next multiple of 8.
 * tessPackArgs makes such a buffer.
 * @error{TESS_ERR_INVALID_VALUE; extents, flags, shared memory or `argSize` do not fit
 * the kernel or the device, or a pointer argument names memory of another mesh}
 * @error{TESS_ERR_UNSUPPORTED; a persistent launch while the stream captures, or of a
 * kernel that is not marked for it}
 * @source{Tessera Runtime & ABI, sections 6 and 10.1} */
TESS_API tessStatus_t tessLaunch(tessKernel_t kernel, tessMesh_t mesh,
                                 tessLaunchConfig cfg, const void* argBuffer,
                                 size_t argSize, tessStream_t stream);

/* 4.6 Collectives. `count` is the number of elements of the full buffer of one rank. With
 * R ranks in a group, shard r begins at element r * count / R, and `count` is a multiple
 * of R where there are shards. Further kinds, separate results and the errors of all
 * collectives: tessCollective in tessera_collective.h. */

/** Operation of a collective that reduces. */
typedef enum { TESS_COLL_SUM, TESS_COLL_MAX, TESS_COLL_MIN } tessCollOp;

/** Combines the buffers of each group along `axis`, element by element. Every rank of the
 * group gets the result in place. @shape{buffer: count elements on each rank} */
TESS_API tessStatus_t tessAllReduce(tessMesh_t mesh, void* buffer, size_t count,
                                    int dtype, tessCollOp op, const char* axis,
                                    tessStream_t stream);
/** Combines the buffers of each group along `axis`. Rank r of the group gets shard r of
 * the result in place; the content of its other shards is not defined afterwards.
 * @shape{inout: count elements on each rank} */
TESS_API tessStatus_t tessReduceScatter(tessMesh_t mesh, void* inout, size_t count,
                                        int dtype, tessCollOp op, const char* axis,
                                        tessStream_t stream);
/** Sends shard r of rank r of each group along `axis` to all ranks of the group, in
 * place. @shape{inout: count elements on each rank} */
TESS_API tessStatus_t tessAllGather(tessMesh_t mesh, void* inout, size_t count, int dtype,
                                    const char* axis, tessStream_t stream);
/** Copies the buffer of rank `root` of the mesh to all ranks of the mesh.
 * @shape{buffer: count elements on each rank} */
TESS_API tessStatus_t tessBroadcast(tessMesh_t mesh, void* buffer, size_t count,
                                    int dtype, int root, tessStream_t stream);

/* 4.7 Numerics and determinism */

/** Freedom that kernels and collectives have with numbers. Every member is 0 or 1. */
typedef struct {
  int stableReductions; /**< 1: stable softmax and sums; with `deterministic`, sums of
                             collectives are rounded once, as if they were exact */
  int deterministic;    /**< 1: the same inputs give the same bits in every run */
  int rngStateless;     /**< 1: random numbers follow from seed and position alone */
  int allowFastMath;    /**< 1: narrower types and reordering are permitted */
} tessNumericsPolicy;

/** Sets the policy of launches and collectives that are enqueued from now on. It counts
 * before the policies of modules. TESS_DETERMINISTIC=1 keeps `deterministic` at 1.
 * @error{TESS_ERR_DETERMINISM_VIOLATION; TESS_POLICY_LOCK locks a member}
 * @source{Tessera Runtime & ABI, section 11} */
TESS_API tessStatus_t tessSetNumericsPolicy(tessContext_t ctx,
                                            const tessNumericsPolicy* policy);
/** Writes the policy that counts now. */
TESS_API tessStatus_t tessGetNumericsPolicy(tessContext_t ctx,
                                            tessNumericsPolicy* policy);

/* 4.8 Profiling and tracing */

/** A profiler that records operations and calls of a context. */
typedef struct tessProfiler* tessProfiler_t;

/** Begins to record. The limit of records is TESS_PROFILER_RECORDS. Several profilers of
 * a context may record at the same time. */
TESS_API tessStatus_t tessProfilerStart(tessContext_t ctx, tessProfiler_t* profiler);
/** Ends a profiler. Unless `outJsonPath` is NULL, writes its records to that file as a
 * Chrome trace. A profiler that is open at tessShutdown records nothing more and keeps
 * its records until it is stopped. The handle is gone whatever the status is.
 * @error{TESS_ERR_INVALID_VALUE; the file cannot be written} */
TESS_API tessStatus_t tessProfilerStop(tessProfiler_t profiler, const char* outJsonPath);

/** Types of elements: the values of `dtype` arguments.
 * @source{Tessera Runtime & ABI, section 19.B} */
enum {
  TESS_FP8_E4M3 = 1,
  TESS_FP8_E5M2 = 2,
  TESS_FP16 = 3,
  TESS_BF16 = 4,
  TESS_FP32 = 5,
  TESS_FP64 = 6,
  TESS_INT8 = 7,
  TESS_INT16 = 8,
  TESS_INT32 = 9,
  TESS_INT64 = 10,
  TESS_BOOL = 11,
  TESS_COMPLEX64 = 12,
  TESS_COMPLEX128 = 13
};

#ifdef __cplusplus
}
#endif

#endif
