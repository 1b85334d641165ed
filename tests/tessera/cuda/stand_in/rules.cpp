// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rules that the stand-in checks, with the sentences that they come from.
#include <array>

#include "tessera/cuda/stand_in/stand_in.hpp"

namespace weir::tessera::stand_in {

// The sentences are from the comments in cuda.h of the toolkit 13.0. A rule without a
// sentence is stricter than the reference: pageable memory makes an asynchronous copy
// wait, and the driver does not work in children of fork.
namespace {

constexpr std::array rule_table{
    rule{"initialised", "all", "cuInit",
         "If cuInit() has not been called, any function from the driver API will return "
         "CUDA_ERROR_NOT_INITIALIZED."},
    rule{"context_current", "all that use a context", "CUDA_ERROR_INVALID_CONTEXT",
         "This most frequently indicates that there is no context bound to the current "
         "thread."},
    rule{"context_live", "all that use a context", "cuDevicePrimaryCtxRelease",
         "The context is automatically reset once the last reference to it is "
         "released."},
    rule{"context_balance", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease",
         "Releasing a primary context that has not been previously retained will fail "
         "with CUDA_ERROR_INVALID_CONTEXT."},
    rule{"context_popped", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease",
         "Please note that unlike cuCtxDestroy() this method does not pop the context "
         "from stack in any circumstances."},
    rule{"no_leak", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease",
         "A retained context should always be released once the user is done using it."},
    rule{"handle_live", "all with a handle", "CUDA_ERROR_INVALID_HANDLE",
         "This indicates that a resource handle passed to the API call was not valid."},
    rule{"stream_context", "all with a stream", "CUDA_ERROR_INVALID_HANDLE",
         "Resource handles are opaque types like CUstream and CUevent."},
    rule{"range_in_allocation", "copies and fills", "cuMemFreeAsync",
         "After this API returns, accessing the memory from any subsequent work "
         "launched on the GPU or querying its pointer attributes results in undefined "
         "behavior."},
    rule{"fill_alignment", "cuMemsetD16Async, cuMemsetD32Async and their 2D forms",
         "cuMemsetD2D16Async",
         "The dstDevice pointer and dstPitch offset must be two byte aligned."},
    rule{"fill_pitch", "cuMemsetD2D8Async, cuMemsetD2D16Async, cuMemsetD2D32Async",
         "cuMemsetD2D16Async",
         "Height specifies the number of rows to set, and dstPitch specifies the number "
         "of bytes between each row."},
    rule{"host_registered", "cuMemcpyHtoDAsync, cuMemcpyDtoHAsync", "", ""},
    rule{"host_in_use", "cuMemHostUnregister", "cuMemHostUnregister",
         "Unmaps the memory range whose base address is specified by p, and makes it "
         "pageable again."},
    rule{"host_registered_once", "cuMemHostRegister, cuMemHostUnregister",
         "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
         "This error indicates that the memory range passed to cuMemHostRegister() has "
         "already been registered."},
    rule{"access_order", "copies, fills, kernels, allocation and free",
         "CUDA_MALLOC_ASYNC_overview",
         "All asynchronous accesses of the allocation must happen between the stream "
         "executions of the allocation and the free."},
    rule{"freed_once", "cuMemFreeAsync", "cuMemFreeAsync",
         "The allocation must not be accessed after stream execution reaches the free."},
    rule{"library_in_use", "cuLibraryUnload", "cuLibraryUnload",
         "Unloads the library specified with library"},
    rule{"peer_context", "cuMemcpyPeerAsync", "cuMemcpyPeerAsync",
         "dstDevice is the base device pointer of the destination memory and dstContext "
         "is the destination context."},
    rule{"host_function", "all", "cuLaunchHostFunc",
         "The host function must not make any CUDA API calls."},
    rule{"launch_extents", "cuLaunchKernelEx", "CUDA_ERROR_INVALID_VALUE",
         "This indicates that one or more of the parameters passed to the API call is "
         "not within an acceptable range of values."},
    rule{"launch_shared", "cuLaunchKernelEx",
         "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
         "If the user-specified dynamic shared memory size is larger than this value, "
         "the launch will fail."},
    rule{"launch_arguments", "cuLaunchKernelEx", "cuLaunchCooperativeKernel",
         "Each of kernelParams[0] through kernelParams[N-1] must point to a region of "
         "memory from which the actual kernel parameter will be copied."},
    rule{"launch_context", "cuLaunchKernelEx", "CUDA_ERROR_INVALID_HANDLE",
         "This indicates that a resource handle passed to the API call was not valid."},
    rule{"cooperative_size", "cuLaunchKernelEx", "cuLaunchCooperativeKernel",
         "The total number of blocks launched cannot exceed the maximum number of "
         "blocks per multiprocessor as returned by "
         "cuOccupancyMaxActiveBlocksPerMultiprocessor (or "
         "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) times the number of "
         "multiprocessors as specified by the device attribute "
         "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT."},
    rule{"no_fork", "all", "", ""}};

}  // namespace

std::span<const rule> rules() noexcept {
  return rule_table;
}

}  // namespace weir::tessera::stand_in
