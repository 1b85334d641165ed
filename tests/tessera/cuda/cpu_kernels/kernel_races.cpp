// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs kernels at small size without checks of the machine, so that ThreadSanitizer sees
/// their accesses:
///
///     kernel_races                all cases with the kernels as they are
///     kernel_races few NUMBER     the cases of a kernel with a planted race
///     kernel_races many [NUMBER]  launches whose 4,096 threads are alive at one time
///     kernel_races list           numbers and names of the races
#include <cstdlib>
#include <iostream>
#include <string>

#include "cases/case_support.hpp"
#include "cpu_kernels/planted.hpp"
#include "cpu_kernels/runner.hpp"
#include "device/cuda/launch_facts.hpp"

namespace weir::tessera::kernel_machine {
namespace {

constexpr std::array<run_choice, 5> choices = {{{thread_order::ascending, 1, false},
                                                {thread_order::descending, 1, false},
                                                {thread_order::random, 1, false},
                                                {thread_order::random, 2, false},
                                                {thread_order::random, 3, false}}};

/// Runs all cases, and prints the results that are wrong. Returns their number.
int run_kernels() {
  int wrong = 0;
  for (const test::kernel_case& c : test::kernel_cases(false)) {
    for (const run_choice& choice : choices) {
      const std::string fault = c.run(runner_of(choice));
      if (!fault.empty()) {
        std::cout << c.name << ": " << fault << "\n";
        ++wrong;
      }
    }
  }
  return wrong;
}

/// Finds kernels by name, and the kernel with a fault instead of the one without.
auto finder_of(const planted_fault& fault) {
  return [fault = &fault](std::string_view name) {
    return name == fault->kernel.name ? &fault->kernel : find_kernel(name);
  };
}

/// Runs the cases of a kernel with a fault, whatever their results are. Kernels that wait
/// for a request to stop are left out: with a fault they may wait for ever.
void run_planted(const planted_fault& fault) {
  for (const test::kernel_case& c : test::kernel_cases(false)) {
    for (const run_choice& choice : choices) {
      if (c.name.starts_with(fault.kernel.name) && !c.name.ends_with("stopped")) {
        static_cast<void>(c.run(runner_of(choice, finder_of(fault))));
      }
    }
  }
}

/// Adds up ones in four blocks of 1,024 threads. Returns what is wrong, or nothing.
std::string sum_with_many(const test::kernel_runner& run) {
  const std::vector<float> x(8192, 1.0F);
  std::vector<float> sums(4);
  test::launch_maker m("block_sum", {4, 1, 1}, {1024, 1, 1});
  m.memory(x).memory(sums).number(std::int64_t{8192}).cooperative();
  const std::string fault = run(m.made());
  return fault.empty() ? test::difference(sums, std::vector(4, 2048.0F)) : fault;
}

/// Lets heat spread for two steps in a rod of 4,096 equal elements, on 16 blocks of 256
/// threads, which wait for each other.
std::string spread_with_many(const test::kernel_runner& run) {
  std::vector<float> a(4096, 1.0F);
  std::vector<float> b(4096);
  std::vector<std::int64_t> done(1);
  const std::vector<std::uint32_t> request(1);
  std::vector<std::uint32_t> barrier(16);
  cuda::launch_facts facts{};
  facts.stop = request.data();
  facts.barrier = barrier.data();
  test::launch_maker m("persistent_heat", {16, 1, 1}, {256, 1, 1});
  m.memory(a).memory(b).memory(done).number(std::int64_t{4096}).number(std::int64_t{2});
  m.number(facts).reachable(barrier).reachable(request).cooperative();
  const std::string fault = run(m.made());
  return fault.empty() ? test::difference(a, std::vector(4096, 1.0F)) : fault;
}

int list(const std::vector<planted_fault>& faults) {
  for (std::size_t i = 0; i < faults.size(); ++i) {
    if (faults[i].race) {
      std::cout << i << " " << faults[i].name << "\n";
    }
  }
  return 0;
}

/// Runs what the arguments of the program say, and returns its status.
int run_program(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    return run_kernels() == 0 ? 0 : 1;
  }
  const std::vector<planted_fault> faults = planted_faults();
  if (arguments[0] == "list") {
    return list(faults);
  }
  const planted_fault none{"", *find_kernel("empty"), false};
  const std::size_t number =
      arguments.size() < 2 ? 0 : std::strtoull(arguments[1].c_str(), nullptr, 10);
  const planted_fault& fault = arguments.size() < 2 ? none : faults.at(number);
  if (arguments[0] == "few") {
    run_planted(fault);
    return 0;
  }
  const test::kernel_runner runner = runner_of(choices[2], finder_of(fault));
  const std::string wrong = sum_with_many(runner) + spread_with_many(runner);
  std::cout << wrong << (wrong.empty() ? "" : "\n");
  return wrong.empty() ? 0 : 1;
}

}  // namespace
}  // namespace weir::tessera::kernel_machine

int main(int count, char** arguments) {
  return weir::tessera::kernel_machine::run_program({arguments + 1, arguments + count});
}
