// SPDX-License-Identifier: Apache-2.0
/// @file
/// Blocking stages and step loops on their hosts: results, checkpoints, stops, failures.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "pipeline/support/number_stages.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"

namespace weir::test {
namespace {

constexpr std::uint64_t item_count = 300;

/// Adds 1 and waits in each call; fails as its settings say. Counts calls at one time.
struct waiting {
  struct settings {
    std::uint64_t fails_at = item_count;
    bool throws = false;
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  settings with;
  static void describe(stage_spec<waiting>& s) {
    s.name("test.waiting", "waits in each call").stateless();
    s.port("x", &waiting::x, "3").port("y", &waiting::y, "3");
    s.set("fails_at", &settings::fails_at, "number of the item").may_change();
    s.set("throws", &settings::throws, "throw instead").may_change();
  }
  result<void> open(opening&, const settings& s) {
    with = s;
    return {};
  }
  result<void> on_ready(taken& from, pull& to) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (from.seq() == with.fails_at) {
      if (with.throws) {
        throw std::runtime_error("planted failure");
      }
      return error(errc::corrupt, "planted failure");
    }
    WEIR_TRY(auto made, to.fill(y, width));
    for (std::size_t i = 0; i < elements; ++i) {
      made[i] = from[x][i] + 1;
    }
    return {};
  }
};

void build_blocking(pipeline& p, durable_items& d, const waiting::settings& with = {},
                    bool skips = false) {
  auto middle = p.add<waiting>("middle", with);
  if (skips) {
    middle.failing(flow::failure_policy::skip);
  }
  p.add<number_source>("source", {.count = item_count, .seed = 5}) >>
      p.add<scaled>("first", {.factor = 3}) >> middle >> p.add<outside_sum>("sum") >>
      p.add<iterated>("steps") >> p.add<unrolled>("unrolled") >>
      p.add<number_sink>("sink", sink_of(d));
}

/// Returns what a serial interpreter makes, without the item that fails.
durable_items expected_items(std::uint64_t fails_at = item_count) {
  durable_items d;
  numbers sum{};
  std::uint64_t calls = 0;
  std::uint64_t steps = 0;
  for (std::uint64_t n = 0; n < item_count; ++n) {
    numbers x = scaled::make(number_source::make(5, n), 3, n);
    for (auto& v : x) {
      ++v;
    }
    if (n == fails_at || !outside_sum::keeps(x)) {
      continue;
    }
    ++calls;
    for (std::size_t i = 0; i < elements; ++i) {
      x[i] = (sum[i] += x[i]) * calls;
    }
    x = iterated::make(x, steps);
    for (std::uint64_t k = 1; k <= unrolled::count(x); ++k) {
      d.items.emplace_back(d.items.size(), numbers{x[0] + k, x[1] + k, x[2] + k});
    }
  }
  return d;
}

TEST(PipelineFacesRun, EqualASerialInterpreterWithAnyWorkersAndCheckpoints) {
  const durable_items expected = expected_items();
  ASSERT_GT(expected.items.size(), 100U);
  for (const std::uint64_t every : {0U, 1U, 7U}) {
    temp_folder folder;
    durable_items d;
    pipeline p("faces");
    build_blocking(p, d);
    run_options options;
    options.folder = folder.path() + "/run";
    options.workers = 1 + static_cast<unsigned>(every % 2);
    options.every_items = every;
    const auto report = run(p, options);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->ended, "finished");
    EXPECT_EQ(d.items, expected.items);
    EXPECT_LE(report->item_bytes, report->memory_bound);
  }
}

TEST(PipelineFacesRun, ContinuesWhereItWasStopped) {
  const durable_items expected = expected_items();
  temp_folder folder;
  durable_items d;
  std::string ended = "interrupted";
  for (int part = 0; ended == "interrupted"; ++part) {
    ASSERT_LT(part, 500);
    pipeline p("faces");
    build_blocking(p, d);
    actors::run_control control;
    run_options options;
    options.folder = folder.path() + "/run";
    options.workers = 2;
    options.control = &control;
    std::thread stop([&control] {
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
      control.request_stop();
    });
    const auto report = part == 0 ? run(p, options) : resume(p, options);
    stop.join();
    ASSERT_TRUE(report) << report.error().message();
    ended = report->ended;
  }
  EXPECT_EQ(d.items, expected.items);
}

TEST(PipelineFacesRun, AFailedBlockingStageNamesStageAndItemAndTheRunGoesOnLater) {
  const durable_items expected = expected_items();
  for (const bool throws : {false, true}) {
    temp_folder folder;
    durable_items d;
    pipeline broken("faces");
    build_blocking(broken, d, {.fails_at = 40, .throws = throws});
    run_options options;
    options.folder = folder.path() + "/run";
    options.every_items = 8;
    const auto failed = run(broken, options);
    ASSERT_FALSE(failed);
    const std::string text = failed.error().message();
    EXPECT_NE(text.find("cannot process item 40 in stage \"middle\""), std::string::npos)
        << text;
    EXPECT_NE(text.find("planted failure"), std::string::npos) << text;
    pipeline repaired("faces");
    build_blocking(repaired, d);
    const auto report = resume(repaired, options);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(d.items, expected.items);
  }
}

TEST(PipelineFacesRun, ABlockingStageMaySkipAFailedItem) {
  for (const std::uint64_t fails_at : {0U, 40U, 299U}) {
    durable_items d;
    pipeline p("faces");
    build_blocking(p, d, {.fails_at = fails_at}, true);
    const auto report = run(p, {});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(d.items, expected_items(fails_at).items) << "item " << fails_at;
    EXPECT_EQ(report->counters.stages[0].failed, 1U);
  }
}

}  // namespace
}  // namespace weir::test
