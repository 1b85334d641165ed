// SPDX-License-Identifier: Apache-2.0
/// @file
/// Heat in a plate, over a world: the same kernel and the same first state as
/// `mpi_heat.cpp`. Usage: see `sampled_options`
#include <cstdio>
#include <exception>
#include <vector>

#include "heat.hpp"
#include "rank_options.hpp"
#include "sampled_program.hpp"
#include "weir/mpi/ranks.hpp"
#include "weir/world.hpp"

namespace {

using plate = weir::world_tensor<double, 2>;

void fill(weir::world& w, const plate& cells) {
  const std::int64_t n = cells.all().extent(1);
  for (const auto& box : cells.tiles()) {
    w.submit(
        "fill",
        [first = box.lo[0] * n](weir::view<double, 2> out) {
          for (std::int64_t k = 0; k < out.size(); ++k) {
            out.data()[k] = weir::bench::first_heat(first + k);
          }
        },
        weir::write(cells.of_tile(box)));
  }
}
/// Computes the cells of `out`; both views lie in plates of `n` columns.
struct sweep_kernel {
  std::int64_t n;
  void operator()(weir::view<const double, 2> in, weir::view<double, 2> out) const {
    weir::bench::heat_step(in.data(), n, out.data(), n, out.extent(0), out.extent(1));
  }
};

void measure(const weir::bench::sampled_options& with) {
  const std::int64_t n = with.size;
  const auto link = weir::or_throw(weir::launched_ranks());
  const int rank = link ? static_cast<int>(link->rank()) : 0;
  const std::int64_t ranks = link ? link->ranks() : 1;
  const std::int64_t tiles = (n + with.tile - 1) / with.tile;
  weir::engine tasks(weir::bench::options_of_rank((tiles + ranks - 1) / ranks));
  weir::world w(tasks, link);
  const auto a = w.make<double>(weir::rows(with.tile), n, n);
  const auto b = w.make<double>(weir::rows(with.tile), n, n);
  const auto boxes = a.tiles_inside(1);
  const auto step = [&](std::int64_t s) {
    const auto& in = s % 2 == 0 ? a : b;
    const auto& out = s % 2 == 0 ? b : a;
    for (const auto& box : boxes) {
      w.submit("sweep", sweep_kernel{n}, weir::read(in.around(box, 1)),
               weir::write(out.of_tile(box)));
    }
  };
  weir::bench::print_samples(
      with, rank,
      [&] {
        fill(w, a);
        fill(w, b);
      },
      [&] { weir::or_throw(w.wait()); },
      [&] {
        if (with.submits) {
          for (std::int64_t s = 0; s < with.steps; ++s) {
            step(s);
          }
        } else {
          w.repeat(with.steps, weir::equal_steps(), step);
        }
      });
  const auto cells = weir::or_throw(w.elements(with.steps % 2 == 0 ? a : b));
  std::vector<double> sums;
  for (std::int64_t i = 0; i < n; ++i) {
    sums.push_back(
        weir::bench::row_sum({cells.data() + i * n, static_cast<std::size_t>(n)}));
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
    std::fprintf(stderr, "world_heat: %s\n", e.what());
    return 1;
  }
}
