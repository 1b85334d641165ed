// SPDX-License-Identifier: Apache-2.0
/// @file
/// Draws a token from logits.
#include <algorithm>
#include <cmath>
#include <vector>

#include "weir/models/prose.hpp"

namespace weir::models {

namespace {

/// Returns e^x for x <= 0: the Taylor series of e^(x / 1024), squared ten times. It uses
/// only IEEE additions, multiplications and divisions, so that a run draws the same
/// tokens on every system. Below -700 the result is 0, which no sum of weights can
/// notice.
double exponential(double x) {
  if (x < -700) {
    return 0;
  }
  const double r = x / 1024;
  double term = 1;
  double sum = 1;
  for (int k = 1; k <= 12; ++k) {
    term *= r / k;
    sum += term;
  }
  for (int i = 0; i < 10; ++i) {
    sum *= sum;
  }
  return sum;
}

}  // namespace

/// A temperature of 0 or NaN takes the likeliest token.
std::uint32_t sample(std::span<const float> logits, float temperature,
                     const philox& random, std::uint64_t index) noexcept {
  const auto top = std::max_element(logits.begin(), logits.end());
  if (logits.empty() || !(temperature > 0)) {
    return static_cast<std::uint32_t>(top - logits.begin());
  }
  // Relative to the largest logit, so no weight overflows.
  const auto weight = [&](float logit) {
    return exponential((static_cast<double>(logit) - static_cast<double>(*top)) /
                       static_cast<double>(temperature));
  };
  // The order of the sum is fixed.
  double total = 0;
  for (float x : logits) {
    total += weight(x);
  }
  // Inversion: the token in whose share of the total a uniform number falls. Each index
  // has its own number.
  double left = static_cast<double>(random.uniform(index)) * total;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    left -= weight(logits[i]);
    if (left < 0) {
      return static_cast<std::uint32_t>(i);
    }
  }
  // Rounding can leave a rest behind the last token.
  return static_cast<std::uint32_t>(top - logits.begin());
}

}  // namespace weir::models
