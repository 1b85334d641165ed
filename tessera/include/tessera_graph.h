/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Graphs of operations that were captured from streams, and profilers with a limit.
 * tessera_ext.h includes this header and gives its conventions. C89, C99 and C++.
 * @source{Tessera Runtime & ABI, section 12; docs/tessera.md, graphs}
 */
#ifndef TESSERA_GRAPH_H_
#define TESSERA_GRAPH_H_

#include <stdint.h>

#include "tessera.h"
#include "tessera_collective.h"
#include "tessera_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Captures */

/** A recorded graph. It cannot change. */
typedef struct tessGraph* tessGraph_t;
/** A graph that can be launched and whose nodes can be updated. */
typedef struct tessGraphExec* tessGraphExec_t;

/** Treatment of calls that other threads make during a capture and that would enqueue on
 * its streams, wait for one of them, or make another stream a part of the capture. */
typedef enum {
  TESS_CAPTURE_GLOBAL = 0,       /**< TESS_ERR_INVALID_VALUE, and the capture is lost */
  TESS_CAPTURE_THREAD_LOCAL = 1, /**< TESS_ERR_INVALID_VALUE; the capture goes on */
  TESS_CAPTURE_RELAXED = 2       /**< they are recorded */
} tessCaptureMode;

/** Begins a capture with the mode TESS_CAPTURE_GLOBAL. The stream records operations
 * instead of running them, and so does every stream that waits for an event of the
 * capture. Arguments, addresses, policy and schedules are those at the time of the calls.
 * * tessGraphLaunch becomes one node with the nodes that the graph has then.
 * * tessMallocAsync gives memory of the graph, with one address in all runs. Memory that
 *   is not given back by tessFreeAsync in the same capture belongs to the program after
 *   each launch, at the cost of the stream of the launch, until the program gives it
 * back. A launch before that is TESS_ERR_INVALID_VALUE.
 * * A collective of a rank-bound stream is the share of the rank in each run. It has the
 *   place among the collectives of the rank that the launch of the run has.
 *
 * Calls that cannot be recorded are refused: waiting for the stream or for an event of
 * the capture, waiting for an event from outside, and persistent launches. The capture is
 * lost after such a wait: tessStreamEndCapture then gives no graph.
 * @error{TESS_ERR_INVALID_VALUE; the stream captures already}
 * @error{TESS_ERR_UNSUPPORTED; from tessGraphLaunch during the capture: a graph with
 * collectives of rank-bound streams or one that leaves memory to the program} */
TESS_API tessStatus_t tessStreamBeginCapture(tessStream_t stream);
/** Begins a capture with another mode, as tessStreamBeginCapture.
 * @error{TESS_ERR_INVALID_VALUE; no such mode, or the stream captures already} */
TESS_API tessStatus_t tessStreamBeginCaptureEx(tessStream_t stream, tessCaptureMode mode);
/** Ends the capture that began on this stream and gives its graph. The thread that began
 * the capture calls it, unless the mode is relaxed.
 * @error{TESS_ERR_INVALID_VALUE; no capture, the call of another thread, a capture that
 * is lost, or a stream that joined and was not joined back} */
TESS_API tessStatus_t tessStreamEndCapture(tessStream_t stream, tessGraph_t* graph);
/** Gives the graph of the launches with TESS_LAUNCH_CAPTURE and of the operations behind
 * them, which a synchronization of the stream has closed.
 * @error{TESS_ERR_INVALID_VALUE; there is no closed recording} */
TESS_API tessStatus_t tessStreamTakeGraph(tessStream_t stream, tessGraph_t* graph);

/* Graphs */

/** Writes the number of nodes of a graph. */
TESS_API tessStatus_t tessGraphGetNodeCount(tessGraph_t graph, size_t* count);
/** Writes a graph as text. `format` is "dot" or "json". A node in JSON has index, kind,
 * name, stream, bytes and after; a launch also has grid, block and arguments, each a
 * hexadecimal number. @units{size: bytes, terminating zero included}
 * @error{TESS_ERR_INVALID_VALUE; another format} */
TESS_API tessStatus_t tessGraphExport(tessGraph_t graph, const char* format, char* buffer,
                                      size_t* size);
/** Ends a graph. Executable graphs that were made from it stay. */
TESS_API tessStatus_t tessGraphDestroy(tessGraph_t graph);
/** Makes an executable graph. A graph may be made executable several times.
 * @error{TESS_ERR_OUT_OF_MEMORY; no memory for the memory nodes of the graph} */
TESS_API tessStatus_t tessGraphInstantiate(tessGraph_t graph, tessGraphExec_t* exec);
/** Runs an executable graph behind the operations that the stream has now. Runs of one
 * executable graph, and of graphs with the same memory, go one after another. On a stream
 * that captures, the graph becomes a node of the recording.
 * @error{TESS_ERR_INVALID_VALUE; the stream is of other devices, or the program still
 * holds memory of the run before}
 * @error{TESS_ERR_OUT_OF_MEMORY; the limit of the stream is below what the graph needs}
 * @error{TESS_ERR_UNSUPPORTED; the graph cannot be a node of a capture} */
TESS_API tessStatus_t tessGraphLaunch(tessGraphExec_t exec, tessStream_t stream);
/** Ends an executable graph. Runs that were enqueued before still end. */
TESS_API tessStatus_t tessGraphExecDestroy(tessGraphExec_t exec);

/* Updates of nodes. All four functions wait for the runs that were enqueued before and
 * change node number `node` for the runs after them. The node keeps its place and its
 * predecessors. `stream` has the devices, and the rank, of the stream that the node was
 * recorded on. */

/** Replaces a launch by another.
 * @error{TESS_ERR_INVALID_VALUE; no such node, a node of another kind, and the errors of
 * tessLaunch} */
TESS_API tessStatus_t tessGraphExecUpdateLaunch(tessGraphExec_t exec, size_t node,
                                                tessKernel_t kernel, tessLaunchConfig cfg,
                                                const void* argBuffer, size_t argSize,
                                                tessStream_t stream);
/** Replaces a copy by another, also of another direction, or of one rank by all ranks.
 * @error{TESS_ERR_INVALID_VALUE; no such node, a node of another kind, no bytes, and the
 * errors of tessCopyAsync} */
TESS_API tessStatus_t tessGraphExecUpdateCopy(tessGraphExec_t exec, size_t node,
                                              const tessCopyDesc* desc,
                                              tessStream_t stream);
/** Replaces a fill by another.
 * @error{TESS_ERR_INVALID_VALUE; no such node, a node of another kind, no bytes, and the
 * errors of tessMemsetAsync} */
TESS_API tessStatus_t tessGraphExecUpdateFill(tessGraphExec_t exec, size_t node,
                                              void* devPtr, int value, size_t bytes,
                                              tessStream_t stream);
/** Replaces a collective by another, also of another kind. Ranks that meet in a graph
 * each update their own node.
 * @error{TESS_ERR_INVALID_VALUE; no such node, a node of another kind, no elements, and
 * the errors of tessCollective} */
TESS_API tessStatus_t tessGraphExecUpdateCollective(tessGraphExec_t exec, size_t node,
                                                    const tessCollectiveDesc* desc,
                                                    tessStream_t stream);

/* Profiling */

/** Properties of a profiler. */
typedef struct {
  uint32_t structSize; /**< size of this structure in bytes */
  uint32_t reserved;   /**< 0 */
  /** Operations and calls that are kept, the earliest first; the others are counted.
   * 0: as TESS_PROFILER_RECORDS says, or 262144, which take about 100 MB. */
  uint64_t maxRecords;
} tessProfilerDesc;

/** Begins to record as tessProfilerStart, with a limit. The metadata of the trace says
 * how many records were dropped. */
TESS_API tessStatus_t tessProfilerStartEx(tessContext_t ctx, const tessProfilerDesc* desc,
                                          tessProfiler_t* profiler);

#ifdef __cplusplus
}
#endif

#endif
