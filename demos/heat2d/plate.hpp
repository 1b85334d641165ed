// SPDX-License-Identifier: Apache-2.0
/// @file
/// The program of the demo: heat in a plate whose edges stay cold, in a world of any
/// number of ranks. It names no rank and no message.
#pragma once

#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "weir/world.hpp"

namespace heat2d {

/// Part of the difference to its four neighbours that a cell loses in a step.
inline constexpr double rate = 0.2;

/// Returns the mode of the plate that lasts longest, at a cell of `n` by `n`.
inline double slowest_mode(std::int64_t row, std::int64_t column, std::int64_t n) {
  const double step = std::numbers::pi / static_cast<double>(n - 1);
  return std::sin(step * static_cast<double>(row)) *
         std::sin(step * static_cast<double>(column));
}
/// Returns the factor by which a step shrinks the slowest mode.
inline double decay(std::int64_t n) {
  const double half = std::sin(std::numbers::pi / 2 / static_cast<double>(n - 1));
  return 1 - 8 * rate * half * half;
}

/// Computes one step of the cells of `out`; `in` has one more cell on each side.
inline void sweep(weir::view<const double, 2> in, weir::view<double, 2> out) {
  for (std::int64_t i = 0; i < out.extent(0); ++i) {
    for (std::int64_t j = 0; j < out.extent(1); ++j) {
      const double here = in(i + 1, j + 1);
      out(i, j) = here + rate * (in(i, j + 1) + in(i + 2, j + 1) + in(i + 1, j) +
                                 in(i + 1, j + 2) - 4 * here);
    }
  }
}

/// A plate of n by n cells. All ranks of the world make the same calls.
class plate {
 public:
  /// Submits the tasks that set the plate to its slowest mode.
  plate(weir::world& ranks, const weir::layout& tiles, std::int64_t n)
      : ranks_(ranks),
        now_(ranks.make<double>(tiles, n, n)),
        next_(ranks.make<double>(tiles, n, n)),
        error_(ranks.per_tile<double>(now_)),
        largest_(ranks.everywhere<double>()) {
    for (const auto& field : {now_, next_}) {
      for (const auto& box : field.tiles()) {
        ranks_.submit(
            "fill",
            [box, n](weir::view<double, 2> out) {
              for (std::int64_t i = 0; i < out.extent(0); ++i) {
                for (std::int64_t j = 0; j < out.extent(1); ++j) {
                  out(i, j) = slowest_mode(box.lo[0] + i, box.lo[1] + j, n);
                }
              }
            },
            weir::write(field.of_tile(box)));
      }
    }
  }
  /// Names the state for checkpoints. The plate must stay where it is.
  void checkpoint(const std::string& folder, std::int64_t every) {
    ranks_.checkpoint(folder, {.every = every}, weir::named("temperature", now_));
  }
  /// Submits one step.
  void step() {
    for (const auto& box : next_.tiles_inside(1)) {
      ranks_.submit("sweep", sweep, weir::read(now_.around(box, 1)),
                    weir::write(next_.of_tile(box)));
    }
    std::swap(now_, next_);
  }
  /// Returns the largest difference to the exact mode after a number of steps.
  /// @error{kernel_failed; see `weir::world::wait`}
  [[nodiscard]] weir::result<double> error_after(std::int64_t steps) {
    const std::int64_t n = now_.all().extent(0);
    const double factor = std::pow(decay(n), static_cast<double>(steps));
    for (const auto& box : now_.tiles()) {
      ranks_.submit(
          "compare",
          [box, n, factor](weir::view<const double, 2> in, weir::view<double, 1> out) {
            out(0) = 0;
            for (std::int64_t i = 0; i < in.extent(0); ++i) {
              for (std::int64_t j = 0; j < in.extent(1); ++j) {
                const double mode = slowest_mode(box.lo[0] + i, box.lo[1] + j, n);
                out(0) = std::max(out(0), std::abs(in(i, j) - factor * mode));
              }
            }
          },
          weir::read(now_.of_tile(box)), weir::write(error_.of_index(box.index)));
    }
    ranks_.reduce([](double a, double b) { return std::max(a, b); }, error_, largest_);
    return ranks_.get(largest_);
  }
  /// Returns the temperatures.
  [[nodiscard]] const weir::world_tensor<double, 2>& cells() const { return now_; }

 private:
  weir::world& ranks_;
  weir::world_tensor<double, 2> now_;
  weir::world_tensor<double, 2> next_;
  weir::world_tensor<double, 1> error_;
  weir::tensor<double, 0> largest_;
};

}  // namespace heat2d
