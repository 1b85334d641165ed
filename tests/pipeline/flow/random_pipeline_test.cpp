// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares random graphs of stages with a serial interpreter: with different numbers of
/// workers, with different windows and hosts, and after resuming from every checkpoint.
#include <gtest/gtest.h>

#include "pipeline/support/random_pipeline.hpp"
#include "support/case_count.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

std::uint64_t graphs() {
  return case_count("WEIR_TEST_GRAPHS", 250);
}

/// Returns the hosts of half of the stages in two of three cases.
std::vector<flow::host_kind> on_hosts(std::uint64_t number) {
  return number % 3 == 0 ? std::vector<flow::host_kind>()
                         : std::vector{flow::host_kind::own};
}

void expect_equal(const std::vector<durable_items>& expected,
                  const std::vector<durable_items>& found, const std::string& text) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(expected[i].items, found[i].items) << text << ", sink " << i;
  }
}

TEST(PipelineRandomGraph, EqualsASerialInterpreter) {
  for (std::uint64_t seed = 0; seed < graphs(); ++seed) {
    const random_pipeline g(seed);
    for (std::uint64_t variant = 0; variant < 5; ++variant) {
      std::vector<durable_items> disks(g.expected().size());
      pipeline p("random");
      g.build(p, seed * 5 + variant, disks, on_hosts(variant + seed));
      memory_store store;
      flow::here_options options;
      options.workers = variant % 2 == 0 ? 1 : 2;
      options.turn_items = variant < 2 ? 32 : 1;
      options.every_items = variant == 0 ? 0 : variant;
      options.store = &store;
      const auto report = flow::run_here(p, options);
      ASSERT_TRUE(report) << g.text() << ", variant " << variant << ": "
                          << report.error().message();
      ASSERT_TRUE(report->finished);
      expect_equal(g.expected(), disks,
                   g.text() + ", variant " + std::to_string(variant));
      if (HasFailure()) {
        return;
      }
    }
  }
}

TEST(PipelineRandomGraph, ContinuesFromEveryCheckpoint) {
  for (std::uint64_t seed = 1000; seed < 1000 + graphs(); ++seed) {
    const random_pipeline g(seed);
    std::vector<durable_items> disks(g.expected().size());
    pipeline first("random");
    g.build(first, seed, disks);
    memory_store store;
    flow::here_options options;
    options.every_items = 1 + seed % 7;
    options.store = &store;
    const auto report = flow::run_here(first, options);
    ASSERT_TRUE(report) << g.text() << ": " << report.error().message();
    for (std::size_t n = 0; n < store.images.size(); ++n) {
      // A crash leaves what the sinks have written, which may be more than the offset.
      std::vector<durable_items> left = disks;
      pipeline second("random");
      g.build(second, seed + n, left, on_hosts(n));
      memory_store from_here;
      from_here.images = {store.images[n]};
      options.store = &from_here;
      options.resume = true;
      options.workers = 1 + static_cast<unsigned>(n % 2);
      const auto resumed = flow::run_here(second, options);
      ASSERT_TRUE(resumed) << g.text() << ", epoch " << n + 1 << ": "
                           << resumed.error().message();
      ASSERT_TRUE(resumed->finished);
      if (!store.images[n].finished) {
        expect_equal(g.expected(), left, g.text() + ", epoch " + std::to_string(n + 1));
      }
      if (HasFailure()) {
        return;
      }
    }
  }
}

}  // namespace
}  // namespace weir::test
