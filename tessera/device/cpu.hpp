// SPDX-License-Identifier: Apache-2.0
/// @file
/// Processors as devices: any number of virtual devices that share the memory of the host
/// and run kernels on the calling thread. Several devices on one machine let programs for
/// many devices run and be tested without them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "weir/tessera/device/allocator.hpp"
#include "weir/tessera/device/backend.hpp"

namespace weir::tessera {

/// Options of the backend for processors.
struct cpu_options {
  std::int32_t devices = 8;                    ///< number of devices
  std::size_t memory = std::size_t{64} << 30;  ///< memory of each device in bytes
  std::string arch;                            ///< level of the processor; empty: its own
  std::size_t shared_bytes = std::size_t{256} << 10;  ///< shared memory of a block
  std::int32_t persistent_blocks = 64;                ///< blocks of a persistent launch
  std::size_t stack_bytes = std::size_t{64} << 10;    ///< stack of a thread with barriers
  /// Time that the destructor waits for persistent kernels to stop. @units{nanoseconds}
  std::int64_t stop_limit_ns = 5'000'000'000;
  tessera::allocator allocator;  ///< allocator; empty: the system
  /// Receives the log lines of kernels, on any thread; empty: they are dropped.
  std::function<void(std::int32_t device, std::string_view text)> log;
};

/// Makes a backend for processors. @error{invalid_argument; no device, no memory, or
/// stacks of less than 16 KiB}
[[nodiscard]] result<std::unique_ptr<device_backend>> make_cpu_backend(
    cpu_options options = {});

/// Returns the best level of this processor: "x86-64-v1" to "x86-64-v4", "aarch64", or
/// "generic".
[[nodiscard]] std::string_view cpu_arch() noexcept;

}  // namespace weir::tessera
