// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks that every backend makes in the same words.
#pragma once

#include <cstdint>

#include "weir/base/error.hpp"
#include "weir/tessera/device/backend.hpp"

namespace weir::tessera {

/// @error{out_of_range, not one of 0 to count - 1}
[[nodiscard]] result<void> check_device(std::int32_t device, std::int32_t count);
/// As device_backend::check, but for the device.
[[nodiscard]] result<void> check_launch(const grid_launch& launch,
                                        const launch_limits& limits, bool persistent);
/// As device_backend::copy.
[[nodiscard]] result<void> check_copy(const copy_work& work);
/// As device_backend::fill.
[[nodiscard]] result<void> check_fill(const fill_work& work);

}  // namespace weir::tessera
