// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loads the code of modules on GPUs.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "device/cuda.hpp"
#include "device/cuda/device_thread.hpp"

namespace weir::tessera::cuda {

/// See cuda_backend::load.
[[nodiscard]] result<std::unique_ptr<cuda_module>> load_module_on(
    device_family& family, const std::vector<std::unique_ptr<device_thread>>& threads,
    const fatbin& module, std::string_view name);

}  // namespace weir::tessera::cuda
