// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that the kernels for GPUs, compiled for the processor, give the expected bits in
/// every order of their threads, and that no check finds a fault.
#include <gtest/gtest.h>

#include <iostream>

#include "cpu_kernels/planted.hpp"
#include "cpu_kernels/runner.hpp"
#include "weir/base/system/sanitizers.hpp"

namespace weir::tessera::kernel_machine {
namespace {

TEST(CpuKernels, EqualTheOracleInEveryOrderOfThreads) {
  for (const test::kernel_case& c : test::kernel_cases(false)) {
    EXPECT_EQ(c.run(runner_of({thread_order::ascending})), "") << c.name;
    EXPECT_EQ(c.run(runner_of({thread_order::descending})), "") << c.name;
    for (const std::uint64_t seed : {1U, 2U}) {
      EXPECT_EQ(c.run(runner_of({thread_order::random, seed})), "")
          << c.name << ", seed " << seed;
    }
  }
}

// Without checks of their own, so that AddressSanitizer sees the accesses.
TEST(CpuKernels, EqualTheOracleAtFullSize) {
  for (const test::kernel_case& c : test::kernel_cases(true)) {
    EXPECT_EQ(c.run(runner_of({thread_order::random, 3, false})), "") << c.name;
  }
}

// A fault must be found by the checks or by a wrong result, in one of three orders. The
// cases are those that find no fault in the kernels as they are.
TEST(CpuKernels, WithAPlantedFaultAreFound) {
  if (thread_sanitizer) {
    GTEST_SKIP() << "ThreadSanitizer would report the faults; races_test.py expects that";
  }
  std::size_t found = 0;
  const std::vector<planted_fault> faults = planted_faults();
  for (const planted_fault& fault : faults) {
    std::string report;
    for (const thread_order order :
         {thread_order::ascending, thread_order::descending, thread_order::random}) {
      const auto planted = [&](std::string_view name) {
        return name == fault.kernel.name ? &fault.kernel : find_kernel(name);
      };
      for (const test::kernel_case& c : test::kernel_cases(false)) {
        if (report.empty() && c.name.starts_with(fault.kernel.name)) {
          report = c.run(runner_of({order}, planted));
        }
      }
    }
    EXPECT_NE(report, "") << fault.name;
    EXPECT_EQ(fault.kernel.parameter_bytes,
              find_kernel(fault.kernel.name)->parameter_bytes);
    std::cout << fault.name << ": " << report << "\n";
    found += report.empty() ? 0 : 1;
  }
  std::cout << "planted kernel faults: " << found << " of " << faults.size()
            << " found\n";
}

TEST(CpuKernels, HaveACaseEach) {
  std::vector<std::string> without;
  for (const kernel_entry& kernel : all_kernels()) {
    bool found = kernel.name == "empty";
    const test::kernel_runner look = [&](const test::kernel_launch& launch) {
      found = found || launch.name == kernel.name;
      return std::string("not run");
    };
    for (const test::kernel_case& c : test::kernel_cases(false)) {
      EXPECT_EQ(c.run(look), "not run");
    }
    if (!found) {
      without.emplace_back(kernel.name);
    }
  }
  EXPECT_EQ(without, std::vector<std::string>{});
}

}  // namespace
}  // namespace weir::tessera::kernel_machine
