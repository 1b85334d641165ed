/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Extensions of the Tessera runtime: errors and log, devices, meshes, streams, events;
 * and, by inclusion, memory, modules, collectives and graphs. C89, C99 and C++.
 *
 * The conventions of tessera.h hold here too. In addition:
 *
 * Structures. A structure begins with `structSize`, which the caller sets to its sizeof
 * before each call, and only grows at its end. If the caller's structure is shorter or
 * longer than that of the library, the members that lie wholly inside `structSize` count.
 * Reserved members and bytes that the library does not know must be 0, or the call
 * returns TESS_ERR_INVALID_VALUE.
 *
 * Buffers. A function that fills a buffer of the caller takes its capacity in `size` (or
 * `count`) and writes the needed size there. A NULL buffer asks for that size alone. A
 * buffer that is too small is TESS_ERR_INVALID_VALUE; the needed size is written then
 * too. The size of a text includes its terminating zero.
 *
 * ABI. Names and numbers stay. Functions are added with a minor version of the ABI; see
 * tessGetProcAddress.
 * @source{docs/tessera.md}
 */
#ifndef TESSERA_EXT_H_
#define TESSERA_EXT_H_

#include <stdint.h>

#include "tessera.h"
#include "tessera_collective.h"
#include "tessera_graph.h"
#include "tessera_kernel.h"
#include "tessera_memory.h"
#include "tessera_module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors and log */

/** Returns the text of a status for people, such as "invalid argument or configuration".
 * The text is never NULL and is valid for ever. */
TESS_API const char* tessGetErrorString(tessStatus_t status);
/** Returns the name of a status, such as "TESS_ERR_INVALID_VALUE", valid for ever. */
TESS_API const char* tessGetErrorName(tessStatus_t status);
/** Another name of tessGetErrorString. */
TESS_API const char* tessStatusString(tessStatus_t status);
/** Returns the text of the last call of this thread that failed: what failed, what was
 * expected, what was found. Never NULL; valid until the next call of this thread. */
TESS_API const char* tessGetLastErrorMessage(void);
/** Copies the text of the failure that the last synchronization of the stream returned.
 * @units{size: bytes, terminating zero included} */
TESS_API tessStatus_t tessStreamGetLastMessage(tessStream_t stream, char* buffer,
                                               size_t* size);

/** Levels of lines in the log. */
typedef enum { TESS_LOG_INFO = 1, TESS_LOG_DEBUG = 2, TESS_LOG_TRACE = 3 } tessLogLevel;
/** A function that takes lines of the log. `text` is valid during the call.
 * @threads{called from any thread, also from several at once; must not enqueue or wait}
 */
typedef void (*tessLogFn)(tessLogLevel level, const char* text, void* user);
/** Sends the log of contexts that are made from now on to `fn`; NULL: to standard error.
 * `fn` gets all lines of the level info, and others as TESS_LOG_LEVEL says. */
TESS_API tessStatus_t tessSetLogCallback(tessLogFn fn, void* user);

/** Returns the function of this name, for programs that load the library; NULL if the
 * library has none, or if its minor version of the ABI is below `minAbiMinor`. */
TESS_API void (*tessGetProcAddress(const char* name, int minAbiMinor))(void);

/* Devices and meshes */

/** Properties and limits of a device. */
typedef struct {
  uint32_t structSize;         /**< size of this structure in bytes */
  int32_t ordinal;             /**< number of the device in its context */
  char name[64];               /**< name for people */
  char backend[16];            /**< backend that runs it: "cpu" or "cuda" */
  char arch[32];               /**< code that it runs, such as "x86-64-v3" */
  size_t memory;               /**< bytes that can be allocated */
  size_t alignment;            /**< alignment of every allocation in bytes */
  int32_t maxGrid[3];          /**< largest extents of a grid in blocks */
  int32_t maxBlock[3];         /**< largest extents of a block in threads */
  int32_t maxThreads;          /**< most threads of a block */
  int32_t maxPersistentBlocks; /**< most blocks of a persistent launch */
  size_t maxSharedBytes;       /**< most shared memory of a block in bytes */
} tessDeviceProps;

/** Writes the number of devices of a context. */
TESS_API tessStatus_t tessDeviceGetCount(tessContext_t ctx, int* count);
/** Writes the properties of a device.
 * @error{TESS_ERR_INVALID_VALUE; there is no device of this ordinal} */
TESS_API tessStatus_t tessDeviceGetProps(tessContext_t ctx, int device,
                                         tessDeviceProps* props);

/** Size and shape of a mesh. */
typedef struct {
  uint32_t structSize; /**< size of this structure in bytes */
  int32_t nDevices;    /**< number of ranks */
  tessMeshAxes axes;   /**< devices along each axis; 1 for an absent axis */
} tessMeshInfo;

/** Writes the size and shape of a mesh. */
TESS_API tessStatus_t tessMeshGetInfo(tessMesh_t mesh, tessMeshInfo* info);
/** Writes the coordinates of a rank along tp, pp, dp, ep.
 * @error{TESS_ERR_INVALID_VALUE; there is no such rank} */
TESS_API tessStatus_t tessMeshRankCoords(tessMesh_t mesh, int rank, int coords[4]);
/** Writes the ranks of the group of `rank` along `axis`, in ascending order.
 * @shape{ranks: count elements}
 * @error{TESS_ERR_INVALID_VALUE; there is no such rank or axis} */
TESS_API tessStatus_t tessMeshAxisGroup(tessMesh_t mesh, const char* axis, int rank,
                                        int* ranks, int* count);

/* Streams and events */

/** Properties of a stream that is to be made. */
typedef struct {
  uint32_t structSize; /**< size of this structure in bytes */
  int32_t priority;    /**< lower is more urgent: tessStreamGetPriorityRange */
  int32_t rank;        /**< the one rank that the stream belongs to; -1: all ranks */
  int32_t reserved;    /**< 0 */
  size_t memoryLimit;  /**< limit of tessStreamSetMemoryLimit; 0: the default */
  int64_t timeoutMs;   /**< limit of tessStreamSynchronize; 0: none, -1: the default */
} tessStreamDesc;

/** Makes a stream as the description says. A collective on a stream of one rank is the
 * share of that rank, and waits for the shares of the others.
 * @error{TESS_ERR_INVALID_VALUE; there is no such rank, or the limit is below -1} */
TESS_API tessStatus_t tessStreamCreateEx(tessMesh_t mesh, const tessStreamDesc* desc,
                                         tessStream_t* stream);
/** Writes 1 to `done` if all operations of the stream have ended, and 0 if not. Does not
 * wait. If an operation has failed, returns its status, as tessStreamSynchronize would,
 * and keeps it for that call. */
TESS_API tessStatus_t tessStreamQuery(tessStream_t stream, int* done);
/** Writes 1 to `capturing` between tessStreamBeginCapture and tessStreamEndCapture, also
 * for streams that have joined the capture by waiting for an event of it. */
TESS_API tessStatus_t tessStreamIsCapturing(tessStream_t stream, int* capturing);
/** Writes the priorities that make a difference; others count as the nearest of them.
 * `least` is the default. Each pointer may be NULL. Needs no context. */
TESS_API tessStatus_t tessStreamGetPriorityRange(int* least, int* greatest);

/** Properties of a stream. */
typedef struct {
  uint32_t structSize; /**< size of this structure in bytes */
  int32_t priority;    /**< priority within the range */
  int32_t rank;        /**< the one rank that it belongs to, or -1 */
  int32_t nLanes;      /**< number of its queues, one for each device that it runs on */
  uint64_t id;         /**< its number in traces, graphs and tessDeterminism */
  int32_t capturing;   /**< 1 while it captures */
  int32_t reserved;    /**< 0 */
} tessStreamInfo;

/** Writes the properties of a stream. */
TESS_API tessStatus_t tessStreamGetInfo(tessStream_t stream, tessStreamInfo* info);
/** Sets how long tessStreamSynchronize waits for this stream. @units{milliseconds; 0: no
 * limit}
 * @error{TESS_ERR_INVALID_VALUE; the limit is negative} */
TESS_API tessStatus_t tessStreamSetTimeout(tessStream_t stream, int64_t milliseconds);
/** Limits the memory of the stream: memory of tessMallocAsync, scratch of collectives and
 * shared memory of blocks together. An operation that needs more fails with
 * TESS_ERR_OUT_OF_MEMORY. @units{bytes on each device; 0: no limit} */
TESS_API tessStatus_t tessStreamSetMemoryLimit(tessStream_t stream, size_t bytes);
/** Asks the persistent kernels that run on the stream to stop. Does not wait. */
TESS_API tessStatus_t tessStreamRequestStop(tessStream_t stream);
/** Calls `fn(user)` in the order of the stream, once all its queues are there, on a
 * thread of the runtime. If `fn` throws, the stream fails with TESS_ERR_LAUNCH_FAILED. */
TESS_API tessStatus_t tessLaunchHostFunc(tessStream_t stream, void (*fn)(void* user),
                                         void* user);

/** The default stream of a device for calls that name a native stream. NULL is refused,
 * because libraries disagree about which stream it is. */
#define TESS_NATIVE_LEGACY ((void*)(uintptr_t)1)
/** The default stream of the calling thread, for tessNativeWaitStream. */
#define TESS_NATIVE_PER_THREAD ((void*)(uintptr_t)2)
/** Lets operations that are enqueued from now on wait for the work that a native stream
 * has now. A native stream is a stream of another library: on a GPU a CUstream (which is
 * a cudaStream_t) of the primary context of `device`, or TESS_NATIVE_LEGACY. It must
 * exist during the call. The calling thread does not wait for the work. If the device is
 * lost meanwhile, the stream fails.
 * @error{TESS_ERR_UNSUPPORTED; the devices are not GPUs, or the native stream is
 * TESS_NATIVE_PER_THREAD: another thread than the caller's asks the driver}
 * @error{TESS_ERR_INVALID_VALUE; the stream captures, there is no such device, or
 * `native` is no stream of it or captures} */
TESS_API tessStatus_t tessStreamWaitNative(tessStream_t stream, int device, void* native);
/** Lets work that is submitted to a native stream of `device` from now on run behind the
 * operations that the stream has now. The calling thread waits for these operations, at
 * most as long as TESS_TIMEOUT_MS says, and the native stream gets no work. If one of
 * them has failed, returns its status, which stays for the synchronization of the stream.
 * @error{TESS_ERR_TIMEOUT; the limit passed}
 * @error{TESS_ERR_UNSUPPORTED; the devices are not GPUs}
 * @error{TESS_ERR_INVALID_VALUE; the stream captures, or there is no such device} */
TESS_API tessStatus_t tessNativeWaitStream(void* native, int device, tessStream_t stream);

/** Makes a stream from a native stream of the device of `rank`, for code that takes a
 * stream of Tessera. An operation on it runs behind the work that the native stream has
 * at the time of the call, and the call waits, at most as long as TESS_TIMEOUT_MS
 * says, until that work and the operation have ended: what the native stream gets after
 * the call runs behind the operation. After TESS_ERR_TIMEOUT the operation goes on, and
 * the order is not kept until tessStreamSynchronize. If an operation has failed, these
 * calls return its status until tessStreamSynchronize. A capture on the stream only
 * records. Recording an event does not wait, and the event comes behind the work of the
 * native stream; tessStreamSynchronize also waits for that work, and tessStreamQuery does
 * not ask about it. tessFree, tessMeshDestroy and tessShutdown do not know of the work
 * either: synchronize first. Collectives between streams of several ranks are posted in
 * one group, or by one thread for each rank, because each call waits. Persistent kernels
 * and TESS_LAUNCH_CAPTURE are refused with TESS_ERR_UNSUPPORTED. The native stream must
 * exist until tessStreamDestroy, which does not destroy it. Many operations in a row are
 * faster on a stream of the runtime, between tessStreamWaitNative and
 * tessNativeWaitStream.
 * @error{TESS_ERR_UNSUPPORTED; the devices are not GPUs, or the native stream is
 * TESS_NATIVE_PER_THREAD}
 * @error{TESS_ERR_INVALID_VALUE; there is no such rank, or `native` is no stream of its
 * device or captures} */
TESS_API tessStatus_t tessStreamFromNative(tessMesh_t mesh, int rank, void* native,
                                           tessStream_t* stream);
/** Writes the native stream that a stream was made from, for other libraries.
 * @error{TESS_ERR_INVALID_VALUE; the stream was not made from a native stream} */
TESS_API tessStatus_t tessStreamGetNative(tessStream_t stream, void** native);

/** Writes 1 to `done` if the stream has reached the event, or if the event was never
 * recorded, and 0 if not. Does not wait. If an operation before the event has failed,
 * returns its status, which stays for the synchronization of the stream.
 * @error{TESS_ERR_INVALID_VALUE; the event was recorded in a capture} */
TESS_API tessStatus_t tessEventQuery(tessEvent_t event, int* done);
/** Waits until the stream has reached the event, at most as long as TESS_TIMEOUT_MS says.
 * If an operation before the event has failed, returns its status, which stays for the
 * synchronization of the stream.
 * @error{TESS_ERR_TIMEOUT; the limit passed}
 * @error{TESS_ERR_INVALID_VALUE; the event was recorded in a capture, which is lost} */
TESS_API tessStatus_t tessEventSynchronize(tessEvent_t event);
/** Writes the time from one event to another. Both have been recorded and reached.
 * @units{milliseconds}
 * @error{TESS_ERR_INVALID_VALUE; an event was not recorded or is not reached yet} */
TESS_API tessStatus_t tessEventElapsedTime(float* milliseconds, tessEvent_t start,
                                           tessEvent_t end);

#ifdef __cplusplus
}
#endif

#endif
