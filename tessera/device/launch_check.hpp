// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks that all backends share, with equal error texts.
///
/// Launches are checked before they are enqueued, so that programs get these errors from
/// the call itself. Copies and fills are checked when they run.
#pragma once

#include <cstdint>

#include "weir/base/error.hpp"
#include "weir/tessera/device/backend.hpp"

namespace weir::tessera {

/// Checks the ordinal of a device. @error{out_of_range; it is not in [0, count)}
[[nodiscard]] result<void> check_device(std::int32_t device, std::int32_t count);
/// Checks all of a launch except the device. See device_backend::check.
[[nodiscard]] result<void> check_launch(const grid_launch& launch,
                                        const launch_limits& limits, bool persistent);
/// Checks a copy. See device_backend::copy.
[[nodiscard]] result<void> check_copy(const copy_work& work);
/// Checks a fill. See device_backend::fill.
[[nodiscard]] result<void> check_fill(const fill_work& work);

}  // namespace weir::tessera
