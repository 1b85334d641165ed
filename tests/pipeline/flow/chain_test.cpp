// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chains of stages: values, states, checkpoints and failures.
#include <gtest/gtest.h>

#include "support/memory_store.hpp"
#include "support/number_stages.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

TEST(PipelineChain, EqualsItsPlainFunctions) {
  for (const unsigned workers : {1U, 2U}) {
    for (const std::uint32_t window : {1U, 2U, 64U}) {
      durable_items d;
      pipeline p("chain");
      auto source = p.add<number_source>("source", {.count = 100, .seed = 5});
      auto first = p.add<scaled>("first", {.factor = 3}).window(window);
      auto sum = p.add<running_sum>("sum").window(window);
      auto second = p.add<scaled>("second", {.factor = 11}).window(window);
      auto sink = p.add<number_sink>("sink", sink_of(d)).window(window);
      source >> first >> sum >> second >> sink;
      flow::here_options options;
      options.workers = workers;
      const auto report = flow::run_here(p, options);
      ASSERT_TRUE(report) << report.error().message();
      EXPECT_EQ(report->items, 100U);
      EXPECT_TRUE(report->finished);
      ASSERT_EQ(d.items.size(), 100U);
      numbers total{};
      for (std::uint64_t n = 0; n < 100; ++n) {
        numbers x = scaled::make(number_source::make(5, n), 3, n);
        for (std::size_t i = 0; i < x.size(); ++i) {
          total[i] += x[i];
          x[i] = total[i] * (n + 1);
        }
        EXPECT_EQ(d.items[n].first, n);
        EXPECT_EQ(d.items[n].second, scaled::make(x, 11, n)) << "item " << n;
      }
    }
  }
}

/// Adds a source, a batch of 4 items and a sink, with windows as small as possible.
void build_batch(pipeline& p, durable_items& d) {
  p.add<number_source>("source", {.count = 30}) >>
      p.add<batched>("batch").window(batched::size) >>
      p.add<number_sink>("sink", sink_of(d)).window(1);
}

TEST(PipelineChain, ARunThatBeginsWithAnIncompleteBatchKeepsTheBoundOnMemory) {
  durable_items d;
  memory_store store;
  flow::here_options options;
  options.every_items = 3;
  options.store = &store;
  pipeline first("batch");
  build_batch(first, d);
  ASSERT_TRUE(flow::run_here(first, options));
  ASSERT_GE(store.images.size(), 10U);
  for (std::size_t i = 0; i + 1 < store.images.size(); ++i) {
    memory_store old;
    old.images = {store.images[i]};
    options.store = &old;
    options.resume = true;
    durable_items again = d;
    pipeline p("batch");
    build_batch(p, again);
    const auto plan = p.check();
    ASSERT_TRUE(plan);
    const auto report = flow::run_here(p, options);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_LE(report->counters.item_bytes, plan->memory_bound) << "checkpoint " << i;
    EXPECT_EQ(again.items, d.items);
  }
}

TEST(PipelineChain, RunsAFunctionOfTheProgram) {
  durable_items d;
  pipeline p("map");
  auto source = p.add<number_source>("source", {.count = 10, .seed = 5});
  auto plus = p.map("plus", "u64[n]", "u64[n]",
                    [](view<const std::uint64_t, 1> x, view<std::uint64_t, 1> y) {
                      for (std::size_t i = 0; i < elements; ++i) {
                        y[i] = x[i] + 1;
                      }
                    });
  auto sink = p.add<number_sink>("sink", sink_of(d));
  source >> plus >> sink;
  const auto report = flow::run_here(p, {});
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(d.items.size(), 10U);
  EXPECT_EQ(d.items[7].second[2], number_source::make(5, 7)[2] + 1);
}

}  // namespace
}  // namespace weir::test
