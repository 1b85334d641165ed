// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares the declarations of `driver_api.hpp` with those of the CUDA toolkit, where
/// its headers are present. The file contains nothing that runs.
#include "device/cuda/driver_api.hpp"

#if defined(WEIR_CUDA_HEADERS)

#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>

#include "device/cuda/comparison/declaration_comparison.hpp"

namespace weir::tessera::cuda {
namespace {

// Functions. The names of the toolkit's types contain the version, which is compared too.
#define WEIR_CUDA_COMPARE(member, name, version, needed, parameters)                  \
  static_assert(same_signature<decltype(driver_api::member), PFN_##name##_v##version, \
                               status, CUresult>::value,                              \
                #name " differs from the toolkit's declaration");
/// Every function that the table of the backend has.
WEIR_CUDA_FUNCTIONS(WEIR_CUDA_COMPARE)
#undef WEIR_CUDA_COMPARE
/// The function that finds all others.
static_assert(same_signature<lookup_function, PFN_cuGetProcAddress_v12000, status,
                             CUresult>::value);

/// Numbers of enumerations, in the order of the header.
#define WEIR_CUDA_NUMBER(ours, theirs) \
  static_assert(same_number(ours, theirs), #theirs " has another number")
/// Outcomes of the driver.
WEIR_CUDA_NUMBER(status::success, CUDA_SUCCESS);
WEIR_CUDA_NUMBER(status::invalid_value, CUDA_ERROR_INVALID_VALUE);
WEIR_CUDA_NUMBER(status::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
WEIR_CUDA_NUMBER(status::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
WEIR_CUDA_NUMBER(status::deinitialized, CUDA_ERROR_DEINITIALIZED);
WEIR_CUDA_NUMBER(status::stub_library, CUDA_ERROR_STUB_LIBRARY);
WEIR_CUDA_NUMBER(status::device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
WEIR_CUDA_NUMBER(status::no_device, CUDA_ERROR_NO_DEVICE);
WEIR_CUDA_NUMBER(status::invalid_device, CUDA_ERROR_INVALID_DEVICE);
WEIR_CUDA_NUMBER(status::invalid_image, CUDA_ERROR_INVALID_IMAGE);
WEIR_CUDA_NUMBER(status::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
WEIR_CUDA_NUMBER(status::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
WEIR_CUDA_NUMBER(status::ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
WEIR_CUDA_NUMBER(status::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
WEIR_CUDA_NUMBER(status::invalid_ptx, CUDA_ERROR_INVALID_PTX);
WEIR_CUDA_NUMBER(status::nvlink_uncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
WEIR_CUDA_NUMBER(status::jit_compiler_not_found, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
WEIR_CUDA_NUMBER(status::unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
WEIR_CUDA_NUMBER(status::contained, CUDA_ERROR_CONTAINED);
WEIR_CUDA_NUMBER(status::invalid_source, CUDA_ERROR_INVALID_SOURCE);
WEIR_CUDA_NUMBER(status::operating_system, CUDA_ERROR_OPERATING_SYSTEM);
WEIR_CUDA_NUMBER(status::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
WEIR_CUDA_NUMBER(status::illegal_state, CUDA_ERROR_ILLEGAL_STATE);
WEIR_CUDA_NUMBER(status::not_found, CUDA_ERROR_NOT_FOUND);
WEIR_CUDA_NUMBER(status::not_ready, CUDA_ERROR_NOT_READY);
WEIR_CUDA_NUMBER(status::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
WEIR_CUDA_NUMBER(status::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
WEIR_CUDA_NUMBER(status::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
WEIR_CUDA_NUMBER(status::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
WEIR_CUDA_NUMBER(status::assertion, CUDA_ERROR_ASSERT);
WEIR_CUDA_NUMBER(status::host_memory_already_registered,
                 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
WEIR_CUDA_NUMBER(status::host_memory_not_registered,
                 CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
WEIR_CUDA_NUMBER(status::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
WEIR_CUDA_NUMBER(status::illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
WEIR_CUDA_NUMBER(status::misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS);
WEIR_CUDA_NUMBER(status::invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE);
WEIR_CUDA_NUMBER(status::invalid_pc, CUDA_ERROR_INVALID_PC);
WEIR_CUDA_NUMBER(status::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
WEIR_CUDA_NUMBER(status::cooperative_launch_too_large,
                 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
WEIR_CUDA_NUMBER(status::not_permitted, CUDA_ERROR_NOT_PERMITTED);
WEIR_CUDA_NUMBER(status::not_supported, CUDA_ERROR_NOT_SUPPORTED);
WEIR_CUDA_NUMBER(status::system_not_ready, CUDA_ERROR_SYSTEM_NOT_READY);
WEIR_CUDA_NUMBER(status::system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
WEIR_CUDA_NUMBER(status::compat_not_supported_on_device,
                 CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
WEIR_CUDA_NUMBER(status::external_device, CUDA_ERROR_EXTERNAL_DEVICE);
WEIR_CUDA_NUMBER(status::unknown, CUDA_ERROR_UNKNOWN);
/// Questions about devices.
WEIR_CUDA_NUMBER(device_attribute::max_threads_per_block,
                 CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
WEIR_CUDA_NUMBER(device_attribute::max_block_dim_x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
WEIR_CUDA_NUMBER(device_attribute::max_block_dim_y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
WEIR_CUDA_NUMBER(device_attribute::max_block_dim_z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
WEIR_CUDA_NUMBER(device_attribute::max_grid_dim_x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
WEIR_CUDA_NUMBER(device_attribute::max_grid_dim_y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
WEIR_CUDA_NUMBER(device_attribute::max_grid_dim_z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
WEIR_CUDA_NUMBER(device_attribute::multiprocessor_count,
                 CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
WEIR_CUDA_NUMBER(device_attribute::can_map_host_memory,
                 CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
WEIR_CUDA_NUMBER(device_attribute::unified_addressing,
                 CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
WEIR_CUDA_NUMBER(device_attribute::compute_capability_major,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
WEIR_CUDA_NUMBER(device_attribute::compute_capability_minor,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
WEIR_CUDA_NUMBER(device_attribute::cooperative_launch,
                 CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
WEIR_CUDA_NUMBER(device_attribute::max_shared_memory_per_block_optin,
                 CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
WEIR_CUDA_NUMBER(device_attribute::memory_pools_supported,
                 CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
/// Questions about kernels, and what can be set for them.
WEIR_CUDA_NUMBER(function_attribute::max_threads_per_block,
                 CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
WEIR_CUDA_NUMBER(function_attribute::shared_size_bytes,
                 CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
WEIR_CUDA_NUMBER(function_attribute::max_dynamic_shared_size_bytes,
                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
/// Options of the compiler of the driver, and of libraries.
WEIR_CUDA_NUMBER(jit_option::error_log_buffer, CU_JIT_ERROR_LOG_BUFFER);
WEIR_CUDA_NUMBER(jit_option::error_log_buffer_size_bytes,
                 CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
WEIR_CUDA_NUMBER(library_option::binary_is_preserved, CU_LIBRARY_BINARY_IS_PRESERVED);
/// Pools of memory.
WEIR_CUDA_NUMBER(pool_attribute::release_threshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
WEIR_CUDA_NUMBER(location_type::device, CU_MEM_LOCATION_TYPE_DEVICE);
WEIR_CUDA_NUMBER(allocation_type::pinned, CU_MEM_ALLOCATION_TYPE_PINNED);
WEIR_CUDA_NUMBER(handle_type::none, CU_MEM_HANDLE_TYPE_NONE);
WEIR_CUDA_NUMBER(access_right::read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
/// Launches.
WEIR_CUDA_NUMBER(launch_attribute_id::cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
/// Places of memory in copies of graphs.
WEIR_CUDA_NUMBER(memory_type::host, CU_MEMORYTYPE_HOST);
WEIR_CUDA_NUMBER(memory_type::device, CU_MEMORYTYPE_DEVICE);
/// Captures of streams.
WEIR_CUDA_NUMBER(capture_status::none, CU_STREAM_CAPTURE_STATUS_NONE);
WEIR_CUDA_NUMBER(capture_status::active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
WEIR_CUDA_NUMBER(capture_status::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
/// Outcomes of looking a function up.
WEIR_CUDA_NUMBER(lookup::success, CU_GET_PROC_ADDRESS_SUCCESS);
WEIR_CUDA_NUMBER(lookup::symbol_not_found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
WEIR_CUDA_NUMBER(lookup::version_not_sufficient,
                 CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
/// Flags.
static_assert(stream_non_blocking == CU_STREAM_NON_BLOCKING);
static_assert(event_disable_timing == CU_EVENT_DISABLE_TIMING);
static_assert(host_portable == CU_MEMHOSTALLOC_PORTABLE &&
              host_portable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(host_device_map == CU_MEMHOSTALLOC_DEVICEMAP &&
              host_device_map == CU_MEMHOSTREGISTER_DEVICEMAP);

// Structures: size, and the place and size of each member.
#define WEIR_CUDA_MEMBER(ours, member, theirs, their_member)                \
  static_assert(offsetof(ours, member) == offsetof(theirs, their_member) && \
                sizeof(ours::member) == sizeof(theirs::their_member))
/// Handles are pointers on both sides; these two are numbers.
static_assert(std::is_same_v<device_number, CUdevice>);
static_assert(std::is_same_v<device_address, CUdeviceptr>);
/// Places and pools of memory.
static_assert(sizeof(memory_location) == sizeof(CUmemLocation));
WEIR_CUDA_MEMBER(memory_location, type, CUmemLocation, type);
WEIR_CUDA_MEMBER(memory_location, id, CUmemLocation, id);
static_assert(sizeof(pool_properties) == sizeof(CUmemPoolProps));
WEIR_CUDA_MEMBER(pool_properties, type, CUmemPoolProps, allocType);
WEIR_CUDA_MEMBER(pool_properties, handles, CUmemPoolProps, handleTypes);
WEIR_CUDA_MEMBER(pool_properties, location, CUmemPoolProps, location);
WEIR_CUDA_MEMBER(pool_properties, security, CUmemPoolProps, win32SecurityAttributes);
WEIR_CUDA_MEMBER(pool_properties, max_size, CUmemPoolProps, maxSize);
WEIR_CUDA_MEMBER(pool_properties, usage, CUmemPoolProps, usage);
WEIR_CUDA_MEMBER(pool_properties, reserved, CUmemPoolProps, reserved);
/// Rights of other devices.
static_assert(sizeof(access_description) == sizeof(CUmemAccessDesc));
WEIR_CUDA_MEMBER(access_description, location, CUmemAccessDesc, location);
WEIR_CUDA_MEMBER(access_description, right, CUmemAccessDesc, flags);
/// Launches with attributes.
static_assert(sizeof(launch_attribute) == sizeof(CUlaunchAttribute));
WEIR_CUDA_MEMBER(launch_attribute, id, CUlaunchAttribute, id);
WEIR_CUDA_MEMBER(launch_attribute, bytes, CUlaunchAttribute, value);
WEIR_CUDA_MEMBER(launch_attribute, cooperative, CUlaunchAttribute, value.cooperative);
static_assert(sizeof(launch_config) == sizeof(CUlaunchConfig));
/// Three members of the toolkit are one array here.
static_assert(offsetof(launch_config, grid) == offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(launch_config, block) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(CUlaunchConfig, gridDimZ) == 8 &&
              offsetof(CUlaunchConfig, blockDimZ) == 20);
WEIR_CUDA_MEMBER(launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes);
WEIR_CUDA_MEMBER(launch_config, stream, CUlaunchConfig, hStream);
WEIR_CUDA_MEMBER(launch_config, attributes, CUlaunchConfig, attrs);
WEIR_CUDA_MEMBER(launch_config, attribute_count, CUlaunchConfig, numAttrs);
/// Kernels in graphs, in the form of CUDA 12. Six members are two arrays here.
static_assert(sizeof(kernel_node) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
WEIR_CUDA_MEMBER(kernel_node, function, CUDA_KERNEL_NODE_PARAMS_v2, func);
static_assert(offsetof(kernel_node, grid) ==
              offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimX));
static_assert(offsetof(kernel_node, block) ==
              offsetof(CUDA_KERNEL_NODE_PARAMS_v2, blockDimX));
static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimZ) == 16 &&
              offsetof(CUDA_KERNEL_NODE_PARAMS_v2, blockDimZ) == 28);
WEIR_CUDA_MEMBER(kernel_node, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes);
WEIR_CUDA_MEMBER(kernel_node, arguments, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams);
WEIR_CUDA_MEMBER(kernel_node, extra, CUDA_KERNEL_NODE_PARAMS_v2, extra);
WEIR_CUDA_MEMBER(kernel_node, kernel, CUDA_KERNEL_NODE_PARAMS_v2, kern);
WEIR_CUDA_MEMBER(kernel_node, context, CUDA_KERNEL_NODE_PARAMS_v2, ctx);
/// Fills in graphs.
static_assert(sizeof(fill_node) == sizeof(CUDA_MEMSET_NODE_PARAMS_v1));
WEIR_CUDA_MEMBER(fill_node, to, CUDA_MEMSET_NODE_PARAMS_v1, dst);
WEIR_CUDA_MEMBER(fill_node, pitch, CUDA_MEMSET_NODE_PARAMS_v1, pitch);
WEIR_CUDA_MEMBER(fill_node, value, CUDA_MEMSET_NODE_PARAMS_v1, value);
WEIR_CUDA_MEMBER(fill_node, element_bytes, CUDA_MEMSET_NODE_PARAMS_v1, elementSize);
WEIR_CUDA_MEMBER(fill_node, width, CUDA_MEMSET_NODE_PARAMS_v1, width);
WEIR_CUDA_MEMBER(fill_node, height, CUDA_MEMSET_NODE_PARAMS_v1, height);
/// Copies in graphs. Each side is a structure here, so its members are compared by the
/// sum of both offsets.
static_assert(sizeof(copy_node) == sizeof(CUDA_MEMCPY3D_v2));
#define WEIR_CUDA_SIDE(ours, source, target)                             \
  static_assert(offsetof(copy_node, from) + offsetof(copy_side, ours) == \
                    offsetof(CUDA_MEMCPY3D_v2, source) &&                \
                offsetof(copy_node, to) + offsetof(copy_side, ours) ==   \
                    offsetof(CUDA_MEMCPY3D_v2, target) &&                \
                sizeof(copy_side::ours) == sizeof(CUDA_MEMCPY3D_v2::source))
WEIR_CUDA_SIDE(x, srcXInBytes, dstXInBytes);
WEIR_CUDA_SIDE(y, srcY, dstY);
WEIR_CUDA_SIDE(z, srcZ, dstZ);
WEIR_CUDA_SIDE(level, srcLOD, dstLOD);
WEIR_CUDA_SIDE(type, srcMemoryType, dstMemoryType);
WEIR_CUDA_SIDE(host, srcHost, dstHost);
WEIR_CUDA_SIDE(device, srcDevice, dstDevice);
WEIR_CUDA_SIDE(array, srcArray, dstArray);
WEIR_CUDA_SIDE(reserved, reserved0, reserved1);
WEIR_CUDA_SIDE(pitch, srcPitch, dstPitch);
WEIR_CUDA_SIDE(height, srcHeight, dstHeight);
WEIR_CUDA_MEMBER(copy_node, width, CUDA_MEMCPY3D_v2, WidthInBytes);
WEIR_CUDA_MEMBER(copy_node, height, CUDA_MEMCPY3D_v2, Height);
WEIR_CUDA_MEMBER(copy_node, depth, CUDA_MEMCPY3D_v2, Depth);

}  // namespace
}  // namespace weir::tessera::cuda

#endif
