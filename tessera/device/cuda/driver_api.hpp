// SPDX-License-Identifier: Apache-2.0
/// @file
/// Types, numbers and functions of the CUDA Driver API that the backend uses, declared
/// here so that no header of the toolkit is needed. `header_comparison.cpp` compares them
/// with the toolkit's header where there is one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "weir/base/error.hpp"

namespace weir::tessera::cuda {

/// Outcome of a call of the driver: CUresult.
enum class status : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  device_unavailable = 46,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  ecc_uncorrectable = 214,
  peer_access_unsupported = 217,
  invalid_ptx = 218,
  nvlink_uncorrectable = 220,
  jit_compiler_not_found = 221,
  unsupported_ptx_version = 222,
  contained = 226,
  invalid_source = 300,
  operating_system = 304,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  context_is_destroyed = 709,
  assertion = 710,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  hardware_stack_error = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
  cooperative_launch_too_large = 720,
  not_permitted = 800,
  not_supported = 801,
  system_not_ready = 802,
  system_driver_mismatch = 803,
  compat_not_supported_on_device = 804,
  external_device = 911,
  unknown = 999
};

/// Properties of devices that are asked for: CUdevice_attribute.
enum class device_attribute : int {
  max_threads_per_block = 1,
  max_block_dim_x = 2,
  max_block_dim_y = 3,
  max_block_dim_z = 4,
  max_grid_dim_x = 5,
  max_grid_dim_y = 6,
  max_grid_dim_z = 7,
  multiprocessor_count = 16,
  can_map_host_memory = 19,
  unified_addressing = 41,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  cooperative_launch = 95,
  max_shared_memory_per_block_optin = 97,
  memory_pools_supported = 115
};

/// Properties of kernels: CUfunction_attribute.
enum class function_attribute : int {
  max_threads_per_block = 0,
  shared_size_bytes = 1,
  max_dynamic_shared_size_bytes = 8
};

/// Options of the translator of PTX: CUjit_option.
enum class jit_option : int { error_log_buffer = 5, error_log_buffer_size_bytes = 6 };
/// Options of libraries: CUlibraryOption.
enum class library_option : int { binary_is_preserved = 1 };
/// Properties of pools: CUmemPool_attribute.
enum class pool_attribute : int { release_threshold = 4 };
/// Kinds of places of memory: CUmemLocationType.
enum class location_type : int { device = 1 };
/// Kinds of allocations: CUmemAllocationType.
enum class allocation_type : int { pinned = 1 };
/// Kinds of handles for other processes: CUmemAllocationHandleType.
enum class handle_type : int { none = 0 };
/// Rights to memory: CUmemAccess_flags.
enum class access_right : int { read_write = 3 };
/// Properties of a launch: CUlaunchAttributeID.
enum class launch_attribute_id : int { cooperative = 2 };
/// Places of memory in descriptions of copies: CUmemorytype.
enum class memory_type : int { host = 1, device = 2 };
/// What a stream does with operations that it gets: CUstreamCaptureStatus.
enum class capture_status : int { none = 0, active = 1, invalidated = 2 };
/// Outcome of a look-up of a function: CUdriverProcAddressQueryResult.
enum class lookup : int { success = 0, symbol_not_found = 1, version_not_sufficient = 2 };

/// Flags of cuStreamCreateWithPriority: the stream does not wait for stream 0.
inline constexpr unsigned stream_non_blocking = 1;
/// Flags of cuEventCreate: the event holds no time.
inline constexpr unsigned event_disable_timing = 2;
/// Flags of cuMemHostAlloc and cuMemHostRegister: all contexts know the memory.
inline constexpr unsigned host_portable = 1;
/// Flags of cuMemHostAlloc and cuMemHostRegister: devices may use the memory.
inline constexpr unsigned host_device_map = 2;

/// Number of a device: CUdevice.
using device_number = int;
/// Address on a device: CUdeviceptr.
using device_address = unsigned long long;

struct context_object;
struct stream_object;
struct event_object;
struct pool_object;
struct library_object;
struct kernel_object;
struct function_object;
struct graph_object;
struct graph_node_object;
struct graph_exec_object;
using context_handle = context_object*;        ///< CUcontext
using stream_handle = stream_object*;          ///< CUstream
using event_handle = event_object*;            ///< CUevent
using pool_handle = pool_object*;              ///< CUmemoryPool
using library_handle = library_object*;        ///< CUlibrary
using kernel_handle = kernel_object*;          ///< CUkernel
using function_handle = function_object*;      ///< CUfunction
using graph_handle = graph_object*;            ///< CUgraph
using graph_node_handle = graph_node_object*;  ///< CUgraphNode
using graph_exec_handle = graph_exec_object*;  ///< CUgraphExec

/// CUmemLocation
struct memory_location {
  location_type type = location_type::device;
  int id = 0;
};
/// CUmemPoolProps
struct pool_properties {
  allocation_type type = allocation_type::pinned;
  handle_type handles = handle_type::none;
  memory_location location;
  void* security = nullptr;
  std::size_t max_size = 0;
  unsigned short usage = 0;
  std::array<unsigned char, 54> reserved{};
};
/// CUmemAccessDesc
struct access_description {
  memory_location location;
  access_right right = access_right::read_write;
};
/// CUlaunchAttribute; the value is a union of 64 bytes, whose first member used here is
/// the number of a cooperative launch.
struct launch_attribute {
  launch_attribute_id id = launch_attribute_id::cooperative;
  std::array<char, 4> padding{};
  union {
    std::array<char, 64> bytes{};
    int cooperative;
  };
};
/// CUlaunchConfig
struct launch_config {
  std::array<unsigned, 3> grid{1, 1, 1};
  std::array<unsigned, 3> block{1, 1, 1};
  unsigned shared_bytes = 0;
  stream_handle stream = nullptr;
  launch_attribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
/// A kernel as a node of a graph: CUDA_KERNEL_NODE_PARAMS in the form of CUDA 12.
struct kernel_node {
  function_handle function = nullptr;
  std::array<unsigned, 3> grid{1, 1, 1};
  std::array<unsigned, 3> block{1, 1, 1};
  unsigned shared_bytes = 0;
  void** arguments = nullptr;
  void** extra = nullptr;
  kernel_handle kernel = nullptr;    ///< used only without `function`
  context_handle context = nullptr;  ///< used only without `function`
};
/// A fill as a node of a graph: CUDA_MEMSET_NODE_PARAMS.
struct fill_node {
  device_address to = 0;
  std::size_t pitch = 0;  ///< bytes from row to row; unused for a single row
  unsigned value = 0;
  unsigned element_bytes = 1;  ///< 1, 2 or 4
  std::size_t width = 0;       ///< elements of a row
  std::size_t height = 1;      ///< rows
};
/// One side of a copy: the first or the second half of CUDA_MEMCPY3D.
struct copy_side {
  std::size_t x = 0;
  std::size_t y = 0;
  std::size_t z = 0;
  std::size_t level = 0;
  memory_type type = memory_type::device;
  const void* host = nullptr;
  device_address device = 0;
  void* array = nullptr;
  void* reserved = nullptr;
  std::size_t pitch = 0;   ///< bytes from row to row
  std::size_t height = 0;  ///< rows of a layer
};
/// A copy as a node of a graph: CUDA_MEMCPY3D.
struct copy_node {
  copy_side from;
  copy_side to;
  std::size_t width = 0;   ///< bytes of a row
  std::size_t height = 1;  ///< rows
  std::size_t depth = 1;   ///< layers
};
/// CUhostFn
using host_function = void (*)(void*);

// The functions: member of `driver_api`, name in the driver, version of CUDA whose form
// of the function is meant, whether the backend needs it, parameters.
#define WEIR_CUDA_FUNCTIONS(X)                                                           \
  X(init, cuInit, 2000, true, (unsigned))                                                \
  X(driver_version, cuDriverGetVersion, 2020, true, (int*))                              \
  X(error_name, cuGetErrorName, 6000, true, (status, const char**))                      \
  X(error_string, cuGetErrorString, 6000, true, (status, const char**))                  \
  X(device_count, cuDeviceGetCount, 2000, true, (int*))                                  \
  X(device_get, cuDeviceGet, 2000, true, (device_number*, int))                          \
  X(device_name, cuDeviceGetName, 2000, true, (char*, int, device_number))               \
  X(device_total_memory, cuDeviceTotalMem, 3020, true, (std::size_t*, device_number))    \
  X(device_attribute_of, cuDeviceGetAttribute, 2000, true,                               \
    (int*, device_attribute, device_number))                                             \
  X(can_access_peer, cuDeviceCanAccessPeer, 4000, true,                                  \
    (int*, device_number, device_number))                                                \
  X(primary_retain, cuDevicePrimaryCtxRetain, 7000, true,                                \
    (context_handle*, device_number))                                                    \
  X(primary_release, cuDevicePrimaryCtxRelease, 11000, true, (device_number))            \
  X(context_push, cuCtxPushCurrent, 4000, true, (context_handle))                        \
  X(context_pop, cuCtxPopCurrent, 4000, true, (context_handle*))                         \
  X(context_current, cuCtxGetCurrent, 4000, true, (context_handle*))                     \
  X(stream_create, cuStreamCreateWithPriority, 5050, true,                               \
    (stream_handle*, unsigned, int))                                                     \
  X(stream_destroy, cuStreamDestroy, 4000, true, (stream_handle))                        \
  X(stream_query, cuStreamQuery, 2000, true, (stream_handle))                            \
  X(stream_is_capturing, cuStreamIsCapturing, 10000, true,                               \
    (stream_handle, capture_status*))                                                    \
  X(stream_wait, cuStreamWaitEvent, 3020, true, (stream_handle, event_handle, unsigned)) \
  X(event_create, cuEventCreate, 2000, true, (event_handle*, unsigned))                  \
  X(event_record, cuEventRecord, 2000, true, (event_handle, stream_handle))              \
  X(event_query, cuEventQuery, 2000, true, (event_handle))                               \
  X(event_destroy, cuEventDestroy, 4000, true, (event_handle))                           \
  X(pool_create, cuMemPoolCreate, 11020, true, (pool_handle*, const pool_properties*))   \
  X(pool_destroy, cuMemPoolDestroy, 11020, true, (pool_handle))                          \
  X(pool_set, cuMemPoolSetAttribute, 11020, true, (pool_handle, pool_attribute, void*))  \
  X(pool_access, cuMemPoolSetAccess, 11020, true,                                        \
    (pool_handle, const access_description*, std::size_t))                               \
  X(allocate, cuMemAllocFromPoolAsync, 11020, true,                                      \
    (device_address*, std::size_t, pool_handle, stream_handle))                          \
  X(free, cuMemFreeAsync, 11020, true, (device_address, stream_handle))                  \
  X(host_register, cuMemHostRegister, 6050, true, (void*, std::size_t, unsigned))        \
  X(host_unregister, cuMemHostUnregister, 4000, true, (void*))                           \
  X(host_address, cuMemHostGetDevicePointer, 3020, true,                                 \
    (device_address*, void*, unsigned))                                                  \
  X(copy_to_device, cuMemcpyHtoDAsync, 3020, true,                                       \
    (device_address, const void*, std::size_t, stream_handle))                           \
  X(copy_to_host, cuMemcpyDtoHAsync, 3020, true,                                         \
    (void*, device_address, std::size_t, stream_handle))                                 \
  X(copy_on_device, cuMemcpyDtoDAsync, 3020, true,                                       \
    (device_address, device_address, std::size_t, stream_handle))                        \
  X(copy_to_peer, cuMemcpyPeerAsync, 4000, true,                                         \
    (device_address, context_handle, device_address, context_handle, std::size_t,        \
     stream_handle))                                                                     \
  X(fill8, cuMemsetD8Async, 3020, true,                                                  \
    (device_address, unsigned char, std::size_t, stream_handle))                         \
  X(fill16, cuMemsetD16Async, 3020, true,                                                \
    (device_address, unsigned short, std::size_t, stream_handle))                        \
  X(fill32, cuMemsetD32Async, 3020, true,                                                \
    (device_address, unsigned, std::size_t, stream_handle))                              \
  X(fill_strided8, cuMemsetD2D8Async, 3020, true,                                        \
    (device_address, std::size_t, unsigned char, std::size_t, std::size_t,               \
     stream_handle))                                                                     \
  X(fill_strided16, cuMemsetD2D16Async, 3020, true,                                      \
    (device_address, std::size_t, unsigned short, std::size_t, std::size_t,              \
     stream_handle))                                                                     \
  X(fill_strided32, cuMemsetD2D32Async, 3020, true,                                      \
    (device_address, std::size_t, unsigned, std::size_t, std::size_t, stream_handle))    \
  X(library_load, cuLibraryLoadData, 12000, true,                                        \
    (library_handle*, const void*, jit_option*, void**, unsigned, library_option*,       \
     void**, unsigned))                                                                  \
  X(library_unload, cuLibraryUnload, 12000, true, (library_handle))                      \
  X(library_kernel, cuLibraryGetKernel, 12000, true,                                     \
    (kernel_handle*, library_handle, const char*))                                       \
  X(kernel_function, cuKernelGetFunction, 12000, true,                                   \
    (function_handle*, kernel_handle))                                                   \
  X(kernel_set, cuKernelSetAttribute, 12000, true,                                       \
    (function_attribute, int, kernel_handle, device_number))                             \
  X(kernel_parameter_of, cuKernelGetParamInfo, 12040, false,                             \
    (kernel_handle, std::size_t, std::size_t*, std::size_t*))                            \
  X(resident_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, true,            \
    (int*, function_handle, int, std::size_t))                                           \
  X(launch, cuLaunchKernelEx, 11060, true,                                               \
    (const launch_config*, function_handle, void**, void**))                             \
  X(launch_host, cuLaunchHostFunc, 10000, true, (stream_handle, host_function, void*))   \
  X(graph_create, cuGraphCreate, 10000, false, (graph_handle*, unsigned))                \
  X(graph_add_kernel, cuGraphAddKernelNode, 12000, false,                                \
    (graph_node_handle*, graph_handle, const graph_node_handle*, std::size_t,            \
     const kernel_node*))                                                                \
  X(graph_add_copy, cuGraphAddMemcpyNode, 10000, false,                                  \
    (graph_node_handle*, graph_handle, const graph_node_handle*, std::size_t,            \
     const copy_node*, context_handle))                                                  \
  X(graph_add_fill, cuGraphAddMemsetNode, 10000, false,                                  \
    (graph_node_handle*, graph_handle, const graph_node_handle*, std::size_t,            \
     const fill_node*, context_handle))                                                  \
  X(graph_instantiate, cuGraphInstantiateWithFlags, 11040, false,                        \
    (graph_exec_handle*, graph_handle, unsigned long long))                              \
  X(graph_destroy, cuGraphDestroy, 10000, false, (graph_handle))                         \
  X(graph_launch, cuGraphLaunch, 10000, false, (graph_exec_handle, stream_handle))       \
  X(graph_exec_destroy, cuGraphExecDestroy, 10000, false, (graph_exec_handle))

/// The functions. A function that is not needed is null if the driver lacks it.
struct driver_api {
#define WEIR_CUDA_MEMBER(member, name, version, needed, parameters) \
  status(*member) parameters = nullptr;
  WEIR_CUDA_FUNCTIONS(WEIR_CUDA_MEMBER)
#undef WEIR_CUDA_MEMBER
};

/// The one function that is looked up by the dynamic linker: cuGetProcAddress_v2.
using lookup_function = status (*)(const char* name, void** function, int version,
                                   std::uint64_t flags, lookup* outcome);
/// Name of `lookup_function`.
inline constexpr const char* lookup_symbol = "cuGetProcAddress_v2";

/// A driver that is loaded. It is never unloaded: a driver does not survive that.
struct driver {
  driver_api api;
  int version = 0;  ///< version of CUDA: 1000 * major + 10 * minor
};

/// Series of drivers with what they know. @source{CUDA Toolkit Release Notes, table of
/// toolkits and drivers; PTX ISA, release history}
struct driver_series {
  int version;         ///< version of CUDA
  const char* driver;  ///< number of the first driver of the series
  int ptx;             ///< newest PTX: 10 * major + minor
};
/// Returns the known series from old to new.
[[nodiscard]] std::span<const driver_series> known_series() noexcept;

/// Oldest version of CUDA that the backend works with.
inline constexpr int least_version = 12000;

/// Loads the driver and looks up its functions, without calling cuInit.
/// @error{not_found; there is no such library} @error{unsupported; the driver is too old
/// or lacks a function}
[[nodiscard]] result<driver> load_driver(const std::string& library);

/// Returns the version of the text of a PTX module, 10 * major + minor; 0 if there is no
/// `.version` outside of comments.
[[nodiscard]] int version_of_ptx(std::string_view text) noexcept;
/// Refuses PTX that is newer than the driver reads. `module` names the module.
/// @error{unsupported_version; the PTX is newer}
[[nodiscard]] result<void> check_ptx_version(int driver_version, std::string_view ptx,
                                             std::string_view module);

}  // namespace weir::tessera::cuda
