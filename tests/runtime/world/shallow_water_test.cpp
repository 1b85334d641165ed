// SPDX-License-Identifier: Apache-2.0
/// @file
/// The demos shallow_water and heat2d: laws of nature, exact solutions, and equal bits on
/// any number of ranks and workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "heat2d/plate.hpp"
#include "shallow_water/basin.hpp"
#include "shallow_water/stoker.hpp"
#include "support/case_count.hpp"
#include "support/ranks.hpp"

namespace {

using shallow_water::basin;
using shallow_water::setup;
using shallow_water::totals;
using weir::or_throw;

setup dam_of(std::int64_t n, std::int64_t tile) {
  return {.rows = n,
          .columns = n,
          .tiles = weir::blocks(tile, tile),
          .cell_length = 1.0 / static_cast<double>(n),
          .depth = shallow_water::circular_dam};
}

/// Returns the hash of a simulation of some steps.
std::uint64_t hash_of_dam(weir::world& w, const setup& with, int steps) {
  basin water(w, with);
  for (int step = 0; step < steps; ++step) {
    water.step();
  }
  weir::xxh3_stream digest;
  demo::add_elements(w, water.depth(), digest);
  demo::add_elements(w, water.east(), digest);
  demo::add_elements(w, water.south(), digest);
  return digest.digest();
}
std::uint64_t hash_of_plate(weir::world& w, const weir::layout& cut, int steps) {
  heat2d::plate plate(w, cut, 30);
  for (int step = 0; step < steps; ++step) {
    plate.step();
  }
  weir::xxh3_stream digest;
  demo::add_elements(w, plate.cells(), digest);
  return digest.digest();
}
/// Returns the hash of a program in a world of one rank.
std::uint64_t alone(const std::function<std::uint64_t(weir::world&)>& program) {
  weir::engine tasks(1);
  weir::world w(tasks);
  return program(w);
}
/// Expects the hash of one rank on 1 to 4 ranks with 1 to 3 workers.
void expect_one_hash(std::uint64_t expected,
                     const std::function<std::uint64_t(weir::world&)>& program) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (int workers = 1; workers <= 3; ++workers) {
      demo::on_ranks(ranks, workers, [&](weir::world& w, weir::runtime::rank_id) {
        EXPECT_EQ(program(w), expected) << ranks << " ranks, " << workers << " workers";
      });
    }
  }
}
/// Returns the difference of two numbers in units of the last place of the first.
double ulps(double a, double b) {
  return std::abs(a - b) / (std::nextafter(a, 2 * a) - a);
}

TEST(ShallowWater, HasOneHashOnAnyRanksAndWorkers) {
  const std::uint64_t whole =
      alone([](weir::world& w) { return hash_of_dam(w, dam_of(24, 24), 10); });
  for (const std::int64_t tile : {6, 7}) {
    expect_one_hash(whole,
                    [&](weir::world& w) { return hash_of_dam(w, dam_of(24, tile), 10); });
  }
}

TEST(ShallowWater, WaterAtRestKeepsItsBits) {
  demo::on_ranks(3, 1, [](weir::world& w, weir::runtime::rank_id) {
    setup still = dam_of(20, 6);
    still.depth = [](double, double) { return 1.1; };
    basin water(w, still);
    for (int step = 0; step < 50; ++step) {
      water.step();
    }
    const auto is = [&](const weir::world_tensor<double, 2>& field, double value) {
      const auto all = or_throw(w.elements(field));
      return std::all_of(all.data(), all.data() + all.size(),
                         [&](double one) { return one == value; });
    };
    EXPECT_TRUE(is(water.depth(), 1.1));
    EXPECT_TRUE(is(water.east(), 0));
    EXPECT_TRUE(is(water.south(), 0));
    EXPECT_GT(or_throw(water.time()), 0);
  });
}

TEST(ShallowWater, MassIsKeptAndEnergyNeverGrows) {
  const auto n = static_cast<std::int64_t>(weir::test::number_or("WEIR_TEST_BASIN", 40));
  const std::uint64_t steps = weir::test::case_count("WEIR_TEST_STEPS", 1000);
  demo::on_ranks(1, 1, [&](weir::world& w, weir::runtime::rank_id) {
    basin water(w, dam_of(n, n / 4));
    const totals first = or_throw(water.measure());
    totals before = first;
    for (std::uint64_t step = 0; step < steps; ++step) {
      water.step();
      const totals now = or_throw(water.measure());
      ASSERT_LE(now.energy, before.energy * (1 + 1e-12)) << "step " << step;
      before = now;
    }
    EXPECT_LE(ulps(first.mass, before.mass), 4);
    EXPECT_LT(before.energy, first.energy);
  });
}

TEST(ShallowWater, ADamBreaksAsStokerSays) {
  const double time = 0.08;
  const shallow_water::stoker exact(1, 0.2);
  for (const auto& [cells, bar] : {std::pair{200, 0.012}, {400, 0.007}, {800, 0.0045}}) {
    if (cells > 200 && weir::test::case_step() != 1) {
      break;  // sanitizers run the smallest one
    }
    const double length = 1.0 / cells;
    demo::on_ranks(
        2, 1, [&, cells = cells, bar = bar](weir::world& w, weir::runtime::rank_id) {
          basin water(
              w, {.rows = 2,
                  .columns = cells,
                  .tiles = weir::columns(cells / 4),
                  .cell_length = length,
                  .courant = 0.4,
                  .end = time,
                  .depth = [](double, double east) { return east < 0.5 ? 1 : 0.2; }});
          while (or_throw(water.time()) < time) {
            for (int step = 0; step < 20; ++step) {
              water.step();  // a step behind the end has no length
            }
          }
          const auto depth = or_throw(w.elements(water.depth()));
          double sum = 0;
          for (int j = 0; j < cells; ++j) {
            sum += std::abs(depth(1, j) - exact.depth((j + 0.5) * length - 0.5, time));
          }
          EXPECT_LE(sum * length, bar) << cells << " cells";
          EXPECT_GT(sum * length, bar / 2) << "an error that a first order scheme has";
        });
  }
}

TEST(ShallowWater, ACircleStaysSymmetric) {
  weir::engine tasks(2);
  weir::world w(tasks);
  basin water(w, dam_of(33, 8));
  for (int step = 0; step < 40; ++step) {
    water.step();
  }
  const auto depth = or_throw(w.elements(water.depth()));
  for (std::int64_t i = 0; i < 33; ++i) {
    for (std::int64_t j = 0; j < 33; ++j) {
      ASSERT_EQ(depth(i, j), depth(j, i));
      ASSERT_EQ(depth(i, j), depth(32 - i, j));
    }
  }
}

TEST(Heat2d, HasOneHashAndFollowsTheExactMode) {
  const std::uint64_t whole =
      alone([](weir::world& w) { return hash_of_plate(w, weir::rows(30), 12); });
  for (const weir::layout& cut : {weir::rows(4), weir::blocks(8, 11)}) {
    expect_one_hash(whole, [&](weir::world& w) { return hash_of_plate(w, cut, 12); });
  }
  demo::on_ranks(2, 1, [](weir::world& w, weir::runtime::rank_id) {
    heat2d::plate plate(w, weir::rows(8), 40);
    for (int step = 0; step < 300; ++step) {
      plate.step();
    }
    EXPECT_LE(or_throw(plate.error_after(300)), 1e-13);
    EXPECT_GT(or_throw(plate.error_after(299)), 1e-6);
  });
}

}  // namespace
