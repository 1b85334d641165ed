// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stoker's exact solution of a dam break over wet ground: a rarefaction runs into the
/// reservoir, a shock runs the other way, and the water between them has one depth.
/// @source{J. J. Stoker, Water Waves, chapter 10}
#pragma once

#include <cmath>

#include "shallow_water/flow.hpp"

namespace shallow_water {

/// Exact solution for a dam at 0 that breaks at time 0.
class stoker {
 public:
  /// Finds the depth of the water between rarefaction and shock.
  /// @pre high > low > 0 @units{depths before and behind the dam}
  stoker(double high, double low) : high_(high), low_(low) {
    const double c = std::sqrt(gravity * high);
    double shallow = low;
    double deep = high;
    for (int halving = 0; halving < 200; ++halving) {
      middle_ = 0.5 * (shallow + deep);
      const double from_rarefaction = 2 * (c - std::sqrt(gravity * middle_));
      const double from_shock =
          (middle_ - low) * std::sqrt(gravity * (middle_ + low) / (2 * middle_ * low));
      (from_rarefaction > from_shock ? shallow : deep) = middle_;
    }
  }
  /// Returns the depth at a distance from the dam. @pre time > 0
  [[nodiscard]] double depth(double distance, double time) const {
    const double speed = distance / time;
    const double c = std::sqrt(gravity * high_);
    const double c_middle = std::sqrt(gravity * middle_);
    const double flow = 2 * (c - c_middle);
    if (speed < -c) {
      return high_;
    }
    if (speed < flow - c_middle) {
      return (2 * c - speed) * (2 * c - speed) / (9 * gravity);
    }
    return speed < middle_ * flow / (middle_ - low_) ? middle_ : low_;
  }

 private:
  double high_;
  double low_;
  double middle_ = 0;
};

}  // namespace shallow_water
