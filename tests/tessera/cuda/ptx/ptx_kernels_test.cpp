// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that the PTX of the kernels gives the expected bits in every order of threads.
#include <gtest/gtest.h>

#include <set>

#include "cases/kernel_cases.hpp"
#include "cpu_kernels/machine.hpp"
#include "ptx/interpreter.hpp"
#include "ptx/ptx_kernels.hpp"

namespace weir::tessera::ptx {
namespace {

using kernel_machine::thread_order;

/// Returns a runner of the kernels.
test::kernel_runner interpreter_of(const std::vector<kernel>& kernels, thread_order order,
                                   std::uint64_t seed) {
  return [=, &kernels](const test::kernel_launch& launch_case) -> std::string {
    for (const kernel& k : kernels) {
      if (k.name == launch_case.name) {
        launch what;
        what.options.grid = launch_case.grid;
        what.options.block = launch_case.block;
        what.options.cooperative = launch_case.cooperative;
        what.options.order = order;
        what.options.seed = seed;
        for (const test::case_memory& m : launch_case.memory) {
          what.options.memory.push_back({m.first, m.bytes});
        }
        what.arguments = launch_case.arguments;
        return interpret(k, what).fault;
      }
    }
    return "no such kernel";
  };
}

TEST(PtxKernels, EqualTheOracleInEveryOrderOfThreads) {
  const std::vector<kernel> kernels = repository_kernels();
  for (const test::kernel_case& c : test::kernel_cases(false)) {
    for (const thread_order order :
         {thread_order::ascending, thread_order::descending, thread_order::random}) {
      EXPECT_EQ(c.run(interpreter_of(kernels, order, 7)), "")
          << c.name << ", order " << static_cast<int>(order);
    }
  }
}

// Every barrier of the kernels is needed: without it a check or a result shows a fault.
TEST(PtxKernels, WithoutOneBarrierAreFound) {
  const std::string barrier = "bar.sync";
  for (const std::string& text : repository_texts()) {
    for (std::size_t at = text.find(barrier); at != std::string::npos;
         at = text.find(barrier, at + 1)) {
      std::string changed = text;
      const std::size_t end = text.find(';', at);
      changed.replace(at, end - at, "membar.gl");
      const std::size_t entry = text.rfind(".entry ", at) + 7;
      const std::string name = text.substr(entry, text.find('(', entry) - entry);
      const std::vector<kernel> kernels = or_throw(parse(changed));
      std::string report;
      for (const test::kernel_case& c : test::kernel_cases(false)) {
        for (const thread_order order :
             {thread_order::ascending, thread_order::descending}) {
          if (report.empty() && c.name.starts_with(name)) {
            report = c.run(interpreter_of(kernels, order, 7));
          }
        }
      }
      EXPECT_NE(report, "") << name << ", barrier at byte " << at;
    }
  }
}

// The kernels that are compiled for the processor have the same names and parameters.
TEST(PtxKernels, HaveTheParametersOfTheSources) {
  std::set<std::string_view> names;
  const std::vector<kernel> kernels = repository_kernels();
  for (const kernel& k : kernels) {
    const kernel_machine::kernel_entry* source = kernel_machine::find_kernel(k.name);
    ASSERT_NE(source, nullptr) << k.name;
    std::vector<std::size_t> sizes;
    for (const parameter& p : k.parameters) {
      sizes.push_back(p.bytes);
    }
    EXPECT_EQ(sizes, source->parameter_bytes) << k.name;
    names.insert(source->name);
  }
  EXPECT_EQ(names.size(), kernel_machine::all_kernels().size());
}

// Forms that are not known are refused when a text is read. PTX of another nvcc may lack
// some that are known.
TEST(PtxKernels, ContainEveryKnownForm) {
  std::set<std::string_view> found;
  std::vector<kernel> kernels = repository_kernels();
  for (kernel& k : or_throw(parse(conformance_text()))) {
    kernels.push_back(std::move(k));
  }
  for (const kernel& k : kernels) {
    found.insert(k.forms.begin(), k.forms.end());
  }
  if (of_repository()) {
    EXPECT_EQ(std::vector<std::string_view>(found.begin(), found.end()),
              std::vector<std::string_view>(known_forms().begin(), known_forms().end()));
  } else {
    std::cout << "PTX that is not in the repository: " << found.size() << " of "
              << known_forms().size() << " known forms\n";
    EXPECT_LE(found.size(), known_forms().size());
  }
}

}  // namespace
}  // namespace weir::tessera::ptx
