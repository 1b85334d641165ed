/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What a kernel for processors is compiled against: the context of a block, the services
 * that a kernel may ask for, and the table by which a shared object lists its kernels.
 * C89, C99 and C++. Structures begin with their size and only ever grow at their end.
 * @source{docs/tessera.md, kernels}
 */
#ifndef TESSERA_KERNEL_H_
#define TESSERA_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tessBlockContext tessBlockContext;

/** Calls that a kernel may make. Valid while the kernel runs. */
typedef struct tessKernelServices {
  uint32_t structSize;
  uint32_t reserved;
  /** Waits for all threads of the block. Only in per-thread kernels that are marked as
   * using barriers. */
  void (*barrier)(const tessBlockContext* block);
  /** Waits for all blocks of the grid on this device. Only in persistent kernels; returns
   * non-zero when the kernel has been asked to stop. */
  int (*gridBarrier)(const tessBlockContext* block);
  /** Non-zero once the kernel has been asked to stop. Persistent kernels look at it
   * often. */
  int (*stopRequested)(const tessBlockContext* block);
  /** Writes a line to the log of the runtime at level info. */
  void (*log)(const tessBlockContext* block, const char* text);
} tessKernelServices;

/** How numbers are to be treated by one launch or collective. @source{Tessera Runtime &
 * ABI, section 11} */
typedef struct tessDeterminism {
  uint32_t structSize;
  uint32_t version; /**< of this structure: 1 */
  uint32_t level;   /**< 0 free order, 1 canonical tree, 2 correctly rounded sums */
  uint32_t tree; /**< id of the reduction tree: 1 is the balanced tree over rank index */
  uint32_t stableToggles; /**< bit 0 softmax, bit 1 log-sum-exp, bit 2 clamp */
  uint32_t fastMath;      /**< 1 where allowed */
  uint64_t seed;          /**< of the Philox generator */
  uint64_t stream;        /**< number of the stream that launched */
  uint64_t ordinal;       /**< of this launch in its stream */
  uint64_t digest;        /**< over all but structSize and itself */
  /** bit 0 stable reductions, 1 deterministic, 2 stateless random numbers, 3 fast math */
  uint32_t policy;
  /* of collectives, which draw no random numbers; zero for launches */
  uint32_t algorithm;  /**< 1 ring, 2 tree, 3 hierarchical, 4 direct */
  uint32_t accumulate; /**< type that numbers are added in; 0: none are */
  uint32_t wire;       /**< narrower type between ranks; 0: none */
  uint64_t chunkBytes; /**< of the pieces; 0: by size and workers */
} tessDeterminism;

/** What a block knows about itself. The first 64 bytes are what every block reads. */
struct tessBlockContext {
  uint32_t structSize;
  int32_t grid[3];
  int32_t block[3]; /**< threads */
  int32_t blockIndex[3];
  size_t sharedBytes;
  void* shared; /**< scratch of this block, 64-byte aligned, any content */
  const tessKernelServices* services;
  /* the colder part */
  int32_t rank;         /**< of this device in the mesh */
  int32_t ranks;        /**< devices of the mesh */
  int32_t device;       /**< ordinal of the device */
  int32_t axisSize[4];  /**< tp, pp, dp, ep */
  int32_t axisIndex[4]; /**< coordinates of this device */
  int32_t reserved;
  const tessDeterminism* determinism;
  const void* constants; /**< read-only data of the module, or null */
  size_t constantBytes;
  void* runtime; /**< for the services */
};

/** Runs one block: the function loops over its threads itself. Zero is success; anything
 * else becomes TESS_ERR_LAUNCH_FAILED. Runs on any thread, and at the same time as other
 * blocks. */
typedef int (*tessBlockEntry)(const tessBlockContext* block, const void* args);
/** Runs one thread of a block; `thread` holds its three indices. */
typedef int (*tessThreadEntry)(const tessBlockContext* block, const int32_t thread[3],
                               const void* args);

/** What is said of a kernel in the tables of modules and libraries. */
enum {
  TESS_KERNEL_DETERMINISTIC =
      1 << 0, /**< same inputs give the same bits in any order of blocks */
  TESS_KERNEL_USES_BARRIER = 1 << 1,
  TESS_KERNEL_PER_THREAD = 1 << 2, /**< the entry is a tessThreadEntry */
  TESS_KERNEL_PERSISTENT_ONLY = 1 << 3,
  TESS_KERNEL_PERSISTENT_CAPABLE = 1 << 4,
  /** It does all of its work with any extents of a block. If it is marked as
   * deterministic too, it gives the same bits with all of them. Launches that leave the
   * extents 0 may then get others than the module's own. */
  TESS_KERNEL_ANY_BLOCK = 1 << 5
};

/** One kernel of a shared object. */
typedef struct tessKernelEntry {
  const char* name;    /**< C identifier */
  void (*entry)(void); /**< a tessBlockEntry, or a tessThreadEntry if flagged */
  uint32_t argBytes;   /**< of the padded parameter buffer */
  uint32_t flags;      /**< TESS_KERNEL_* */
} tessKernelEntry;

/** What a shared object answers when it is asked for its kernels. */
typedef struct tessKernelLibrary {
  uint32_t structSize;
  uint16_t abiMajor;
  uint16_t abiMinor;
  uint32_t entryCount;
  uint32_t entrySize; /**< sizeof(tessKernelEntry) of the compiler that built it */
  const tessKernelEntry* entries;
} tessKernelLibrary;

/** Name and type of the one symbol that a shared object exports. */
#define TESS_KERNEL_LIBRARY_SYMBOL "tessera_kernel_library"
typedef const tessKernelLibrary* (*tessKernelLibraryFn)(void);

#ifdef __cplusplus
}
#endif

#endif
