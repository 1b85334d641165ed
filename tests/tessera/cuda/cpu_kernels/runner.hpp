// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the launches of cases on kernels that are compiled for the host.
#pragma once

#include <functional>

#include "cases/kernel_cases.hpp"
#include "cpu_kernels/machine.hpp"

namespace weir::tessera::kernel_machine {

/// Order of threads, its seed, and whether accesses are checked.
struct run_choice {
  thread_order order = thread_order::ascending;
  std::uint64_t seed = 1;
  bool checked = true;
};

/// Returns a runner of the kernels that `find` returns for a name.
inline test::kernel_runner runner_of(
    run_choice choice,
    std::function<const kernel_entry*(std::string_view)> find = &find_kernel) {
  return [=](const test::kernel_launch& launch) -> std::string {
    const kernel_entry* kernel = find(launch.name);
    if (kernel == nullptr) {
      return "no such kernel";
    }
    if (kernel->parameter_bytes != launch.sizes) {
      return "the parameters have other sizes";
    }
    launch_options options;
    options.grid = launch.grid;
    options.block = launch.block;
    options.cooperative = launch.cooperative;
    options.order = choice.order;
    options.seed = choice.seed;
    options.checked = choice.checked;
    for (const test::case_memory& m : launch.memory) {
      options.memory.push_back({m.first, m.bytes});
    }
    const result<void> done = run(kernel->call, launch.arguments, options);
    return done ? "" : done.error().text();
  };
}

}  // namespace weir::tessera::kernel_machine
