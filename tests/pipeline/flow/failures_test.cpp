// SPDX-License-Identifier: Apache-2.0
/// @file
/// Items that fail: the run stops with the stage and the item, or skips the item.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "pipeline/support/number_stages.hpp"
#include "weir/pipeline/host/stage_calls.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

constexpr std::uint64_t item_count = 30;

/// Adds 1; its task fails for one item. With `late`, `on_done` emits.
template <bool Late>
struct breaking {
  struct settings {
    std::uint64_t fails_at = 0;
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  std::uint64_t fails_at = 0;
  static void describe(stage_spec<breaking>& s) {
    s.name(Late ? "test.breaking_late" : "test.breaking", "fails once").stateless();
    s.port("x", &breaking::x, "3").port("y", &breaking::y, "3");
    s.set("fails_at", &settings::fails_at, "number of the item");
  }
  result<void> open(opening&, const settings& s) {
    fails_at = s.fails_at;
    return {};
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "break",
        [fails = s.seq() == fails_at](auto from, auto out) -> result<void> {
          for (std::size_t i = 0; i < elements; ++i) {
            out[i] = from[i] + 1;
          }
          return fails ? result<void>(error(errc::corrupt, "planted failure"))
                       : result<void>();
        },
        read(s[x]), write(to));
    return Late ? result<void>() : s.emit();
  }
  result<void> on_done(step& s) requires Late { return s.emit(); }
};

/// Sums up to four items and drops every second sum.
struct dropping_batch {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  std::uint64_t calls = 0;
  static void describe(stage_spec<dropping_batch>& s) {
    s.name("test.dropping_batch", "drops every second batch").rate(4, 1).forwards();
    s.port("x", &dropping_batch::x, "3").port("y", &dropping_batch::y, "3");
    s.state("calls", &dropping_batch::calls);
  }
  result<void> on_item(step& s) {
    if (calls++ % 2 == 1) {
      s.skip();
      return {};
    }
    s.forward(x, y);
    return s.emit();
  }
};

/// Hands on the first of up to four items once its task has ended, or refuses one call.
struct refusing_batch {
  struct settings {
    std::uint64_t refuses_at = 1;  ///< number of the call
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  std::uint64_t calls = 0, refuses_at = 0;
  static void describe(stage_spec<refusing_batch>& s) {
    s.name("test.refusing_batch", "refuses a batch").rate(4, 1).stateless();
    s.port("x", &refusing_batch::x, "3").port("y", &refusing_batch::y, "3");
    s.set("refuses_at", &settings::refuses_at, "number of the call");
  }
  result<void> open(opening&, const settings& s) {
    refuses_at = s.refuses_at;
    return {};
  }
  result<void> on_item(step& s) {
    if (calls++ == refuses_at) {
      return error(errc::corrupt, "planted refusal");
    }
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "copy",
        [](auto from, auto out) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          for (std::size_t i = 0; i < elements; ++i) {
            out[i] = from[i];
          }
        },
        read(s[x]), write(to));
    return s.emit();
  }
};

/// Emits in `on_done` and returns an error for the first item after that.
struct emits_and_fails {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<emits_and_fails>& s) {
    s.name("test.emits_and_fails", "fails too late").stateless().forwards();
    s.port("x", &emits_and_fails::x, "3").port("y", &emits_and_fails::y, "3");
  }
  result<void> on_item(step&) { return {}; }
  result<void> on_done(step& s) {
    s.forward(x, y);
    WEIR_CHECK(s.emit());
    return error(errc::corrupt, "planted failure");
  }
};

template <class Breaking>
void expect_skipped(std::uint64_t fails_at, unsigned workers) {
  durable_items d;
  pipeline p("failures");
  auto source = p.add<number_source>("source", {.count = item_count, .seed = 2});
  auto middle = p.add<Breaking>("middle", {.fails_at = fails_at});
  auto sum = p.add<running_sum>("sum");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  middle.failing(flow::failure_policy::skip);
  source >> middle >> sum >> sink;
  flow::here_options options;
  options.workers = workers;
  options.every_items = 4;
  const auto report = flow::run_here(p, options);
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(d.items.size(), item_count - 1);
  numbers total{};
  std::uint64_t calls = 0;
  std::size_t found = 0;
  for (std::uint64_t n = 0; n < item_count; ++n) {
    if (n == fails_at) {
      continue;
    }
    numbers expected = number_source::make(2, n);
    ++calls;
    for (std::size_t i = 0; i < elements; ++i) {
      total[i] += expected[i] + 1;
      expected[i] = total[i] * calls;
    }
    EXPECT_EQ(d.items[found].first, n);
    EXPECT_EQ(d.items[found++].second, expected) << "item " << n;
  }
}

TEST(PipelineFailures, SkippedItemsLeaveNoTraceBehindTheStage) {
  for (const std::uint64_t fails_at : {0U, 7U, 29U}) {
    for (const unsigned workers : {1U, 2U}) {
      expect_skipped<breaking<false>>(fails_at, workers);
      expect_skipped<breaking<true>>(fails_at, workers);
    }
  }
}

TEST(PipelineFailures, AnythingThatAStageThrowsBecomesAnError) {
  const auto thrown = flow::guarded([]() -> result<void> { throw 7; });
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().code(), errc::kernel_failed);
  const auto no_memory = flow::guarded([]() -> result<void> { throw std::bad_alloc(); });
  ASSERT_FALSE(no_memory);
  EXPECT_EQ(no_memory.error().code(), errc::out_of_memory);
}

TEST(PipelineFailures, AStoppedRunNamesStageItemTaskAndCause) {
  for (const std::uint64_t fails_at : {0U, 7U, 29U}) {
    durable_items d;
    pipeline p("failures");
    p.add<number_source>("source", {.count = item_count, .seed = 2}) >>
        p.add<breaking<false>>("middle", {.fails_at = fails_at}) >>
        p.add<running_sum>("sum") >> p.add<number_sink>("sink", sink_of(d));
    const auto report = flow::run_here(p, {});
    ASSERT_FALSE(report);
    const std::string text = report.error().message();
    const std::string place =
        "cannot process item " + std::to_string(fails_at) + " in stage \"middle\"";
    EXPECT_NE(text.find(place), std::string::npos) << text;
    EXPECT_NE(text.find("\"break\""), std::string::npos) << text;
    EXPECT_EQ(report.error().root().text(), "planted failure");
    EXPECT_LE(d.items.size(), fails_at);
  }
}

/// Its tasks last longer than the time after which a run without progress fails.
struct slow {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<slow>& s) {
    s.name("test.slow", "takes its time");
    s.port("x", &slow::x, "3").port("y", &slow::y, "3");
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "slow",
        [](auto from, auto out) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          for (std::size_t i = 0; i < elements; ++i) {
            out[i] = from[i];
          }
        },
        read(s[x]), write(to));
    return s.emit();
  }
};

TEST(PipelineFailures, TasksThatRunAreProgressAlsoAfterAFailure) {
  durable_items d;
  pipeline p("failures");
  auto source = p.add<number_source>("source", {.count = 8, .seed = 2});
  auto middle = p.add<breaking<false>>("middle", {.fails_at = 0});
  middle.failing(flow::failure_policy::skip);
  source >> middle >> p.add<slow>("slow") >> p.add<number_sink>("sink", sink_of(d));
  flow::here_options options;
  options.workers = 2;
  options.stall_ns = 20'000'000;
  const auto report = flow::run_here(p, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(d.items.size(), 7U);
}

TEST(PipelineFailures, AStageWithStateMustNotSkip) {
  durable_items d;
  pipeline p("failures");
  auto sum = p.add<running_sum>("sum");
  sum.failing(flow::failure_policy::skip);
  p.add<number_source>("source") >> sum >> p.add<number_sink>("sink", sink_of(d));
  const auto report = flow::run_here(p, {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), errc::invalid_argument);
}

TEST(PipelineFailures, AStageWithItsOwnNumbersMaySkipACall) {
  durable_items d;
  pipeline p("failures");
  p.add<number_source>("source", {.count = item_count, .seed = 2}) >>
      p.add<dropping_batch>("batch") >> p.add<number_sink>("sink", sink_of(d));
  const auto report = flow::run_here(p, {});
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(d.items.size(), 4U);  // of eight batches
  for (std::uint64_t n = 0; n < 4; ++n) {
    EXPECT_EQ(d.items[n].first, n);
    EXPECT_EQ(d.items[n].second, number_source::make(2, 8 * n));
  }
}

TEST(PipelineFailures, ARefusedCallOfSeveralItemsIsSkippedAndTheLastOnesArrive) {
  for (const std::uint64_t refuses_at : {0U, 3U, 7U}) {
    durable_items d;
    pipeline p("failures");
    auto batch = p.add<refusing_batch>("batch", {.refuses_at = refuses_at});
    batch.failing(flow::failure_policy::skip);
    p.add<number_source>("source", {.count = item_count, .seed = 2}) >> batch >>
        p.add<number_sink>("sink", sink_of(d));
    const auto report = flow::run_here(p, {});
    ASSERT_TRUE(report) << report.error().message();
    ASSERT_EQ(d.items.size(), 7U);  // of eight calls
    for (std::uint64_t n = 0; n < 7; ++n) {
      EXPECT_EQ(d.items[n].first, n);
      EXPECT_EQ(d.items[n].second,
                number_source::make(2, 4 * (n < refuses_at ? n : n + 1)));
    }
  }
}

TEST(PipelineFailures, WhatWasHandedOnCannotBeSkipped) {
  durable_items d;
  pipeline p("failures");
  auto middle = p.add<emits_and_fails>("middle");
  middle.failing(flow::failure_policy::skip);
  p.add<number_source>("source") >> middle >> p.add<number_sink>("sink", sink_of(d));
  const auto report = flow::run_here(p, {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().root().text(), "planted failure");
}

}  // namespace
}  // namespace weir::test
