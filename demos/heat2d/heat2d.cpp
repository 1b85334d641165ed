// SPDX-License-Identifier: Apache-2.0
/// @file
/// Simulates heat in a plate on several ranks and compares it with the exact solution.
/// Usage: heat2d [--ranks N] [--workers N] [--size N] [--tile N] [--steps N]
///   [--state FOLDER [--every N]] [--table 0] [--json 1]
#include <cinttypes>
#include <cstdio>
#include <stdexcept>

#include "heat2d/plate.hpp"
#include "support/launched.hpp"
#include "support/options.hpp"

namespace {

/// Largest difference to the exact solution after 1,000 steps.
constexpr double max_error = 1e-13;

void simulate(const demo::options& chosen) {
  const std::int64_t n = chosen.number("size", 3);
  const std::int64_t tile = chosen.number("tile");
  const std::int64_t steps = chosen.number("steps", 0);
  demo::on_launched_ranks(
      chosen.number("ranks"), chosen.number("workers"),
      [&](weir::world& w, weir::runtime::rank_id rank) {
        heat2d::plate plate(w, weir::blocks(tile, tile), n);
        if (!chosen.text("state").empty()) {
          plate.checkpoint(chosen.text("state"), chosen.number("every"));
          demo::resume(w, rank);
        }
        w.repeat(steps, [&](std::int64_t) { plate.step(); });
        if (demo::has_stopped(w, rank)) {
          return;
        }
        const double error = weir::or_throw(plate.error_after(steps));
        weir::xxh3_stream digest;
        demo::add_elements(w, plate.cells(), digest);
        if (rank == 0) {
          std::printf("%" PRId64 " x %" PRId64 " cells, %" PRId64
                      " steps: largest error %s 1e-13, hash %s\n",
                      n, n, steps, error <= max_error ? "below" : "ABOVE",
                      weir::hex64(digest.digest()).c_str());
        }
        demo::print_counters(w, rank, chosen.number("table", 0) != 0,
                             chosen.number("json", 0) != 0);
        if (!(error <= max_error)) {
          throw std::runtime_error("the plate differs from the exact solution by " +
                                   std::to_string(error));
        }
      });
}

}  // namespace

int main(int argc, char** argv) {
  weir::stop_at_signals();
  try {
    simulate(demo::options({argv, static_cast<std::size_t>(argc)}, {{"ranks", "2"},
                                                                    {"workers", "1"},
                                                                    {"size", "256"},
                                                                    {"tile", "64"},
                                                                    {"steps", "1000"},
                                                                    {"state", ""},
                                                                    {"table", "1"},
                                                                    {"json", "0"},
                                                                    {"every", "100"}}));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "heat2d: %s\n", e.what());
    return 1;
  }
}
