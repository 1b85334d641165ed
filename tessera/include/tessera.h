/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The Tessera runtime, ABI 1.0: contexts, meshes, streams, events, memory, modules,
 * launches, collectives, numerics policy and profiler. What goes beyond the
 * specification is in tessera_ext.h. C89, C99 and C++; every function may be called from
 * any thread.
 *
 * Order of operations. A stream has one lane for each device of its mesh; a stream that
 * is bound to a rank has one lane.
 * * Operations of one stream on memory of one device run in the order of the calls.
 *   Devices do not wait for each other: one may be several operations ahead.
 * * An operation that touches memory which several devices can reach runs in order with
 *   every earlier and every later operation of its stream that may touch the same
 *   memory, whichever lane that runs on. Such memory is that of the host, and on any
 *   other lane the memory of a lane's device: copies between ranks, copies from and to
 *   the host, and launches with a pointer argument into host memory or into another
 *   rank's instance. Copies are ordered by the bytes that they touch, launches by the
 *   whole allocations that their pointer arguments lie in. A launch that several devices
 *   run on the same shared memory runs rank after rank.
 * * An event recorded on a stream has happened when all lanes have reached it. Whoever
 *   waits for it waits for all of them. An event of a rank-bound stream is that rank's.
 * * Operations of different streams are ordered by events and by waiting threads alone.
 * * Collectives of rank-bound streams meet in the order in which each rank has called
 *   them on the group of ranks, whichever streams it used.
 * @source{Tessera Runtime & ABI, sections 4, 6, 12 and 19}
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

#define TESS_ABI_MAJOR 1
#define TESS_ABI_MINOR 0
/** Of the library: counts its releases with the same ABI. */
#define TESS_ABI_PATCH 0

/* 4.1 Initialization and context */

typedef struct tessContext* tessContext_t;
typedef struct tessMesh* tessMesh_t;

typedef enum {
  TESS_OK = 0,
  TESS_ERR_INVALID_VALUE,
  TESS_ERR_OUT_OF_MEMORY,
  TESS_ERR_NOT_INITIALIZED,
  TESS_ERR_LAUNCH_FAILED,
  TESS_ERR_ARCH_MISMATCH,
  TESS_ERR_UNSUPPORTED,
  TESS_ERR_COLLECTIVE_MISMATCH,
  TESS_ERR_DETERMINISM_VIOLATION,
  TESS_ERR_TIMEOUT,
  TESS_ERR_ABI_VERSION_MISMATCH,
  TESS_ERR_CACHE_CORRUPT
} tessStatus_t;

TESS_API tessStatus_t tessInit(tessContext_t* ctx);
TESS_API tessStatus_t tessShutdown(tessContext_t ctx);
TESS_API tessStatus_t tessGetVersion(int* major, int* minor, int* patch);

/* 4.2 Mesh and devices */

typedef struct {
  int tp, pp, dp, ep;
} tessMeshAxes;

TESS_API tessStatus_t tessMeshCreate(tessContext_t ctx, const int* deviceIds,
                                     int nDevices, tessMeshAxes axes,
                                     tessMesh_t* outMesh);
TESS_API tessStatus_t tessMeshDestroy(tessMesh_t mesh);

/* 4.3 Streams and events */

typedef struct tessStream* tessStream_t;
typedef struct tessEvent* tessEvent_t;

TESS_API tessStatus_t tessStreamCreate(tessMesh_t mesh, int priority,
                                       tessStream_t* stream);
TESS_API tessStatus_t tessStreamDestroy(tessStream_t stream);
TESS_API tessStatus_t tessEventCreate(tessEvent_t* event);
TESS_API tessStatus_t tessEventDestroy(tessEvent_t event);
TESS_API tessStatus_t tessEventRecord(tessEvent_t event, tessStream_t stream);
TESS_API tessStatus_t tessStreamWaitEvent(tessStream_t stream, tessEvent_t event);
TESS_API tessStatus_t tessStreamSynchronize(tessStream_t stream);

/* 4.4 Memory */

typedef enum { TESS_MEM_GLOBAL, TESS_MEM_PINNED_HOST } tessMemKind;

TESS_API tessStatus_t tessMalloc(tessMesh_t mesh, size_t bytes, void** devPtr);
TESS_API tessStatus_t tessFree(tessMesh_t mesh, void* devPtr);
TESS_API tessStatus_t tessHostAlloc(size_t bytes, void** hostPtr, tessMemKind kind);
TESS_API tessStatus_t tessHostFree(void* hostPtr);

typedef enum { TESS_COPY_H2D, TESS_COPY_D2H, TESS_COPY_D2D } tessCopyKind;

TESS_API tessStatus_t tessMemcpyAsync(void* dst, const void* src, size_t bytes,
                                      tessCopyKind kind, tessStream_t stream);

/* 4.5 Modules and kernels */

typedef struct tessModule* tessModule_t;
typedef struct tessKernel* tessKernel_t;

/** The module's plans for collectives count until it is unloaded, and so does its policy
 * where the program has set none. A load that fails changes nothing. */
TESS_API tessStatus_t tessModuleLoad(tessContext_t ctx, const void* image, size_t size,
                                     tessModule_t* outModule);
TESS_API tessStatus_t tessModuleUnload(tessModule_t module);
TESS_API tessStatus_t tessKernelGet(tessModule_t module, const char* name,
                                    tessKernel_t* out);

typedef struct {
  int grid[3];
  int block[3];
  size_t shmemBytes;
  unsigned flags;
} tessLaunchConfig;

/* 6 Launch flags */
#define TESS_LAUNCH_DEFAULT 0
#define TESS_LAUNCH_DETERMINISTIC (1 << 0)
#define TESS_LAUNCH_CAPTURE (1 << 1)
#define TESS_LAUNCH_PERSISTENT (1 << 2)
#define TESS_LAUNCH_LOW_LATENCY (1 << 3)

TESS_API tessStatus_t tessLaunch(tessKernel_t kernel, tessMesh_t mesh,
                                 tessLaunchConfig cfg, const void* argBuffer,
                                 size_t argSize, tessStream_t stream);

/* 4.6 Collectives */

typedef enum { TESS_COLL_SUM, TESS_COLL_MAX, TESS_COLL_MIN } tessCollOp;

TESS_API tessStatus_t tessAllReduce(tessMesh_t mesh, void* buffer, size_t count,
                                    int dtype, tessCollOp op, const char* axis,
                                    tessStream_t stream);
TESS_API tessStatus_t tessReduceScatter(tessMesh_t mesh, void* inout, size_t count,
                                        int dtype, tessCollOp op, const char* axis,
                                        tessStream_t stream);
TESS_API tessStatus_t tessAllGather(tessMesh_t mesh, void* inout, size_t count, int dtype,
                                    const char* axis, tessStream_t stream);
TESS_API tessStatus_t tessBroadcast(tessMesh_t mesh, void* buffer, size_t count,
                                    int dtype, int root, tessStream_t stream);

/* 4.7 Numerics and determinism */

typedef struct {
  int stableReductions;
  int deterministic;
  int rngStateless;
  int allowFastMath;
} tessNumericsPolicy;

TESS_API tessStatus_t tessSetNumericsPolicy(tessContext_t ctx,
                                            const tessNumericsPolicy* policy);
TESS_API tessStatus_t tessGetNumericsPolicy(tessContext_t ctx,
                                            tessNumericsPolicy* policy);

/* 4.8 Profiling and tracing */

typedef struct tessProfiler* tessProfiler_t;

TESS_API tessStatus_t tessProfilerStart(tessContext_t ctx, tessProfiler_t* profiler);
/** Writes what was noted as a Chrome trace, unless the path is null, and lets go of it. A
 * profiler that is open at tessShutdown notes nothing more and keeps what it has until it
 * is stopped: it is the program's, as an event is. */
TESS_API tessStatus_t tessProfilerStop(tessProfiler_t profiler, const char* outJsonPath);

/* 19.B Types of elements: the ids of `dtype` arguments */

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
