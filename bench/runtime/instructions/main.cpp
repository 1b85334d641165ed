// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about the instructions of an empty task that ends with its kernel. Tasks that end
/// later may make it longer by three instructions, and nothing else may make it longer
/// unnoticed.
#include <cstdio>
#include <string>

#include "bench.hpp"
#include "instructions.hpp"

namespace weir::bench {
namespace {

#ifdef WEIR_BENCH_EMPTY_TASKS
/// Returns the instructions of one task. What a start costs, and what a pass costs
/// whatever its length is, cancel out.
double instructions_of_task(const std::string& kind) {
  constexpr int few = 2048;
  constexpr int many = 4096;
  constexpr int few_passes = 4;
  constexpr int many_passes = 12;
  const auto of_passes = [&](int tasks) {
    const std::string command =
        WEIR_BENCH_EMPTY_TASKS " " + kind + " " + std::to_string(tasks) + " ";
    return instructions_of(command + std::to_string(many_passes)) -
           instructions_of(command + std::to_string(few_passes));
  };
  return (of_passes(many) - of_passes(few)) / (many - few) / (many_passes - few_passes);
}

/// Returns the limit of a row: the instructions before tasks could end later than their
/// kernels, counted with the compiler of Debian 12 for x86-64, and three more. Another
/// compiler makes other instructions, so with it there is no verdict.
std::optional<bar> three_above(double before) {
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ == 12 && __GNUC_MINOR__ == 2
  return at_most(before + 3);
#else
  static_cast<void>(before);
  return no_bar;
#endif
}

void add_rows(program& bench) {
  const auto add = [&](const std::string& kind, double before) {
    bench.add("task_instructions_" + kind, "instructions", three_above(before),
              [=] { return instructions_of_task(kind); });
  };
  add("submitted", 513.8);
  add("access", 753.4);
  add("replayed", 164.8);
}
#endif

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  weir::bench::program bench;
#ifdef WEIR_BENCH_EMPTY_TASKS
  weir::bench::add_rows(bench);
#else
  std::fprintf(stderr, "task_instructions_* left out: no valgrind\n");
#endif
  return bench.run(argc, argv);
}
