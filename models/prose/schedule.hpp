// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rate of a pulse and powers of the betas, with elementary functions of our own: the
/// same bits everywhere.
#pragma once

#include <cstdint>

#include "weir/models/prose.hpp"

namespace weir::models {

/// base^exponent by repeated squaring.
[[nodiscard]] double power(double base, std::uint64_t exponent) noexcept;
/// cos(pi x) for x in [0, 1], within 1e-15.
[[nodiscard]] double cosine_of_pi(double x) noexcept;
/// Rate of the Build pulse `update` of `total`: linear over the warm-up, then a cosine
/// down to `final_rate` of it.
[[nodiscard]] double scheduled_rate(const prose_config& config, std::uint64_t update,
                                    std::uint64_t total) noexcept;

}  // namespace weir::models
