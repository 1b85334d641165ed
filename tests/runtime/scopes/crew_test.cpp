// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests threads that join and leave an engine, tasks that start together, several
/// submitters, and commuting tasks in any order.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "random_views.hpp"
#include "tensors.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {
namespace {

std::unique_ptr<engine> crewed_engine(unsigned workers, unsigned max_workers,
                                      std::uint32_t window = 256) {
  engine_options o;
  o.workers = workers;
  o.max_workers = max_workers;
  o.window = window;
  return or_throw(engine::create(o));
}

/// Runs the hash chain `cells[i] = 31 * cells[i] + k` over all cells. Any two steps in
/// the wrong order change the result.
std::vector<std::uint64_t> run_chains(engine& e, std::uint64_t steps) {
  constexpr std::int64_t cells = 8;
  const storage s = or_throw(e.allocate(cells * 8, "chains"));
  auto* values = reinterpret_cast<std::uint64_t*>(s.base);
  for (std::uint64_t k = 1; k <= steps; ++k) {
    for (std::int64_t i = 0; i < cells; ++i) {
      const std::array<access, 1> cell{
          updates(or_throw(bytes_of(s).slice(0, i * 8, i * 8 + 8)))};
      static_cast<void>(or_throw(e.submit("step", cell, [values, i, k](const auto&) {
        values[i] = values[i] * 31 + k;
      })));
    }
  }
  or_throw(e.wait_all());
  std::vector<std::uint64_t> out(values, values + cells);
  or_throw(e.release(s.id));
  return out;
}

/// Returns the result of run_chains, computed serially.
std::vector<std::uint64_t> expected_chains(std::uint64_t steps) {
  std::uint64_t v = 0;
  for (std::uint64_t k = 1; k <= steps; ++k) {
    v = v * 31 + k;
  }
  return std::vector<std::uint64_t>(8, v);
}

// Two threads join and leave an engine repeatedly while it runs hash chains. A task that
// is lost or runs twice when its thread leaves changes the hash or blocks the test.
TEST(Crew, JoinsAndLeavesWhileTasksRun) {
  for (const unsigned own : {1U, 2U}) {
    auto e = crewed_engine(own, own + 2);
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> visits{0};
    const auto visitor = [&] {
      while (!over.load()) {
        std::stop_source leave;
        std::jthread clock([&leave] {
          ::usleep(300);
          leave.request_stop();
        });
        ASSERT_TRUE(e->serve(leave.get_token()));
        visits.fetch_add(1);
      }
    };
    std::thread first(visitor);
    std::thread second(visitor);
    for (int round = 0; round < 40 || visits.load() < 10; ++round) {
      ASSERT_EQ(run_chains(*e, 200), expected_chains(200));
    }
    over.store(true);
    first.join();
    second.join();
    EXPECT_EQ(run_chains(*e, 50), expected_chains(50))
        << "the engine still works after the crew has left";
  }
}

// The submitter does not wait, so with a single worker only the joined thread can run the
// task.
TEST(Crew, RunsWhatTheSubmitterCannot) {
  auto e = crewed_engine(1, 2);
  std::atomic<std::int64_t> by{-1};
  std::stop_source leave;
  std::jthread guest([&] { ASSERT_TRUE(e->serve(leave.get_token())); });
  static_cast<void>(or_throw(
      e->submit("one", {}, [&by](const task_context& c) { by.store(c.worker); })));
  while (by.load() < 0) {  // this thread runs no tasks
    ::usleep(50);
  }
  EXPECT_EQ(by.load(), 1);
  EXPECT_EQ(e->workers(), 2U);
  leave.request_stop();
}

TEST(Crew, HasNoMorePlacesThanItWasGiven) {
  auto e = crewed_engine(2, 0);
  EXPECT_EQ(e->serve({}).error().code(), errc::out_of_range);
  engine_options o;
  o.workers = 3;
  o.max_workers = 2;
  EXPECT_EQ(engine::create(o).error().code(), errc::invalid_argument);
}

// Destroys the engine while two threads serve it. Both calls of `serve` must return.
TEST(Crew, LeavesWhenTheEngineIsDestroyed) {
  auto e = crewed_engine(1, 3);
  std::atomic<int> in{0};
  std::atomic<int> left{0};
  std::vector<std::jthread> guests;
  for (int i = 0; i < 2; ++i) {
    guests.emplace_back([&left, raw = e.get()] {
      ASSERT_TRUE(raw->serve({}));
      left.fetch_add(1);
    });
    static_cast<void>(or_throw(e->submit("both", {}, [&in](const task_context&) {
      in.fetch_add(1);
      while (in.load() < 2) {  // until both threads run a task
        ::usleep(50);
      }
    })));
  }
  while (in.load() < 2) {
    ::usleep(50);
  }
  e.reset();  // waits for both threads
  guests.clear();
  EXPECT_EQ(left.load(), 2);
}

TEST(Batch, StartsTogetherAndAtTheLatestWhenSomebodyWaits) {
  for (const unsigned workers : {1U, 2U, 4U}) {
    auto e = crewed_engine(workers, 0, 16);
    std::atomic<int> runs{0};
    const auto count = [&runs](const task_context&) { runs.fetch_add(1); };
    e->begin_batch();
    for (int i = 0; i < 8; ++i) {
      static_cast<void>(or_throw(e->submit("kept", {}, count)));
    }
    ::usleep(2000);
    if (workers > 1) {
      EXPECT_EQ(runs.load(), 0) << "no task may start before the batch has ended";
    }
    e->end_batch();
    ASSERT_TRUE(e->wait_all());
    EXPECT_EQ(runs.load(), 8);
    e->begin_batch();  // longer than the window, with waits inside
    for (int i = 0; i < 100; ++i) {
      static_cast<void>(or_throw(e->submit("many", {}, count)));
    }
    ASSERT_TRUE(e->wait_all());
    EXPECT_EQ(runs.load(), 108);
    e->end_batch();
    EXPECT_EQ(run_chains(*e, 20), expected_chains(20));
  }
}

TEST(Submitters, HaveAnEngineEach) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&right, i] {
      auto e = crewed_engine(i == 0 ? 1 : 2, 0);
      right.fetch_add(run_chains(*e, 500) == expected_chains(500) ? 1 : 0);
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_EQ(right.load(), 3);
}

/// An engine for different numbers of workers, without room for guests.
class AnyOrder : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<engine> e = crewed_engine(GetParam(), 0);
};
INSTANTIATE_TEST_SUITE_P(Workers, AnyOrder, testing::Values(1U, 2U, 4U));

TEST_P(AnyOrder, RunsOneAtATimeBetweenWhatCameBeforeAndAfter) {
  const storage s = or_throw(e->allocate(8, "test"));
  auto* value = reinterpret_cast<std::uint64_t*>(s.base);
  std::atomic<int> inside{0};
  std::atomic<int> together{0};
  std::uint64_t seen = 0;
  const std::array<access, 1> set{writes(bytes_of(s))};
  const std::array<access, 1> any{commutes(bytes_of(s), commute_order::any)};
  const std::array<access, 1> get{reads(bytes_of(s))};
  for (std::uint64_t round = 1; round <= 20; ++round) {
    static_cast<void>(
        or_throw(e->submit("set", set, [value, round](const auto&) { *value = round; })));
    for (int i = 0; i < 50; ++i) {
      static_cast<void>(or_throw(
          e->submit("add", any, [value, &inside, &together](const task_context&) {
            together.fetch_add(inside.fetch_add(1) != 0 ? 1 : 0);
            *value += 3;
            inside.fetch_sub(1);
          })));
    }
    static_cast<void>(or_throw(e->submit(
        "get", get, [value, &seen](const auto&) { seen = seen * 7 + *value; })));
  }
  ASSERT_TRUE(e->wait_all());
  std::uint64_t expected = 0;
  for (std::uint64_t round = 1; round <= 20; ++round) {
    expected = expected * 7 + round + 150;
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(together.load(), 0);
}

TEST_P(AnyOrder, LetsALaterTaskGoFirst) {
  if (GetParam() == 1) {
    GTEST_SKIP() << "a task that waits for a later one needs a worker of its own";
  }
  const storage s = or_throw(e->allocate(16, "test"));
  const tensor sum = or_throw(bytes_of(s).slice(0, 0, 8));
  const tensor late = or_throw(bytes_of(s).slice(0, 8, 16));
  std::atomic<bool> second_ran{false};
  const std::array<access, 1> slow{writes(late)};
  const std::array<access, 2> first{reads(late), commutes(sum, commute_order::any)};
  const std::array<access, 1> second{commutes(sum, commute_order::any)};
  static_cast<void>(or_throw(e->submit("slow", slow, [&second_ran](const auto&) {
    while (!second_ran.load()) {
      ::usleep(50);
    }
  })));
  static_cast<void>(or_throw(e->submit("first", first, [](const auto&) {})));
  static_cast<void>(or_throw(e->submit(
      "second", second, [&second_ran](const auto&) { second_ran.store(true); })));
  EXPECT_TRUE(e->wait_all());
}

/// Adds, reads and resets sums at random, over regions that overlap in part.
TEST_P(AnyOrder, KeepsEverySumThatIsRead) {
  test::dice d(20260203);
  constexpr std::int64_t cells = 6;
  for (int round = 0; round < 150; ++round) {
    const storage s = or_throw(e->allocate(cells * 8, "test"));
    auto* values = reinterpret_cast<std::uint64_t*>(s.base);
    std::vector<std::uint64_t> model(cells);
    std::vector<std::uint64_t> seen(80);
    std::vector<std::uint64_t> expected(80);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const std::int64_t from = d.in(0, cells - 1);
      const std::int64_t to = d.one_in(2) ? from + 1 : d.in(from + 1, cells);
      const tensor part = or_throw(bytes_of(s).slice(0, from * 8, to * 8));
      const auto kind = d.in(0, 5);
      const auto value = static_cast<std::uint64_t>(d.in(1, 1000));
      const std::array<access, 1> all{
          kind == 0   ? reads(part)
          : kind == 1 ? writes(part)
                      : commutes(part, kind == 2 ? commute_order::submission
                                                 : commute_order::any)};
      std::uint64_t* const out = &seen[i];
      static_cast<void>(or_throw(e->submit("part", all, [=](const task_context&) {
        for (std::int64_t c = from; c < to; ++c) {
          if (kind == 0) {
            *out = *out * 31 + values[c];
          } else {
            values[c] = kind == 1 ? value : values[c] + value;
          }
        }
      })));
      for (auto c = static_cast<std::size_t>(from); c < static_cast<std::size_t>(to);
           ++c) {
        if (kind == 0) {
          expected[i] = expected[i] * 31 + model[c];
        } else {
          model[c] = kind == 1 ? value : model[c] + value;
        }
      }
    }
    ASSERT_TRUE(e->wait_all());
    ASSERT_EQ(seen, expected) << "round " << round;
    ASSERT_EQ(std::vector<std::uint64_t>(values, values + cells), model);
    ASSERT_TRUE(e->release(s.id));
  }
}

TEST_P(AnyOrder, GoesBySubmissionInsideReplays) {
  const storage s = or_throw(e->allocate(8, "test"));
  auto* value = reinterpret_cast<std::uint64_t*>(s.base);
  const std::array<access, 1> any{commutes(bytes_of(s), commute_order::any)};
  const auto digit = [value](std::uint64_t d) {
    return [value, d](const task_context&) { *value = *value * 10 + d; };
  };
  ASSERT_TRUE(e->begin_capture());
  for (std::uint64_t d = 1; d <= 5; ++d) {
    static_cast<void>(or_throw(e->submit("digit", any, digit(d))));
  }
  const capture c = or_throw(e->end_capture());
  ASSERT_TRUE(e->wait_all());
  *value = 0;
  static_cast<void>(or_throw(e->replay(c)));
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(*value, 12345U);
}

}  // namespace
}  // namespace weir::runtime
