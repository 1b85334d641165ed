// SPDX-License-Identifier: Apache-2.0
/// @file
/// What programs of several ranks print for `launches.hpp`: a line for each sample of
/// each rank, and a checksum of the state.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "clean.hpp"
#include "turns.hpp"

namespace weir::bench {

/// Options of a program: PROGRAM SIZE STEPS SAMPLES [ROWS_OF_A_TILE [submit]].
struct sampled_options {
  std::int64_t size = 512;   ///< cells of a row and of a column
  std::int64_t steps = 100;  ///< steps of a sample
  std::int64_t samples = 1;  ///< number of samples behind the first one, which warms up;
                             ///< without meaning where the samples wait for turns
  std::int64_t tile = 64;    ///< rows of a tile; programs by hand have no tiles
  bool submits = false;      ///< true: each step is submitted, without `repeat`

  sampled_options(int argc, char** argv) {
    const auto number = [&](int index, std::int64_t otherwise) {
      return argc > index ? std::strtoll(argv[index], nullptr, 10) : otherwise;
    };
    size = number(1, size);
    steps = number(2, steps);
    samples = number(3, samples);
    tile = number(4, tile);
    submits = argc > 5;
  }
};

/// Takes the samples: `prepare()` sets the first state, `meet()` waits for all ranks, and
/// `run()` is measured together with the `meet` behind it. A first sample warms up; then
/// the rank prints that it is ready, with its process id. For each further sample it
/// prints the seconds, and the nanoseconds for which its threads waited for a processor.
/// The samples follow each other, or wait for their turns where the environment names
/// them (`turns.hpp`).
template <class Prepare, class Meet, class Run>
void print_samples(const sampled_options& with, int rank, Prepare&& prepare, Meet&& meet,
                   Run&& run) {
  const auto take = [&](std::int64_t index) {
    prepare();
    meet();
    const double waited = delay_ns();
    const double took = seconds_of([&] {
      run();
      meet();
    });
    if (index < 0) {
      std::printf("ready %d %d\n", rank, static_cast<int>(::getpid()));
    } else {
      std::printf("sample %d %lld %.9g %.9g\n", rank, static_cast<long long>(index), took,
                  delay_ns() - waited);
    }
    std::fflush(stdout);
  };
  take(-1);
  if (const char* const path = std::getenv(turns::variable); path != nullptr) {
    const turns mine(path);
    for (std::int32_t i = 0; mine.wait_for(i); ++i) {
      take(i);
    }
    return;
  }
  for (std::int64_t i = 0; i < with.samples; ++i) {
    take(i);
  }
}

}  // namespace weir::bench
