// SPDX-License-Identifier: Apache-2.0
/// @file
/// Devices and contexts of the stand-in.
#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/core.h>

#include "tessera/cuda/stand_in/world.hpp"

namespace weir::tessera::stand_in {
namespace {

using cuda::device_attribute;
using cuda::status;

bool known_device(int number) {
  return number >= 0 && number < the_world().shown.devices;
}

status init(unsigned flags) {
  entered call("cuInit", need::nothing);
  if (call.refused() != status::success) {
    return call.refused();
  }
  if (flags != 0) {
    return status::invalid_value;
  }
  the_world().initialised = true;
  return the_world().shown.devices == 0 ? status::no_device : status::success;
}

status driver_version(int* version) {
  entered call("cuDriverGetVersion", need::nothing);
  *version = the_world().shown.version;
  return call.refused();
}

status error_name(status s, const char** name) {
  static const std::map<status, const char*> names{
      {status::invalid_value, "CUDA_ERROR_INVALID_VALUE"},
      {status::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {status::invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
      {status::invalid_ptx, "CUDA_ERROR_INVALID_PTX"},
      {status::invalid_handle, "CUDA_ERROR_INVALID_HANDLE"},
      {status::not_found, "CUDA_ERROR_NOT_FOUND"},
      {status::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {status::misaligned_address, "CUDA_ERROR_MISALIGNED_ADDRESS"},
      {status::assertion, "CUDA_ERROR_ASSERT"},
      {status::launch_failed, "CUDA_ERROR_LAUNCH_FAILED"},
      {status::cooperative_launch_too_large, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"}};
  const auto found = names.find(s);
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? status::invalid_value : status::success;
}

status error_string(status s, const char** text) {
  const status known = error_name(s, text);
  if (known == status::success) {
    *text = "text of the stand-in";
  }
  return known;
}

status device_count(int* count) {
  entered call("cuDeviceGetCount", need::initialised);
  *count = the_world().shown.devices;
  return call.refused();
}

status device_get(cuda::device_number* device, int ordinal) {
  entered call("cuDeviceGet", need::initialised);
  *device = ordinal;
  return call.refused() != status::success ? call.refused()
         : known_device(ordinal)           ? status::success
                                           : status::invalid_device;
}

status device_name(char* name, int length, cuda::device_number device) {
  entered call("cuDeviceGetName", need::initialised);
  if (call.refused() != status::success || !known_device(device) || length < 1) {
    return call.refused() != status::success ? call.refused() : status::invalid_value;
  }
  const std::string text = fmt::format("stand-in {}", device);
  const std::size_t kept = std::min(text.size(), static_cast<std::size_t>(length) - 1);
  std::memcpy(name, text.data(), kept);
  name[kept] = '\0';
  return status::success;
}

status total_memory(std::size_t* bytes, cuda::device_number device) {
  entered call("cuDeviceTotalMem", need::initialised);
  *bytes = the_world().shown.memory;
  return call.refused() != status::success ? call.refused()
         : known_device(device)            ? status::success
                                           : status::invalid_device;
}

status attribute(int* value, device_attribute wanted, cuda::device_number device) {
  entered call("cuDeviceGetAttribute", need::initialised);
  if (call.refused() != status::success || !known_device(device)) {
    return call.refused() != status::success ? call.refused() : status::invalid_device;
  }
  const machine& m = the_world().shown;
  switch (wanted) {
    case device_attribute::max_threads_per_block:
    case device_attribute::max_block_dim_x:
    case device_attribute::max_block_dim_y: *value = 1024; break;
    case device_attribute::max_block_dim_z: *value = 64; break;
    case device_attribute::max_grid_dim_x: *value = 2147483647; break;
    case device_attribute::max_grid_dim_y:
    case device_attribute::max_grid_dim_z: *value = 65535; break;
    case device_attribute::multiprocessor_count: *value = m.multiprocessors; break;
    case device_attribute::compute_capability_major: *value = m.capability / 10; break;
    case device_attribute::compute_capability_minor: *value = m.capability % 10; break;
    case device_attribute::max_shared_memory_per_block_optin: *value = 227 << 10; break;
    case device_attribute::can_map_host_memory:
    case device_attribute::unified_addressing:
    case device_attribute::cooperative_launch:
    case device_attribute::memory_pools_supported: *value = 1; break;
  }
  return status::success;
}

status can_access_peer(int* able, cuda::device_number a, cuda::device_number b) {
  entered call("cuDeviceCanAccessPeer", need::initialised);
  *able = a != b ? 1 : 0;
  return call.refused() != status::success    ? call.refused()
         : known_device(a) && known_device(b) ? status::success
                                              : status::invalid_device;
}

status primary_retain(cuda::context_handle* context, cuda::device_number device) {
  entered call("cuDevicePrimaryCtxRetain", need::initialised);
  if (call.refused() != status::success || !known_device(device)) {
    return call.refused() != status::success ? call.refused() : status::invalid_device;
  }
  device_state& d = the_world().devices[static_cast<std::size_t>(device)];
  ++d.retained;
  *context = reinterpret_cast<cuda::context_handle>(&d);
  return status::success;
}

/// Reports the objects of a device whose context goes.
void report_leaks(const device_state& d) {
  const world& w = the_world();
  std::size_t streams = 0;
  std::size_t events = 0;
  for (const auto& [handle, stream] : w.streams) {
    streams += stream->device == &d ? 1U : 0U;
  }
  for (const auto& [handle, event] : w.events) {
    events += event->device == &d ? 1U : 0U;
  }
  std::size_t allocations = 0;
  for (const auto& [first, a] : w.memory) {
    allocations += a.device == &d ? 1U : 0U;
  }
  if (d.broken == status::success && streams + events + allocations > 0) {
    report("no_leak", fmt::format("the context of device {} went with {} streams, {} "
                                  "events and {} allocations",
                                  d.number, streams, events, allocations));
  }
}

status primary_release(cuda::device_number device) {
  entered call("cuDevicePrimaryCtxRelease", need::initialised);
  if (!known_device(device)) {
    return status::invalid_device;
  }
  device_state& d = the_world().devices[static_cast<std::size_t>(device)];
  if (d.retained == 0) {
    report("context_balance", fmt::format("the context of device {} was released more "
                                          "often than it was retained",
                                          device));
    return status::invalid_context;
  }
  const bool current =
      std::find(context_stack.begin(), context_stack.end(), &d) != context_stack.end();
  if (--d.retained == 0) {
    if (current) {
      report("context_popped", fmt::format("the context of device {} was released while "
                                           "it was current",
                                           device));
    }
    report_leaks(d);
  }
  return call.refused();
}

status context_push(cuda::context_handle context) {
  entered call("cuCtxPushCurrent", need::initialised);
  if (call.refused() != status::success) {
    return call.refused();
  }
  auto* const d = reinterpret_cast<device_state*>(context);
  const auto& all = the_world().devices;
  const bool known = std::any_of(
      all.begin(), all.end(),
      [&](const device_state& known_one) { return &known_one == d && d->retained > 0; });
  if (!known) {
    report("context_live", "cuCtxPushCurrent got a context that is not alive");
    return status::invalid_context;
  }
  context_stack.push_back(d);
  return status::success;
}

status context_pop(cuda::context_handle* context) {
  entered call("cuCtxPopCurrent", need::initialised);
  if (context_stack.empty()) {
    report("context_current", "cuCtxPopCurrent was called without a context");
    return status::invalid_context;
  }
  *context = reinterpret_cast<cuda::context_handle>(context_stack.back());
  context_stack.pop_back();
  return call.refused();
}

status context_current(cuda::context_handle* context) {
  entered call("cuCtxGetCurrent", need::initialised);
  *context = context_stack.empty()
                 ? nullptr
                 : reinterpret_cast<cuda::context_handle>(context_stack.back());
  return call.refused();
}

}  // namespace

std::vector<named_function> device_functions() {
  return {{"cuInit", 2000, reinterpret_cast<void*>(&init)},
          {"cuDriverGetVersion", 2020, reinterpret_cast<void*>(&driver_version)},
          {"cuGetErrorName", 6000, reinterpret_cast<void*>(&error_name)},
          {"cuGetErrorString", 6000, reinterpret_cast<void*>(&error_string)},
          {"cuDeviceGetCount", 2000, reinterpret_cast<void*>(&device_count)},
          {"cuDeviceGet", 2000, reinterpret_cast<void*>(&device_get)},
          {"cuDeviceGetName", 2000, reinterpret_cast<void*>(&device_name)},
          {"cuDeviceTotalMem", 3020, reinterpret_cast<void*>(&total_memory)},
          {"cuDeviceGetAttribute", 2000, reinterpret_cast<void*>(&attribute)},
          {"cuDeviceCanAccessPeer", 4000, reinterpret_cast<void*>(&can_access_peer)},
          {"cuDevicePrimaryCtxRetain", 7000, reinterpret_cast<void*>(&primary_retain)},
          {"cuDevicePrimaryCtxRelease", 11000, reinterpret_cast<void*>(&primary_release)},
          {"cuCtxPushCurrent", 4000, reinterpret_cast<void*>(&context_push)},
          {"cuCtxPopCurrent", 4000, reinterpret_cast<void*>(&context_pop)},
          {"cuCtxGetCurrent", 4000, reinterpret_cast<void*>(&context_current)}};
}

}  // namespace weir::tessera::stand_in
