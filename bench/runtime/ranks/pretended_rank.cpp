// SPDX-License-Identifier: Apache-2.0
/// @file
/// The cost of a step for one rank of many, which exists alone:
/// WEIR_PRETEND=RANK/RANKS pretended_rank. Each rank has 16 tiles of a plate whose cells
/// are computed from their neighbours; no kernel is called. Prints the time of a repeated
/// step for each task of the rank, the time of a step that is submitted for each task of
/// the other ranks, and the largest memory of the process.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench.hpp"
#include "rank_options.hpp"
#include "weir/world.hpp"

namespace {

using plate = weir::world_tensor<double, 2>;

constexpr std::int64_t tiles_of_rank = 16;
constexpr std::int64_t tile = 4;
constexpr std::int64_t columns = 64;

/// Processor seconds of this thread, which runs all tasks.
double now_s() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Returns the largest resident memory so far. @units{KiB}
long peak_memory() {
  std::FILE* const status = std::fopen("/proc/self/status", "r");
  long peak = 0;
  for (char line[128]; status != nullptr && std::fgets(line, sizeof line, status);) {
    if (std::sscanf(line, "VmHWM: %ld", &peak) == 1) {
      break;
    }
  }
  if (status != nullptr) {
    std::fclose(status);
  }
  return peak;
}

/// A program of steps over two plates.
struct steps_of_plates {
  explicit steps_of_plates(weir::world& ranks)
      : w(ranks),
        a(w.make<double>(weir::rows(tile), rows_of(ranks), columns)),
        b(w.make<double>(weir::rows(tile), rows_of(ranks), columns)) {
    for (const plate& one : {a, b}) {
      w.submit_tiles(
          "fill", [](weir::view<double, 2> out) { out.data()[0] = 1; }, one.range(),
          weir::write(one.each()));
    }
    weir::or_throw(w.wait());
  }
  static std::int64_t rows_of(weir::world& ranks) {
    return std::int64_t{ranks.base().ranks()} * tiles_of_rank * tile;
  }
  void step(std::int64_t s) {
    const plate& in = s % 2 == 0 ? a : b;
    const plate& out = s % 2 == 0 ? b : a;
    w.submit_tiles(
        "sweep",
        [](weir::view<const double, 2> from, weir::view<double, 2> to) {
          to.data()[0] = from.data()[0];
        },
        out.range(1), weir::read(in.each(1)), weir::write(out.each()));
  }
  /// Returns the nanoseconds of a step that is submitted or recorded: those of a loop
  /// that ends when its period was recorded.
  double submitted_ns() {
    constexpr std::int64_t until_recorded = 7;
    const double start = now_s();
    w.repeat(until_recorded, [&](std::int64_t s) { step(s); });
    const double took = now_s() - start;
    weir::or_throw(w.wait());
    return took * 1e9 / static_cast<double>(until_recorded);
  }
  /// Returns the nanoseconds of a step that is replayed: the difference of a long and a
  /// short loop, which submit the same steps before they replay.
  double repeated_ns() {
    constexpr std::int64_t few = 1001;
    constexpr std::int64_t many = 9001;
    const auto seconds = [this](std::int64_t steps) {
      const double start = now_s();
      w.repeat(steps, weir::equal_steps(), [&](std::int64_t s) { step(s); });
      weir::or_throw(w.wait());
      return now_s() - start;
    };
    const double of_few = seconds(few);
    return (seconds(many) - of_few) * 1e9 / static_cast<double>(many - few);
  }
  weir::world& w;
  plate a;
  plate b;
};

void measure() {
  const auto link = weir::or_throw(weir::runtime::pretended_ranks_of_environment());
  if (!link) {
    throw std::runtime_error("expected WEIR_PRETEND=RANK/RANKS, found no such variable");
  }
  weir::engine tasks(weir::bench::options_of_rank(tiles_of_rank));
  weir::world w(tasks, link);
  steps_of_plates plates(w);
  const double submitted =
      weir::bench::median(weir::bench::repeat(15, [&] { return plates.submitted_ns(); }));
  const double repeated =
      weir::bench::median(weir::bench::repeat(15, [&] { return plates.repeated_ns(); }));
  const std::uint64_t replayed = tasks.base().counters().replayed;
  if (replayed < 15 * 9900 * static_cast<std::uint64_t>(tiles_of_rank)) {
    throw std::runtime_error("expected replayed steps, found " +
                             std::to_string(replayed) + " replayed tasks");
  }
  const double foreign = static_cast<double>((link->ranks() - 1) * tiles_of_rank);
  std::printf("own_ns %.9g\nforeign_ns %.9g\npeak_kib %ld\n",
              repeated / static_cast<double>(tiles_of_rank), submitted / foreign,
              peak_memory());
}

}  // namespace

int main() {
  try {
    measure();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pretended_rank: %s\n", e.what());
    return 1;
  }
}
