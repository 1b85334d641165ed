// SPDX-License-Identifier: Apache-2.0
/// @file
/// Failed items that leave their stage through outlets of their own, and the limit of
/// attributes.
#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/support/number_stages.hpp"
#include "pipeline/support/tape.hpp"
#include "weir/pipeline/run_here.hpp"

namespace weir::test {
namespace {

constexpr std::uint64_t letter_items = 30;
constexpr std::uint64_t every_fifth = 5;

/// The ways in which an item can fail: in a task of a task stage or of a late stage, in a
/// blocking stage, or because a function of the stage itself returns an error or throws.
enum class way { task, late, blocking, on_item, on_done, on_step, thrown };

/// Adds 1; every fifth item fails with a long error.
template <way How>
struct brittle {
  struct settings {
    std::uint64_t text = 15;  ///< length of the error
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  std::uint64_t text = 0;
  static void describe(stage_spec<brittle>& s) {
    s.name("test.brittle", "fails at times").stateless();
    s.port("x", &brittle::x, "3").port("y", &brittle::y, "3");
    s.set("text", &settings::text, "length of the error");
  }
  result<void> open(opening&, const settings& s) {
    text = s.text;
    return {};
  }
  static result<void> plus(const view<const std::uint64_t, 1>& from,
                           const view<std::uint64_t, 1>& to, std::uint64_t text,
                           bool fails) {
    for (std::size_t i = 0; i < elements; ++i) {
      to[i] = from[i] + 1;
    }
    return fails ? result<void>(error(errc::corrupt, std::string(text, 'e')))
                 : result<void>();
  }
  result<void> on_item(step& s) requires(How != way::blocking) {
    constexpr bool in_task = How == way::task || How == way::late;
    WEIR_TRY(auto to, s.make(y, width));
    s.submit(
        "break",
        [t = text, fails = in_task && s.seq() % every_fifth == 0](auto a, auto b) {
          return plus(a, b, t, fails);
        },
        read(s[x]), write(to));
    if (How == way::on_item || How == way::thrown) {
      WEIR_CHECK(s.emit());
      return refused(s);
    }
    return How == way::task ? s.emit() : result<void>();
  }
  [[nodiscard]] result<void> refused(const step& s) const {
    if (s.seq() % every_fifth != 0) {
      return {};
    }
    if (How == way::thrown) {
      throw std::runtime_error(std::string(text, 'e'));
    }
    return error(errc::corrupt, std::string(text, 'e'));
  }
  result<void> on_done(step& s) requires(How == way::late || How == way::on_done) {
    if (How == way::on_done) {
      WEIR_CHECK(refused(s));
    }
    return s.emit();
  }
  result<bool> on_step(step& s) requires(How == way::on_step) {
    WEIR_CHECK(s.round() == 2 ? refused(s) : result<void>());
    if (s.round() < 2) {
      return true;
    }
    WEIR_CHECK(s.emit());
    return false;
  }
  result<void> on_ready(taken& from, pull& to) requires(How == way::blocking) {
    WEIR_TRY(auto made, to.fill(y, width));
    return plus(from[x], made, text, from.seq() % every_fifth == 0);
  }
};

template <way How>
tape_builder brittle_pipeline(std::uint64_t text = 15,
                              std::uint64_t limit = flow::unlimited_failures) {
  return [text, limit](pipeline& p, std::vector<tape>& tapes) {
    auto middle = p.add<brittle<How>>("middle", {.text = text});
    middle.failing(flow::failure_policy::dead_letter, limit);
    p.add<number_source>("source", {.count = letter_items, .seed = 2}) >> middle >>
        add_recorder(p, "sink", tapes[0]);
    middle["failed_x"] >> add_recorder(p, "failed", tapes[1]);
  };
}

template <way How>
void expect_dead_letters() {
  const auto tapes = expect_resumable(brittle_pipeline<How>(), 2, 4);
  ASSERT_EQ(tapes[0].size(), letter_items - letter_items / every_fifth);
  ASSERT_EQ(tapes[1].size(), letter_items / every_fifth);
  for (std::size_t i = 0; i < tapes[1].size(); ++i) {
    const recorded& one = tapes[1][i];
    EXPECT_EQ(one.seq, i * every_fifth);
    const numbers n = number_source::make(2, one.seq);
    EXPECT_EQ(one.values<std::uint64_t>(),
              std::vector<std::uint64_t>(n.begin(), n.end()));
    ASSERT_EQ(one.about.count("error"), 1U);
    EXPECT_NE(std::get<std::string>(one.about.at("error")).find("eeeeeeeeeeeeeee"),
              std::string::npos);
  }
}

TEST(PipelineDeadLetters, FailedItemsLeaveThroughAnOutletOfTheirOwn) {
  expect_dead_letters<way::task>();
  expect_dead_letters<way::late>();
  expect_dead_letters<way::blocking>();
}

TEST(PipelineDeadLetters, AnErrorOfTheStageItselfIsAFailedItem) {
  expect_dead_letters<way::on_item>();
  expect_dead_letters<way::thrown>();
  expect_dead_letters<way::on_done>();
  expect_dead_letters<way::on_step>();
}

TEST(PipelineDeadLetters, ALongErrorIsCutToTheLimitOfAttributes) {
  const auto tapes = run_tapes(brittle_pipeline<way::blocking>(5000), 2);
  ASSERT_TRUE(tapes) << tapes.error().message();
  EXPECT_LE(flow::encoded_size((*tapes)[1][0].about), flow::max_attribute_bytes);
  EXPECT_GE(flow::encoded_size((*tapes)[1][0].about), flow::max_attribute_bytes - 4);
}

TEST(PipelineDeadLetters, MoreFailedItemsThanAllowedStopTheRun) {
  EXPECT_TRUE(run_tapes(brittle_pipeline<way::task>(15, 6), 2));
  for (const auto& build :
       {brittle_pipeline<way::task>(15, 3), brittle_pipeline<way::late>(15, 3),
        brittle_pipeline<way::blocking>(15, 3), brittle_pipeline<way::on_item>(15, 3),
        brittle_pipeline<way::on_done>(15, 3), brittle_pipeline<way::on_step>(15, 3)}) {
    const auto stopped = run_tapes(build, 2);
    ASSERT_FALSE(stopped);
    const std::string text = stopped.error().message();
    EXPECT_NE(text.find("cannot process item 15 in stage \"middle\""), std::string::npos)
        << text;
    EXPECT_NE(text.find("expected at most 3 failed items"), std::string::npos) << text;
    EXPECT_EQ(stopped.error().root().text(), std::string(15, 'e'));
  }
}

TEST(PipelineDeadLetters, ResumedRunsCountTheFailedItemsBeforeThem) {
  expect_resumable(brittle_pipeline<way::task>(15, 6), 2, 4);
  // A run that may have one item less stops although most items failed before it began.
  memory_store store;
  flow::here_options options;
  options.every_items = 11;
  options.store = &store;
  ASSERT_TRUE(run_tapes(brittle_pipeline<way::task>(15, 6), 2, options));
  store.images.resize(2);  // behind item 22
  options.resume = true;
  std::vector<tape> all(2);
  pipeline p("test");
  brittle_pipeline<way::task>(15, 5)(p, all);
  all[0].resize(100);
  all[1].resize(100);
  const auto stopped = flow::run_here(p, options);
  ASSERT_FALSE(stopped);
  EXPECT_NE(stopped.error().message().find("item 25 in stage"), std::string::npos)
      << stopped.error().message();
}

TEST(PipelineDeadLetters, ACountOfFailedItemsThatWasCutIsRefused) {
  memory_store store;
  flow::here_options options;
  options.every_items = 11;
  options.store = &store;
  ASSERT_TRUE(run_tapes(brittle_pipeline<way::task>(15, 6), 2, options));
  store.images.resize(2);
  auto& sections = store.images.back().sections;
  const auto count =
      std::ranges::find(sections, "FAILURES/middle", &flow::image_section::name);
  ASSERT_NE(count, sections.end());
  count->data.resize(7);
  count->shape = {7};
  options.resume = true;
  std::vector<tape> all(2);
  pipeline p("test");
  brittle_pipeline<way::task>(15, 6)(p, all);
  const auto refused = flow::run_here(p, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().root().code(), errc::corrupt);
  EXPECT_NE(refused.error().message().find("expected 8 bytes, found 7"),
            std::string::npos)
      << refused.error().message();
}

TEST(PipelineDeadLetters, NeedAnEdgeAndStagesThatKeepNumbers) {
  std::vector<tape> all(1);
  pipeline without("test");
  auto middle = without.add<brittle<way::task>>("middle");
  middle.failing(flow::failure_policy::dead_letter);
  without.add<number_source>("source") >> middle >> add_recorder(without, "sink", all[0]);
  const auto plan = without.check();
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message().find("an edge from the outlet \"failed_x\" to a sink"),
            std::string::npos)
      << plan.error().message();
}

/// Sets an attribute of some length.
struct lettered {
  struct settings {
    std::uint64_t length = 0;
  };
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  settings with;
  static void describe(stage_spec<lettered>& s) {
    s.name("test.lettered", "sets an attribute").forwards();
    s.port("x", &lettered::x, "3").port("y", &lettered::y, "3");
    s.set("length", &settings::length, "bytes of the attribute");
  }
  result<void> open(opening&, const settings& s) {
    with = s;
    return {};
  }
  result<void> on_item(step& s) {
    s.emitted()["label"] = std::string(s.seq() == 3 ? with.length : 0, 'l');
    s.forward(x, y);
    return s.emit();
  }
};

TEST(PipelineAttributes, HaveAtMost256Bytes) {
  const auto build = [](std::uint64_t length) {
    return [length](pipeline& p, std::vector<tape>& tapes) {
      p.add<number_source>("source", {.count = 5}) >>
          p.add<lettered>("middle", {.length = length}) >>
          add_recorder(p, "sink", tapes[0]);
    };
  };
  EXPECT_TRUE(run_tapes(build(248), 1));  // 6 bytes for the name, 2 for the head
  const auto refused = run_tapes(build(249), 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::out_of_range);
  const std::string text = refused.error().message();
  EXPECT_NE(text.find("cannot process item 3 in stage \"middle\""), std::string::npos)
      << text;
  EXPECT_NE(text.find("at most 256 bytes, found 257 bytes"), std::string::npos) << text;
}

TEST(PipelineAttributes, TheirSizeIsThatOfDeterministicCbor) {
  const auto size = [](attribute value) {
    return flow::encoded_size({{"a", std::move(value)}}) - 2;
  };
  EXPECT_EQ(size(std::uint64_t{23}), 1U);
  EXPECT_EQ(size(std::uint64_t{24}), 2U);
  EXPECT_EQ(size(std::int64_t{-256}), 2U);
  EXPECT_EQ(size(std::int64_t{-257}), 3U);
  EXPECT_EQ(size(std::uint64_t{65536}), 5U);
  EXPECT_EQ(size(~std::uint64_t{0}), 9U);
  EXPECT_EQ(size(1.5), 3U);
  EXPECT_EQ(size(5.960464477539063e-8), 3U);  // the smallest half
  EXPECT_EQ(size(65504.0), 3U);
  EXPECT_EQ(size(65536.0), 5U);
  EXPECT_EQ(size(100000.0), 5U);
  EXPECT_EQ(size(1.1), 9U);
  EXPECT_EQ(size(std::string("abc")), 4U);
}

}  // namespace
}  // namespace weir::test
