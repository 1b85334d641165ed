// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whether a worker's kernels are so short that tasks had better stay where they are.
#pragma once

#include <cstdint>

#include "tasks/ticks.hpp"

namespace weir::runtime {

/// What it costs to get a task and its operands from another processor.
inline constexpr std::int64_t worth_moving_ns = 150;

/// The mean length of the kernels of one worker, from samples.
/// @threads{its worker}
class kernel_lengths {
 public:
  /// Before this, kernels count as long.
  void calibrate(const tick_clock& clock) noexcept {
    if (worth_moving_ == 0) {
      worth_moving_ = clock.to_ticks(worth_moving_ns);
      assume_long();
    }
  }
  /// True for one kernel in so many, whose length is to be added.
  [[nodiscard]] bool sample() noexcept {
    until_sample_ = until_sample_ == 0 ? kernels_per_sample - 1 : until_sample_ - 1;
    return until_sample_ == 0;
  }
  void add(std::int64_t ticks) noexcept {
    mean_ += (ticks - mean_) / 4;
    tiny_ = mean_ < worth_moving_;
  }
  void assume_long() noexcept {
    mean_ = 8 * worth_moving_;
    tiny_ = false;
  }
  [[nodiscard]] bool tiny() const noexcept { return tiny_; }

 private:
  static constexpr int kernels_per_sample = 64;

  int until_sample_ = 0;
  bool tiny_ = false;
  std::int64_t mean_ = 0;  ///< in ticks
  std::int64_t worth_moving_ = 0;
};

}  // namespace weir::runtime
