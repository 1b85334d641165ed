// SPDX-License-Identifier: Apache-2.0
/// @file
/// Simulates the break of a circular dam on several ranks.
/// Usage: shallow_water [--ranks N] [--workers N] [--size N] [--tile N] [--steps N]
///   [--state FOLDER [--every N]] [--table 0] [--json 1]
///   [--frames FOLDER] [--animation FILE] [--frame-every N]
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "shallow_water/animation.hpp"
#include "shallow_water/basin.hpp"
#include "support/launched.hpp"
#include "support/options.hpp"
#include "weir/worlds/messages.hpp"

namespace {

using shallow_water::totals;

/// Largest change of the mass in units of its last place.
constexpr double max_drift = 4;

/// Returns the difference of two positive numbers in units of the last place of the
/// first.
double units_between(double a, double b) {
  return std::abs(a - b) / (std::nextafter(a, 2 * a) - a);
}

/// Pictures of a run: a message for each step that is shown, and an animation.
class pictures {
 public:
  pictures(weir::world& w, const demo::options& chosen, bool first_rank)
      : w_(w),
        folder_(chosen.text("frames")),
        path_(chosen.text("animation")),
        every_(chosen.number("frame-every")),
        first_rank_(first_rank),
        film_(path_, {.rows = chosen.number("size"),
                      .columns = chosen.number("size"),
                      .points = std::max<std::int64_t>(chosen.number("size") / points, 1),
                      .lowest = 0.8,
                      .highest = 1.5,
                      .every = every_}) {}

  /// Shows the depth before the first step of this run, or that of the step from which it
  /// goes on; the animation keeps the frames before it. All ranks call it.
  void begin(const shallow_water::basin& water, std::int64_t step) {
    if (step > 0 && first_rank_ && !path_.empty()) {
      const std::int64_t first = film_.go_on(step);
      if (first != 0) {
        std::fprintf(stderr,
                     "the animation %s has only frames from step %" PRId64
                     " on: expected it to have those of the steps before, as written by "
                     "a run with the same --size and --frame-every\n",
                     path_.c_str(), first);
      }
    }
    show(water, step);
  }
  /// Shows the depth if the step is to be shown. All ranks call it.
  void show(const shallow_water::basin& water, std::int64_t step) {
    if (step % every_ != 0) {
      return;
    }
    if (!folder_.empty()) {
      const std::string path = folder_ + "/depth-" + std::to_string(step) + ".tgm";
      weir::or_throw(weir::write_message(w_, path, water.depth(), "depth"));
    }
    if (!path_.empty()) {
      const auto depth = weir::or_throw(w_.elements(water.depth()));
      if (first_rank_) {
        film_.add(depth, step);
      }
    }
  }

 private:
  static constexpr std::int64_t points = 160;  ///< about as many in a row of a frame
  weir::world& w_;
  std::string folder_;
  std::string path_;
  std::int64_t every_;
  bool first_rank_;
  shallow_water::animation film_;
};

void simulate(const demo::options& chosen) {
  const std::int64_t n = chosen.number("size");
  const std::int64_t tile = chosen.number("tile");
  const std::int64_t steps = chosen.number("steps", 0);
  demo::on_launched_ranks(
      chosen.number("ranks"), chosen.number("workers"),
      [&](weir::world& w, weir::runtime::rank_id rank) {
        shallow_water::basin water(w, {.rows = n,
                                       .columns = n,
                                       .tiles = weir::blocks(tile, tile),
                                       .cell_length = 1.0 / static_cast<double>(n),
                                       .depth = shallow_water::circular_dam});
        const totals before = weir::or_throw(water.measure());
        pictures shown(w, chosen, rank == 0);
        std::int64_t first = 0;
        if (!chosen.text("state").empty()) {
          water.checkpoint(chosen.text("state"), chosen.number("every"));
          first = demo::resume(w, rank);
        }
        shown.begin(water, first);
        w.repeat(steps, [&](std::int64_t step) {
          water.step();
          shown.show(water, step + 1);
        });
        if (demo::has_stopped(w, rank)) {
          return;
        }
        const totals after = weir::or_throw(water.measure());
        const double time = weir::or_throw(water.time());
        weir::xxh3_stream digest;
        for (const auto* field : {&water.depth(), &water.east(), &water.south()}) {
          demo::add_elements(w, *field, digest);
        }
        const double drift = units_between(before.mass, after.mass);
        if (rank == 0) {
          std::printf("%" PRId64 " x %" PRId64 " cells, %" PRId64
                      " steps, time %.4f: mass differs by %.0f ulp, energy %.4f of the "
                      "first, hash %s\n",
                      n, n, steps, time, drift, after.energy / before.energy,
                      weir::hex64(digest.digest()).c_str());
        }
        demo::print_counters(w, rank, chosen.number("table", 0) != 0,
                             chosen.number("json", 0) != 0);
        if (!(drift <= max_drift) || !(after.energy <= before.energy)) {
          throw std::runtime_error("mass or energy are not kept");
        }
      });
}

}  // namespace

int main(int argc, char** argv) {
  weir::stop_at_signals();
  try {
    simulate(
        demo::options({argv, static_cast<std::size_t>(argc)}, {{"ranks", "2"},
                                                               {"workers", "1"},
                                                               {"size", "256"},
                                                               {"tile", "64"},
                                                               {"steps", "200"},
                                                               {"state", ""},
                                                               {"table", "1"},
                                                               {"json", "0"},
                                                               {"every", "50"},
                                                               {"frames", ""},
                                                               {"animation", ""},
                                                               {"frame-every", "50"}}));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "shallow_water: %s\n", e.what());
    return 1;
  }
}
