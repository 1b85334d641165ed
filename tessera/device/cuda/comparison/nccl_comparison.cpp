// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares the declarations of `nccl_api.hpp` with those of NCCL's header, where it is
/// present in version 2.22 or newer. The file contains nothing that runs.
#include "device/cuda/collectives/nccl_api.hpp"

#if defined(WEIR_CUDA_HEADERS) && __has_include(<nccl.h>)

#include <nccl.h>

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 22, 0)

#include <cstddef>

#include "device/cuda/comparison/declaration_comparison.hpp"

namespace weir::tessera::cuda {
namespace {

// An identifier is passed as a value of 128 bytes on both sides.
static_assert(sizeof(nccl_id) == sizeof(ncclUniqueId));
static_assert(alignof(nccl_id) == alignof(ncclUniqueId));

/// True if parameters are the same, or both are identifiers.
template <class Ours, class Theirs>
constexpr bool same_nccl_parameter() {
  if constexpr (std::is_same_v<Ours, nccl_id>) {
    return std::is_same_v<Theirs, ncclUniqueId>;
  } else {
    return same_parameter<Ours, Theirs>();
  }
}
/// Equal numbers of parameters, each pair of which is the same.
template <class Ours, class Theirs>
struct same_nccl_function : std::false_type {};
template <class... Ours, class... Theirs>
requires(sizeof...(Ours) ==
         sizeof...(Theirs)) struct same_nccl_function<nccl_status (*)(Ours...),
                                                      ncclResult_t (*)(Theirs...)>
    : std::bool_constant<(same_nccl_parameter<Ours, Theirs>() && ...)> {
};

/// The functions of the header are taken, not those of a library.
#define WEIR_NCCL_COMPARE(member, name, parameters)                             \
  static_assert(                                                                \
      same_nccl_function<decltype(nccl_api::member), decltype(&::name)>::value, \
      #name " differs from NCCL's declaration");
WEIR_NCCL_FUNCTIONS(WEIR_NCCL_COMPARE)
#undef WEIR_NCCL_COMPARE
/// Has an enumeration of NCCL as its parameter.
static_assert(
    std::is_same_v<decltype(&::ncclGetErrorString), const char* (*)(ncclResult_t)>);

#define WEIR_NCCL_NUMBER(ours, theirs) \
  static_assert(same_number(ours, theirs), #theirs " has another number")
/// Outcomes.
WEIR_NCCL_NUMBER(nccl_status::success, ncclSuccess);
WEIR_NCCL_NUMBER(nccl_status::unhandled_cuda_error, ncclUnhandledCudaError);
WEIR_NCCL_NUMBER(nccl_status::system_error, ncclSystemError);
WEIR_NCCL_NUMBER(nccl_status::internal_error, ncclInternalError);
WEIR_NCCL_NUMBER(nccl_status::invalid_argument, ncclInvalidArgument);
WEIR_NCCL_NUMBER(nccl_status::invalid_usage, ncclInvalidUsage);
WEIR_NCCL_NUMBER(nccl_status::remote_error, ncclRemoteError);
WEIR_NCCL_NUMBER(nccl_status::in_progress, ncclInProgress);
/// Types of elements. fp8 came with version 2.24.
WEIR_NCCL_NUMBER(nccl_type::int8, ncclInt8);
WEIR_NCCL_NUMBER(nccl_type::uint8, ncclUint8);
WEIR_NCCL_NUMBER(nccl_type::int32, ncclInt32);
WEIR_NCCL_NUMBER(nccl_type::uint32, ncclUint32);
WEIR_NCCL_NUMBER(nccl_type::int64, ncclInt64);
WEIR_NCCL_NUMBER(nccl_type::uint64, ncclUint64);
WEIR_NCCL_NUMBER(nccl_type::float16, ncclFloat16);
WEIR_NCCL_NUMBER(nccl_type::float32, ncclFloat32);
WEIR_NCCL_NUMBER(nccl_type::float64, ncclFloat64);
WEIR_NCCL_NUMBER(nccl_type::bfloat16, ncclBfloat16);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
WEIR_NCCL_NUMBER(nccl_type::float8e4m3, ncclFloat8e4m3);
WEIR_NCCL_NUMBER(nccl_type::float8e5m2, ncclFloat8e5m2);
#endif
/// Operations of reductions.
WEIR_NCCL_NUMBER(nccl_operation::sum, ncclSum);
WEIR_NCCL_NUMBER(nccl_operation::product, ncclProd);
WEIR_NCCL_NUMBER(nccl_operation::max, ncclMax);
WEIR_NCCL_NUMBER(nccl_operation::min, ncclMin);
WEIR_NCCL_NUMBER(nccl_operation::average, ncclAvg);
#undef WEIR_NCCL_NUMBER
/// The value of options that are not set.
static_assert(nccl_undefined == NCCL_CONFIG_UNDEF_INT);

// The options begin as those of every later version do.
#define WEIR_NCCL_OFFSET(ours, theirs)                                           \
  static_assert(offsetof(nccl_config, ours) == offsetof(ncclConfig_t, theirs) && \
                    sizeof(nccl_config::ours) == sizeof(ncclConfig_t::theirs),   \
                "ncclConfig_t." #theirs " has another place")
WEIR_NCCL_OFFSET(size, size);
WEIR_NCCL_OFFSET(magic, magic);
WEIR_NCCL_OFFSET(version, version);
WEIR_NCCL_OFFSET(blocking, blocking);
WEIR_NCCL_OFFSET(cga_cluster_size, cgaClusterSize);
WEIR_NCCL_OFFSET(min_ctas, minCTAs);
WEIR_NCCL_OFFSET(max_ctas, maxCTAs);
WEIR_NCCL_OFFSET(net_name, netName);
WEIR_NCCL_OFFSET(split_share, splitShare);
#undef WEIR_NCCL_OFFSET
/// Later versions may have more options.
static_assert(sizeof(nccl_config) <= sizeof(ncclConfig_t));

}  // namespace
}  // namespace weir::tessera::cuda

#endif
#endif
