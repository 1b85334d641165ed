// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the logic of the Conductor without actors: pulses, commits and checkpoints.
#include "conductor/conductor_state.hpp"

#include <gtest/gtest.h>

namespace weir::actors {
namespace {

/// Returns the settings of a run with one lane and chunks of 64 tokens.
conductor_state::settings settings_of(std::uint64_t tokens, std::uint64_t every = 0) {
  conductor_state::settings s;
  s.frequencies = {1, 8, 64, 512};
  s.chunk = 64;
  s.budgets[0].tokens = tokens;
  s.every_tokens = every;
  s.curve_window = 128;
  return s;
}

/// Returns a chunk of `n` equal tokens at a position of a lane.
storage::token_chunk chunk_at(std::uint64_t position, std::uint64_t n,
                              std::uint32_t lane = 0) {
  storage::token_chunk c;
  c.lane = lane;
  c.lane_position = position;
  c.tokens.assign(n, 65);
  c.lookahead = 65;
  c.mark.lane = lane;
  c.mark.after.position = position + n;
  return c;
}

/// Answers all orders and returns their number.
std::size_t feed(conductor_state& c, std::vector<std::uint64_t>& positions) {
  const auto orders = c.take_orders();
  for (const chunk_order& order : orders) {
    auto& position = positions[order.lane];
    EXPECT_TRUE(c.arrived({order, chunk_at(position, order.tokens, order.lane)}));
    position += order.tokens;
  }
  return orders.size();
}

/// Returns the answer to a pulse whose loss is one nat for each scored token.
pulse_done done_of(std::uint64_t id, std::uint64_t scored = 64) {
  pulse_done d;
  d.pulse_id = id;
  d.result.scored = scored;
  d.result.nats_q32 = scored << 32;
  return d;
}

// The levels that fire are computed once for each pulse. The order to the model and the
// view of the observers must show the same pulse, even where a slow level fires.
TEST(conductor_state, captures_one_pulse_for_forward_optimizer_and_observers) {
  conductor_state c(settings_of(64 * 10), {}, {});
  std::vector<models::pulse> observed;
  c.observe([&](const pulse_view& v) { observed.push_back(v.pulse); });
  std::vector<std::uint64_t> positions{0};
  std::vector<models::pulse> issued;
  for (int i = 0; i < 10; ++i) {
    feed(c, positions);
    auto p = c.take_pulses(0);
    ASSERT_TRUE(p);
    issued.push_back(p->orders[0].pulse);
    ASSERT_TRUE(c.commit(done_of(p->orders[0].pulse.id), 1));
  }
  ASSERT_EQ(observed.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) {
    const std::uint64_t from = 64 * i;
    EXPECT_EQ(issued[i].id, i);
    EXPECT_EQ(issued[i].active_levels,
              models::active_mask(c.config().frequencies, from, from + 64));
    EXPECT_EQ(observed[i].active_levels, issued[i].active_levels);
    EXPECT_EQ(observed[i].update, issued[i].update);
  }
  EXPECT_EQ(issued[7].active_levels, 0b1111U) << "512 tokens end with the eighth pulse";
  EXPECT_EQ(issued[6].active_levels, 0b0111U);
}

TEST(conductor_state, runs_observers_before_the_counter_advances) {
  conductor_state c(settings_of(128), {}, {});
  std::vector<std::uint64_t> counts;
  c.observe([&](const pulse_view& v) {
    EXPECT_EQ(v.pulse.id, c.record().pulses);
    counts.push_back(c.record().tokens);
  });
  std::vector<std::uint64_t> positions{0};
  feed(c, positions);
  ASSERT_TRUE(c.take_pulses(0));
  ASSERT_TRUE(c.take_pulses(0));
  ASSERT_TRUE(c.commit(done_of(0), 1));
  ASSERT_TRUE(c.commit(done_of(1), 1));
  EXPECT_EQ(counts, (std::vector<std::uint64_t>{0, 64}));
  EXPECT_EQ(c.record().tokens, 128U);
}

TEST(conductor_state, commits_in_order_only) {
  conductor_state c(settings_of(640), {}, {});
  std::vector<std::uint64_t> positions{0};
  feed(c, positions);
  ASSERT_TRUE(c.take_pulses(0));
  ASSERT_TRUE(c.take_pulses(0));
  const auto early = c.commit(done_of(1), 1);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code(), errc::internal);
  EXPECT_TRUE(c.commit(done_of(0), 1));
}

TEST(conductor_state, issues_no_more_than_its_window) {
  conductor_state c(settings_of(64 * 100), {}, {});
  std::vector<std::uint64_t> positions{0};
  feed(c, positions);
  std::size_t issued = 0;
  while (c.take_pulses(0)) {
    ++issued;
  }
  EXPECT_EQ(issued, c.config().window);
  ASSERT_TRUE(c.commit(done_of(0), 1));
  EXPECT_TRUE(c.take_pulses(0)) << "a commit gives one credit back";
  EXPECT_FALSE(c.take_pulses(0));
}

TEST(conductor_state, issues_whole_batches_while_enough_is_in_flight) {
  auto s = settings_of(64 * 18);
  s.window = 12;
  s.batch = 4;
  conductor_state c(s, {}, {});
  std::vector<std::uint64_t> positions{0};
  std::vector<std::size_t> sizes;
  std::uint64_t next = 0;
  const auto take_all = [&] {
    sizes.clear();
    feed(c, positions);
    while (auto p = c.take_pulses(0)) {
      sizes.push_back(p->orders.size());
      for (const pulse_order& order : p->orders) {
        EXPECT_EQ(order.pulse.id, next++);
      }
    }
    return sizes;
  };
  EXPECT_EQ(take_all(), (std::vector<std::size_t>{4, 4, 4}));
  for (std::uint64_t id = 0; id < 3; ++id) {
    ASSERT_TRUE(c.commit(done_of(id), 1));
  }
  EXPECT_TRUE(take_all().empty())
      << "a batch needs four free places, and only three are free";
  ASSERT_TRUE(c.commit(done_of(3), 1));
  EXPECT_EQ(take_all(), (std::vector<std::size_t>{4}));
  for (std::uint64_t id = 4; id < 8; ++id) {
    ASSERT_TRUE(c.commit(done_of(id), 1));
  }
  EXPECT_EQ(take_all(), (std::vector<std::size_t>{2}))
      << "the budget ends with two more pulses";
}

TEST(conductor_state, ends_a_batch_where_a_snapshot_follows_or_chunks_are_missing) {
  auto s = settings_of(64 * 100, 128);
  s.prefetch = 5;
  s.window = 12;
  s.batch = 4;
  conductor_state c(s, {}, {});
  std::vector<std::uint64_t> positions{0};
  feed(c, positions);
  const auto first = c.take_pulses(0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->orders.size(), 2U);
  EXPECT_TRUE(first->snapshot_after);
  const auto second = c.take_pulses(0);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->orders.size(), 3U) << "five chunks have arrived";
  EXPECT_FALSE(second->snapshot_after)
      << "no snapshot may follow while a save is in flight";
  EXPECT_FALSE(c.take_pulses(0));
}

TEST(conductor_state, adopts_cursor_and_counts_together_at_commit) {
  conductor_state c(settings_of(640), {}, {});
  std::vector<std::uint64_t> positions{0};
  feed(c, positions);
  ASSERT_TRUE(c.take_pulses(0));
  ASSERT_TRUE(c.take_pulses(0));
  EXPECT_TRUE(c.boundary_now().marks.empty()) << "nothing is committed yet";
  ASSERT_TRUE(c.commit(done_of(0), 1));
  const boundary b = c.boundary_now();
  EXPECT_EQ(b.pulses, 1U);
  ASSERT_EQ(b.marks.size(), 1U);
  EXPECT_EQ(b.marks[0].after.position, 64U);
  const auto record = decode_conductor(b.conductor);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->tokens, 64U);
}

// A snapshot is due after 128 tokens, that is after the second pulse. A third pulse is in
// flight when the second is committed; the boundary must not contain it.
TEST(conductor_state, saves_the_boundary_of_the_pulse_it_named) {
  conductor_state c(settings_of(64 * 20, 128), {}, {});
  std::vector<std::uint64_t> positions{0};
  feed(c, positions);
  EXPECT_FALSE(c.take_pulses(0)->snapshot_after);
  EXPECT_TRUE(c.take_pulses(0)->snapshot_after);
  EXPECT_FALSE(c.take_pulses(0)->snapshot_after);
  ASSERT_TRUE(c.commit(done_of(0), 1));
  EXPECT_FALSE(c.take_boundary());
  ASSERT_TRUE(c.commit(done_of(1), 1));
  const auto b = c.take_boundary();
  ASSERT_TRUE(b);
  EXPECT_EQ(b->pulses, 2U);
  EXPECT_EQ(b->tokens, 128U);
  EXPECT_EQ(b->marks[0].after.position, 128U)
      << "the boundary must be that of the second pulse, because the third is still in "
         "flight";
  EXPECT_FALSE(c.take_boundary());
}

TEST(save_gate, lets_one_save_at_a_time_and_coalesces_the_rest) {
  save_gate gate(100);
  EXPECT_FALSE(gate.pass(0, 99));
  EXPECT_TRUE(gate.pass(99, 100));
  EXPECT_FALSE(gate.pass(100, 250)) << "no second save may begin while one is in flight";
  EXPECT_FALSE(gate.pass(250, 350));
  gate.save_ended();
  EXPECT_TRUE(gate.pass(350, 360)) << "requests that fall due during a save are one save";
  gate.save_ended();
  EXPECT_FALSE(gate.pass(360, 390));
}

TEST(save_gate, never_saves_by_itself_without_a_period) {
  save_gate gate(0);
  EXPECT_FALSE(gate.pass(0, 1'000'000));
}

TEST(conductor_state, ends_with_the_pulses_in_flight_when_it_drains) {
  conductor_state c(settings_of(64 * 100), {}, {});
  std::vector<std::uint64_t> positions{0};
  feed(c, positions);
  ASSERT_TRUE(c.take_pulses(0));
  ASSERT_TRUE(c.take_pulses(0));
  c.drain();
  EXPECT_FALSE(c.take_pulses(0));
  EXPECT_TRUE(c.take_orders().empty());
  EXPECT_FALSE(c.at_rest());
  ASSERT_TRUE(c.commit(done_of(0), 1));
  ASSERT_TRUE(c.commit(done_of(1), 1));
  EXPECT_TRUE(c.at_rest());
  EXPECT_FALSE(c.exhausted());
}

TEST(conductor_state, orders_nothing_ahead_without_prefetch) {
  auto s = settings_of(64 * 100);
  s.prefetch = 0;
  conductor_state c(s, {}, {});
  std::vector<std::uint64_t> positions{0};
  EXPECT_EQ(feed(c, positions), 1U);
  EXPECT_EQ(feed(c, positions), 0U);
  for (std::size_t i = 0; i < s.window; ++i) {
    ASSERT_TRUE(c.take_pulses(0));
    feed(c, positions);
  }
  EXPECT_EQ(positions[0], 64 * s.window) << "without a credit no chunk may be ordered";
}

// A boundary inside a chunk resets the context before the next chunk. A boundary at the
// first token of a chunk resets it before that chunk.
TEST(conductor_state, empties_the_context_before_the_chunk_that_follows_a_boundary) {
  auto s = settings_of(64 * 100);
  s.boundary = storage::boundary_policy::at_next_chunk;
  s.window = 8;
  conductor_state c(s, {}, {});
  const std::vector<std::vector<std::uint32_t>> boundaries = {{},   {10}, {}, {0},
                                                              {64}, {0},  {}};
  const auto orders = c.take_orders();
  for (std::size_t i = 0; i < boundaries.size(); ++i) {
    auto chunk = chunk_at(64 * i, 64);
    chunk.boundaries = boundaries[i];
    ASSERT_TRUE(c.arrived({orders[i], chunk}));
  }
  std::vector<bool> resets;
  for (std::size_t i = 0; i < boundaries.size(); ++i) {
    resets.push_back(!c.take_pulses(0)->orders[0].resets.empty());
  }
  EXPECT_EQ(resets, (std::vector<bool>{false, false, true, true, false, true, false}));
}

TEST(conductor_state, counts_bits_of_build_and_of_its_last_quarter) {
  conductor_state c(settings_of(64 * 8), {}, {});
  std::vector<std::uint64_t> positions{0};
  for (std::uint64_t i = 0; i < 8; ++i) {
    feed(c, positions);
    ASSERT_TRUE(c.take_pulses(0));
    pulse_done d = done_of(i);
    d.result.nats_q32 = (i < 6 ? 2 : 1) * (std::uint64_t{64} << 32);
    ASSERT_TRUE(c.commit(d, 1));
  }
  const double bit = 1 / 0.693147180559945;
  EXPECT_NEAR(c.accounts().build.bits_per_byte(), (6 * 2 + 2 * 1) / 8.0 * bit, 1e-12);
  EXPECT_NEAR(c.accounts().last_quarter.bits_per_byte(), bit, 1e-12);
  ASSERT_EQ(c.accounts().curve.size(), 4U);
  EXPECT_EQ(c.accounts().curve[3].tokens, 512U);
}

TEST(conductor_state, does_not_count_end_of_text_as_a_byte) {
  conductor_state c(settings_of(64), {}, {});
  const auto orders = c.take_orders();
  auto chunk = chunk_at(0, 64);
  chunk.tokens[5] = storage::end_of_text;
  chunk.lookahead = storage::end_of_text;
  ASSERT_TRUE(c.arrived({orders[0], chunk}));
  ASSERT_TRUE(c.take_pulses(0));
  ASSERT_TRUE(c.commit(done_of(0), 1));
  EXPECT_EQ(c.accounts().build.bytes, 62U);
}

TEST(conductor_state, continues_ids_updates_and_budgets_after_a_resume) {
  conductor_record record;
  record.pulses = 5;
  record.tokens = 320;
  record.total_updates = 10;
  record.used[0] = {320, 5};
  conductor_state c(settings_of(64 * 10), record, {});
  std::vector<std::uint64_t> positions{320};
  std::vector<std::uint64_t> ids;
  while (true) {
    feed(c, positions);
    const auto p = c.take_pulses(0);
    if (!p) {
      break;
    }
    ids.push_back(p->orders[0].pulse.id);
    EXPECT_EQ(p->orders[0].pulse.update, p->orders[0].pulse.id);
    EXPECT_EQ(p->orders[0].pulse.total_updates, 10U);
    ASSERT_TRUE(c.commit(done_of(p->orders[0].pulse.id), 1));
  }
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{5, 6, 7, 8, 9}));
  EXPECT_TRUE(c.at_rest());
}

// The budget is no multiple of the chunk size, and several saves fall due. A credit that
// is lost would stop the run before its end.
TEST(conductor_state, gives_all_credits_back_at_rest) {
  conductor_state c(settings_of(64 * 50 + 13, 200), {}, {});
  std::vector<std::uint64_t> positions{0};
  std::uint64_t next = 0;
  while (!c.at_rest()) {
    feed(c, positions);
    while (c.take_pulses(0)) {
    }
    ASSERT_TRUE(c.commit(done_of(next++), 1));
    while (c.take_boundary()) {
      c.gate().save_ended();
    }
  }
  EXPECT_EQ(c.in_flight(), 0U);
  EXPECT_EQ(c.record().tokens, 64U * 50 + 13);
  EXPECT_FALSE(c.gate().busy());
}

}  // namespace
}  // namespace weir::actors
