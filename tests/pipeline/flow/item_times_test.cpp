// SPDX-License-Identifier: Apache-2.0
/// @file
/// Latencies of sinks and their quantiles.
#include "flow/item_times.hpp"

#include <gtest/gtest.h>

#include "support/number_stages.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

std::uint64_t total(const flow::latency_counts& c) {
  std::uint64_t all = 0;
  for (const std::uint64_t count : c.items) {
    all += count;
  }
  return all;
}

TEST(LatencyCounts, QuantilesAreUpperEndsOfEntries) {
  flow::latency_counts c;
  EXPECT_EQ(c.quantile_ns(0.5), 0U);
  c.add(1, 1);
  c.add(1000, 98);  // from 512 to 1023
  c.add(5000, 1);
  EXPECT_EQ(total(c), 100U);
  EXPECT_EQ(c.quantile_ns(0.005), 2U);
  EXPECT_EQ(c.quantile_ns(0.5), 1024U);
  EXPECT_EQ(c.quantile_ns(0.99), 1024U);
  EXPECT_EQ(c.quantile_ns(1.0), 5000U);
  c.add(~std::uint64_t{0}, 1);
  EXPECT_EQ(c.quantile_ns(1.0), ~std::uint64_t{0});
}

TEST(SinkLatency, CountsItemsOnceTheirCheckpointIsDurable) {
  flow::sink_latency latency;
  latency.written(100);
  latency.written(200);
  latency.settled();
  latency.written(300);  // behind the barrier
  EXPECT_EQ(total(latency.counts()), 0U);
  latency.durable(1124);
  EXPECT_EQ(total(latency.counts()), 2U);
  EXPECT_EQ(latency.counts().items[9], 1U);   // 924 ns
  EXPECT_EQ(latency.counts().items[10], 1U);  // 1024 ns
  EXPECT_EQ(latency.counts().largest_ns, 1024U);
}

TEST(SinkLatency, SamplesStandForAllItems) {
  for (const std::uint64_t count : {4096U, 4097U, 10000U, 100000U}) {
    flow::sink_latency latency;
    for (std::uint64_t i = 0; i < count; ++i) {
      latency.written(static_cast<std::int64_t>(i));
    }
    latency.settled();
    latency.durable(static_cast<std::int64_t>(count));
    const auto counted = static_cast<double>(total(latency.counts()));
    EXPECT_NEAR(counted, static_cast<double>(count), static_cast<double>(count) / 1000);
    EXPECT_GE(latency.counts().quantile_ns(0.5), count / 2);
  }
}

TEST(SinkLatency, SamplesWithoutACheckpointAreCountedWithLaterOnes) {
  for (const auto& [first, second] : {std::pair{10, 20000}, {20000, 10}, {300, 300}}) {
    flow::sink_latency latency;
    for (const int count : {first, second}) {
      for (int i = 0; i < count; ++i) {
        latency.written(1);
      }
      latency.settled();
    }
    latency.durable(1001);
    EXPECT_NEAR(static_cast<double>(total(latency.counts())), first + second,
                (first + second) / 100);
  }
}

TEST(SinkLatency, OfARunCountsEveryItem) {
  durable_items d;
  memory_store store;
  pipeline p("chain");
  auto source = p.add<number_source>("source", {.count = 100, .seed = 5});
  auto batch = p.add<batched>("batch");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  source >> batch >> sink;
  flow::here_options options;
  options.store = &store;
  options.every_items = 8;
  const auto report = flow::run_here(p, options);
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(report->counters.latencies.size(), 1U);
  EXPECT_EQ(total(report->counters.latencies[0]), 25U);
}

}  // namespace
}  // namespace weir::test
