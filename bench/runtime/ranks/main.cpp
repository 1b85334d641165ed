// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about worlds of several ranks, beside programs that are written by hand with MPI.
#include <cstdio>
#include <string>
#include <vector>

#include "instructions.hpp"
#include "launches.hpp"

namespace weir::bench {
namespace {

#ifdef WEIR_BENCH_MPIRUN
/// Returns the time of the program by hand over that of the program over a world.
measured by_hand_over_ours(const launch& ours, const std::string& by_hand, bar limit) {
  launch theirs = ours;
  theirs.program = by_hand;
  theirs.more = "";
  return ratio_in_turn({ours, theirs}, limit, [](const std::vector<double>& seconds) {
    return seconds[1] / seconds[0];
  });
}

/// Returns the speed-up from one to two ranks over that of the program by hand.
measured speed_up_ratio(const launch& ours, const std::string& by_hand, bar limit) {
  launch theirs = ours;
  theirs.program = by_hand;
  theirs.more = "";
  launch alone = ours;
  alone.ranks = 1;
  launch theirs_alone = theirs;
  theirs_alone.ranks = 1;
  return ratio_in_turn({ours, theirs, alone, theirs_alone}, limit,
                       [](const std::vector<double>& seconds) {
                         return seconds[2] / seconds[0] / (seconds[3] / seconds[1]);
                       });
}

void add_launched_rows(program& bench) {
  // Two tiles for each of two ranks, or four where the plate does not fit into the
  // caches.
  const launch small{"world_heat", "512 2000", "128"};
  const launch large{"world_heat", "2048 200", "256"};
  const launch water{"world_shallow_water", "512 60", "64"};
  const auto add = [&](const char* id, double least, const launch& ours,
                       const char* by_hand) {
    const bar limit = at_least(least);
    bench.add(id, "ratio", limit,
              [=] { return by_hand_over_ours(ours, by_hand, limit); });
  };
  add("dist_heat_512_2_ratio", 0.95, small, "mpi_heat");
  add("dist_heat_2048_2_ratio", 0.92, large, "mpi_heat");
  launch tcp = small;
  tcp.over_tcp = true;
  add("dist_heat_512_tcp_ratio", 0.92, tcp, "mpi_heat");
  launch submits = small;
  submits.more += " submit";
  add("dist_heat_512_submit_ratio", 0.90, submits, "mpi_heat");
  add("dist_swe_mpi_ratio", 0.95, water, "mpi_shallow_water");
  // With small tiles, a rank that lacks its processor delays the other one less.
  launch beside = large;
  beside.more = "64";
  beside.beside_work = true;
  add("dist_heat_neighbour_ratio", 1.2, beside, "mpi_heat");
  bench.add("dist_heat_speedup_2_ratio", "ratio", at_least(0.95),
            [=] { return speed_up_ratio(small, "mpi_heat", at_least(0.95)); });
}
#endif

/// Adds the rows about one rank of many, which pretends that the others exist.
void add_pretended_rows(program& bench) {
  const auto own_ns = [](int ranks) { return figures_of_pretended(ranks).own_ns; };
  bench.add("dist_pretend_16_ns", "ns", no_bar, [=] { return own_ns(16); });
  bench.add("dist_pretend_1024_ratio", "ratio", at_most(1.1),
            [=] { return own_ns(1024) / own_ns(16); });
  bench.add("dist_pretend_10000_ratio", "ratio", at_most(1.1),
            [=] { return own_ns(10'000) / own_ns(16); });
  // A step of 16 tiles.
  bench.add("dist_pretend_10000_us", "us", at_most(3),
            [=] { return own_ns(10'000) * 16 / 1000; });
  bench.add("dist_pretend_memory_ratio", "ratio", at_most(1.5), [] {
    return figures_of_pretended(10'000).peak_kib / figures_of_pretended(16).peak_kib;
  });
  bench.add("dist_foreign_ns", "ns", at_most(10),
            [] { return figures_of_pretended(10'000).foreign_ns; });
}

#ifdef WEIR_BENCH_VALGRIND
/// Returns the instructions of a step by a world of one rank over those by an engine.
double one_rank_instructions() {
  const auto of_steps = [](const std::string& by) {
    const std::string command = WEIR_BENCH_RANKS "/one_rank " + by;
    return instructions_of(command + " 1500") - instructions_of(command + " 500");
  };
  return of_steps("world") / of_steps("engine");
}
#endif

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  weir::bench::program bench;
#ifdef WEIR_BENCH_MPIRUN
  weir::bench::add_launched_rows(bench);
#else
  std::fprintf(stderr, "dist_*_ratio left out: OpenMPI is not installed\n");
#endif
  weir::bench::add_pretended_rows(bench);
#ifdef WEIR_BENCH_VALGRIND
  bench.add("dist_one_rank_instructions", "ratio", weir::bench::at_most(1.01),
            weir::bench::one_rank_instructions);
#else
  std::fprintf(stderr, "dist_one_rank_instructions left out: no valgrind\n");
#endif
  return bench.run(argc, argv);
}
