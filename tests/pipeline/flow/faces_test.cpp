// SPDX-License-Identifier: Apache-2.0
/// @file
/// Blocking stages and step loops: order, gaps, state, attributes and errors.
#include <gtest/gtest.h>

#include <stdexcept>

#include "pipeline/support/number_stages.hpp"
#include "pipeline/support/tape.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

constexpr std::uint64_t faces_items = 30;

/// Makes an item of as many elements as its number says, with an attribute; fails as its
/// settings say.
struct larger_each_time {
  struct settings {
    std::uint64_t fails_at = faces_items;
    std::string failure = "error";
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  settings with;
  static void describe(stage_spec<larger_each_time>& s) {
    s.name("test.larger_each_time", "makes items of larger_each_time size").stateless();
    s.port("x", &larger_each_time::x, "3").port("y", &larger_each_time::y, "?");
    s.set("fails_at", &settings::fails_at, "number of the item");
    s.set("failure", &settings::failure, "error, exception, nothing or both");
  }
  result<void> open(opening&, const settings& s) {
    with = s;
    return {};
  }
  result<void> on_ready(taken& from, pull& to) {
    const bool fails = to.seq() == with.fails_at;
    if (fails && with.failure == "error") {
      return error(errc::corrupt, "planted failure");
    }
    if (fails && with.failure == "exception") {
      throw std::runtime_error("planted failure");
    }
    if (fails && with.failure == "nothing") {
      return {};
    }
    WEIR_TRY(auto made, to.fill(y, static_cast<std::int64_t>(to.seq())));
    std::fill(made.begin(), made.end(), from[x][0]);
    to.emitted()["number"] = to.seq();
    if (fails) {
      to.skip();
    }
    return {};
  }
};

tape_builder growing_pipeline(const larger_each_time::settings& with,
                              bool skips = false) {
  return [with, skips](pipeline& p, std::vector<tape>& tapes) {
    auto middle = p.add<larger_each_time>("middle", with);
    if (skips) {
      middle.failing(flow::failure_policy::skip);
    }
    p.add<number_source>("source", {.count = faces_items, .seed = 2}) >> middle >>
        add_recorder(p, "sink", tapes[0]);
  };
}

TEST(PipelineBlocking, MakesItemsOfAnySizeWithAttributes) {
  const auto tapes = expect_resumable(growing_pipeline({}), 1, 7);
  ASSERT_EQ(tapes[0].size(), faces_items);
  for (std::uint64_t n = 0; n < faces_items; ++n) {
    const recorded& one = tapes[0][n];
    EXPECT_EQ(one.seq, n);
    EXPECT_EQ(one.about, (attributes{{"number", n}}));
    EXPECT_EQ(one.values<std::uint64_t>(),
              std::vector<std::uint64_t>(n, number_source::make(2, n)[0]));
  }
}

TEST(PipelineBlocking, AFailureNamesStageAndItem) {
  for (const auto& [failure, text] : {std::pair{"error", "planted failure"},
                                      {"exception", "planted failure"},
                                      {"nothing", "found neither"},
                                      {"both", "found both"}}) {
    for (const std::uint64_t n : {0U, 7U, 29U}) {
      const auto tapes =
          run_tapes(growing_pipeline({.fails_at = n, .failure = failure}), 1);
      ASSERT_FALSE(tapes) << failure;
      const std::string message = tapes.error().message();
      const std::string place =
          "cannot process item " + std::to_string(n) + " in stage \"middle\"";
      EXPECT_NE(message.find(place), std::string::npos) << message;
      EXPECT_NE(message.find(text), std::string::npos) << message;
    }
  }
}

TEST(PipelineBlocking, SkipsFailedItems) {
  auto expected = run_tapes(growing_pipeline({}), 1);
  ASSERT_TRUE(expected) << expected.error().message();
  for (const std::uint64_t n : {0U, 7U, 29U}) {
    const auto tapes = expect_resumable(growing_pipeline({.fails_at = n}, true), 1, 4);
    tape all = (*expected)[0];
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_EQ(tapes[0], all) << "item " << n;
  }
}

/// Never ends the loop of the third item, and emits as its settings say.
struct ill_behaved {
  struct settings {
    std::uint64_t emits = 1;
    bool fails = false;
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  settings with;
  static void describe(stage_spec<ill_behaved>& s) {
    s.name("test.ill_behaved", "makes a mistake in item 2").forwards().looping();
    s.port("x", &ill_behaved::x, "3").port("y", &ill_behaved::y, "3");
    s.set("emits", &settings::emits, "items that it makes of item 2");
    s.set("fails", &settings::fails, "fails in the second step of item 2");
  }
  result<void> open(opening&, const settings& s) {
    with = s;
    return {};
  }
  result<void> on_item(step&) { return {}; }
  result<bool> on_step(step& s) {
    const std::uint64_t wanted = s.seq() == 2 ? with.emits : 1;
    if (s.round() <= wanted) {
      s.forward(x, y);
      WEIR_CHECK(s.emit());
    }
    if (s.seq() == 2 && s.round() == 2 && with.fails) {
      return error(errc::corrupt, "planted failure");
    }
    return s.round() < 3;
  }
};

result<std::vector<tape>> run_ill_behaved(const ill_behaved::settings& with) {
  return run_tapes(
      [with](pipeline& p, std::vector<tape>& tapes) {
        p.add<number_source>("source", {.count = 5}) >>
            p.add<ill_behaved>("middle", with) >> add_recorder(p, "sink", tapes[0]);
      },
      1);
}

TEST(PipelineStepLoop, MakesOneItemOfEach) {
  const auto good = run_ill_behaved({});
  ASSERT_TRUE(good) << good.error().message();
  EXPECT_EQ((*good)[0].size(), 5U);
  for (const ill_behaved::settings with :
       {ill_behaved::settings{.emits = 0}, {.emits = 2}, {.emits = 1, .fails = true}}) {
    const auto bad = run_ill_behaved(with);
    ASSERT_FALSE(bad) << with.emits;
    const std::string message = bad.error().message();
    EXPECT_NE(message.find("cannot process item 2 in stage \"middle\""),
              std::string::npos)
        << message;
  }
}

/// Counts down from the number of the item, for ever if it is odd, and makes an item of
/// each step.
struct countdown {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<countdown>& s) {
    s.name("test.countdown", "makes many items").rate(1, 1).forwards().looping();
    s.port("x", &countdown::x, "3").port("y", &countdown::y, "3");
  }
  result<void> on_item(step&) { return {}; }
  result<bool> on_step(step& s) {
    s.forward(x, y);
    WEIR_CHECK(s.emit());
    return s.round() < 1000;
  }
};

TEST(PipelineStepLoop, ALongLoopNeedsNoMoreThanItsWindow) {
  for (const std::uint32_t window : {1U, 3U}) {
    const auto tapes = run_tapes(
        [window](pipeline& p, std::vector<tape>& all) {
          p.add<number_source>("source", {.count = 3}) >> p.add<countdown>("middle") >>
              add_recorder(p, "sink", all[0]).window(window);
        },
        1);
    ASSERT_TRUE(tapes) << tapes.error().message();
    ASSERT_EQ((*tapes)[0].size(), 3000U);
    EXPECT_EQ((*tapes)[0][2999].seq, 2999U);
  }
}

/// Fails in the step of one item.
struct failing_loop {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  tensor<std::uint64_t, 1> making;
  static void describe(stage_spec<failing_loop>& s) {
    s.name("test.failing_loop", "fails in item 7").stateless().looping();
    s.port("x", &failing_loop::x, "3").port("y", &failing_loop::y, "3");
  }
  result<void> on_item(step& s) {
    WEIR_TRY(making, s.make(y, width));
    s.submit(
        "copy", [](auto a, auto b) { std::copy(a.begin(), a.end(), b.begin()); },
        read(s[x]), write(making));
    return s.emit();
  }
  result<bool> on_step(step& s) {
    if (s.round() == 1) {
      s.submit(
          "step",
          [fails = s.seq() == 7](auto) {
            return fails ? result<void>(error(errc::corrupt, "planted failure"))
                         : result<void>();
          },
          update(making));
    }
    return s.round() < 3;
  }
};

TEST(PipelineStepLoop, AFailedStepSkipsTheItem) {
  const auto tapes = expect_resumable(
      [](pipeline& p, std::vector<tape>& all) {
        auto middle = p.add<failing_loop>("middle");
        middle.failing(flow::failure_policy::skip);
        p.add<number_source>("source", {.count = 20, .seed = 3}) >> middle >>
            add_recorder(p, "sink", all[0]);
      },
      1, 4);
  ASSERT_EQ(tapes[0].size(), 19U);
  EXPECT_EQ(tapes[0][6].seq, 6U);
  EXPECT_EQ(tapes[0][7].seq, 8U);
}

}  // namespace
}  // namespace weir::test
