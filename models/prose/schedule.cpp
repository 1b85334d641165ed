// SPDX-License-Identifier: Apache-2.0
/// @file
/// The schedule of the step size, and the elementary functions that it needs.
#include "prose/schedule.hpp"

#include <algorithm>

namespace weir::models {

/// By squaring, which has the same rounding everywhere.
double power(double base, std::uint64_t exponent) noexcept {
  double r = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1U) != 0) {
      r *= base;
    }
    base *= base;
  }
  return r;
}

/// The argument is from 0 to 1.
double cosine_of_pi(double x) noexcept {
  // cos(pi x) = -cos(pi (1 - x)), so the Taylor series only has to cover [0, pi / 2].
  const bool upper = x > 0.5;
  // The other half follows by symmetry.
  const double angle = (upper ? 1 - x : x) * 3.14159265358979323846;
  const double z = angle * angle;
  double term = 1;
  double sum = 1;
  for (int k = 1; k <= 11; ++k) {
    // Terms beyond these are below the rounding.
    term *= -z / static_cast<double>((2 * k - 1) * (2 * k));
    sum += term;
  }
  return upper ? -sum : sum;
}

/// Rises in a line, then falls along half a cosine.
double scheduled_rate(const prose_config& config, std::uint64_t update,
                      std::uint64_t total) noexcept {
  const std::uint64_t warm = config.warm_up;
  // The first update has a rate above 0.
  if (update < warm) {
    return config.rate * static_cast<double>(update + 1) / static_cast<double>(warm);
  }
  // A run that is shorter than its warm-up ends it at once.
  const double length = total > warm ? static_cast<double>(total - warm) : 1.0;
  const double done = std::min(1.0, static_cast<double>(update - warm) / length);
  const double low = config.final_rate;
  return config.rate * (low + (1 - low) / 2 * (1 + cosine_of_pi(done)));
}

}  // namespace weir::models
