// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rules that the stand-in checks, with the sentences that they come from.
#include <array>

#include "tessera/cuda/stand_in/stand_in.hpp"

namespace weir::tessera::stand_in {

// The sentences are from the comments in cuda.h of the toolkit 13.0, from those in nccl.h
// 2.28.9, and from the user guide of NCCL. A rule without a sentence is stricter than the
// reference: pageable memory makes an asynchronous copy wait, the driver does not work in
// children of fork, all nodes of a graph are in one context here, communicators that
// block are not used here, and a stream belongs to the device of its communicator.
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
    rule{"graph_flags", "cuGraphCreate", "cuGraphCreate",
         "Graph creation flags, must be 0"},
    rule{"graph_dependencies",
         "cuGraphAddKernelNode, cuGraphAddMemcpyNode, cuGraphAddMemsetNode",
         "cuGraphAddKernelNode", "dependencies may not have any duplicate entries."},
    rule{"graph_arguments", "cuGraphAddKernelNode", "cuGraphAddKernelNode",
         "Each pointer, from kernelParams[0] to kernelParams[N-1], points to the region "
         "of memory from which the actual parameter will be copied."},
    rule{"graph_fill", "cuGraphAddMemsetNode", "cuGraphAddMemsetNode",
         "The element size must be 1, 2, or 4 bytes."},
    rule{"graph_context", "cuGraphAddMemcpyNode, cuGraphAddMemsetNode", "", ""},
    rule{"graph_once", "cuGraphLaunch", "cuGraphLaunch",
         "Only one instance of hGraphExec may be executing at a time."},
    rule{"no_fork", "all", "", ""},
    rule{"nccl_group", "collectives and ncclCommInitRankConfig",
         "nccl.h, group semantics",
         "When managing multiple GPUs from a single thread, and since NCCL collective "
         "calls may perform inter-CPU synchronization, we need to \"group\" calls for "
         "different ranks/devices into a single call."},
    rule{"nccl_group_mixed", "ncclGroupEnd", "nccl.h, group semantics",
         "Both collective communication and ncclCommInitRank can be used in conjunction "
         "of ncclGroupStart/ncclGroupEnd, but not together."},
    rule{"nccl_group_balance", "ncclGroupEnd", "nccl.h, ncclGroupEnd",
         "Start a fused NCCL operation consisting of all calls since ncclGroupStart."},
    rule{"nccl_config", "ncclCommInitRankConfig", "nccl.h, NCCL_CONFIG_INITIALIZER",
         "Not initialized config will result in NCCL error."},
    rule{"nccl_blocking", "ncclCommInitRankConfig", "", ""},
    rule{"nccl_device", "ncclCommInitRankConfig", "nccl.h, ncclCommInitRank",
         "Each rank is associated to a CUDA device, which has to be set before calling "
         "ncclCommInitRank."},
    rule{"nccl_unique_id", "ncclCommInitRankConfig", "nccl.h, ncclGetUniqueId",
         "ncclGetUniqueId should be called once and the Id should be distributed to all "
         "ranks in the communicator before calling ncclCommInitRank."},
    rule{"nccl_rank", "ncclCommInitRankConfig", "nccl.h, ncclCommInitRank",
         "rank must be between 0 and nranks-1 and unique within a communicator clique."},
    rule{"nccl_one_device", "ncclCommInitRankConfig",
         "user guide, Creating a Communicator",
         "Using the same CUDA device multiple times as different ranks of the same NCCL "
         "communicator is not supported and may lead to hangs."},
    rule{"nccl_state", "all with a communicator", "user guide, ncclCommGetAsyncError",
         "If any NCCL function returns ncclInProgress, users must query the communicator "
         "state until it becomes ncclSuccess before calling another NCCL function."},
    rule{
        "nccl_stream", "all with a stream", "user guide, ncclCommGetAsyncError",
        "Before the state becomes ncclSuccess, do not issue CUDA kernels on streams used "
        "by NCCL."},
    rule{"nccl_stream_device", "collectives", "", ""},
    rule{"nccl_every_rank", "ncclGroupEnd", "nccl.h, collective communication operations",
         "Collective communication operations must be called separately for each "
         "communicator in a communicator clique."},
    rule{"nccl_same_call", "collectives", "user guide, Collective Operations",
         "Collective operations have to be called for each rank (hence CUDA device), "
         "using the same count and the same datatype, to form a complete collective "
         "operation."},
    rule{
        "nccl_pairs", "ncclSend, ncclRecv", "nccl.h, ncclSend",
        "Rank peer needs to call ncclRecv with the same datatype and the same count from "
        "this rank."},
    rule{"nccl_in_place", "collectives", "nccl.h, ncclAllGather",
         "In-place operations will happen if sendbuff == recvbuff + rank * sendcount."},
    rule{
        "nccl_memory", "collectives", "user guide, Data Pointers",
        "In general NCCL will accept any CUDA pointers that are accessible from the CUDA "
        "device associated to the communicator object."},
    rule{"nccl_live", "all with a communicator", "nccl.h, ncclCommAbort",
         "Frees resources associated with communicator object and aborts any operations "
         "that might still be running on the device."},
    rule{"nccl_finalized", "all with a communicator", "nccl.h, ncclCommFinalize",
         "ncclCommFinalize flushes all issued communications, and marks communicator "
         "state as ncclInProgress."},
    rule{"nccl_destroy", "ncclCommDestroy", "nccl.h, ncclCommFinalize",
         "The state will change to ncclSuccess when the communicator is globally "
         "quiescent and related resources are freed; then, calling ncclCommDestroy can "
         "locally free the rest of the resources (e.g. communicator itself) without "
         "blocking."}};

}  // namespace

std::span<const rule> rules() noexcept {
  return rule_table;
}

}  // namespace weir::tessera::stand_in
