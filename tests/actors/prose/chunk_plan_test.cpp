// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the sizes of chunks and the order in which they are requested.
#include "stages/prose/chunk_plan.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace weir::actors {
namespace {

/// A source with a number of tokens per lane. Chunks may be shorter than ordered; that
/// depends only on lane and position.
class lanes_of_text {
 public:
  lanes_of_text(std::vector<std::uint64_t> sizes, bool short_ones)
      : sizes_(std::move(sizes)), positions_(sizes_.size(), 0), short_ones_(short_ones) {}

  /// Returns the next chunk of a lane, or none at its end.
  chunk_reply answer(const chunk_order& order) {
    std::uint64_t& position = positions_[order.lane];
    std::uint64_t n = std::min(order.tokens, sizes_[order.lane] - position);
    if (n == 0) {
      return {order, std::nullopt};
    }
    // A chunk ends at the next boundary; there is one every 37 tokens.
    const std::uint64_t boundary = (position / 37 + 1) * 37;
    n = short_ones_ ? std::min(n, boundary - position) : n;
    storage::token_chunk c;
    c.lane = order.lane;
    c.lane_position = position;
    c.tokens.assign(n, 7);
    position += n;
    return {order, c};
  }

 private:
  std::vector<std::uint64_t> sizes_;
  std::vector<std::uint64_t> positions_;
  bool short_ones_;
};

/// Returns all pulses of a plan as texts "phase: sizes by lane". Orders are answered at
/// random moments.
std::vector<std::string> pulses_of(const chunk_plan::settings& s, const phase_uses& used,
                                   lanes_of_text text, std::size_t ahead,
                                   std::uint32_t seed) {
  chunk_plan plan(s, used);
  std::mt19937 random(seed);
  std::vector<std::deque<chunk_reply>> waiting(s.lanes);
  std::vector<std::string> out;
  for (int idle = 0; idle < 1000 && !plan.exhausted();) {
    const auto orders = plan.take_orders(ahead);
    for (const chunk_order& order : orders) {
      EXPECT_GE(order.tokens, 1U);
      waiting[order.lane].push_back(text.answer(order));
    }
    auto& lane = waiting[random() % s.lanes];
    const bool arrives = !lane.empty() && random() % 2 == 0;
    if (arrives) {
      EXPECT_TRUE(plan.resolve(lane.front()));
      lane.pop_front();
    }
    while (auto p = plan.take_pulse()) {
      std::string line = std::to_string(p->phase);
      line += ':';
      for (const auto& c : p->lanes) {
        line += ' ';
        line += std::to_string(c ? c->tokens.size() : 0);
      }
      out.push_back(line);
    }
    idle = arrives || !orders.empty() ? 0 : idle + 1;
  }
  EXPECT_TRUE(plan.exhausted());
  return out;
}

using lines = std::vector<std::string>;

TEST(chunk_plan, meets_a_budget_exactly_with_a_shorter_last_chunk) {
  const auto got = pulses_of({1, 64, {phase_budget{150, 0}, {}, {}}}, {},
                             lanes_of_text({1000}, false), 4, 1);
  EXPECT_EQ(got, (lines{"0: 64", "0: 64", "0: 22"}));
}

TEST(chunk_plan, goes_on_with_the_next_phase_and_skips_one_without_tokens) {
  const auto got = pulses_of({1, 64, {phase_budget{70, 0}, {}, phase_budget{65, 0}}}, {},
                             lanes_of_text({1000}, false), 4, 1);
  EXPECT_EQ(got, (lines{"0: 64", "0: 6", "2: 64", "2: 1"}));
}

TEST(chunk_plan, ends_a_phase_by_pulses) {
  const auto got = pulses_of({1, 10, {phase_budget{1000, 2}, phase_budget{15, 0}, {}}},
                             {}, lanes_of_text({1000}, false), 8, 1);
  EXPECT_EQ(got, (lines{"0: 10", "0: 10", "1: 10", "1: 5"}));
}

TEST(chunk_plan, gives_the_rest_to_the_first_lanes) {
  const auto got = pulses_of({4, 64, {phase_budget{300, 0}, {}, {}}}, {},
                             lanes_of_text({1000, 1000, 1000, 1000}, false), 4, 1);
  EXPECT_EQ(got, (lines{"0: 64 64 64 64", "0: 44 0 0 0"}));
}

TEST(chunk_plan, lets_other_lanes_use_what_an_ended_lane_leaves) {
  const auto got = pulses_of({2, 10, {phase_budget{50, 0}, {}, {}}}, {},
                             lanes_of_text({5, 1000}, false), 4, 1);
  EXPECT_EQ(got, (lines{"0: 5 10", "0: 0 10", "0: 0 10", "0: 0 10", "0: 0 5"}));
}

TEST(chunk_plan, ends_early_when_all_lanes_have_ended) {
  chunk_plan plan({1, 8, {phase_budget{100, 0}, phase_budget{10, 0}, {}}}, {});
  lanes_of_text text({12}, false);
  for (int i = 0; i < 10 && !plan.exhausted(); ++i) {
    for (const auto& order : plan.take_orders(2)) {
      ASSERT_TRUE(plan.resolve(text.answer(order)));
    }
    while (plan.take_pulse()) {
    }
  }
  EXPECT_TRUE(plan.exhausted());
  EXPECT_TRUE(plan.ended_early());
}

TEST(chunk_plan, continues_behind_what_was_used_before) {
  phase_uses used;
  used[0] = {128, 2};
  const auto got = pulses_of({1, 64, {phase_budget{150, 0}, {}, {}}}, used,
                             lanes_of_text({1000}, false), 4, 1);
  EXPECT_EQ(got, (lines{"0: 22"}));
}

TEST(chunk_plan, has_nothing_to_do_after_a_finished_run) {
  phase_uses used;
  used[0] = {150, 3};
  chunk_plan plan({1, 64, {phase_budget{150, 0}, {}, {}}}, used);
  EXPECT_TRUE(plan.take_orders(4).empty());
  EXPECT_TRUE(plan.exhausted());
  EXPECT_FALSE(plan.ended_early());
}

TEST(chunk_plan, refuses_an_answer_without_an_order) {
  chunk_plan plan({1, 8, {phase_budget{100, 0}, {}, {}}}, {});
  lanes_of_text text({100}, false);
  const auto r = plan.resolve(text.answer({0, 8}));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::internal);
}

TEST(chunk_plan, makes_the_same_pulses_for_any_depth_and_timing) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    chunk_plan::settings s;
    s.lanes = 1 + random() % 4;
    s.chunk = 1 + random() % 40;
    s.budgets = {phase_budget{random() % 600, random() % 3 == 0 ? random() % 9 : 0},
                 phase_budget{random() % 100, 0}, phase_budget{random() % 100, 0}};
    std::vector<std::uint64_t> sizes;
    for (std::uint32_t lane = 0; lane < s.lanes; ++lane) {
      sizes.push_back(random() % 400);
    }
    const lanes_of_text text(sizes, random() % 2 == 0);
    const auto reference = pulses_of(s, {}, text, 1, seed);
    for (const std::size_t ahead : {2U, 3U, 64U}) {
      EXPECT_EQ(pulses_of(s, {}, text, ahead, seed + 1), reference);
    }
  }
}

TEST(max_pulses, counts_the_shorter_last_pulse_and_knows_a_limit) {
  EXPECT_EQ(max_pulses({1000, 0}, 64), 16U);
  EXPECT_EQ(max_pulses({1024, 0}, 64), 16U);
  EXPECT_EQ(max_pulses({1024, 0}, 256), 4U);
  EXPECT_EQ(max_pulses({1024, 3}, 256), 3U);
}

}  // namespace
}  // namespace weir::actors
