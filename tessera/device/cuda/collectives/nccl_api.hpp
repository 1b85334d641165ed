// SPDX-License-Identifier: Apache-2.0
/// @file
/// Types, numbers and functions of NCCL that collectives of level 0 use, declared here so
/// that no header of NVIDIA is needed. `nccl_comparison.cpp` compares them with NCCL's
/// header where there is one.
///
/// The library has no versions of single functions: its own version is asked for, and
/// every function that is listed here exists since `least_nccl_version`.
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <string>

#include "device/cuda/driver_api.hpp"
#include "weir/base/error.hpp"

namespace weir::tessera::cuda {

/// Outcome of a call of NCCL: ncclResult_t.
enum class nccl_status : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7
};

/// Types of elements: ncclDataType_t.
enum class nccl_type : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8e4m3 = 10,
  float8e5m2 = 11
};

/// Operations of reductions: ncclRedOp_t.
enum class nccl_operation : int { sum = 0, product = 1, max = 2, min = 3, average = 4 };

/// Identifies the ranks that make communicators together: ncclUniqueId.
struct nccl_id {
  std::array<char, 128> bytes{};
};

/// Stands for a member of `nccl_config` that keeps its default: NCCL_CONFIG_UNDEF_INT.
inline constexpr int nccl_undefined = INT_MIN;
/// Version of NCCL of which `nccl_config` is the form: 2.19.
inline constexpr int nccl_config_version = 21900;

/// Options of a communicator: ncclConfig_t in the form of NCCL 2.17 to 2.19. Later forms
/// have more members behind these; the library takes as many bytes as `size` says.
struct nccl_config {
  std::size_t size = sizeof(nccl_config);
  unsigned magic = 0xcafebeef;
  unsigned version = nccl_config_version;
  int blocking = nccl_undefined;
  int cga_cluster_size = nccl_undefined;
  int min_ctas = nccl_undefined;
  int max_ctas = nccl_undefined;
  const char* net_name = nullptr;
  int split_share = nccl_undefined;
};

struct nccl_communicator_object;
using nccl_communicator = nccl_communicator_object*;  ///< ncclComm_t

// The functions: member of `nccl_api`, name in the library, parameters. All of them
// return ncclResult_t.
#define WEIR_NCCL_FUNCTIONS(X)                                                           \
  X(get_version, ncclGetVersion, (int*))                                                 \
  X(get_unique_id, ncclGetUniqueId, (nccl_id*))                                          \
  X(init_rank, ncclCommInitRankConfig,                                                   \
    (nccl_communicator*, int, nccl_id, int, nccl_config*))                               \
  X(finalize, ncclCommFinalize, (nccl_communicator))                                     \
  X(destroy, ncclCommDestroy, (nccl_communicator))                                       \
  X(abort, ncclCommAbort, (nccl_communicator))                                           \
  X(async_error, ncclCommGetAsyncError, (nccl_communicator, nccl_status*))               \
  X(group_start, ncclGroupStart, ())                                                     \
  X(group_end, ncclGroupEnd, ())                                                         \
  X(all_reduce, ncclAllReduce,                                                           \
    (const void*, void*, std::size_t, nccl_type, nccl_operation, nccl_communicator,      \
     stream_handle))                                                                     \
  X(reduce_scatter, ncclReduceScatter,                                                   \
    (const void*, void*, std::size_t, nccl_type, nccl_operation, nccl_communicator,      \
     stream_handle))                                                                     \
  X(all_gather, ncclAllGather,                                                           \
    (const void*, void*, std::size_t, nccl_type, nccl_communicator, stream_handle))      \
  X(broadcast, ncclBroadcast,                                                            \
    (const void*, void*, std::size_t, nccl_type, int, nccl_communicator, stream_handle)) \
  X(reduce, ncclReduce,                                                                  \
    (const void*, void*, std::size_t, nccl_type, nccl_operation, int, nccl_communicator, \
     stream_handle))                                                                     \
  X(send, ncclSend,                                                                      \
    (const void*, std::size_t, nccl_type, int, nccl_communicator, stream_handle))        \
  X(receive, ncclRecv,                                                                   \
    (void*, std::size_t, nccl_type, int, nccl_communicator, stream_handle))

/// The functions.
struct nccl_api {
#define WEIR_NCCL_MEMBER(member, name, parameters) \
  nccl_status(*member) parameters = nullptr;
  WEIR_NCCL_FUNCTIONS(WEIR_NCCL_MEMBER)
#undef WEIR_NCCL_MEMBER
  /// ncclGetErrorString, which returns a text.
  const char* (*error_string)(nccl_status) = nullptr;
};

/// A library that is loaded. It is never unloaded, because its threads may live on.
struct nccl_library {
  nccl_api api;
  int version = 0;  ///< 10000 * major + 100 * minor + patch
};

/// Oldest version of the library that is used: 2.19.
inline constexpr int least_nccl_version = 21900;
/// Oldest version of the library that knows types of fp8.
inline constexpr int fp8_nccl_version = 22400;

/// Loads NCCL and looks up its functions. @error{not_found; there is no such library}
/// @error{unsupported; the library is too old or lacks a function}
[[nodiscard]] result<nccl_library> load_nccl(const std::string& library);

/// Returns the error code for an outcome other than success.
[[nodiscard]] errc code_of(nccl_status s) noexcept;
/// Returns the error of a call that has failed. `action` says what the call was for.
[[nodiscard]] error failure_of(const nccl_api& api, nccl_status s,
                               std::string_view action);

}  // namespace weir::tessera::cuda
