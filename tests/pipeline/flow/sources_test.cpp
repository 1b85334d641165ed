// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sources whose items are skipped, that fail, and that do not keep pace with others.
#include <gtest/gtest.h>

#include <cstring>

#include "support/number_stages.hpp"
#include "support/tape.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

flow::here_options options_with(memory_store& store, std::uint64_t every_items) {
  flow::here_options options;
  options.store = &store;
  options.every_items = every_items;
  options.resume = !store.images.empty();
  return options;
}

void build_sum(pipeline& p, durable_items& d) {
  auto source = p.add<number_source>("source", {.count = 40, .seed = 5});
  auto sum = p.add<running_sum>("sum");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  source >> sum >> sink;
}

durable_items sums_without(const std::vector<flow::item_range>& skipped) {
  durable_items d;
  numbers total{};
  std::uint64_t calls = 0;
  for (std::uint64_t n = 0; n < 40; ++n) {
    const bool skip = std::any_of(skipped.begin(), skipped.end(), [&](const auto& r) {
      return r.first <= n && n < r.last;
    });
    if (skip) {
      continue;
    }
    ++calls;
    numbers y = number_source::make(5, n);
    for (std::size_t i = 0; i < y.size(); ++i) {
      total[i] += y[i];
      y[i] = total[i] * calls;
    }
    d.items.emplace_back(n, y);
  }
  return d;
}

TEST(PipelineSkip, SkippedItemsAreGapsAndResumedRunsKnowThem) {
  const std::vector<flow::item_range> skipped{{3, 4}, {10, 17}, {39, 50}};
  const durable_items expected = sums_without(skipped);
  memory_store whole;
  durable_items d;
  {
    pipeline p("sums");
    build_sum(p, d);
    auto options = options_with(whole, 4);
    options.skip = skipped;
    const auto report = flow::run_here(p, options);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->items, 31U);
    EXPECT_EQ(report->counters.stages[0].skipped, 9U);
  }
  EXPECT_EQ(d.items, expected.items);
  ASSERT_EQ(whole.images.size(), 11U);
  for (std::size_t i = 0; i + 1 < whole.images.size(); ++i) {
    memory_store store;
    store.images.push_back(whole.images[i]);
    durable_items again = expected;
    pipeline p("sums");
    build_sum(p, again);
    const auto report = flow::run_here(p, options_with(store, 4));
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(again.items, expected.items) << "checkpoint " << i;
  }
}

TEST(PipelineSkip, ARunMaySkipMoreItemsBehindItsCheckpointOnly) {
  memory_store store;
  durable_items d;
  {
    pipeline p("sums");
    build_sum(p, d);
    auto options = options_with(store, 8);
    options.skip = {{2, 3}};
    ASSERT_TRUE(flow::run_here(p, options));
  }
  store.images.resize(2);  // the barriers stand before the items 8 and 16
  const auto resumed = [&](std::vector<flow::item_range> skip) {
    pipeline p("sums");
    build_sum(p, d);
    auto options = options_with(store, 8);
    options.skip = std::move(skip);
    return flow::run_here(p, options);
  };
  for (const flow::item_range wrong :
       {flow::item_range{15, 20}, flow::item_range{20, 20}, flow::item_range{30, 20}}) {
    const auto refused = resumed({wrong});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  }
  EXPECT_NE(resumed({{15, 20}}).error().message().find("from 16 on"), std::string::npos);
  ASSERT_TRUE(resumed({{16, 20}}));
  EXPECT_EQ(d.items, sums_without({{2, 3}, {16, 20}}).items);
}

TEST(PipelineSources, AFailedSourceLeavesACheckpointOfAllItemsBefore) {
  for (const std::uint64_t damaged : {0U, 1U, 7U, 8U, 19U}) {
    for (const std::uint64_t every : {0U, 1U, 4U}) {
      memory_store store;
      durable_items d;
      const auto run = [&](std::uint64_t where) {
        pipeline p("damaged");
        auto source = p.add<damaged_source>("source", {.damaged = where});
        auto sum = p.add<running_sum>("sum");
        auto sink = p.add<number_sink>("sink", sink_of(d));
        source >> sum >> sink;
        return flow::run_here(p, options_with(store, every));
      };
      const auto failed = run(damaged);
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().code(), errc::corrupt);
      EXPECT_NE(failed.error().message().find("item " + std::to_string(damaged) +
                                              " in stage \"source\""),
                std::string::npos)
          << failed.error().message();
      ASSERT_FALSE(store.images.empty());
      EXPECT_EQ(store.images.back().next_item, damaged);
      EXPECT_EQ(d.items.size(), damaged);
      const auto repaired = run(1000);
      ASSERT_TRUE(repaired) << repaired.error().message();
      EXPECT_EQ(repaired->items, 20U - damaged);
      memory_store none;
      durable_items whole;
      pipeline p("damaged");
      auto source = p.add<damaged_source>("source");
      auto sum = p.add<running_sum>("sum");
      auto sink = p.add<number_sink>("sink", sink_of(whole));
      source >> sum >> sink;
      ASSERT_TRUE(flow::run_here(p, options_with(none, 0)));
      EXPECT_EQ(d.items, whole.items) << damaged << " every " << every;
    }
  }
}

/// Two sources that are joined; the second one is damaged or in time.
void build_join(pipeline& p, durable_items& d, std::uint64_t damaged) {
  auto one = p.add<number_source>("one", {.count = 20, .seed = 5});
  auto two = p.add<damaged_source>("two", {.damaged = damaged});
  auto join = p.add<joined>("join");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  one >> join["a"];
  two >> join["b"];
  join >> sink;
}

TEST(PipelineSources, OfTwoSourcesEitherMayFail) {
  for (const std::uint64_t every : {1U, 4U, 0U}) {
    memory_store store;
    durable_items d;
    {
      pipeline p("join");
      build_join(p, d, 13);
      const auto failed = flow::run_here(p, options_with(store, every));
      ASSERT_FALSE(failed);
      EXPECT_NE(failed.error().message().find("item 13 in stage \"two\""),
                std::string::npos)
          << failed.error().message();
      for (const flow::image& one : store.images) {
        EXPECT_LE(one.next_item, 13U);
      }
    }
    pipeline p("join");
    build_join(p, d, 1000);
    const auto report = flow::run_here(p, options_with(store, every));
    ASSERT_TRUE(report) << report.error().message();
    ASSERT_EQ(d.items.size(), 20U);
    for (std::uint64_t n = 0; n < 20; ++n) {
      EXPECT_EQ(d.items[n].second,
                joined::make(number_source::make(5, n), numbers{n, n, n}));
    }
  }
}

TEST(PipelineSources, NothingIsReadBehindTheLastBarrier) {
  for (std::uint64_t turns = 1; turns < 8; ++turns) {
    memory_store store;
    durable_items d;
    pipeline p("stopped");
    p.add<number_source>("source", {.count = 1000, .seed = 5}) >>
        p.add<running_sum>("first") >> p.add<running_sum>("second") >>
        p.add<number_sink>("sink", sink_of(d));
    auto options = options_with(store, 0);
    options.turn_items = 1;
    std::uint64_t left = turns;
    options.stop = [&] { return left == 0 || --left == 0; };
    const auto report = flow::run_here(p, options);
    ASSERT_TRUE(report) << report.error().message();
    ASSERT_EQ(store.images.size(), 1U);
    EXPECT_EQ(report->items, store.images.back().next_item);
    EXPECT_EQ(d.items.size(), store.images.back().next_item);
    EXPECT_FALSE(report->finished);
  }
}

TEST(PipelineSources, ARunOfTwoSourcesStopsWhereverTheyStand) {
  for (std::uint64_t turns = 1; turns < 12; ++turns) {
    memory_store store;
    durable_items d;
    bool finished = false;
    for (int rounds = 0; !finished && rounds < 100; ++rounds) {
      pipeline p("join");
      build_join(p, d, 1000);
      auto options = options_with(store, 0);
      options.turn_items = 1 + static_cast<std::uint32_t>(turns % 3);
      std::uint64_t left = turns;
      options.stop = [&] { return --left == 0; };
      const auto report = flow::run_here(p, options);
      ASSERT_TRUE(report) << report.error().message();
      finished = report->finished;
    }
    EXPECT_TRUE(finished);
    ASSERT_EQ(d.items.size(), 20U);
    EXPECT_EQ(d.items[19].second,
              joined::make(number_source::make(5, 19), numbers{19, 19, 19}));
  }
}

/// A loop that adds to each item the item that it made two items before.
void build_loop(pipeline& p, durable_items& d) {
  auto join = p.add<joined>("join");
  auto ends = p.add<scaled>("scaled");
  p.add<number_source>("source", {.count = 9, .seed = 5}) >> join["a"];
  join >> ends >> p.add<number_sink>("sink", sink_of(d));
  ends["y"].feed_back(join["b"], 2);
}

TEST(PipelineSources, AnImageWithTooManyItemsOfALoopIsRefused) {
  memory_store store;
  {
    durable_items d;
    pipeline p("loop");
    build_loop(p, d);
    auto options = options_with(store, 3);
    const auto report = flow::run_here(p, options);
    ASSERT_TRUE(report) << report.error().message();
  }
  // The first image has items that are still to come.
  store.images.resize(1);
  flow::image& old = store.images.front();
  // The edge of the loop is the second one of the outlet.
  const std::string name = "LOOP/scaled/0/1";
  flow::image_section* loop = nullptr;
  const flow::image_section* item = nullptr;
  for (flow::image_section& one : old.sections) {
    loop = one.name == name ? &one : loop;
    item = one.name == name + "/1" ? &one : item;
  }
  ASSERT_NE(loop, nullptr);
  ASSERT_NE(item, nullptr);
  const flow::image_section last_item = *item;
  // Twenty equal items in place of two.
  constexpr std::uint32_t count = 20;
  const std::size_t size = (loop->data.size() - sizeof count) / 2;
  const byte_vector last(loop->data.end() - static_cast<std::ptrdiff_t>(size),
                         loop->data.end());
  std::memcpy(loop->data.data(), &count, sizeof count);
  for (std::uint32_t i = 2; i < count; ++i) {
    loop->data.insert(loop->data.end(), last.begin(), last.end());
  }
  for (std::uint32_t i = 2; i < count; ++i) {
    old.sections.push_back(last_item);
    old.sections.back().name = name + "/" + std::to_string(i);
  }
  durable_items d;
  pipeline p("loop");
  build_loop(p, d);
  const auto refused = flow::run_here(p, options_with(store, 3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::corrupt) << refused.error().message();
  EXPECT_NE(refused.error().message().find("at most 2 items"), std::string::npos)
      << refused.error().message();
}

/// A source whose items differ in form: some have attributes, larger tensors, or come
/// only when it is asked again.
struct mixed_source {
  using cursor = std::uint64_t;
  out<std::uint64_t, 1> x;
  std::uint64_t at = 0;
  bool asked = false;  ///< the present item was asked for before
  static constexpr std::uint64_t items = 200;
  static void describe(stage_spec<mixed_source>& s) {
    s.name("test.mixed", "items of several forms").port("x", &mixed_source::x, "n");
  }
  static std::int64_t length(std::uint64_t n) { return n % 13 == 5 ? 700 : 2; }
  result<bool> next(pull& p) {
    if (at == items) {
      return false;
    }
    if (at % 11 == 4 && !std::exchange(asked, true)) {
      p.nothing_yet();
      return true;
    }
    asked = false;
    WEIR_TRY(auto v, p.fill(x, length(at)));
    std::fill(v.begin(), v.end(), at);
    if (at % 7 == 3) {
      p.emitted()["seventh"] = at;
    }
    ++at;
    return true;
  }
  [[nodiscard]] cursor position() const { return at; }
  result<void> seek(cursor c) {
    at = c;
    return {};
  }
};

/// A stage of which every third item is written by a task, and every 17th is skipped.
struct every_third {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<every_third>& s) {
    s.name("test.third", "some items by tasks").stateless().forwards();
    s.port("x", &every_third::x, "n").port("y", &every_third::y, "m");
  }
  result<void> on_item(step& s) {
    if (s.seq() % 17 == 16) {
      s.skip();
      return {};
    }
    if (s.seq() % 3 != 0) {
      s.forward(x, y);
      return s.emit();
    }
    const auto from = s[x];
    WEIR_TRY(const auto to, s.make(y, from.extent(0)));
    s.submit(
        "copy", [](auto a, auto b) { std::copy(a.begin(), a.end(), b.begin()); },
        read(from), write(to));
    return s.emit();
  }
};

// Usual items take a short path of sources, stages and sinks; all others a long one. With
// one item in a turn, and with a task between them, each follows each.
TEST(PipelineSources, ItemsOfDifferentFormsKeepOrderContentsAndAttributes) {
  tape expected;
  for (std::uint64_t n = 0; n < mixed_source::items; ++n) {
    if (n % 17 == 16 || (n >= 30 && n < 33)) {
      continue;
    }
    recorded one;
    one.seq = n;
    one.type = dtype::uint64;
    one.shape = {mixed_source::length(n)};
    const std::vector<std::uint64_t> values(
        static_cast<std::size_t>(mixed_source::length(n)), n);
    one.data.resize(values.size() * sizeof(std::uint64_t));
    std::memcpy(one.data.data(), values.data(), one.data.size());
    if (n % 7 == 3) {
      one.about["seventh"] = n;
    }
    expected.push_back(std::move(one));
  }
  const tape_builder build = [](pipeline& p, std::vector<tape>& tapes) {
    p.add<mixed_source>("source") >> p.add<every_third>("third") >>
        add_recorder(p, "sink", tapes.front());
  };
  for (const unsigned workers : {1U, 2U}) {
    for (const std::uint32_t turn : {1U, 3U, 32U}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, " << turn << " items");
      flow::here_options options;
      options.workers = workers;
      options.turn_items = turn;
      options.skip = {{30, 33}};
      const auto found = run_tapes(build, 1, options);
      ASSERT_TRUE(found) << found.error().message();
      EXPECT_EQ(found->front(), expected);
    }
  }
  expect_resumable(build, 1, 9);
}

}  // namespace
}  // namespace weir::test
