// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the interface that programs use: tensors, functions with accesses, results and
/// checked views.
#define WEIR_CHECKED  // before the first include: views of this file are checked
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "weir/weir.hpp"
#include "weir/world.hpp"

namespace weir {
namespace {

/// An engine of the public interface, for different numbers of workers.
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
  e.submit("types", kernel, read(x.select(0, 0)), write(x.select(0, 1)));
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
  EXPECT_FALSE(e.get(x, 0)) << "the tensor has been given up";
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
  EXPECT_EQ(*e.get(e.clone(x).select(0, 1), 3), 8);
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
        "greedy", [](auto, auto v) { v(1, 4) = 1; }, read(x.select(0, 0)),
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

/// Runs a kernel that applies `touch` to a tensor it has captured. It declares to read
/// row 0 and to write row 1.
template <class Touch>
void touch_captured(Touch touch) {
  engine e;
  auto x = e.make<std::int32_t>(3, 4);
  const auto before = or_throw(e.elements(x));
  e.submit(
      "sly", [x, before, touch](auto, auto) { touch(x, before); }, read(x.select(0, 0)),
      write(x.select(0, 1)));
  static_cast<void>(e.wait());
}

TEST(View, LetsAKernelTouchWhatItHasDeclaredInWhateverWay) {
  touch_captured([](const auto& x, const auto& before) {
    EXPECT_EQ(before(0, 3), 0);
    EXPECT_EQ((x.template elements<const std::int32_t>()[0][3]), 0);
    const auto rows = x.slice(0, 0, 2).transpose().template elements<std::int32_t>();
    rows(3, 1) = 7;
    for (std::int32_t& one : x.select(0, 1).template elements<std::int32_t>().dense()) {
      one = 8;
    }
    EXPECT_EQ((x.slice(0, 0, 2).template elements<const std::int32_t>().dense()[7]), 8);
    std::int32_t own = 1;
    EXPECT_EQ((view<std::int32_t, 1>(&own, {3}, {0})[2]), 1);
    engine inner;  // of the kernel's own
    auto y = inner.make<std::int32_t>(2);
    inner.set(y, 5, 1);
    EXPECT_EQ(*inner.get(y, 1), 5);
    EXPECT_EQ(or_throw(inner.elements(y))[1], 5);
  });
}

TEST(ViewDeathTest, AKernelOfAWorldThatTouchesACapturedTensorEnds) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto touch = [] {
    engine e;
    world w(e);
    const auto x = w.make<std::int32_t>(rows(1), 4);
    const auto other = w.make<std::int32_t>(rows(1), 4);
    w.submit(
        "sly",
        [other](view<std::int32_t, 1> own) {
          own(0) = 1;
          other.all().elements<std::int32_t>()(2) = 1;
        },
        write(x.of_index(0)));
    static_cast<void>(w.wait());
  };
  EXPECT_DEATH(touch(),
               "task \"sly\": expected what it touches to be in one of its 1 accesses, "
               "found byte 8 of a view that it was not given");
}

TEST(ViewDeathTest, AKernelThatTouchesACapturedTensorEndsUnlessItIsDeclared) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::string none =
      "task \"sly\": expected what it touches to be in one of its 2 accesses, found "
      "byte ";
  const std::string only_read =
      "task \"sly\", access 0: expected reads only, found a reference for writing to "
      "byte ";
  EXPECT_DEATH(touch_captured([](const auto& x, const auto&) {
                 x.template elements<std::int32_t>()(2, 1) = 1;
               }),
               none + "36 of a view that it was not given");
  EXPECT_DEATH(touch_captured([](const auto&, const auto& before) {
                 std::printf("%d", before(2, 3));
               }),
               none + "44 of a view that it was not given");
  EXPECT_DEATH(touch_captured([](const auto& x, const auto&) {
                 x.template elements<std::int32_t>()[0][2] = 1;
               }),
               only_read + "8 of a view that it was not given");
  EXPECT_DEATH(touch_captured([](const auto& x, const auto&) {
                 std::fill_n(x.template elements<std::int32_t>().dense().begin(), 1, 1);
               }),
               only_read + "0 of a view that it was not given");
  EXPECT_DEATH(touch_captured([](const auto& x, const auto&) {
                 *x.transpose().template elements<std::int32_t>()[3].data() = 1;
               }),
               only_read);
}

/// Runs a kernel that sums the elements at most `reads` away from the first one of the
/// last tile, which declares `reach`, over the edges or inside of the tensor.
double sum_around(std::int64_t reach, std::int64_t reads, bool over_edges) {
  engine e(1);
  world w(e);
  const auto a = w.make<double>(blocks(2, 2), 10, 10);
  const auto sum = w.make<double>(rows(1), 1);
  for (const auto& box : a.tiles()) {
    w.submit(
        "one", [](view<double, 2> out) { out(0, 0) = out(1, 1) = 1; },
        write(a.of_tile(box)));
  }
  const auto add = [reads](const auto& in, auto& out, std::int64_t origin) {
    for (std::int64_t i = -reads; i <= reads; ++i) {
      for (std::int64_t k = -reads; k <= reads; ++k) {
        out(0) += in(origin + i, origin + k);
      }
    }
  };
  const auto box = a.tiles()[over_edges ? 24 : 12];
  if (over_edges) {
    w.submit(
        "wrap",
        [add](wrapped_view<double, 2> in, view<double, 1> out) { add(in, out, 0); },
        read(a.wrapped(box, reach)), update(sum.of_index(0)));
  } else {
    w.submit(
        "inside",
        [add, reach](view<const double, 2> in, view<double, 1> out) {
          add(in, out, reach);
        },
        read(a.around(box, reach)), update(sum.of_index(0)));
  }
  return or_throw(w.elements(sum))(0);
}

TEST(WorldReachDeathTest, AKernelThatReadsFartherThanItDeclaresEndsTheProgram) {
  for (const bool over_edges : {false, true}) {
    for (const std::int64_t reach : {0, 1, 2}) {
      const std::int64_t elements = (2 * reach + 1) * (2 * reach + 1);
      EXPECT_EQ(sum_around(reach, reach, over_edges),
                static_cast<double>((elements + 1) / 2));
      EXPECT_DEATH(static_cast<void>(sum_around(reach, reach + 3, over_edges)),
                   over_edges ? "task \"wrap\"" : "task \"inside\"");
    }
  }
}

}  // namespace
}  // namespace weir
