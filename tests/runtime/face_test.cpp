// SPDX-License-Identifier: Apache-2.0
/// @file
/// The face that a program sees: tensors, functions with accesses, results, checked
/// views.
#define WEIR_CHECKED  // before the first include: views of this file are checked
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "weir/weir.hpp"

namespace weir {
namespace {

class Face : public testing::TestWithParam<unsigned> {
 protected:
  engine e{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Workers, Face, testing::Values(1U, 2U));

TEST_P(Face, RunsFunctionsInTheOrderOfTheirData) {
  auto x = e.make<std::int64_t>(100);
  auto sum = e.make<std::int64_t>();
  e.submit(
      "fill", [](auto v) { std::iota(v.begin(), v.end(), 1); }, write(x));
  e.submit(
      "sum", [](auto v, auto s) { s() = std::accumulate(v.begin(), v.end(), s()); },
      read(x), update(sum));
  e.submit(
      "clear", [](auto v) { std::fill(v.begin(), v.end(), 0); }, write(x));
  EXPECT_EQ(*e.get(sum), 5050);
  EXPECT_EQ(*e.get(x, 99), 0);
  EXPECT_TRUE(e.wait());
}

TEST_P(Face, GivesKernelsWhatTheyDeclared) {
  auto x = e.make<float>(4, 6);
  const auto kernel = [](auto in, auto out) {
    static_assert(std::is_same_v<decltype(in), view<const float, 1>>);
    static_assert(std::is_same_v<decltype(out), view<float, 1>>);
  };
  e.submit("types", kernel, read(x.at(0, 0)), write(x.at(0, 1)));
  EXPECT_TRUE(e.wait());
}

TEST_P(Face, SetsAndReadsScalarsInOrder) {
  auto x = e.make<std::int32_t>(3, 4);
  for (int i = 0; i < 50; ++i) {
    e.set(x, i, 2, 1);
    e.submit(
        "more", [](auto v) { v(2, 1) += 1; }, update(x));
    ASSERT_EQ(*e.get(x, 2, 1), i + 1);
  }
}

TEST_P(Face, KeepsWhatAKernelCapturesUntilItHasRun) {
  auto count = e.make<std::int64_t>();
  auto shared = std::make_shared<std::string>("captured");
  const std::weak_ptr<std::string> watch = shared;
  for (int i = 0; i < 300; ++i) {
    e.submit(
        "held", [s = shared](auto n) { n() += static_cast<std::int64_t>(s->size()); },
        update(count));
  }
  shared.reset();
  EXPECT_EQ(*e.get(count), 300 * 8);
  EXPECT_TRUE(e.wait());
}

TEST_P(Face, ReturnsTheFailureOfAKernel) {
  auto x = e.make<double>(8);
  e.submit(
      "bad", [](auto) -> result<void> { return error(errc::io, "no luck"); }, write(x));
  const auto r = e.get(x, 0);
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().text().find("no luck"), std::string::npos);
  EXPECT_FALSE(e.wait());
  EXPECT_TRUE(e.wait());
}

TEST_P(Face, AddsInAnyOrderBetweenAResetAndAResult) {
  auto sum = e.make<std::uint64_t>();
  auto product = e.make<std::uint64_t>();
  std::uint64_t expected = 1;
  e.set(product, 1);
  for (std::uint64_t i = 1; i <= 300; ++i) {
    e.set(sum, i);
    for (std::uint64_t k = 0; k < 5; ++k) {
      e.submit(
          "add", [k](auto s) { s() += k; }, commute_any(sum));
    }
    e.submit(
        "times", [](auto s, auto p) { p() = p() * 31 + s(); }, read(sum),
        commute(product));
    expected = expected * 31 + i + 10;
  }
  EXPECT_EQ(*e.get(product), expected);
}

TEST_P(Face, GivesANameToOneVersionAfterAnother) {
  const auto whole = e.open_scope("whole");
  auto x = e.make_fresh<std::int64_t>(1000);
  auto sum = e.make<std::int64_t>();
  e.submit(
      "fill", [](auto v) { std::fill(v.begin(), v.end(), 1); }, write(x));
  for (int i = 0; i < 3000; ++i) {  // 24 MB in all, more than two heaps of this size
    e.submit(
        "next",
        [](auto before, auto after) {
          std::transform(before.begin(), before.end(), after.begin(),
                         [](std::int64_t v) { return v + 1; });
        },
        read(x), fresh(x));
    if (i % 100 == 0) {
      e.submit(
          "sum", [](auto v, auto s) { s() += std::accumulate(v.begin(), v.end(), 0); },
          read(x), update(sum));
    }
  }
  EXPECT_EQ(*e.get(x, 999), 3001);
  std::int64_t expected = 0;
  for (int i = 0; i < 3000; i += 100) {
    expected += 1000 * (i + 2);
  }
  EXPECT_EQ(*e.get(sum), expected);
  EXPECT_EQ(e.base().counters().edges_war, 0U);
  e.give_up(x);
  EXPECT_FALSE(e.get(x, 0)) << "given up";
}

TEST_P(Face, ClonesAndPacksByTasks) {
  auto x = e.make<std::int32_t>(4, 5);
  e.submit(
      "fill",
      [](auto v) {
        for (int i = 0; i < 20; ++i) {
          v(i / 5, i % 5) = i;
        }
      },
      write(x));
  const auto turned = x.transpose();
  const auto packed = e.contiguous(turned);
  EXPECT_EQ(e.contiguous(x).bytes().bytes(), x.bytes().bytes());  // itself
  e.submit(
      "clear", [](auto v) { std::fill(v[0].begin(), v[0].end(), -1); }, write(x));
  const auto elements = or_throw(e.elements(packed));
  ASSERT_EQ(elements.dense().size(), 20U);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(elements(i % 5, i / 5), i);  // as it was before it was cleared
  }
  EXPECT_EQ(*e.get(e.clone(x).at(0, 1), 3), 8);
  EXPECT_TRUE(e.wait());
  e.release(packed);
}

TEST(View, WalksStridedElements) {
  engine e;
  auto x = e.make<std::int64_t>(10);
  e.submit(
      "fill", [](auto v) { std::iota(v.begin(), v.end(), 0); }, write(x));
  const auto every_third = or_throw(e.elements(x.slice(0, 9, -1, -3)));
  EXPECT_EQ(std::vector<std::int64_t>(every_third.begin(), every_third.end()),
            (std::vector<std::int64_t>{9, 6, 3, 0}));
  EXPECT_TRUE(every_third.dense().empty());
}

TEST(View, RepeatsABroadcastElement) {
  double one = 7;
  const view<double, 1> again(&one, {3}, {0});
  double sum = 0;
  for (const double each : again) {
    sum += each;
  }
  EXPECT_EQ(sum, 21);
}

TEST(ViewDeathTest, AKernelThatReachesOutsideEndsWithTaskAccessAndByte) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto reach = [] {
    engine e;
    auto x = e.make<std::int32_t>(4, 8);
    e.submit(
        "greedy", [](auto, auto v) { v(1, 4) = 1; }, read(x.at(0, 0)),
        write(x.slice(1, 0, 4)));
    static_cast<void>(e.wait());
  };
  EXPECT_DEATH(
      reach(),
      "task \"greedy\", access 1: expected index 1 in \\[0, 4\\), found 4, which "
      "is byte 48 of its view");
}

TEST(ViewDeathTest, IteratorsAndSpansEndThereToo) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto reach = [](bool span) {
    engine e;
    auto x = e.make<std::int32_t>(8);
    e.submit(
        "greedy",
        [span](auto v) {
          if (span) {
            v.dense()[4] = 1;
          } else {
            *std::next(v.begin(), 4) = 1;
          }
        },
        write(x.slice(0, 0, 4)));
    static_cast<void>(e.wait());
  };
  for (const bool span : {false, true}) {
    EXPECT_DEATH(reach(span),
                 "task \"greedy\", access 0: expected index 0 in \\[0, 4\\), found 4, "
                 "which is byte 16 of its view");
  }
}

}  // namespace
}  // namespace weir
