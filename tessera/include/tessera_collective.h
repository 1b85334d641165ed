/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Collectives beyond the specification of Tessera: further kinds, separate results,
 * choice of the algorithm, groups of calls, and recovery after ranks did not come.
 * tessera_ext.h includes this header and gives its conventions. C89, C99 and C++.
 *
 * A call on a stream of all ranks serves all ranks at once. A call on a stream of one
 * rank is the share of that rank: the collective runs when all ranks of the group have
 * called it, each on a stream of its own.
 *
 * `count` is the number of elements of the full buffer for every kind. With R ranks in
 * the group, shard r begins at element r * count / R. A NULL `recvbuf` means that the
 * result replaces the input; otherwise both buffers must not overlap, except that they
 * may be equal.
 * @source{Tessera Runtime & ABI, section 13; docs/tessera.md, collectives}
 */
#ifndef TESSERA_COLLECTIVE_H_
#define TESSERA_COLLECTIVE_H_

#include <stdint.h>

#include "tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Further operations of collectives, beside tessCollOp. */
enum { TESS_COLL_PRODUCT = 3, TESS_COLL_AVERAGE = 4 };

/** Kinds of collectives. */
typedef enum {
  TESS_COLLECTIVE_ALL_REDUCE = 0, /**< all ranks get the combined buffer */
  TESS_COLLECTIVE_REDUCE_SCATTER, /**< rank r gets shard r of the combined buffer */
  TESS_COLLECTIVE_ALL_GATHER,     /**< all ranks get shard r of each rank r */
  TESS_COLLECTIVE_BROADCAST,      /**< all ranks get the buffer of `root` */
  TESS_COLLECTIVE_REDUCE,         /**< `root` gets the combined buffer */
  TESS_COLLECTIVE_GATHER,         /**< `root` gets shard r of each rank r */
  TESS_COLLECTIVE_SCATTER,        /**< rank r gets shard r of `root` */
  TESS_COLLECTIVE_ALL_TO_ALL,     /**< rank r gets, as shard s, shard r of rank s */
  TESS_COLLECTIVE_SEND,           /**< `peer` gets the buffer of `root` */
  TESS_COLLECTIVE_BARRIER         /**< waits for all ranks; moves nothing */
} tessCollectiveKind;

/** One collective. */
typedef struct {
  uint32_t structSize; /**< size of this structure in bytes */
  int32_t kind;        /**< tessCollectiveKind */
  const void* sendbuf; /**< input */
  void* recvbuf;       /**< result; NULL: in place of the input */
  size_t count;        /**< elements of the full buffer */
  int32_t dtype;       /**< type of the elements: TESS_FP32 and so on */
  int32_t op;          /**< operation of kinds that combine buffers */
  const char* axis;    /**< "dp", "tp+dp"; NULL, "" and "world": all ranks */
  int32_t root;        /**< rank that gives or gets the data, where a kind has one */
  int32_t peer;        /**< rank that TESS_COLLECTIVE_SEND goes to; only it reads this */
  const char* algorithm; /**< "direct", "ring", "tree", "hierarchical"; NULL: chosen */
  size_t chunkBytes;     /**< bytes of a piece; 0: chosen */
  int32_t wireDtype; /**< 0, or a narrower type between ranks if the policy allows it */
  int32_t packedShards; /**< 1: a shard alone stands at the start of its own buffer */
  /** Milliseconds that the share of one rank waits for the others; 0: as
   * TESS_COLL_TIMEOUT_MS says, -1: without a limit. The shortest of a group counts. */
  int64_t timeoutMs;
} tessCollectiveDesc;

/** Enqueues a collective. The errors are those of all functions that enqueue one.
 * @shape{sendbuf, recvbuf: count elements on each rank, or one shard if packed}
 * @error{TESS_ERR_INVALID_VALUE; the stream is of another mesh, a member is out of range,
 * `count` is no multiple of the ranks where there are shards, a buffer is too short or
 * unknown, buffers overlap, or the type does not have the operation}
 * @error{TESS_ERR_UNSUPPORTED; the algorithm does not serve this kind or topology}
 * @error{TESS_ERR_DETERMINISM_VIOLATION; a narrower type that the policy forbids}
 * @error{TESS_ERR_TIMEOUT; ranks of the group did not come: see tessMeshRecover}
 * @error{TESS_ERR_COLLECTIVE_MISMATCH; at synchronization: ranks called differently}
 * @error{TESS_ERR_OUT_OF_MEMORY; at synchronization: no memory for scratch} */
TESS_API tessStatus_t tessCollective(tessMesh_t mesh, const tessCollectiveDesc* desc,
                                     tessStream_t stream);
/** Combines the buffers of each group; rank `root` of the group gets the result. `op` is
 * a tessCollOp or one of the further operations. @shape{sendbuf, recvbuf: count elements}
 */
TESS_API tessStatus_t tessReduce(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                                 size_t count, int dtype, int op, int root,
                                 const char* axis, tessStream_t stream);
/** Sends shard r of each rank r of a group to rank `root` of the group.
 * @shape{sendbuf, recvbuf: count elements} */
TESS_API tessStatus_t tessGather(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                                 size_t count, int dtype, int root, const char* axis,
                                 tessStream_t stream);
/** Sends shard r of rank `root` of a group to rank r of the group.
 * @shape{sendbuf, recvbuf: count elements} */
TESS_API tessStatus_t tessScatter(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                                  size_t count, int dtype, int root, const char* axis,
                                  tessStream_t stream);
/** Sends shard r of each rank s of a group to rank r, which gets it as shard s.
 * @shape{sendbuf, recvbuf: count elements} */
TESS_API tessStatus_t tessAllToAll(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                                   size_t count, int dtype, const char* axis,
                                   tessStream_t stream);
/** Sends a buffer from rank `source` of the mesh to rank `target`, in the streams of
 * both. One call on a stream of all ranks does it. On streams of one rank, each of the
 * two ranks calls it, and no other rank does. @shape{sendbuf, recvbuf: count elements}
 * @error{TESS_ERR_INVALID_VALUE; the stream belongs to a third rank} */
TESS_API tessStatus_t tessSendRecv(tessMesh_t mesh, const void* sendbuf, void* recvbuf,
                                   size_t count, int dtype, int source, int target,
                                   tessStream_t stream);
/** Lets operations that are enqueued from now on wait until all ranks of each group along
 * `axis` have reached the barrier. The calling thread does not wait. */
TESS_API tessStatus_t tessBarrier(tessMesh_t mesh, const char* axis, tessStream_t stream);

/* Ranks that do not come */

/** Makes collectives on streams of one rank usable again after one of them has failed.
 *
 * A rank that does not come in time breaks its group: nobody can know whether its next
 * call is the missing one or the one after it. From then on every collective call on that
 * group returns TESS_ERR_TIMEOUT at once, with a text that names the operation and the
 * missing ranks; shares that wait end with the same status. Calls that differ
 * (TESS_ERR_COLLECTIVE_MISMATCH) do not break the group, because all ranks have come.
 *
 * Each rank calls this for itself, or one thread calls it with `rank` -1 for all. Calls
 * of the rank afterwards meet calls that the other ranks make after their own recovery,
 * on all groups of the mesh. Once all ranks have recovered, shares from before that still
 * wait end with TESS_ERR_TIMEOUT. Does not wait.
 * @error{TESS_ERR_INVALID_VALUE; there is no such rank} */
TESS_API tessStatus_t tessMeshRecover(tessMesh_t mesh, int rank);

/** Ends every collective of the mesh that waits for ranks, as if they had not come in
 * time: streams that wait get TESS_ERR_TIMEOUT, and so does every collective of a
 * rank-bound stream until tessMeshRecover. A collective that all ranks have reached runs
 * to its end. Persistent kernels go on; see tessStreamRequestStop. Does not wait. */
TESS_API tessStatus_t tessMeshAbort(tessMesh_t mesh);
/** Returns TESS_OK if collectives of this rank on its own streams can meet those of the
 * other ranks. Does not wait and changes nothing. tessStreamQuery tells of failures of a
 * stream.
 * @error{TESS_ERR_TIMEOUT; a group of the rank is broken or was aborted; the text is that
 * of the collective}
 * @error{TESS_ERR_INVALID_VALUE; there is no such rank} */
TESS_API tessStatus_t tessMeshQuery(tessMesh_t mesh, int rank);

/* Groups of calls */

/** Begins a group. Collectives that this thread calls until tessGroupEnd are checked at
 * once and enqueued together at the end of the outermost group. Shares on streams of one
 * rank then wait for their peers together and may run in any order. All other calls take
 * effect at once. Groups may be nested. */
TESS_API tessStatus_t tessGroupStart(void);
/** Ends a group. The end of the outermost group enqueues all its collectives, or none if
 * one of the calls has failed, and then returns the status of that call. Calls of other
 * threads do not come between them.
 * @error{TESS_ERR_INVALID_VALUE; this thread has begun no group} */
TESS_API tessStatus_t tessGroupEnd(void);

#ifdef __cplusplus
}
#endif

#endif
