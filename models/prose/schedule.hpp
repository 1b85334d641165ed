// SPDX-License-Identifier: Apache-2.0
/// @file
/// The step size of a pulse and powers of the betas. The elementary functions are written
/// here, because those of the C library may differ in the last bit between systems.
#pragma once

#include <cstdint>

#include "weir/models/prose.hpp"

namespace weir::models {

/// Returns base^exponent, by repeated squaring.
[[nodiscard]] double power(double base, std::uint64_t exponent) noexcept;
/// Returns cos(pi x) for x in [0, 1], with an error of at most 1e-15.
[[nodiscard]] double cosine_of_pi(double x) noexcept;
/// Returns the step size of Build pulse number `update` of `total`. It rises linearly to
/// `rate` during the warm-up and then falls along a cosine to `final_rate` * `rate`.
/// @source{Context stream design, 3.4}
[[nodiscard]] double scheduled_rate(const prose_config& config, std::uint64_t update,
                                    std::uint64_t total) noexcept;

}  // namespace weir::models
