// SPDX-License-Identifier: Apache-2.0
/// @file
/// Several worlds on one engine.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "weir/weir.hpp"
#include "weir/world.hpp"
#include "world/ranks.hpp"

namespace weir::runtime {
namespace {

using numbers = view<double, 2>;

void add(view<const double, 2> in, numbers out) {
  out(0, 0) += in(0, 0) + 1;
}

/// Two worlds of a rank on one engine, each with a number for each rank.
struct worlds_on_one_engine {
  explicit worlds_on_one_engine(transport& link) : a(tasks, link), b(tasks, link) {}
  /// Submits a task to a world that adds the number of a rank to that of the other one.
  static void add_number(weir::world& w, const world_tensor<double, 2>& t, int from) {
    const auto tiles = t.tiles();
    w.submit("add", add, read(t.of_tile(tiles[static_cast<std::size_t>(from)])),
             update(t.of_tile(tiles[static_cast<std::size_t>(1 - from)])));
  }
  weir::engine tasks{1};
  weir::world a;
  weir::world b;
  world_tensor<double, 2> in_a = a.make<double>(weir::rows(1), 2, 1);
  world_tensor<double, 2> in_b = b.make<double>(weir::rows(1), 2, 1);
};

TEST(WorldsOnOneEngine, HaveTheResultsOfWorldsOnTheirOwn) {
  in_process_network net({.ranks = 2, .max_delay = 3});
  std::array<double, 2> sums{};
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    worlds_on_one_engine both(link);
    for (int i = 0; i < 10; ++i) {
      worlds_on_one_engine::add_number(both.a, both.in_a, i % 2);
      worlds_on_one_engine::add_number(both.b, both.in_b, 0);
    }
    const auto of_a = or_throw(both.a.elements(both.in_a));
    const auto of_b = or_throw(both.b.elements(both.in_b));
    sums[r] = of_a(0, 0) * 1e6 + of_a(1, 0) * 1e3 + of_b(1, 0);
  });
  // Each number of the first world is the sum of both before and 1, in turn.
  EXPECT_EQ(sums[0], 143 * 1e6 + 88 * 1e3 + 10);
  EXPECT_EQ(sums[1], sums[0]);
}

TEST(WorldsOnOneEngine, AWaitReportsAFailureOfTheOther) {
  in_process_network net({.ranks = 2});
  std::array<std::string, 2> words;
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    worlds_on_one_engine both(link);
    const auto fail = [](numbers) -> result<void> {
      return error(errc::kernel_failed, "planted");
    };
    both.a.submit("fail", fail, update(both.in_a.of_tile(both.in_a.tiles()[1])));
    const auto other = both.b.wait();
    EXPECT_FALSE(other);
    words[r] = other ? "" : other.error().message();
    EXPECT_FALSE(both.a.wait());
  });
  for (const std::string& one : words) {
    EXPECT_NE(one.find("planted"), std::string::npos) << one;
  }
}

TEST(WorldsOnOneEngine, ALoopOverBothIsRefusedWhileOneRecords) {
  in_process_network net({.ranks = 2});
  on_ranks(net, 2, [&](rank_id, transport& link) {
    worlds_on_one_engine both(link);
    std::string words;
    try {
      both.a.repeat(20, [&](std::int64_t) {
        worlds_on_one_engine::add_number(both.a, both.in_a, 0);
        worlds_on_one_engine::add_number(both.b, both.in_b, 0);
      });
    } catch (const std::exception& e) {
      words = e.what();
    }
    EXPECT_EQ(words.find("task not submitted: expected an engine without a capture"), 0U)
        << words;
  });
}

}  // namespace
}  // namespace weir::runtime
