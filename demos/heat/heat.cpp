// SPDX-License-Identifier: Apache-2.0
/// @file
/// Simulates the diffusion of heat in a rod. A step updates every second cell ("red" or
/// "black") from its two neighbours, in pieces. Both colours are strided views of one
/// tensor, and the engine finds that a red piece depends only on the black pieces beside
/// it. A serial version must give the same bits. Usage: heat [WORKERS [CELLS [STEPS]]]
#include <weir/weir.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::int64_t piece = 16384;  // cells of one colour per task

/// Replaces cells of one colour by the mean of their two neighbours.
/// @param around  Cells of the other colour, one more than `cells`.
void relax(weir::view<const double, 1> around, weir::view<double, 1> cells) {
  for (std::int64_t i = 0; i < cells.extent(0); ++i) {
    cells[i] = 0.5 * (around[i] + around[i + 1]);
  }
}

// Returns the initial temperature of a cell.
double initial(std::int64_t i) {
  return static_cast<double>(i * 7919 % 1000);
}

/// Returns the seconds since `start`.
double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned workers = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 2;
  const std::int64_t cells = argc > 2 ? std::atoll(argv[2]) : 1'000'001;
  const int steps = argc > 3 ? std::atoi(argv[3]) : 100;
  weir::engine e(workers);
  auto rod = e.make<double>(cells);
  std::vector<double> serial;
  for (std::int64_t i = 0; i < cells; ++i) {
    rod.elements<double>()[i] = initial(i);
    serial.push_back(initial(i));
  }

  auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    // Even steps update cells 1, 3, 5, ..., odd steps cells 2, 4, 6, ...; the two ends of
    // the rod keep their values.
    for (std::int64_t first = 1 + step % 2; first < cells - 1; first += 2 * piece) {
      const std::int64_t end = std::min(first + 2 * piece, cells - 1);
      const std::int64_t count = (end - first + 1) / 2;
      e.submit("relax", relax, weir::read(rod.slice(0, first - 1, first + 2 * count, 2)),
               weir::write(rod.slice(0, first, end, 2)));
    }
  }
  weir::or_throw(e.wait());
  const double with_engine = seconds_since(start);

  start = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = static_cast<std::size_t>(1 + step % 2); i + 1 < serial.size();
         i += 2) {
      serial[i] = 0.5 * (serial[i - 1] + serial[i + 1]);
    }
  }
  const double alone = seconds_since(start);

  const auto result = rod.elements<const double>();
  const bool same = std::equal(serial.begin(), serial.end(), result.begin());
  std::printf("%lld cells, %d steps: %u workers %.1f ms, serial %.1f ms, results %s\n",
              static_cast<long long>(cells), steps, workers, with_engine * 1e3,
              alone * 1e3, same ? "equal" : "differ");
  return same ? 0 : 1;
}
