// SPDX-License-Identifier: Apache-2.0
/// @file
/// The errors that the reference of the driver names for each function that the backend
/// calls.
#pragma once

#include <array>
#include <string_view>

#include "device/cuda/driver_api.hpp"

namespace weir::tessera::stand_in {

/// What a function may return. Errors that all functions share are not repeated: the
/// driver is not initialised, or it has ended.
struct documented_error {
  std::string_view function;
  cuda::status own;         ///< the error that is most its own
  bool out_of_memory;       ///< the function may find too little memory
  bool of_earlier_work;     ///< it may return errors of earlier asynchronous launches
  bool at_the_end = false;  ///< called when the device is closed: nobody is told
};

/// @source{CUDA Driver API, reference of the toolkit 13.0: the section "Returns" of each
/// function, and the note "may also return error codes from previous, asynchronous
/// launches"}
inline constexpr auto documented_errors = [] {
  using enum cuda::status;
  return std::array{
      // Before the first two there is no earlier work.
      documented_error{"cuInit", system_driver_mismatch, false, false},
      documented_error{"cuDriverGetVersion", invalid_value, false, false},
      documented_error{"cuGetErrorName", invalid_value, false, false},
      documented_error{"cuGetErrorString", invalid_value, false, false},
      documented_error{"cuDeviceGetCount", invalid_context, false, true},
      documented_error{"cuDeviceGet", invalid_device, false, true},
      documented_error{"cuDeviceGetName", invalid_device, false, true},
      documented_error{"cuDeviceTotalMem", invalid_device, false, true},
      documented_error{"cuDeviceGetAttribute", invalid_device, false, true},
      documented_error{"cuDeviceCanAccessPeer", invalid_device, false, true},
      documented_error{"cuDevicePrimaryCtxRetain", invalid_device, true, true},
      documented_error{"cuDevicePrimaryCtxRelease", invalid_context, false, true, true},
      documented_error{"cuCtxPushCurrent", invalid_context, false, true},
      documented_error{"cuCtxPopCurrent", invalid_context, false, true, true},
      documented_error{"cuCtxGetCurrent", not_initialized, false, true},
      documented_error{"cuStreamCreateWithPriority", invalid_context, true, true},
      documented_error{"cuStreamDestroy", invalid_handle, false, true, true},
      documented_error{"cuStreamQuery", invalid_handle, false, true},
      documented_error{"cuStreamIsCapturing", invalid_handle, false, true},
      documented_error{"cuStreamWaitEvent", invalid_handle, false, true},
      documented_error{"cuEventCreate", invalid_context, true, true},
      documented_error{"cuEventRecord", invalid_handle, false, true},
      documented_error{"cuEventQuery", invalid_handle, false, true},
      documented_error{"cuEventDestroy", invalid_handle, false, true, true},
      documented_error{"cuMemPoolCreate", not_supported, true, false},
      documented_error{"cuMemPoolDestroy", invalid_value, false, false, true},
      documented_error{"cuMemPoolSetAttribute", invalid_value, false, false},
      documented_error{"cuMemPoolSetAccess", invalid_value, false, false},
      documented_error{"cuMemAllocFromPoolAsync", not_supported, true, false},
      documented_error{"cuMemFreeAsync", not_supported, false, false, true},
      documented_error{"cuMemHostRegister", not_permitted, true, true},
      documented_error{"cuMemHostUnregister", host_memory_not_registered, true, true,
                       true},
      documented_error{"cuMemHostGetDevicePointer", invalid_context, false, true},
      documented_error{"cuMemcpyHtoDAsync", invalid_handle, false, true},
      documented_error{"cuMemcpyDtoHAsync", invalid_handle, false, true},
      documented_error{"cuMemcpyDtoDAsync", invalid_handle, false, true},
      documented_error{"cuMemcpyPeerAsync", invalid_handle, false, true},
      documented_error{"cuMemsetD8Async", invalid_context, false, true},
      documented_error{"cuMemsetD16Async", invalid_context, false, true},
      documented_error{"cuMemsetD32Async", invalid_context, false, true},
      documented_error{"cuMemsetD2D8Async", invalid_context, false, true},
      documented_error{"cuMemsetD2D16Async", invalid_context, false, true},
      documented_error{"cuMemsetD2D32Async", invalid_context, false, true},
      documented_error{"cuLibraryLoadData", no_binary_for_gpu, true, false},
      documented_error{"cuLibraryUnload", invalid_value, false, false, true},
      documented_error{"cuLibraryGetKernel", not_found, false, false},
      documented_error{"cuKernelGetFunction", not_found, false, false},
      documented_error{"cuKernelSetAttribute", invalid_device, true, false},
      documented_error{"cuKernelGetParamInfo", invalid_value, false, true},
      documented_error{"cuOccupancyMaxActiveBlocksPerMultiprocessor", invalid_context,
                       false, true},
      documented_error{"cuLaunchKernelEx", launch_out_of_resources, false, true},
      documented_error{"cuLaunchHostFunc", not_supported, false, true},
      documented_error{"cuGraphCreate", invalid_value, true, true},
      documented_error{"cuGraphAddKernelNode", invalid_value, false, true},
      documented_error{"cuGraphAddMemcpyNode", invalid_value, false, true},
      documented_error{"cuGraphAddMemsetNode", invalid_context, false, true},
      documented_error{"cuGraphInstantiateWithFlags", invalid_value, false, true},
      documented_error{"cuGraphDestroy", invalid_value, false, true},
      documented_error{"cuGraphLaunch", invalid_value, false, true},
      documented_error{"cuGraphExecDestroy", invalid_value, false, true, true}};
}();

}  // namespace weir::tessera::stand_in
