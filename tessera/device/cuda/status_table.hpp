// SPDX-License-Identifier: Apache-2.0
/// @file
/// Meaning of the outcomes of the driver: which lose the device, and their error codes.
#pragma once

#include <string>
#include <string_view>

#include "device/cuda/driver_api.hpp"

namespace weir::tessera::cuda {

/// Kinds of outcomes other than success.
enum class status_kind : unsigned char {
  pending,   ///< not an error: the work has not ended
  returned,  ///< the call has failed, and nothing else
  sticky     ///< the context is broken: all later calls of this process fail too
};

/// Returns the kind of an outcome. An outcome that the table lacks is sticky if its
/// number is in the range of failures of running kernels, else returned.
[[nodiscard]] status_kind kind_of(status s) noexcept;
/// Returns the code of the error for an outcome; `device_lost` for sticky ones.
[[nodiscard]] errc code_of(status s) noexcept;
/// Returns the name of an outcome with the driver's text.
[[nodiscard]] std::string text_of(const driver_api& api, status s);
/// Returns the error of a call that has failed. `action` says what the call was for.
[[nodiscard]] error failure_of(const driver_api& api, status s, std::string_view action);

}  // namespace weir::tessera::cuda
