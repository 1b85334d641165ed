// SPDX-License-Identifier: Apache-2.0
/// @file
/// Processors as devices: any number of virtual devices that share the host's memory and
/// run kernels on whatever thread asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "weir/tessera/device/backend.hpp"
#include "weir/tessera/device/memory_source.hpp"

namespace weir::tessera {

struct cpu_options {
  std::int32_t devices = 8;
  std::size_t memory = std::size_t{64} << 30;         ///< bytes of each device
  std::string arch;                                   ///< empty: what this processor is
  std::size_t shared_bytes = std::size_t{256} << 10;  ///< most that a block may have
  std::int32_t persistent_blocks = 64;
  std::size_t stack_bytes = std::size_t{64} << 10;  ///< of each thread with barriers
  /// How long destruction waits for persistent kernels that were asked to stop.
  std::int64_t stop_limit_ns = 5'000'000'000;
  memory_source source;  ///< empty: the system
  /// What kernels log, from any thread; without it the text is dropped.
  std::function<void(std::int32_t device, std::string_view text)> log;
};

/// @error{invalid_argument, no device, no memory, or stacks of less than 16 KiB}
[[nodiscard]] result<std::unique_ptr<device_backend>> make_cpu_backend(
    cpu_options options = {});

/// Best level of this processor: "x86-64-v1" to "x86-64-v4", "aarch64", or "generic".
[[nodiscard]] std::string_view cpu_arch() noexcept;

}  // namespace weir::tessera
