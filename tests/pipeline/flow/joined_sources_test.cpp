// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sources that meet in a later stage: barriers stand behind what all of them have read.
#include <gtest/gtest.h>

#include "support/number_stages.hpp"
#include "weir/pipeline/host/execution.hpp"
#include "weir/pipeline/host/stage_calls.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

/// A source whose items depend on a state of its own, which `position` does not hold, and
/// that has no item at every `pause`-th call.
struct counting_source {
  struct settings {
    std::uint64_t count = 20;
    std::uint64_t pause = 0;
  };
  using cursor = std::uint64_t;
  out<std::uint64_t, 1> x;
  tensor<std::uint64_t, 1> total;
  std::uint64_t last = 1;
  settings with;
  std::uint64_t calls = 0;
  cursor at = 0;
  static void describe(stage_spec<counting_source>& s) {
    s.name("test.counting", "sums its own items").port("x", &counting_source::x, "3");
    s.state("total", &counting_source::total).state("last", &counting_source::last);
    s.set("count", &settings::count, "items");
    s.set("pause", &settings::pause, "calls between two without an item").may_change();
  }
  result<void> open(opening& o, const settings& s) {
    total = o.host().make<std::uint64_t>(1);
    with = s;
    return {};
  }
  result<bool> next(pull& p) {
    if (at == with.count) {
      return false;
    }
    if (with.pause != 0 && ++calls % with.pause == 0) {
      p.nothing_yet();
      return true;
    }
    last = last * 3 + at++;
    total.elements<std::uint64_t>()[0] += last;
    WEIR_TRY(auto v, p.fill(x, width));
    std::fill(v.begin(), v.end(), total.elements<std::uint64_t>()[0]);
    return true;
  }
  [[nodiscard]] cursor position() const { return at; }
  result<void> seek(cursor c) {
    at = c;
    return {};
  }
};

void build_meeting(pipeline& p, durable_items& d, std::uint64_t count,
                   std::uint64_t pause) {
  auto one = p.add<number_source>("one", {.count = 20, .seed = 5});
  auto two = p.add<counting_source>("two", {.count = count, .pause = pause});
  auto first = p.add<running_sum>("first");
  auto join = p.add<joined>("join");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  one >> first >> join["a"];
  two >> join["b"];
  join >> sink;
}

flow::here_options joined_options(memory_store& store, std::uint64_t every_items) {
  flow::here_options options;
  options.store = &store;
  options.every_items = every_items;
  options.resume = !store.images.empty();
  return options;
}

TEST(JoinedSources, ContinueFromEveryCheckpointWithTheirState) {
  for (const std::uint64_t count : {20U, 13U, 25U, 0U}) {
    durable_items whole;
    {
      pipeline p("join");
      build_meeting(p, whole, count, 0);
      const auto report = flow::run_here(p, {});
      ASSERT_TRUE(report) << report.error().message();
    }
    ASSERT_EQ(whole.items.size(), std::min<std::size_t>(count, 20));
    for (const std::uint64_t every : {1U, 3U, 8U}) {
      for (const std::uint64_t pause : {0U, 2U, 5U}) {
        memory_store all;
        durable_items d;
        pipeline p("join");
        build_meeting(p, d, count, pause);
        ASSERT_TRUE(flow::run_here(p, joined_options(all, every)));
        EXPECT_EQ(d.items, whole.items);
        for (std::size_t i = 0; i + 1 < all.images.size(); ++i) {
          memory_store from;
          from.images.push_back(all.images[i]);
          durable_items again = whole;
          pipeline resumed("join");
          build_meeting(resumed, again, count, 3);
          const auto report = flow::run_here(resumed, joined_options(from, 4));
          ASSERT_TRUE(report) << report.error().message();
          EXPECT_EQ(again.items, whole.items)
              << count << " items, checkpoint " << i << " of every " << every;
        }
      }
    }
  }
}

/// An execution whose sources are read by hand.
struct by_hand {
  by_hand() : host(runtime::engine_options()) {
    build_meeting(p, d, 20, 0);
    auto plan = or_throw(p.check());
    run = or_throw(
        flow::execution::create(plan, or_throw(p.take_stages()), host, {}, nullptr));
  }
  /// Reads `count` items of a source.
  void read(std::uint32_t source, int count) {
    for (int i = 0; i < count; ++i) {
      flow::blank* b = run->grant(source);
      ASSERT_NE(b, nullptr);
      ASSERT_TRUE(or_throw(flow::call_next(run->stage(source), "source", *b)));
      or_throw(run->deliver(*b));
    }
  }
  /// Lets stages, tasks and sinks go on until nothing is left to do.
  void go_on() {
    for (bool worked = true; worked;) {
      worked = or_throw(run->turn()) || host.base().run_one();
      for (const std::uint32_t sink : run->sinks()) {
        while (const flow::ready* one = or_throw(run->next_ready(sink))) {
          taken t(*one);
          or_throw(run->stage(sink).put(t));
          run->done(sink);
          worked = true;
        }
        if (run->wants_settle(sink)) {
          or_throw(run->settled(sink, or_throw(run->stage(sink).settle())));
          worked = true;
        }
      }
    }
  }
  durable_items d;
  pipeline p{"join"};
  weir::engine host;
  std::unique_ptr<flow::execution> run;
};

TEST(JoinedSources, AQuietSourceKeepsNoItemFromACheckpoint) {
  by_hand h;
  const std::uint32_t one = h.run->sources()[0];
  const std::uint32_t two = h.run->sources()[1];
  h.read(one, 5);
  h.go_on();
  EXPECT_EQ(h.run->reached().items, 0U) << "the other source has read nothing";
  h.read(two, 2);
  h.go_on();
  EXPECT_EQ(h.d.items.size(), 2U);
  EXPECT_EQ(h.run->reached().next_item, 2U);
  // From here on the second source is quiet for ever.
  or_throw(h.run->begin_epoch());
  EXPECT_FALSE(h.run->wants_cursor(one));
  h.read(one, 1);
  h.go_on();
  ASSERT_TRUE(h.run->complete());
  memory_store store;
  or_throw(store.save(*or_throw(h.run->completed())));
  EXPECT_EQ(h.run->barrier().next_item, 2U);
  EXPECT_EQ(h.run->barrier().items, 4U);
  h.run->committed();
  EXPECT_EQ(store.images[0].next_item, 2U);
  // The quiet source speaks again, and the next barrier stands behind its items.
  h.read(two, 3);
  h.go_on();
  EXPECT_EQ(h.d.items.size(), 5U);
  durable_items again = h.d;
  again.items.resize(2);
  pipeline p("join");
  build_meeting(p, again, 20, 0);
  const auto report = flow::run_here(p, joined_options(store, 0));
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(again.items.size(), 20U);
  EXPECT_TRUE(std::equal(h.d.items.begin(), h.d.items.end(), again.items.begin()));
}

TEST(JoinedSources, AnEndIsSeenBehindTheHeldItems) {
  by_hand h;
  const std::uint32_t one = h.run->sources()[0];
  const std::uint32_t two = h.run->sources()[1];
  for (int i = 0; i < 20; ++i) {
    h.read(two, 1);
    h.read(one, 1);
    h.go_on();
  }
  flow::blank* b = h.run->grant(one);
  ASSERT_NE(b, nullptr);
  ASSERT_FALSE(or_throw(flow::call_next(h.run->stage(one), "one", *b)));
  or_throw(h.run->end(*b, h.run->stage(one).position()));
  EXPECT_EQ(h.run->grant(one), nullptr);
  or_throw(h.run->begin_epoch());
  h.go_on();
  EXPECT_TRUE(h.run->complete());
  h.run->committed();
  b = h.run->grant(two);
  ASSERT_NE(b, nullptr);
  ASSERT_FALSE(or_throw(flow::call_next(h.run->stage(two), "two", *b)));
  or_throw(h.run->end(*b, h.run->stage(two).position()));
  h.go_on();
  EXPECT_TRUE(h.run->all_ended());
  EXPECT_EQ(h.d.items.size(), 20U);
}

TEST(JoinedSources, WhoWaitsForWhomIsSaidByName) {
  by_hand h;
  h.read(h.run->sources()[0], 1);
  h.go_on();
  EXPECT_EQ(h.run->waiting(),
            "\"one\" waits for the sources that it meets; \"two\" waits for its data; "
            "\"first\" waits for an item of \"one\"; \"join\" waits for an item of "
            "\"first\"; \"sink\" waits for an item of \"join\"");
}

/// Two pipelines without an edge between them, in one file.
TEST(JoinedSources, SourcesThatDoNotMeetDoNotWaitForEachOther) {
  durable_items a;
  durable_items b;
  pipeline p("two");
  auto one = p.add<number_source>("one", {.count = 20, .seed = 5});
  auto two = p.add<number_source>("two", {.count = 5, .seed = 6});
  auto first = p.add<number_sink>("first", sink_of(a));
  auto second = p.add<number_sink>("second", sink_of(b));
  one >> first;
  two >> second;
  memory_store store;
  ASSERT_TRUE(flow::run_here(p, joined_options(store, 3)));
  EXPECT_EQ(a.items.size(), 20U);
  EXPECT_EQ(b.items.size(), 5U);
  for (std::size_t i = 0; i + 1 < store.images.size(); ++i) {
    memory_store from;
    from.images.push_back(store.images[i]);
    durable_items again_a = a;
    durable_items again_b = b;
    pipeline resumed("two");
    auto r1 = resumed.add<number_source>("one", {.count = 20, .seed = 5});
    auto r2 = resumed.add<number_source>("two", {.count = 5, .seed = 6});
    auto s1 = resumed.add<number_sink>("first", sink_of(again_a));
    auto s2 = resumed.add<number_sink>("second", sink_of(again_b));
    r1 >> s1;
    r2 >> s2;
    ASSERT_TRUE(flow::run_here(resumed, joined_options(from, 3)));
    EXPECT_EQ(again_a.items, a.items);
    EXPECT_EQ(again_b.items, b.items);
  }
}

}  // namespace
}  // namespace weir::test
