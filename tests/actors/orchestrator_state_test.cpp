// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the logic of the orchestrator: the queue of work, stalls and pauses.
#include "orchestrator/orchestrator_state.hpp"

#include <gtest/gtest.h>

#include "actors/fake_model.hpp"

namespace weir::actors {
namespace {

std::int64_t fake_now = 0;
/// A clock that a test sets.
std::int64_t fake_clock() {
  return fake_now;
}

/// Returns an order without tokens.
std::shared_ptr<const pulse_order> order_of(std::uint64_t id, bool more = true) {
  pulse_order o;
  o.pulse.id = id;
  o.more_follow = more;
  return std::make_shared<const pulse_order>(std::move(o));
}

/// An orchestrator with a fake model and a fake clock.
struct orchestrator_states : testing::Test {
  orchestrator_states() { fake_now = 1000; }
  std::shared_ptr<test::fake_log> log = std::make_shared<test::fake_log>();
  orchestrator_state state{std::make_unique<test::fake_model>(log), &fake_clock};

  result<pulse_done> next_pulse() {
    auto f = state.work(1'000'000);
    return f ? std::get<result<pulse_done>>(*f)
             : result<pulse_done>(error(errc::internal, "none"));
  }
};

TEST_F(orchestrator_states, answers_in_the_order_of_submission) {
  state.submit(order_of(0));
  state.snapshot(1);
  state.submit(order_of(1));
  const auto first = next_pulse();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->pulse_id, 0U);
  auto second = state.work(1'000'000);
  ASSERT_TRUE(second);
  const auto& snapshot = std::get<result<std::shared_ptr<const state_snapshot>>>(*second);
  ASSERT_TRUE(snapshot);
  EXPECT_EQ((*snapshot)->pulses, 1U);
  const auto third = next_pulse();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->pulse_id, 1U);
  EXPECT_FALSE(state.busy());
}

TEST_F(orchestrator_states, snapshot_holds_the_state_between_two_pulses) {
  state.submit(order_of(0));
  state.snapshot(1);
  state.submit(order_of(1));
  state.snapshot(2);
  std::vector<byte_vector> snapshots;
  while (auto f = state.work(1'000'000)) {
    if (auto* snapshot =
            std::get_if<result<std::shared_ptr<const state_snapshot>>>(&*f)) {
      snapshots.push_back((**snapshot)->bytes);
    }
  }
  ASSERT_EQ(snapshots.size(), 2U);
  EXPECT_NE(snapshots[0], snapshots[1]);
}

TEST_F(orchestrator_states, uses_the_memory_of_a_snapshot_again) {
  const state_snapshot* before = nullptr;
  for (int i = 0; i < 3; ++i) {
    state.snapshot(0);
    auto f = state.work(1'000'000);
    const auto snapshot = *std::get<result<std::shared_ptr<const state_snapshot>>>(*f);
    EXPECT_TRUE(before == nullptr || before == snapshot.get());
    before = snapshot.get();
  }
}

TEST_F(orchestrator_states, hands_on_the_failure_of_a_kernel_with_its_cause) {
  log->fail_at = 0;
  state.submit(order_of(0));
  const auto r = next_pulse();
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::kernel_failed);
  EXPECT_EQ(r.error().text(), "pulse 0 failed");
  ASSERT_NE(r.error().cause(), nullptr);
  ASSERT_NE(r.error().cause()->cause(), nullptr);
  EXPECT_EQ(r.error().cause()->cause()->code(), errc::out_of_range);
}

TEST_F(orchestrator_states,
       counts_rest_as_stall_only_after_ten_pulses_and_where_more_follow) {
  for (std::uint64_t id = 0; id < 10; ++id) {
    state.submit(order_of(id));
    ASSERT_TRUE(next_pulse());
    fake_now += 50;
  }
  EXPECT_EQ(state.stall_ns(), 0);
  state.submit(order_of(10));
  EXPECT_EQ(state.stall_ns(), 50) << "the engine was idle for 50 ns";
  state.submit(order_of(11, false));
  ASSERT_TRUE(next_pulse());
  ASSERT_TRUE(next_pulse());
  fake_now += 1000;
  state.submit(order_of(12));
  EXPECT_EQ(state.stall_ns(), 50) << "idle time counts only if another pulse follows";
}

TEST_F(orchestrator_states, gives_up_after_its_patience) {
  log->steps = 1'000'000'000;
  state.submit(order_of(0));
  EXPECT_FALSE(state.work(0));
  EXPECT_TRUE(state.busy());
}

TEST(pause_meter, takes_the_usual_interval_off) {
  pause_meter m;
  std::int64_t now = 1;
  for (int i = 0; i < 20; ++i) {
    now += 1'000'000;
    m.ended(now, false);
  }
  now += 3'000'000;
  m.ended(now, true);
  EXPECT_DOUBLE_EQ(m.pause_ms(), 2.0);
}

TEST(pause_meter, forgets_pauses_of_long_ago) {
  pause_meter m;
  std::int64_t now = 1;
  m.ended(now, false);
  m.ended(now += 1'000'000, false);
  for (int i = 0; i < 9000; ++i) {
    m.ended(now += i < 5000 ? 2'000'000 : 4'000'000, true);
  }
  EXPECT_DOUBLE_EQ(m.pause_ms(), 3.0);
}

}  // namespace
}  // namespace weir::actors
