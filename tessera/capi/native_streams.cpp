// SPDX-License-Identifier: Apache-2.0
/// @file
/// Streams of other libraries on the same GPU: waits in both directions, and streams that
/// are made from them.
#include <fmt/core.h>

#include "capi/objects.hpp"

namespace weir::tessera::capi {
namespace {

/// Refuses NULL, which is one of two default streams in libraries that use streams.
result<void> check_native(void* native, std::string_view call) {
  if (native == nullptr) {
    return error(errc::invalid_argument,
                 fmt::format("{} failed: expected a native stream, found NULL", call))
        .hint("TESS_NATIVE_LEGACY is the default stream of the device");
  }
  return {};
}

/// Returns a native stream whose work a stream can wait for. The thread of the device
/// asks the driver, and does not know the default stream of the caller's thread.
result<tessera::native_stream> native_to_wait_for(void* native, int device,
                                                  std::string_view call) {
  WEIR_CHECK(check_native(native, call));
  if (native == TESS_NATIVE_PER_THREAD) {
    return error(errc::unsupported,
                 fmt::format("{} failed: expected a stream or the default stream of the "
                             "device, found the default stream of a thread",
                             call))
        .hint("let a stream of your own wait for an event of it, and pass that stream");
  }
  return tessera::native_stream{device, number_of(native)};
}

}  // namespace
}  // namespace weir::tessera::capi

using namespace weir;                 // NOLINT: the functions of the interface are global
using namespace weir::tessera::capi;  // NOLINT

extern "C" {

// The first wait shows whether the device has such a stream. A stream that is refused
// gets no handle.
tessStatus_t tessStreamFromNative(tessMesh_t handle, int rank, void* native,
                                  tessStream_t* stream) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessStreamFromNative";
    WEIR_CHECK(outside_tasks(call));
    WEIR_TRY(const auto m, find(handle, call));
    if (stream == nullptr) {
      return null_argument(call, "a place for the stream");
    }
    if (rank < 0 || rank >= static_cast<int>(m->ranks())) {
      return error(errc::invalid_argument,
                   fmt::format("{} failed: expected a rank in [0, {}), found {}", call,
                               m->ranks(), rank));
    }
    const int device = m->devices[static_cast<std::size_t>(rank)];
    WEIR_TRY(const auto from, native_to_wait_for(native, device, call));
    auto made = std::make_shared<stream_object>();
    WEIR_TRY(made->stream, tessera::stream::make(m, {0, rank}));
    made->native = from;
    WEIR_CHECK(tessera::wait_native(*made->stream, from));
    *stream = handle_of<tessStream_t>(all().streams.add(std::move(made)));
    return {};
  });
}

// The handle is that of the program: nothing is asked of the driver.
tessStatus_t tessStreamGetNative(tessStream_t handle, void** native) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto s, find(handle, "tessStreamGetNative"));
    if (native == nullptr) {
      return null_argument("tessStreamGetNative", "a place for the native stream");
    }
    if (!s->native) {
      return error(errc::invalid_argument,
                   "tessStreamGetNative failed: expected a stream that was made from a "
                   "native stream, found another")
          .hint("tessNativeWaitStream orders work of a native stream behind it");
    }
    *native = handle_of<void*>(s->native->handle);
    return {};
  });
}

// The device's thread records an event on the native stream during the call.
tessStatus_t tessStreamWaitNative(tessStream_t handle, int device, void* native) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessStreamWaitNative";
    WEIR_CHECK(outside_tasks(call));
    WEIR_TRY(const auto s, find(handle, call));
    WEIR_TRY(const auto from, native_to_wait_for(native, device, call));
    return enqueue_in_order(*s, [&] { return tessera::wait_native(*s->stream, from); });
  });
}

// The calling thread waits, see `wait_until_reached`.
tessStatus_t tessNativeWaitStream(void* native, int device, tessStream_t handle) {
  return run([&]() -> result<void> {
    constexpr std::string_view call = "tessNativeWaitStream";
    WEIR_CHECK(outside_tasks(call));
    WEIR_TRY(const auto s, find(handle, call));
    WEIR_CHECK(check_native(native, call));
    WEIR_CHECK(tessera::check_native_device(s->stream->context().backend(), device));
    if (s->stream->records()) {
      return error(errc::invalid_argument,
                   "tessNativeWaitStream failed: expected a stream that does not "
                   "capture, found one that does");
    }
    WEIR_CHECK(wait_for_own_native(*s));
    return tessera::wait_until_reached(*s->stream);
  });
}

}  // extern "C"
