// SPDX-License-Identifier: Apache-2.0
/// @file
/// Memory of the stand-in: pools, allocations, registered memory, copies and fills.
/// Memory of devices is memory of this process, which is returned when it is freed in the
/// order of its stream.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "tessera/cuda/stand_in/world.hpp"

namespace weir::tessera::stand_in {
namespace {

using cuda::device_address;
using cuda::status;

std::uintptr_t number_of(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p);
}
std::byte* pointer_to(device_address a) noexcept {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(a));
}

status pool_create(cuda::pool_handle* made, const cuda::pool_properties* wanted) {
  entered call("cuMemPoolCreate", need::initialised);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const int device = wanted->location.id;
  if (device < 0 || device >= the_world().shown.devices) {
    return status::invalid_value;
  }
  auto pool = std::make_unique<pool_state>();
  pool->device = &the_world().devices[static_cast<std::size_t>(device)];
  *made = reinterpret_cast<cuda::pool_handle>(pool.get());
  the_world().pools.emplace(pool.get(), std::move(pool));
  return status::success;
}

status pool_destroy(cuda::pool_handle pool) {
  entered call("cuMemPoolDestroy", need::initialised);
  if (live(the_world().pools, pool, "cuMemPoolDestroy") == nullptr) {
    return status::invalid_handle;
  }
  the_world().pools.erase(pool);
  return call.refused();
}

status pool_set(cuda::pool_handle pool, cuda::pool_attribute wanted, void* value) {
  entered call("cuMemPoolSetAttribute", need::initialised);
  if (call.refused() != status::success) {
    return call.refused();
  }
  if (live(the_world().pools, pool, "cuMemPoolSetAttribute") == nullptr) {
    return status::invalid_handle;
  }
  return value != nullptr && wanted == cuda::pool_attribute::release_threshold
             ? status::success
             : status::invalid_value;
}

status pool_access(cuda::pool_handle pool, const cuda::access_description* wanted,
                   std::size_t count) {
  entered call("cuMemPoolSetAccess", need::initialised);
  if (call.refused() != status::success) {
    return call.refused();
  }
  if (live(the_world().pools, pool, "cuMemPoolSetAccess") == nullptr) {
    return status::invalid_handle;
  }
  const bool known = std::all_of(wanted, wanted + count, [](const auto& a) {
    return a.location.id >= 0 && a.location.id < the_world().shown.devices;
  });
  return known ? status::success : status::invalid_device;
}

status allocate(device_address* address, std::size_t bytes, cuda::pool_handle pool,
                cuda::stream_handle handle) {
  entered call("cuMemAllocFromPoolAsync", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  world& w = the_world();
  pool_state* const from = live(w.pools, pool, "cuMemAllocFromPoolAsync");
  const auto stream = stream_of(handle, "cuMemAllocFromPoolAsync");
  if (from == nullptr || stream == nullptr || bytes == 0) {
    return bytes == 0 ? status::invalid_value : status::invalid_handle;
  }
  device_state& d = *from->device;
  void* const made = bytes > w.shown.memory - d.in_use
                         ? nullptr
                         : std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (made == nullptr) {
    return status::out_of_memory;
  }
  d.in_use += bytes;
  w.memory[number_of(made)] = {bytes, &d};
  *address = number_of(made);
  queued op;
  op.name = "cuMemAllocFromPoolAsync";
  op.run = [] { return status::success; };
  op.ranges = {{number_of(made), bytes, true}};
  enqueue(stream, std::move(op));
  return status::success;
}

status free_async(device_address address, cuda::stream_handle handle) {
  entered call("cuMemFreeAsync", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  world& w = the_world();
  const auto stream = stream_of(handle, "cuMemFreeAsync");
  if (stream == nullptr) {
    return status::invalid_handle;
  }
  const auto found = w.memory.find(static_cast<std::uintptr_t>(address));
  if (found == w.memory.end()) {
    report("freed_once",
           fmt::format("cuMemFreeAsync got {:#x}, which {}", address,
                       w.freed.contains(address) ? "was freed before"
                                                 : "is not the start of an allocation"));
    return status::invalid_value;
  }
  queued op;
  op.name = "cuMemFreeAsync";
  w.leaving[found->first] = found->second;
  op.run = [first = found->first] {
    const std::lock_guard lock(the_world().mutex);
    the_world().leaving.erase(first);
    return status::success;
  };
  op.ranges = {{static_cast<std::uintptr_t>(address), found->second.bytes, true}};
  found->second.device->in_use -= found->second.bytes;
  w.memory.erase(found);
  w.freed.insert(static_cast<std::uintptr_t>(address));
  enqueue(stream, std::move(op));
  return status::success;
}

status host_register(void* p, std::size_t bytes, unsigned flags) {
  entered call("cuMemHostRegister", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  if (p == nullptr || bytes == 0 || flags > 15) {
    return status::invalid_value;
  }
  world& w = the_world();
  for (const auto& [first, size] : w.host) {
    if (first < number_of(p) + bytes && number_of(p) < first + size) {
      report("host_registered_once",
             fmt::format("cuMemHostRegister got [{:#x}, {:#x}), which overlaps a "
                         "registered range",
                         number_of(p), number_of(p) + bytes));
      return status::host_memory_already_registered;
    }
  }
  w.host[number_of(p)] = bytes;
  return status::success;
}

/// Reports operations that still use memory of the host.
void report_host_use(std::uintptr_t first, std::size_t bytes) {
  const world& w = the_world();
  for (const access& a : w.accesses) {
    const auto known = w.host_clock.find(a.stream);
    const bool over = (known != w.host_clock.end() && known->second >= a.number) ||
                      a.device->broken != status::success;
    if (!over && a.first < first + bytes && first < a.first + a.bytes) {
      report("host_in_use", fmt::format("cuMemHostUnregister got [{:#x}, {:#x}) while {} "
                                        "in stream {} uses it",
                                        first, first + bytes, a.operation, a.stream));
    }
  }
}

status host_unregister(void* p) {
  entered call("cuMemHostUnregister", need::context);
  world& w = the_world();
  const auto found = w.host.find(number_of(p));
  if (found == w.host.end()) {
    report("host_registered_once",
           fmt::format("cuMemHostUnregister got {:#x}, which is not registered",
                       number_of(p)));
    return status::host_memory_not_registered;
  }
  if (call.refused() == status::success) {
    report_host_use(found->first, found->second);
  }
  w.host.erase(found);
  return call.refused();
}

status host_address(device_address* address, void* p, unsigned flags) {
  entered call("cuMemHostGetDevicePointer", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  if (flags != 0 || !registered(number_of(p), 1)) {
    return status::invalid_value;
  }
  *address = number_of(p);
  return status::success;
}

/// Gives a copy to a stream. If `host` is set, that side is memory of the host.
status copy(entered& call, const char* function, std::byte* to, const std::byte* from,
            std::size_t bytes, const void* host, cuda::stream_handle handle) {
  if (call.refused() != status::success) {
    return call.refused();
  }
  const auto stream = stream_of(handle, function);
  if (stream == nullptr) {
    return status::invalid_handle;
  }
  if ((to != host && !on_device(function, number_of(to), bytes)) ||
      (from != host && !on_device(function, number_of(from), bytes))) {
    return status::invalid_value;
  }
  queued op;
  op.name = function;
  op.run = [to, from, bytes] {
    std::memcpy(to, from, bytes);
    return status::success;
  };
  op.ranges = {{number_of(to), bytes, true}, {number_of(from), bytes, false}};
  enqueue(stream, std::move(op));
  // Pageable memory: the driver waits for the stream.
  if (host != nullptr && !registered(number_of(host), bytes)) {
    report("host_registered",
           fmt::format("{} got pageable memory, for which it waits", function));
    const std::uint64_t number = stream->given;
    the_world().ended.wait(call.lock(), [&] { return stream->ended >= number; });
  }
  return status::success;
}

status copy_to_device(device_address to, const void* from, std::size_t bytes,
                      cuda::stream_handle stream) {
  entered call("cuMemcpyHtoDAsync", need::context);
  return copy(call, "cuMemcpyHtoDAsync", pointer_to(to),
              static_cast<const std::byte*>(from), bytes, from, stream);
}

status copy_to_host(void* to, device_address from, std::size_t bytes,
                    cuda::stream_handle stream) {
  entered call("cuMemcpyDtoHAsync", need::context);
  return copy(call, "cuMemcpyDtoHAsync", static_cast<std::byte*>(to), pointer_to(from),
              bytes, to, stream);
}

status copy_on_device(device_address to, device_address from, std::size_t bytes,
                      cuda::stream_handle stream) {
  entered call("cuMemcpyDtoDAsync", need::context);
  return copy(call, "cuMemcpyDtoDAsync", pointer_to(to), pointer_to(from), bytes, nullptr,
              stream);
}

status copy_to_peer(device_address to, cuda::context_handle to_context,
                    device_address from, cuda::context_handle from_context,
                    std::size_t bytes, cuda::stream_handle stream) {
  entered call("cuMemcpyPeerAsync", need::context);
  const allocation* const a = allocation_at(static_cast<std::uintptr_t>(to), 1);
  const allocation* const b = allocation_at(static_cast<std::uintptr_t>(from), 1);
  const auto wrong = [](const allocation* of_device, cuda::context_handle context) {
    return of_device != nullptr &&
           of_device->device != reinterpret_cast<device_state*>(context);
  };
  if (call.refused() == status::success &&
      (wrong(a, to_context) || wrong(b, from_context))) {
    report("peer_context",
           "cuMemcpyPeerAsync got a context that does not own its memory");
    return status::invalid_value;
  }
  return copy(call, "cuMemcpyPeerAsync", pointer_to(to), pointer_to(from), bytes, nullptr,
              stream);
}

/// Gives a fill of `height` rows of `width` elements to a stream.
template <class T>
status fill(const char* function, device_address to, std::size_t pitch, T value,
            std::size_t width, std::size_t height, cuda::stream_handle handle) {
  entered call(function, need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const auto stream = stream_of(handle, function);
  if (stream == nullptr) {
    return status::invalid_handle;
  }
  const cuda::fill_node wanted{to, pitch, value, sizeof(T), width, height};
  if (const status s = check_fill(function, wanted); s != status::success) {
    return s;
  }
  queued op;
  op.name = function;
  op.run = [wanted] {
    fill_now(wanted);
    return status::success;
  };
  op.ranges = {range_of(wanted)};
  enqueue(stream, std::move(op));
  return status::success;
}

status fill8(device_address to, unsigned char v, std::size_t n, cuda::stream_handle s) {
  return fill("cuMemsetD8Async", to, 0, v, n, 1, s);
}
status fill16(device_address to, unsigned short v, std::size_t n, cuda::stream_handle s) {
  return fill("cuMemsetD16Async", to, 0, v, n, 1, s);
}
status fill32(device_address to, unsigned v, std::size_t n, cuda::stream_handle s) {
  return fill("cuMemsetD32Async", to, 0, v, n, 1, s);
}
status strided8(device_address to, std::size_t pitch, unsigned char v, std::size_t width,
                std::size_t height, cuda::stream_handle s) {
  return fill("cuMemsetD2D8Async", to, pitch, v, width, height, s);
}
status strided16(device_address to, std::size_t pitch, unsigned short v,
                 std::size_t width, std::size_t height, cuda::stream_handle s) {
  return fill("cuMemsetD2D16Async", to, pitch, v, width, height, s);
}
status strided32(device_address to, std::size_t pitch, unsigned v, std::size_t width,
                 std::size_t height, cuda::stream_handle s) {
  return fill("cuMemsetD2D32Async", to, pitch, v, width, height, s);
}

}  // namespace

bool on_device(const char* function, device_address first, std::size_t bytes) {
  const auto at = static_cast<std::uintptr_t>(first);
  const bool mapped = registered(at, bytes);
  const bool inside = mapped || allocation_at(at, bytes) != nullptr;
  if (!inside) {
    report("range_in_allocation",
           fmt::format("{} got [{:#x}, {:#x}), which is {}", function, at, at + bytes,
                       the_world().freed.contains(at) ? "memory that was freed"
                                                      : "not inside of one allocation"));
  }
  return inside;
}

touched_range range_of(const cuda::fill_node& fill) noexcept {
  const std::size_t row = fill.width * fill.element_bytes;
  return {static_cast<std::uintptr_t>(fill.to),
          fill.height == 0 ? 0 : fill.pitch * (fill.height - 1) + row, true};
}

status check_fill(const char* function, const cuda::fill_node& fill) {
  const std::size_t size = fill.element_bytes;
  if (fill.height > 1 && fill.pitch < fill.width * size) {
    report("fill_pitch", fmt::format("{} got a pitch of {} bytes for rows of {} bytes",
                                     function, fill.pitch, fill.width * size));
    return status::invalid_value;
  }
  if (fill.to % size != 0 || (fill.height > 1 && fill.pitch % size != 0)) {
    report("fill_alignment", fmt::format("{} got {:#x} with a pitch of {}, which is no "
                                         "multiple of {} bytes",
                                         function, fill.to, fill.pitch, size));
    return status::invalid_value;
  }
  return on_device(function, fill.to, range_of(fill).bytes) ? status::success
                                                            : status::invalid_value;
}

void fill_now(const cuda::fill_node& fill) noexcept {
  for (std::size_t row = 0; row < fill.height; ++row) {
    for (std::size_t i = 0; i < fill.width; ++i) {
      std::memcpy(pointer_to(fill.to) + row * fill.pitch + i * fill.element_bytes,
                  &fill.value, fill.element_bytes);
    }
  }
}

std::vector<named_function> memory_functions() {
  return {{"cuMemPoolCreate", 11020, reinterpret_cast<void*>(&pool_create)},
          {"cuMemPoolDestroy", 11020, reinterpret_cast<void*>(&pool_destroy)},
          {"cuMemPoolSetAttribute", 11020, reinterpret_cast<void*>(&pool_set)},
          {"cuMemPoolSetAccess", 11020, reinterpret_cast<void*>(&pool_access)},
          {"cuMemAllocFromPoolAsync", 11020, reinterpret_cast<void*>(&allocate)},
          {"cuMemFreeAsync", 11020, reinterpret_cast<void*>(&free_async)},
          {"cuMemHostRegister", 6050, reinterpret_cast<void*>(&host_register)},
          {"cuMemHostUnregister", 4000, reinterpret_cast<void*>(&host_unregister)},
          {"cuMemHostGetDevicePointer", 3020, reinterpret_cast<void*>(&host_address)},
          {"cuMemcpyHtoDAsync", 3020, reinterpret_cast<void*>(&copy_to_device)},
          {"cuMemcpyDtoHAsync", 3020, reinterpret_cast<void*>(&copy_to_host)},
          {"cuMemcpyDtoDAsync", 3020, reinterpret_cast<void*>(&copy_on_device)},
          {"cuMemcpyPeerAsync", 4000, reinterpret_cast<void*>(&copy_to_peer)},
          {"cuMemsetD8Async", 3020, reinterpret_cast<void*>(&fill8)},
          {"cuMemsetD16Async", 3020, reinterpret_cast<void*>(&fill16)},
          {"cuMemsetD32Async", 3020, reinterpret_cast<void*>(&fill32)},
          {"cuMemsetD2D8Async", 3020, reinterpret_cast<void*>(&strided8)},
          {"cuMemsetD2D16Async", 3020, reinterpret_cast<void*>(&strided16)},
          {"cuMemsetD2D32Async", 3020, reinterpret_cast<void*>(&strided32)}};
}

}  // namespace weir::tessera::stand_in
