// SPDX-License-Identifier: Apache-2.0
/// @file
/// The dam break of `demos/shallow_water` over a world, with samples for the rows. All
/// samples use the same memory, as those of the program by hand do.
/// Usage: see `sampled_options`
#include <cstdio>
#include <exception>
#include <vector>

#include "heat.hpp"
#include "rank_options.hpp"
#include "sampled_program.hpp"
#include "shallow_water/basin.hpp"
#include "weir/mpi/ranks.hpp"

namespace {

void measure(const weir::bench::sampled_options& with) {
  const std::int64_t n = with.size;
  const auto link = weir::or_throw(weir::launched_ranks());
  const int rank = link ? static_cast<int>(link->rank()) : 0;
  const std::int64_t ranks = link ? link->ranks() : 1;
  const std::int64_t tiles = (n + with.tile - 1) / with.tile;
  // A step has three tasks for each tile, and those of its length.
  weir::engine tasks(weir::bench::options_of_rank(3 * ((tiles + ranks - 1) / ranks) + 2));
  weir::world w(tasks, link);
  shallow_water::basin water(w, {.rows = n,
                                 .columns = n,
                                 .tiles = weir::rows(with.tile),
                                 .cell_length = 1.0 / static_cast<double>(n),
                                 .depth = shallow_water::circular_dam});
  weir::bench::print_samples(
      with, rank, [&] { water.fill(); }, [&] { weir::or_throw(w.wait()); },
      [&] {
        if (with.submits) {
          for (std::int64_t s = 0; s < with.steps; ++s) {
            water.step();
          }
        } else {
          w.repeat(with.steps, weir::equal_steps(), [&](std::int64_t) { water.step(); });
        }
      });
  const auto depth = weir::or_throw(w.elements(water.depth()));
  std::vector<double> sums;
  for (std::int64_t i = 0; i < n; ++i) {
    sums.push_back(
        weir::bench::row_sum({depth.data() + i * n, static_cast<std::size_t>(n)}));
  }
  if (rank == 0) {
    std::printf("checksum %a\n", weir::bench::checksum(sums));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    measure(weir::bench::sampled_options(argc, argv));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "world_shallow_water: %s\n", e.what());
    return 1;
  }
}
