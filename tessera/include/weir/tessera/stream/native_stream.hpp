// SPDX-License-Identifier: Apache-2.0
/// @file
/// Native streams: streams of other libraries on a device that the runtime uses, too.
/// @threads{the functions are safe from any thread, but not from tasks, since some wait}
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "weir/tessera/stream/stream.hpp"

namespace weir::tessera {

/// A stream of another library.
struct native_stream {
  std::int32_t device = 0;    ///< number of its device
  std::uintptr_t handle = 0;  ///< the CUstream as a number
};

/// Checks that other libraries can have streams on a device. @error{unsupported; it is
/// not a GPU} @error{out_of_range; there is no such device}
[[nodiscard]] result<void> check_native_device(const device_backend& backend,
                                               std::int32_t device);
/// Lets operations that `target` gets from now on wait for the work that a native stream
/// has now. If the device is lost meanwhile, `target` fails.
/// @error{invalid_argument; `target` captures} and errors of `check_native_device` and
/// device_backend::follow_native
[[nodiscard]] result<void> wait_native(stream& target, const native_stream& native);
/// Waits until the operations that `target` has now have ended, and returns the first
/// failure, which stays for `synchronize` and may have any code. `target` does not
/// capture.
/// @error{timeout; they have not ended within the limit of the context}
/// @error{invalid_argument; another thread has begun a capture meanwhile}
[[nodiscard]] result<void> wait_until_reached(stream& target);

/// Calls `enqueue`, which gives `target` work. If there is a native stream, the work runs
/// behind what that stream has now, and the call waits for the work, so what the native
/// stream gets later runs behind it. A capture only records, so it is not ordered.
/// Also returns the errors of `enqueue`, `wait_native` and `wait_until_reached`.
template <class Enqueue>
[[nodiscard]] result<void> in_order_with(const std::optional<native_stream>& native,
                                         stream& target, Enqueue&& enqueue) {
  if (!native || target.records()) {
    return std::forward<Enqueue>(enqueue)();
  }
  WEIR_CHECK(wait_native(target, *native));
  WEIR_CHECK(std::forward<Enqueue>(enqueue)());
  return wait_until_reached(target);
}

}  // namespace weir::tessera
