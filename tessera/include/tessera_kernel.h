/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Everything that a kernel for processors is compiled against: the context of a block,
 * the services that a kernel may call, and the table by which a shared object lists its
 * kernels. C89, C99 and C++.
 *
 * A kernel is a function of the type tessBlockEntry or tessThreadEntry. The runtime calls
 * it once for each block, or once for each thread of each block, on any of its threads
 * and for several blocks at the same time. Objects that it is given belong to the runtime
 * and are valid until it returns; it may write the memory that its arguments point to and
 * the shared memory of its block, and nothing else. It must not throw and must not call
 * functions of tessera.h that enqueue or wait.
 *
 * Structures begin with their size. They grow at their end only, so that a kernel may
 * read every member that the version of its compilation has.
 * @source{Tessera Runtime & ABI, section 10; docs/tessera.md, kernels}
 */
#ifndef TESSERA_KERNEL_H_
#define TESSERA_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Short name of the context of a block. */
typedef struct tessBlockContext tessBlockContext;

/** Functions that a kernel may call while it runs. */
typedef struct tessKernelServices {
  uint32_t structSize; /**< size of this structure in bytes */
  uint32_t reserved;   /**< 0 */
  /** Waits for all threads of the block. Only per-thread kernels that are marked
   * TESS_KERNEL_USES_BARRIER may call it. */
  void (*barrier)(const tessBlockContext* block);
  /** Waits for all blocks of the grid on this device, and returns non-zero if the kernel
   * has been asked to stop. Only persistent launches may call it. */
  int (*gridBarrier)(const tessBlockContext* block);
  /** Returns non-zero once the kernel has been asked to stop. Persistent kernels call it
   * often and return soon after. */
  int (*stopRequested)(const tessBlockContext* block);
  /** Writes a line to the log of the runtime at level info. */
  void (*log)(const tessBlockContext* block, const char* text);
} tessKernelServices;

/** Describes the freedom with numbers that one launch or collective has, so that a run
 * can be repeated. @source{Tessera Runtime & ABI, section 11} */
typedef struct tessDeterminism {
  uint32_t structSize; /**< size of this structure in bytes */
  uint32_t version;    /**< version of this structure: 1 */
  uint32_t level;      /**< 0 free order, 1 canonical tree, 2 correctly rounded sums */
  uint32_t tree; /**< id of the reduction tree: 1 is the balanced tree over rank index */
  uint32_t stableToggles; /**< bit 0 softmax, bit 1 log-sum-exp, bit 2 clamp */
  uint32_t fastMath;      /**< 1 if fast math is allowed */
  uint64_t seed;          /**< seed of the Philox generator */
  uint64_t stream;        /**< number of the stream that launched */
  uint64_t ordinal;       /**< number of this launch in its stream */
  uint64_t digest;        /**< hash of all members except structSize and digest */
  /** Policy: bit 0 stable reductions, bit 1 deterministic, bit 2 stateless random
   * numbers, bit 3 fast math. */
  uint32_t policy;
  /* The members below describe collectives, which draw no random numbers. Launches have
   * zeros there. */
  uint32_t algorithm;  /**< 1 ring, 2 tree, 3 hierarchical, 4 direct */
  uint32_t accumulate; /**< type in which numbers are added; 0: none are added */
  uint32_t wire;       /**< narrower type between ranks; 0: none */
  uint64_t chunkBytes; /**< bytes of a piece; 0: follows from size and workers */
} tessDeterminism;

/** Position and environment of one block. Every block reads the first 64 bytes; the
 * members behind them are used rarely. */
struct tessBlockContext {
  uint32_t structSize;   /**< size of this structure in bytes */
  int32_t grid[3];       /**< blocks of the launch along x, y, z */
  int32_t block[3];      /**< threads of a block along x, y, z */
  int32_t blockIndex[3]; /**< position of this block in the grid */
  size_t sharedBytes;    /**< bytes of `shared` */
  void*
      shared; /**< scratch memory of this block, aligned to 64 bytes, content undefined */
  const tessKernelServices* services; /**< functions that the kernel may call */
  int32_t rank;                       /**< rank of this device in the mesh */
  int32_t ranks;                      /**< number of devices of the mesh */
  int32_t device;                     /**< ordinal of the device */
  int32_t axisSize[4];                /**< devices along tp, pp, dp, ep */
  int32_t axisIndex[4];               /**< coordinates of this device in the mesh */
  int32_t reserved;                   /**< 0 */
  const tessDeterminism* determinism; /**< freedom with numbers of this launch */
  const void* constants;              /**< read-only data of the module, or NULL */
  size_t constantBytes;               /**< bytes of `constants` */
  void* runtime;                      /**< private data of the services */
};

/** A kernel that runs one block: the function loops over the threads itself. Returns 0
 * on success; any other value makes the launch TESS_ERR_LAUNCH_FAILED. `args` is the
 * parameter buffer of the launch. */
typedef int (*tessBlockEntry)(const tessBlockContext* block, const void* args);
/** A kernel that runs one thread of a block. `thread` holds the position of the thread in
 * the block. Returns 0 on success. */
typedef int (*tessThreadEntry)(const tessBlockContext* block, const int32_t thread[3],
                               const void* args);

/** Properties of a kernel in the tables of modules and shared objects. */
enum {
  /** Equal inputs give equal bits in any order of blocks. */
  TESS_KERNEL_DETERMINISTIC = 1 << 0,
  TESS_KERNEL_USES_BARRIER = 1 << 1,       /**< it calls `barrier` */
  TESS_KERNEL_PER_THREAD = 1 << 2,         /**< the entry is a tessThreadEntry */
  TESS_KERNEL_PERSISTENT_ONLY = 1 << 3,    /**< only persistent launches may run it */
  TESS_KERNEL_PERSISTENT_CAPABLE = 1 << 4, /**< persistent launches may run it too */
  /** It does all of its work with any extents of a block. If it is marked as
   * deterministic too, it gives the same bits with all of them. A launch that leaves the
   * extents 0 may then get other extents than the kernel's own. */
  TESS_KERNEL_ANY_BLOCK = 1 << 5
};

/** One kernel of a shared object. */
typedef struct tessKernelEntry {
  const char* name;    /**< C identifier */
  void (*entry)(void); /**< a tessBlockEntry, or a tessThreadEntry if flagged */
  uint32_t argBytes;   /**< bytes of the padded parameter buffer */
  uint32_t flags;      /**< TESS_KERNEL_* */
} tessKernelEntry;

/** The table of kernels that a shared object exports. */
typedef struct tessKernelLibrary {
  uint32_t structSize;            /**< size of this structure in bytes */
  uint16_t abiMajor;              /**< TESS_ABI_MAJOR of the compilation */
  uint16_t abiMinor;              /**< TESS_ABI_MINOR of the compilation */
  uint32_t entryCount;            /**< number of kernels */
  uint32_t entrySize;             /**< sizeof(tessKernelEntry) of the compilation */
  const tessKernelEntry* entries; /**< the kernels, `entryCount` of them */
} tessKernelLibrary;

/** Name of the one symbol that a shared object exports: a tessKernelLibraryFn. */
#define TESS_KERNEL_LIBRARY_SYMBOL "tessera_kernel_library"
/** Returns the table of a shared object, which must stay valid until it is unloaded. */
typedef const tessKernelLibrary* (*tessKernelLibraryFn)(void);

#ifdef __cplusplus
}
#endif

#endif
