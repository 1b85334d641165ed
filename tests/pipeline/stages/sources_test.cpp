// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source mix, and the stages split, deadline and rate.
#include <atomic>
#include <chrono>

#include "stages/basic_catalog.hpp"

namespace weir::test {
namespace {

/// A mix of numbers from 0 on and from a large number on.
tape_builder mixed(std::vector<double> weights, int seed, int first = 40,
                   int second = 40) {
  return [=](pipeline& p, std::vector<tape>& all) {
    const std::string a = "generator count=" + std::to_string(first) + " element=u64";
    const std::string b =
        "generator count=" + std::to_string(second) + " element=u64 kind=philox";
    add_basic(p, "source", "mix",
              {{"parts", list_of<std::string>({a, b})},
               {"weights", list_of<double>(weights)},
               {"seed", seed}}) >>
        add_recorder(p, "sink", all[0]);
  };
}
/// Returns whether each item is one of the first source.
std::vector<bool> from_first(const tape& t) {
  std::vector<bool> all;
  for (const recorded& one : t) {
    all.push_back(one.values<std::uint64_t>()[0] < 1000);
  }
  return all;
}

TEST(Mix, HasEveryItemOnceInTheOrderOfItsSource) {
  const auto tapes = expect_resumable(mixed({1, 1}, 1), 1, 7);
  const tape& t = tapes[0];
  ASSERT_EQ(t.size(), 80U);
  std::uint64_t next = 0;
  for (const recorded& one : t) {
    if (one.values<std::uint64_t>()[0] < 1000) {
      EXPECT_EQ(one.values<std::uint64_t>()[0], next++);
    }
  }
  EXPECT_EQ(next, 40U);
}

TEST(Mix, DrawsSourcesByWeightAndSeed) {
  const auto order = [](std::vector<double> weights, int seed) {
    const auto tapes = run_tapes(mixed(weights, seed, 2000, 2000), 1);
    EXPECT_TRUE(tapes) << tapes.error().message();
    return from_first((*tapes)[0]);
  };
  const auto three_to_one = order({3, 1}, 1);
  const auto share = std::count(three_to_one.begin(), three_to_one.begin() + 1000, true);
  EXPECT_GT(share, 690);
  EXPECT_LT(share, 810);
  EXPECT_EQ(order({3, 1}, 1), three_to_one);
  EXPECT_NE(order({3, 1}, 2), three_to_one);
  const auto only_second = order({0, 1}, 1);
  EXPECT_EQ(std::count(only_second.begin(), only_second.begin() + 2000, true), 0)
      << "a source of weight 0 comes last";
}

/// Counts from a number on, and has nothing to give at every `pause`-th question.
struct pausing_source {
  struct settings {
    std::uint64_t first = 0;
    std::uint64_t count = 10;
    std::uint64_t pause = 0;
  };
  using cursor = std::uint64_t;
  out<std::uint64_t, 1> x;
  settings with;
  cursor at = 0;
  std::uint64_t questions = 0;
  static void describe(stage_spec<pausing_source>& s) {
    s.name("test.pausing", "counts with pauses").port("x", &pausing_source::x, "n");
    s.set("first", &settings::first, "first number");
    s.set("count", &settings::count, "items");
    s.set("pause", &settings::pause, "questions from one pause to the next").may_change();
  }
  result<void> open(opening&, const settings& s) {
    with = s;
    return {};
  }
  result<bool> next(pull& p) {
    if (at == with.count) {
      return false;
    }
    if (with.pause != 0 && ++questions % with.pause != 0) {
      p.nothing_yet();
      return true;
    }
    WEIR_TRY(auto v, p.fill(x, 1));
    v[0] = with.first + at++;
    return true;
  }
  [[nodiscard]] cursor position() const { return at; }
  result<void> seek(cursor c) {
    at = c;
    return {};
  }
};

/// Returns a catalog with the source above, and with one of items up to a length.
flow::catalog& with_pauses() {
  static flow::catalog& all = *[] {
    auto* made = new flow::catalog();
    or_throw(flow::add_basic_stages(*made));
    or_throw(made->add<pausing_source>());
    for (const std::int64_t longest : {0, 5, 9}) {
      or_throw(made->add(
          "test.up_to_" + std::to_string(longest),
          [longest](flow::described_stage& one, const given_settings&) -> result<void> {
            WEIR_TRY(one, flow::make_stage<pausing_source>({}));
            one.info.ports.back().longest = longest;
            return {};
          }));
    }
    return made;
  }();
  return all;
}

TEST(Mix, HasOneOrderHoweverLongItsSourcesTake) {
  const auto values = [](int pause) {
    const std::string paused = " pause=" + std::to_string(pause);
    // The first sources end soon, so that other sources are drawn in their place.
    const auto parts = list_of<std::string>({"test.pausing count=1 first=100",
                                             "test.pausing count=2 first=200",
                                             "test.pausing count=30 first=300" + paused,
                                             "test.pausing count=30 first=400" + paused});
    const auto tapes = run_tapes(
        [&](pipeline& p, std::vector<tape>& all) {
          p.add_made("source", with_pauses().make(
                                   "mix", {{"parts", parts},
                                           {"weights", list_of<double>({9, 9, 1, 1})},
                                           {"seed", 3}})) >>
              add_recorder(p, "sink", all[0]);
        },
        1);
    EXPECT_TRUE(tapes) << tapes.error().message();
    std::vector<std::uint64_t> out;
    for (const recorded& one : (*tapes)[0]) {
      out.push_back(one.values<std::uint64_t>()[0]);
    }
    return out;
  };
  const auto expected = values(0);
  EXPECT_EQ(expected.size(), 63U);
  for (const int pause : {2, 3, 5}) {
    EXPECT_EQ(values(pause), expected) << pause;
  }
}

TEST(Mix, ItsItemsAreAsLongAsThoseOfAnySource) {
  const auto longest = [](const std::vector<std::string>& parts) {
    const auto made = or_throw(with_pauses().make("mix", {{"parts", list_of(parts)}}));
    return made.info.ports.back().longest;
  };
  EXPECT_EQ(longest({"test.up_to_5", "test.up_to_9"}), 9);
  EXPECT_EQ(longest({"test.up_to_9", "test.up_to_5"}), 9);
  EXPECT_EQ(longest({"test.up_to_9", "test.up_to_0"}), 0) << "one has no limit";
}

/// A source of `count` items that counts how often it is asked for its position, and has
/// nothing yet before every item.
struct hesitant {
  struct settings {
    std::uint64_t count = 10;
  };
  struct cursor {
    std::uint64_t next;
  };
  out<std::uint64_t, 1> x;
  std::uint64_t count = 0;
  std::uint64_t at = 0;
  bool hesitated = false;
  static inline std::atomic<int> asked = 0;

  static void describe(stage_spec<hesitant>& s) {
    s.name("test.hesitant", "has nothing yet every second time")
        .port("x", &hesitant::x, "3");
    s.set("count", &settings::count, "items");
  }
  result<void> open(opening&, const settings& s) {
    count = s.count;
    return {};
  }
  result<bool> next(pull& p) {
    if (at == count) {
      return false;
    }
    hesitated = !hesitated;
    if (hesitated) {
      EXPECT_FALSE(p.has_nothing());
      p.nothing_yet();
      EXPECT_TRUE(p.has_nothing());
      return true;
    }
    WEIR_TRY(auto v, p.fill(x, 3));
    std::fill(v.begin(), v.end(), at++);
    return true;
  }
  [[nodiscard]] cursor position() const {
    ++asked;
    return {at};
  }
  result<void> seek(cursor c) {
    at = c.next;
    return {};
  }
};

// A source such as tgm.read reads its last message again for its position.
TEST(Mix, AsksNoSourceForItsPositionWhileItReads) {
  flow::catalog known;
  or_throw(flow::add_basic_stages(known));
  or_throw(known.add<hesitant>());
  const auto order = [&](int count) {
    hesitant::asked = 0;
    const auto tapes = run_tapes(
        [&](pipeline& p, std::vector<tape>& all) {
          const std::string part = "test.hesitant count=" + std::to_string(count);
          p.add_made(
              "source",
              known.make("mix", {{"parts", list_of<std::string>({part, part})}})) >>
              add_recorder(p, "sink", all[0]);
        },
        1);
    EXPECT_TRUE(tapes) << tapes.error().message();
    EXPECT_EQ((*tapes)[0].size(), 2U * static_cast<unsigned>(count));
    return hesitant::asked.load();
  };
  EXPECT_EQ(order(500), order(5));
}

TEST(Mix, RefusesOtherNumbersOfWeightsAndSourcesOfOtherTypes) {
  const auto parts = list_of<std::string>({"generator", "generator element=u8"});
  expect_refused("mix", {{"parts", parts}}, errc::invalid_argument,
                 "expected the outlets of the first source");
  const auto two = list_of<std::string>({"generator", "generator"});
  expect_refused("mix", {{"parts", two}, {"weights", list_of<double>({1})}},
                 errc::invalid_argument, "a weight for each of 2 sources");
  expect_refused("mix", {{"parts", list_of<std::string>({"null"})}},
                 errc::invalid_argument, "expected sources, found the stage null");
}

/// Gives items the attribute `kind`: a, b and c in turn.
struct kinds {
  any_in x;
  any_out y;
  static void describe(stage_spec<kinds>& s) {
    s.name("test.kinds", "names items").port("x", &kinds::x).port("y", &kinds::y);
  }
  result<void> on_item(step& s) {
    s.emitted()["kind"] = std::string(1, static_cast<char>('a' + s.seq() % 3));
    s.forward(x, y);
    return s.emit();
  }
};

tape_builder split_in(const std::string& other) {
  return [=](pipeline& p, std::vector<tape>& all) {
    auto split = add_basic(p, "split", "split",
                           {{"attribute", "kind"},
                            {"outlets", list_of<std::string>({"first", "second"})},
                            {"values", list_of<std::string>({"a", "b"})},
                            {"other", other}});
    add_basic(p, "source", "generator", {{"count", 9}}) >> p.add<kinds>("kinds") >> split;
    split["first"] >> add_recorder(p, "one", all[0])["x"];
    split["second"] >> add_recorder(p, "two", all[1])["x"];
    if (other == "rest") {
      split["rest"] >> add_recorder(p, "three", all[2])["x"];
    }
  };
}

TEST(Split, SendsItemsThroughNamedOutlets) {
  const auto tapes = expect_resumable(split_in("rest"), 3, 2);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(tapes[i].size(), 3U);
    EXPECT_EQ(tapes[i][1].seq, 3 + i);
  }
  const auto dropped = run_tapes(split_in("drop"), 2);
  ASSERT_TRUE(dropped);
  EXPECT_EQ((*dropped)[0].size() + (*dropped)[1].size(), 6U);
}

TEST(Split, FailsForAnUnknownValueIfAsked) {
  const auto failed = run_tapes(split_in("error"), 2);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message().find("to be one of a, b, found \"c\""),
            std::string::npos)
      << failed.error().message();
}

TEST(Split, RefusesNamesThatAreTaken) {
  expect_refused("split",
                 {{"attribute", "a"}, {"outlets", list_of<std::string>({"rest"})}},
                 errc::invalid_argument, "found \"rest\"");
  expect_refused("split",
                 {{"attribute", "a"},
                  {"outlets", list_of<std::string>({"p", "q"})},
                  {"values", list_of<std::string>({"p"})}},
                 errc::invalid_argument, "a value for each of 2 outlets, found 1");
}

tape_builder timed(const given_settings& settings) {
  return [=](pipeline& p, std::vector<tape>& all) {
    add_basic(p, "source", "generator", {{"count", 20}}) >>
        add_basic(p, "deadline", "deadline", settings) >> add_recorder(p, "sink", all[0]);
  };
}

TEST(Deadline, KeepsMarksOrDropsItemsThatAreLate) {
  const auto kept = expect_resumable(timed({{"preset", 1}}), 1, 3);
  EXPECT_EQ(kept[0].size(), 20U);
  EXPECT_FALSE(kept[0][0].about.contains("late"));
  const auto marked = run_tapes(timed({{"preset", 1}, {"late", "mark"}}), 1);
  ASSERT_TRUE(marked) << marked.error().message();
  ASSERT_EQ((*marked)[0].size(), 20U);
  EXPECT_TRUE((*marked)[0][5].about.contains("late")) << "a deadline of 1 ns";
  const auto dropped = run_tapes(timed({{"preset", 1}, {"late", "drop"}}), 1);
  ASSERT_TRUE(dropped);
  EXPECT_TRUE((*dropped)[0].empty());
  const auto in_time =
      run_tapes(timed({{"preset", std::int64_t{1} << 60}, {"late", "drop"}}), 1);
  ASSERT_TRUE(in_time);
  EXPECT_EQ((*in_time)[0].size(), 20U);
  const auto past =
      run_tapes(timed({{"preset", 1}, {"clock", "unix"}, {"late", "drop"}}), 1);
  ASSERT_TRUE(past);
  EXPECT_TRUE((*past)[0].empty()) << "the first nanosecond of 1970 has passed";
}

TEST(Deadline, LowersTheGuaranteeIfTheClockDecidesWhatIsWritten) {
  const auto promise = [](const char* late) {
    std::vector<tape> all(1);
    pipeline p("test");
    timed({{"late", late}})(p, all);
    return or_throw(p.check());
  };
  EXPECT_EQ(promise("keep").promise, flow::guarantee::exactly_once);
  EXPECT_EQ(promise("mark").promise, flow::guarantee::none);
  EXPECT_EQ(promise("drop").promise, flow::guarantee::none);
  EXPECT_EQ(promise("drop").weakest, "deadline");
}

TEST(Rate, DelaysItemsAndDropsNone) {
  const auto build = [](pipeline& p, std::vector<tape>& all) {
    add_basic(p, "source", "generator", {{"count", 21}}) >>
        add_basic(p, "rate", "rate", {{"type", "f32[1]"}, {"items_per_second", 200}}) >>
        add_recorder(p, "sink", all[0]);
  };
  const auto begin = std::chrono::steady_clock::now();
  const auto tapes = run_tapes(build, 1);
  ASSERT_TRUE(tapes) << tapes.error().message();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(95))
      << "20 items behind the first one";
  ASSERT_EQ((*tapes)[0].size(), 21U);
  EXPECT_EQ((*tapes)[0][20].values<float>(), std::vector<float>{20});
}

}  // namespace
}  // namespace weir::test
