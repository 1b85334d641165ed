/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Modules beyond the specification of Tessera: properties of kernels, arguments,
 * functions of the program as kernels, writing of modules, determinism of launches, and
 * the cache. tessera_ext.h includes this header and gives its conventions. C89, C99 and
 * C++.
 * @source{docs/tessera.md, kernels and modules}
 */
#ifndef TESSERA_MODULE_H_
#define TESSERA_MODULE_H_

#include <stdint.h>

#include "tessera.h"
#include "tessera_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels and arguments */

/** Writes the number of kernels of a module. */
TESS_API tessStatus_t tessModuleGetKernelCount(tessModule_t module, int* count);
/** Writes the name of a kernel, which is valid until the module is unloaded.
 * @error{TESS_ERR_INVALID_VALUE; `index` is not in [0, count of kernels)} */
TESS_API tessStatus_t tessModuleGetKernelName(tessModule_t module, int index,
                                              const char** name);

/** Properties of a kernel. */
typedef struct {
  uint32_t structSize;      /**< size of this structure in bytes */
  uint32_t flags;           /**< TESS_KERNEL_* */
  uint32_t paramCount;      /**< number of parameters */
  uint32_t argBytes;        /**< bytes of the arguments, to the end of the last one */
  uint32_t argBytesPadded;  /**< bytes of the parameter buffer, a multiple of 8 */
  uint32_t defaultBlock[3]; /**< extents of a block; 0: the module gives none */
  uint32_t maxThreads;      /**< most threads of a block */
  uint32_t sharedBytes;     /**< shared memory of each block in bytes */
} tessKernelInfo;

/** One parameter of a kernel. */
typedef struct {
  uint32_t structSize; /**< size of this structure in bytes */
  uint32_t kind;       /**< 0 scalar, 1 pointer, 2 opaque */
  uint32_t dtype;  /**< type of the element or of the elements pointed to; 0: unknown */
  uint32_t size;   /**< size in bytes */
  uint32_t offset; /**< offset in the parameter buffer in bytes */
  uint32_t space;  /**< address space of a pointer, numbered as in LLVM */
  uint32_t direction; /**< 0 in, 1 out, 2 in and out */
  uint32_t reserved;  /**< 0 */
  const char* name;   /**< name; valid until the module is unloaded */
} tessParamInfo;

/** Writes the properties of a kernel. */
TESS_API tessStatus_t tessKernelGetInfo(tessKernel_t kernel, tessKernelInfo* info);
/** Writes the properties of one parameter of a kernel.
 * @error{TESS_ERR_INVALID_VALUE; `index` is not in [0, count of parameters)} */
TESS_API tessStatus_t tessKernelGetParam(tessKernel_t kernel, int index,
                                         tessParamInfo* info);
/** Packs one value per parameter into a parameter buffer for tessLaunch. `values[i]`
 * points to the value of parameter i. @units{size: bytes of the padded buffer}
 * @error{TESS_ERR_INVALID_VALUE; another number of values, a NULL among them, or a buffer
 * that is too small}
 * @source{Tessera Runtime & ABI, section 10.1} */
TESS_API tessStatus_t tessPackArgs(tessKernel_t kernel, const void* const* values,
                                   int valueCount, void* buffer, size_t* size);
/** Writes JSON about a module: its kernels, parameters, targets that it has and that were
 * selected, plans and policy. @units{size: bytes, terminating zero included} */
TESS_API tessStatus_t tessExplain(tessModule_t module, char* buffer, size_t* size);

/** Registers a function of the program, a tessBlockEntry or tessThreadEntry, as code for
 * kernels of this name in modules with code of the kind "CPU_REGISTERED". Needs no
 * context. `flags` are TESS_KERNEL_*.
 * @error{TESS_ERR_INVALID_VALUE; the name is taken or no C identifier, or a parameter is
 * malformed} */
TESS_API tessStatus_t tessRegisterHostKernel(const char* name, void (*entry)(void),
                                             const tessParamInfo* params, int paramCount,
                                             uint32_t flags);
/** Forgets a function of the program. Modules that are loaded keep using it.
 * @error{TESS_ERR_INVALID_VALUE; no function has this name} */
TESS_API tessStatus_t tessUnregisterHostKernel(const char* name);

/* Writing modules */

/** A module that is being written. It belongs to no context and is used by one thread at
 * a time or by several; calls on it are serialised. */
typedef struct tessFatbin* tessFatbin_t;

/** A kernel of a module that is being written. */
typedef struct {
  uint32_t structSize;         /**< size of this structure in bytes */
  uint32_t flags;              /**< TESS_KERNEL_* */
  const char* name;            /**< name of the kernel, a C identifier */
  const char* symbol;          /**< name in the table of the code; NULL: `name` */
  const tessParamInfo* params; /**< parameters in order; their offsets are computed */
  int32_t paramCount;          /**< number of parameters */
  uint32_t defaultBlock[3];    /**< extents of a block; 0: none */
  uint32_t maxThreads;         /**< most threads of a block; 0: 1024 */
  uint32_t sharedBytes;        /**< shared memory of each block in bytes */
  uint64_t targets;            /**< bit i: code i contains the kernel; 0: all do */
} tessFatbinKernel;

/** A hint for collectives of some kind, type, axis and size. */
typedef struct {
  uint32_t structSize; /**< size of this structure in bytes */
  uint32_t
      collective;     /**< 0 all, 1 all-reduce, 2 reduce-scatter, 3 gather, 4 broadcast */
  uint32_t dtype;     /**< type of the elements; 0: any */
  uint32_t algorithm; /**< 0 none, 1 ring, 2 tree, 3 hierarchical, 4 direct */
  const char* axis;   /**< axis; NULL: any */
  uint64_t leastBytes; /**< smallest size of the full buffer that the hint is for */
  uint64_t mostBytes;  /**< largest such size; 0: no limit */
  uint64_t chunkBytes; /**< bytes of a piece; 0: chosen */
  uint32_t wireDtype;  /**< 0, or a narrower type between ranks if the policy allows it */
  uint32_t reserved;   /**< 0 */
} tessFatbinPlan;

/** Begins an empty module for the ABI of this library. */
TESS_API tessStatus_t tessFatbinCreate(tessFatbin_t* fatbin);
/** Ends a module that is being written. Bytes that were built stay with the caller. */
TESS_API tessStatus_t tessFatbinDestroy(tessFatbin_t fatbin);
/** Adds code. `kind` is "CPU_SO", "CPU_REGISTERED" (without bytes), "PTX", "CUBIN",
 * "NVVM_BC", "ROCDL_BC" or "HSACO"; `arch` is, for example, "x86-64-v3". `index` may be
 * NULL; it gets the number of the code for tessFatbinKernel.targets.
 * @error{TESS_ERR_INVALID_VALUE; there is no such kind of code} */
TESS_API tessStatus_t tessFatbinAddCode(tessFatbin_t fatbin, const char* kind,
                                        const char* arch, const void* bytes, size_t size,
                                        int* index);
/** Adds a kernel.
 * @error{TESS_ERR_INVALID_VALUE; a parameter is malformed} */
TESS_API tessStatus_t tessFatbinAddKernel(tessFatbin_t fatbin,
                                          const tessFatbinKernel* kernel);
/** Adds a hint for collectives.
 * @error{TESS_ERR_INVALID_VALUE; there is no such axis} */
TESS_API tessStatus_t tessFatbinAddPlan(tessFatbin_t fatbin, const tessFatbinPlan* plan);
/** Sets the policy and seed for contexts whose program sets none. `wireQuantisation` 0
 * forbids the plans of this module a narrower type between ranks.
 * @error{TESS_ERR_INVALID_VALUE; a member of the policy is neither 0 nor 1} */
TESS_API tessStatus_t tessFatbinSetPolicy(tessFatbin_t fatbin,
                                          const tessNumericsPolicy* policy,
                                          int wireQuantisation, uint64_t seed);
/** Sets JSON about tiles and fusion, which tessExplain shows. */
TESS_API tessStatus_t tessFatbinSetExplain(tessFatbin_t fatbin, const char* json);
/** Sets the SHA-256 of the source of the module: the 32 bytes at `hash32`. */
TESS_API tessStatus_t tessFatbinSetSourceHash(tessFatbin_t fatbin, const void* hash32);
/** Sets the version of the ABI that the module needs.
 * @error{TESS_ERR_INVALID_VALUE; a number is not in [0, 65535]} */
TESS_API tessStatus_t tessFatbinSetAbi(tessFatbin_t fatbin, int major, int minor);
/** Writes the bytes of the module, for tessModuleLoad or a file. The same calls give the
 * same bytes. `secretKey64` is an Ed25519 key, seed and public half, that signs the
 * module; NULL: no signature. @units{size: bytes}
 * @error{TESS_ERR_INVALID_VALUE; the module is not consistent, such as a kernel without
 * code, or the key is not valid}
 * @source{Tessera Runtime & ABI, section 8.1} */
TESS_API tessStatus_t tessFatbinBuild(tessFatbin_t fatbin, const void* secretKey64,
                                      void* buffer, size_t* size);

/* Determinism */

/** Sets the seed of random numbers and the stable toggles (bits of
 * tessDeterminism.stableToggles) of launches from now on. They count before TESS_SEED,
 * the seeds of modules and the policy.
 * @error{TESS_ERR_INVALID_VALUE; unknown toggles}
 * @error{TESS_ERR_DETERMINISM_VIOLATION; TESS_POLICY_LOCK locks the toggles and one of
 * them is missing} */
TESS_API tessStatus_t tessSetDeterminism(tessContext_t ctx, uint64_t seed,
                                         uint32_t stableToggles);
/** Writes the freedom with numbers that the last launch or collective of the stream had;
 * all members are 0 before the first. */
TESS_API tessStatus_t tessStreamGetDeterminism(tessStream_t stream, tessDeterminism* out);

/* Cache of modules and measurements */

/** State of the cache of a context since the context was made. */
typedef struct {
  uint32_t structSize;  /**< size of this structure in bytes */
  uint32_t enabled;     /**< 1 if there is a cache; otherwise all else is 0 */
  uint64_t hits;        /**< entries that were found and used */
  uint64_t misses;      /**< entries that were not found */
  uint64_t stale;       /**< entries of another processor, compiler or build */
  uint64_t quarantined; /**< damaged entries that were renamed */
  uint64_t writes;      /**< entries that were written */
  uint64_t entries;     /**< entries in the folder now */
  uint64_t bytes;       /**< bytes in the folder now */
} tessCacheStats;

/** Reads and checks every entry of the cache. Without a cache it does nothing.
 * @error{TESS_ERR_CACHE_CORRUPT; an entry is damaged} */
TESS_API tessStatus_t tessCacheVerify(tessContext_t ctx);
/** Removes every entry of the cache. Without a cache it does nothing.
 * @error{TESS_ERR_INVALID_VALUE; a file cannot be removed} */
TESS_API tessStatus_t tessCacheClear(tessContext_t ctx);
/** Writes the state of the cache. */
TESS_API tessStatus_t tessCacheGetStats(tessContext_t ctx, tessCacheStats* stats);

#ifdef __cplusplus
}
#endif

#endif
