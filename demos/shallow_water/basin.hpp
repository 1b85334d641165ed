// SPDX-License-Identifier: Apache-2.0
/// @file
/// The program of the demo: a basin of water in a world of any number of ranks. It names
/// no rank and no message.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "shallow_water/flow.hpp"
#include "weir/world.hpp"

namespace shallow_water {

/// A basin and the water in it at the start.
struct setup {
  std::int64_t rows = 256;                    ///< cells of a column
  std::int64_t columns = 256;                 ///< cells of a row
  weir::layout tiles = weir::blocks(64, 64);  ///< cut into tiles
  double cell_length = 1.0 / 256;             ///< length of a cell in both directions
  /// Part of the time that the fastest wave needs for a cell, which a step takes.
  double courant = 0.25;
  double end = std::numeric_limits<double>::infinity();  ///< time at which all ends
  /// Returns the depth at the middle of a cell.
  double (*depth)(double south, double east) = nullptr;
};

/// Sums over all cells.
struct totals {
  double mass = 0;    ///< depth
  double energy = 0;  ///< energy over the density
};

/// Depth of a dam that is a circle in a basin of length 1.
inline double circular_dam(double south, double east) {
  const double y = south - 0.5;
  const double x = east - 0.5;
  return y * y + x * x < 0.04 ? 2.0 : 1.0;
}

/// Kernel that computes one tile.
struct step_kernel {
  place at;  ///< basin and tile
  /// Computes the next state of the tile and its fastest wave.
  void operator()(weir::view<const double, 0> ratio, weir::view<const double, 2> depth,
                  weir::view<const double, 2> east, weir::view<const double, 2> south,
                  weir::view<double, 2> next_depth, weir::view<double, 2> next_east,
                  weir::view<double, 2> next_south, weir::view<double, 1> speed) const {
    speed(0) =
        step({depth, east, south}, {next_depth, next_east, next_south}, at, ratio());
  }
};

/// Water in a basin with walls. All ranks of the world make the same calls.
class basin {
 public:
  /// Submits the tasks that fill the basin.
  basin(weir::world& ranks, const setup& with)
      : ranks_(ranks),
        setup_(with),
        now_(make_fields()),
        next_(make_fields()),
        speed_(ranks.per_tile<double>(now_.depth)),
        fastest_(ranks.everywhere<double>()),
        ratio_(ranks.everywhere<double>()),
        time_(ranks.everywhere<double>()),
        mass_(ranks.per_tile<double>(now_.depth)),
        energy_(ranks.per_tile<double>(now_.depth)),
        total_mass_(ranks.everywhere<double>()),
        total_energy_(ranks.everywhere<double>()) {
    fill();
  }

  /// Submits the tasks that give the water its first state, at time 0.
  void fill() {
    for (const auto& box : now_.depth.tiles()) {
      ranks_.submit(
          "fill",
          [box, with = setup_](weir::view<double, 2> depth, weir::view<double, 2> east,
                               weir::view<double, 2> south, weir::view<double, 1> speed) {
            speed(0) = fill_tile(box, with, {depth, east, south});
          },
          weir::write(now_.depth.of_tile(box)), weir::write(now_.east.of_tile(box)),
          weir::write(now_.south.of_tile(box)), weir::write(speed_.of_index(box.index)));
    }
    ranks_.submit_everywhere(
        "begin", [](weir::view<double, 0> time) { time() = 0; }, weir::write(time_));
  }

  /// Names the state for checkpoints. The basin must stay where it is.
  void checkpoint(const std::string& folder, std::int64_t every) {
    ranks_.checkpoint(folder, {.every = every}, weir::named("depth", now_.depth),
                      weir::named("east", now_.east), weir::named("south", now_.south),
                      weir::named("speed", speed_), weir::named("time", time_));
  }
  /// Submits one step. Its length follows from the fastest wave of the whole basin.
  void step() {
    ranks_.reduce([](double a, double b) { return std::max(a, b); }, speed_, fastest_);
    ranks_.submit_everywhere(
        "length",
        [with = setup_](weir::view<const double, 0> fastest, weir::view<double, 0> time,
                        weir::view<double, 0> ratio) {
          const double longest = with.courant * with.cell_length / fastest();
          const double length = std::min(longest, with.end - time());
          ratio() = length / with.cell_length;
          time() += length;
        },
        weir::read(fastest_), weir::update(time_), weir::write(ratio_));
    for (const auto& box : now_.depth.tiles()) {
      ranks_.submit(
          "step", step_kernel{{box, setup_.rows, setup_.columns}}, weir::read(ratio_),
          weir::read(now_.depth.around(box, 1)), weir::read(now_.east.around(box, 1)),
          weir::read(now_.south.around(box, 1)), weir::write(next_.depth.of_tile(box)),
          weir::write(next_.east.of_tile(box)), weir::write(next_.south.of_tile(box)),
          weir::write(speed_.of_index(box.index)));
    }
    std::swap(now_, next_);
  }

  /// Returns the sums of the present state, by trees, so that they do not depend on the
  /// number of ranks. @error{kernel_failed; see `weir::world::wait`}
  [[nodiscard]] weir::result<totals> measure() {
    for (const auto& box : now_.depth.tiles()) {
      ranks_.submit(
          "measure",
          [](weir::view<const double, 2> depth, weir::view<const double, 2> east,
             weir::view<const double, 2> south, weir::view<double, 1> mass,
             weir::view<double, 1> energy) {
            const std::int64_t m = depth.extent(1);
            mass(0) = tree_sum([&](std::int64_t k) { return depth(k / m, k % m); }, 0,
                               depth.size());
            energy(0) = tree_sum(
                [&](std::int64_t k) {
                  return energy_of(
                      {depth(k / m, k % m), east(k / m, k % m), south(k / m, k % m)});
                },
                0, depth.size());
          },
          weir::read(now_.depth.of_tile(box)), weir::read(now_.east.of_tile(box)),
          weir::read(now_.south.of_tile(box)), weir::write(mass_.of_index(box.index)),
          weir::write(energy_.of_index(box.index)));
    }
    ranks_.reduce(std::plus<>(), mass_, total_mass_);
    ranks_.reduce(std::plus<>(), energy_, total_energy_);
    WEIR_TRY(const double mass, ranks_.get(total_mass_));
    WEIR_TRY(const double energy, ranks_.get(total_energy_));
    return totals{mass, energy};
  }
  /// Returns the time that has been simulated. @error{kernel_failed; see `measure`}
  [[nodiscard]] weir::result<double> time() { return ranks_.get(time_); }
  /// Returns the depth of the water.
  [[nodiscard]] const weir::world_tensor<double, 2>& depth() const { return now_.depth; }
  /// Returns the momentum along rows.
  [[nodiscard]] const weir::world_tensor<double, 2>& east() const { return now_.east; }
  /// Returns the momentum along columns.
  [[nodiscard]] const weir::world_tensor<double, 2>& south() const { return now_.south; }

 private:
  struct state {
    weir::world_tensor<double, 2> depth;
    weir::world_tensor<double, 2> east;
    weir::world_tensor<double, 2> south;
  };
  [[nodiscard]] state make_fields() {
    const auto field = [this] {
      return ranks_.make<double>(setup_.tiles, setup_.rows, setup_.columns);
    };
    return {field(), field(), field()};
  }
  /// Fills a tile with water at rest and returns the speed of its fastest wave.
  static double fill_tile(const weir::tile<2>& box, const setup& with,
                          const fields<double>& out) {
    double fastest = 0;
    for (std::int64_t i = 0; i < out.depth.extent(0); ++i) {
      for (std::int64_t j = 0; j < out.depth.extent(1); ++j) {
        const double south = static_cast<double>(box.lo[0] + i) + 0.5;
        const double east = static_cast<double>(box.lo[1] + j) + 0.5;
        out.depth(i, j) = with.depth(south * with.cell_length, east * with.cell_length);
        out.east(i, j) = out.south(i, j) = 0;
        fastest = std::max(fastest, wave_speed(out.depth(i, j), 0));
      }
    }
    return fastest;
  }
  weir::world& ranks_;
  setup setup_;
  state now_;
  state next_;
  weir::world_tensor<double, 1> speed_;  ///< fastest wave of each tile
  weir::tensor<double, 0> fastest_;
  weir::tensor<double, 0> ratio_;  ///< length of the step over the length of a cell
  weir::tensor<double, 0> time_;
  weir::world_tensor<double, 1> mass_;
  weir::world_tensor<double, 1> energy_;
  weir::tensor<double, 0> total_mass_;
  weir::tensor<double, 0> total_energy_;
};

}  // namespace shallow_water
