// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares random pipelines whose stages work on the engine, on hosts of their own and
/// in child processes with a serial interpreter.
#include <gtest/gtest.h>

#include <cstdlib>

#include "pipeline/support/random_pipeline.hpp"
#include "support/case_count.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {
namespace {

std::uint64_t random_graphs() {
  return case_count("WEIR_TEST_GRAPHS", 30);
}

TEST(PipelineHosts, RunRandomGraphsAsASerialInterpreter) {
  ::setenv("WEIR_STAGE_HOST", WEIR_NUMBER_HOST_PROGRAM, 1);  // NOLINT
  for (std::uint64_t seed = 0; seed < random_graphs(); ++seed) {
    const random_pipeline g(seed);
    std::vector<durable_items> disks(g.expected().size());
    pipeline p("random");
    g.build(p, seed, disks, {flow::host_kind::own, flow::host_kind::process});
    run_options options;
    options.workers = 1 + static_cast<unsigned>(seed % 2);
    options.every_items = seed % 5;
    const auto end = run(p, options);
    ASSERT_TRUE(end) << g.text() << ": " << end.error().message();
    for (std::size_t i = 0; i < disks.size(); ++i) {
      EXPECT_EQ(g.expected()[i].items, disks[i].items) << g.text() << ", sink " << i;
    }
    if (HasFailure()) {
      break;
    }
  }
  ::unsetenv("WEIR_STAGE_HOST");  // NOLINT
}

}  // namespace
}  // namespace weir::test
