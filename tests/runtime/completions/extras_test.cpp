// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests of functions of an engine that transports need: pollers that are added and
/// removed, kernels that are called although their tasks were poisoned, and `accepts`.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <optional>

#include "tensors.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {
namespace {

std::unique_ptr<engine> engine_of_eight(unsigned workers) {
  engine_options o;
  o.workers = workers;
  o.window = 8;
  return or_throw(engine::create(o));
}

class EngineExtras : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Workers, EngineExtras, testing::Values(1, 3));

TEST_P(EngineExtras, PollersComeAndGo) {
  const auto e = engine_of_eight(GetParam());
  std::optional<completion> open;
  std::atomic<bool> is_open{false};
  std::atomic<int> others{0};
  const auto postpone = [&] {
    or_throw(e->submit("receive", {}, [&](const task_context& context) {
      open = context.later();
      is_open = true;
    }));
  };
  const auto ends = [&] {
    return is_open.exchange(false) && complete(*open).has_value();
  };
  const auto counts = [&] {
    ++others;
    return false;
  };
  const std::uint64_t second = e->add_poller(counts);
  const std::uint64_t first = e->add_poller(ends);
  EXPECT_NE(first, second);
  postpone();
  ASSERT_TRUE(e->wait_all());
  EXPECT_GE(others, 1);
  e->remove_poller(second);
  others = 0;
  postpone();
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(others, 0);
  e->remove_poller(first);
  postpone();
  while (!e->run_one() && !is_open) {
  }
  ASSERT_TRUE(complete(*open));
  ASSERT_TRUE(e->wait_all());
}

/// Counts of the calls of kernels.
struct poison_seen {
  std::atomic<int> calls{0};
  std::atomic<int> poisoned{0};
  std::atomic<int> later{0};
};

TEST_P(EngineExtras, AKernelMayBeCalledThoughItsTaskWasPoisoned) {
  const auto e = engine_of_eight(GetParam());
  const storage s = or_throw(e->allocate(64, "test"));
  poison_seen seen;
  const std::array<access, 1> read{reads(bytes_of(s))};
  const std::array<access, 1> update{updates(bytes_of(s))};
  bool fails = true;
  submit_options with;
  with.though_poisoned = true;
  or_throw(e->begin_capture());
  or_throw(e->submit("make", update, [&fails](const task_context&) -> result<void> {
    return fails ? result<void>(error(errc::io, "planted")) : result<void>();
  }));
  or_throw(e->submit(
      "send", read,
      [&seen](const task_context& context) {
        ++seen.calls;
        seen.poisoned += context.poisoned() ? 1 : 0;
        const completion c = context.later();
        ++seen.later;
        or_throw(complete(c));
      },
      with));
  or_throw(e->submit("use", update, [&seen](const task_context&) { seen.calls += 100; }));
  const capture all = or_throw(e->end_capture());
  EXPECT_FALSE(e->wait_all());
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.poisoned, 1);
  EXPECT_EQ(seen.later, 1);
  EXPECT_EQ(e->counters().poisoned, 2U);
  or_throw(e->replay(all));
  EXPECT_FALSE(e->wait_all());
  EXPECT_EQ(seen.poisoned, 2);
  fails = false;
  or_throw(e->replay(all));
  EXPECT_TRUE(e->wait_all());
  EXPECT_EQ(seen.calls, 103);
  EXPECT_EQ(seen.poisoned, 2);
}

TEST_P(EngineExtras, APoisonedTaskWaitsForItsGroup) {
  const auto e = engine_of_eight(GetParam());
  const storage bad = or_throw(e->allocate(64, "test"));
  const storage shared = or_throw(e->allocate(64, "test"));
  std::optional<completion> open;
  std::atomic<bool> is_open{false};
  std::atomic<int> calls{0};
  const std::array<access, 1> update{updates(bytes_of(bad))};
  or_throw(e->submit("fail", update, [](const task_context&) -> result<void> {
    return error(errc::io, "planted");
  }));
  const std::array<access, 1> alone{commutes(bytes_of(shared), commute_order::any)};
  or_throw(e->submit("first", alone, [&](const task_context& context) {
    open = context.later();
    is_open = true;
  }));
  while (!is_open) {
    e->run_one();
  }
  const std::array<access, 2> both{reads(bytes_of(bad)), alone[0]};
  submit_options with;
  with.though_poisoned = true;
  or_throw(e->submit(
      "tell", both,
      [&calls](const task_context& context) {
        ++calls;
        or_throw(complete(context.later()));
      },
      with));
  for (int i = 0; i < 100; ++i) {
    e->run_one();
  }
  EXPECT_EQ(calls, 0);
  or_throw(complete(*open));
  EXPECT_FALSE(e->wait_all());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(e->counters().poisoned, 1U);
  or_throw(e->submit("next", alone, [&calls](const task_context&) { calls += 100; }));
  EXPECT_TRUE(e->wait_all());
  EXPECT_EQ(calls, 101);
}

TEST_P(EngineExtras, SaysIfASubmissionWouldWait) {
  const auto e = engine_of_eight(GetParam());
  const storage s = or_throw(e->allocate(64, "test"));
  const std::array<access, 1> update{updates(bytes_of(s))};
  std::optional<completion> open;
  std::atomic<bool> is_open{false};
  or_throw(e->submit("first", update, [&](const task_context& context) {
    open = context.later();
    is_open = true;
  }));
  while (!is_open) {
    e->run_one();
  }
  for (int i = 1; i < 8; ++i) {
    ASSERT_TRUE(e->accepts(1));
    or_throw(e->submit("next", update, [](const task_context&) {}));
  }
  EXPECT_FALSE(e->accepts(0));
  or_throw(complete(*open));
  EXPECT_TRUE(e->wait_all());
  EXPECT_TRUE(e->accepts(16));
  EXPECT_FALSE(e->accepts(1 << 20));
}

}  // namespace
}  // namespace weir::runtime
