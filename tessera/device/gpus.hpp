// SPDX-License-Identifier: Apache-2.0
/// @file
/// GPUs for a context: their backend, and how modules are loaded on them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "weir/collective/call.hpp"
#include "weir/tessera/device/backend.hpp"
#include "weir/tessera/module/loader.hpp"

namespace weir::tessera {

/// Collectives of a group of ranks that run on their devices. The destructor waits for
/// what runs. @threads{safe from any thread}
class group_collectives {
 public:
  virtual ~group_collectives() = default;
  /// Starts a collective with the buffers of each rank. May wait for memory of a device.
  /// `done` is called exactly once, on any thread, perhaps before the call returns, and
  /// must not wait for a device. Work that comes before or after the collective is
  /// ordered by the caller.
  virtual void submit(const collective::collective_call& call,
                      std::span<const std::byte* const> inputs,
                      std::span<std::byte* const> outputs, completion done) = 0;
  /// Returns why NCCL, which the machine has, does not work with the devices, so that
  /// copies and kernels do its work; nothing if it works or is not wanted.
  [[nodiscard]] virtual std::optional<error> nccl_failure() const = 0;
};
/// Makes the collectives of ranks on these devices; those of level 0 use NCCL if the
/// machine has it.
using collective_opener = std::function<result<std::unique_ptr<group_collectives>>(
    std::span<const std::int32_t> devices, bool level_0)>;

/// Opened GPUs.
struct gpus {
  std::shared_ptr<device_backend> backend;  ///< all GPUs that the driver shows
  device_loader load;                       ///< loads modules on them
  collective_opener collectives;            ///< makes collectives of groups of them
};
/// Opens the GPUs that the driver shows.
/// @error{unsupported; there is no driver, an old one, or no GPU that it works with}
[[nodiscard]] result<gpus> open_gpus();

}  // namespace weir::tessera
