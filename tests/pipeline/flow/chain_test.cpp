// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chains of stages: values, states, checkpoints and failures. One test has stages that
/// do different things from item to item, so that calls enter and leave the short paths
/// of plain stages in every order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/memory_store.hpp"
#include "support/number_stages.hpp"
#include "support/tape.hpp"
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

/// What a call does with its item.
enum class action : std::uint8_t {
  forward,        ///< hands the tensor on
  forward_named,  ///< hands the tensor on with an attribute
  write_at_once,  ///< makes a tensor and writes it without a task
  task,           ///< makes a tensor that a task writes
  task_behind,    ///< emits first, and submits the task that writes the tensor then
  spare,          ///< hands the tensor on, and takes memory that it does not hand on
  skip            ///< has no item
};
constexpr std::uint64_t actions = 7;

/// Returns what stage `seed` does with an item. Runs of equal actions are likely.
action action_of(std::uint64_t seed, std::uint64_t seq) {
  return static_cast<action>(mixed(seed, seq / (1 + mixed(seed, 7) % 5)) % actions);
}

/// Adds 1 to all numbers whose tensor it makes; see `action`.
struct changeable {
  struct settings {
    std::uint64_t seed = 1;
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  std::uint64_t seed = 1;
  static void describe(stage_spec<changeable>& s) {
    s.name("test.changeable", "does different things").stateless();
    s.port("x", &changeable::x, "3").port("y", &changeable::y, "3");
    s.set("seed", &settings::seed, "start of the random choices");
  }
  result<void> open(opening& /*run*/, const settings& s) {
    seed = s.seed;
    return {};
  }
  result<void> on_item(step& s) {
    const action what = action_of(seed, s.seq());
    if (what == action::skip) {
      s.skip();
      return {};
    }
    if (what == action::forward || what == action::forward_named ||
        what == action::spare) {
      if (what == action::forward_named) {
        s.emitted()["by"] = seed;
      }
      s.forward(x, y);
      WEIR_CHECK(s.emit());
      if (what == action::spare) {
        WEIR_TRY(const auto unused, s.make(y, 3));
        static_cast<void>(unused);
      }
      return {};
    }
    WEIR_TRY(const auto to, s.make(y, 3));
    if (what == action::task_behind) {
      WEIR_CHECK(s.emit());
    }
    if (what == action::write_at_once && s.complete(x)) {
      add_one(s[x].template elements<const std::uint64_t>(),
              to.template elements<std::uint64_t>());
    } else {
      s.submit(
          "add", [](auto from, auto out) { add_one(from, out); }, read(s[x]), write(to));
    }
    return what == action::task_behind ? result<void>() : s.emit();
  }
  template <class From, class To>
  static void add_one(const From& from, const To& to) {
    for (std::int64_t i = 0; i < 3; ++i) {
      to[i] = from[i] + 1;
    }
  }
};

TEST(PipelineChain, OfStagesWhoseCallsDifferEqualsItsPlainFunctions) {
  constexpr std::uint64_t items = 300;
  constexpr std::uint64_t stages = 4;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const auto workers = static_cast<unsigned>(1 + seed % 2);
    const auto window = static_cast<std::uint32_t>(1 + seed % 5);
    SCOPED_TRACE("seed " + std::to_string(seed));
    tape to;
    pipeline p("mixed");
    auto last = p.add<number_source>("numbers", {.count = items, .seed = seed});
    for (std::uint64_t k = 0; k < stages; ++k) {
      auto next = p.add<changeable>("stage" + std::to_string(k), {.seed = 10 * seed + k})
                      .window(window);
      last >> next;
      last = next;
    }
    last >> add_recorder(p, "recorder", to);
    flow::here_options options;
    options.workers = workers;
    const auto report = flow::run_here(p, options);
    ASSERT_TRUE(report) << report.error().message();

    std::vector<std::uint64_t> pushed(stages + 1);
    std::size_t at = 0;
    for (std::uint64_t n = 0; n < items; ++n) {
      numbers value = number_source::make(seed, n);
      attributes about;
      bool there = true;
      ++pushed[0];
      for (std::uint64_t k = 0; there && k < stages; ++k) {
        const action what = action_of(10 * seed + k, n);
        there = what != action::skip;
        pushed[k + 1] += there ? 1U : 0U;
        if (what == action::forward_named) {
          about["by"] = 10 * seed + k;
        }
        if (what == action::write_at_once || what == action::task ||
            what == action::task_behind) {
          std::for_each(value.begin(), value.end(), [](auto& v) { ++v; });
        }
      }
      if (there) {
        ASSERT_LT(at, to.size());
        const recorded& found = to[at++];
        EXPECT_EQ(found.seq, n);
        EXPECT_EQ(found.values<std::uint64_t>(),
                  std::vector<std::uint64_t>(value.begin(), value.end()))
            << "item " << n;
        EXPECT_EQ(found.about, about) << "item " << n;
      }
    }
    EXPECT_EQ(at, to.size());
    ASSERT_EQ(report->counters.edges.size(), stages + 1);
    for (std::uint64_t k = 0; k <= stages; ++k) {
      const flow::edge_counters& edge = report->counters.edges[k];
      EXPECT_EQ(edge.items, pushed[k]) << "edge " << k;
      EXPECT_EQ(edge.gaps, items - pushed[k]) << "edge " << k;
      EXPECT_EQ(edge.bytes, pushed[k] * sizeof(numbers)) << "edge " << k;
      EXPECT_GE(edge.deepest, 1U) << "edge " << k;
    }
  }
}

}  // namespace
}  // namespace weir::test
