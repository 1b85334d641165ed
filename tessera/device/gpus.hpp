// SPDX-License-Identifier: Apache-2.0
/// @file
/// GPUs for a context: their backend, and how modules are loaded on them.
#pragma once

#include <memory>

#include "weir/tessera/device/backend.hpp"
#include "weir/tessera/module/loader.hpp"

namespace weir::tessera {

/// Opened GPUs.
struct gpus {
  std::shared_ptr<device_backend> backend;  ///< all GPUs that the driver shows
  device_loader load;                       ///< loads modules on them
};
/// Opens the GPUs that the driver shows.
/// @error{unsupported; there is no driver, an old one, or no GPU that it works with}
[[nodiscard]] result<gpus> open_gpus();

}  // namespace weir::tessera
