// SPDX-License-Identifier: Apache-2.0
/// @file
/// Accesses that ask for no order, order without accesses, urgency, hints, large numbers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tasks/ready_queues.hpp"
#include "tensors.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {
namespace {

std::unique_ptr<engine> engine_of(engine_options o, unsigned workers) {
  o.workers = workers;
  return or_throw(engine::create(o));
}

class Modes : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<engine> e = engine_of({}, GetParam());
  /// Appends its digit to the number at `p`.
  static auto digit(std::uint64_t* p, std::uint64_t d) {
    return [p, d](const task_context&) { *p = *p * 10 + d; };
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, Modes, testing::Values(1U, 2U, 4U));

TEST_P(Modes, NoneAsksForNoOrder) {
  const storage s = or_throw(e->allocate(8, "test"));
  const std::array<access, 1> writer{writes(bytes_of(s))};
  const std::array<access, 1> keeper{keeps(bytes_of(s))};
  for (int i = 0; i < 10; ++i) {
    static_cast<void>(or_throw(e->submit("w", writer, [](const task_context&) {})));
    static_cast<void>(or_throw(e->submit("k", keeper, [](const task_context&) {})));
  }
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(e->counters().lookups, 10U);
  EXPECT_EQ(e->counters().edges_war + e->counters().edges_raw, 0U);
}

TEST_P(Modes, NoneKeepsAStorageFromBeingReleased) {
  const storage s = or_throw(e->allocate(1 << 20, "test"));
  std::atomic<int> runs{0};
  auto* count = &runs;
  const std::array<access, 1> keeper{keeps(bytes_of(s))};
  for (int i = 0; i < 4; ++i) {
    static_cast<void>(or_throw(
        e->submit("k", keeper, [count, p = s.base + i * 64](const task_context&) {
          ::usleep(1000);
          p[0] = std::byte{1};
          count->fetch_add(1);
        })));
  }
  ASSERT_TRUE(e->release(s.id));
  EXPECT_EQ(runs.load(), 4);
}

TEST_P(Modes, NoneKeepsAStorageOfAReplayAsWell) {
  const storage s = or_throw(e->allocate(1 << 20, "test"));
  std::atomic<int> runs{0};
  auto* count = &runs;
  const std::array<access, 1> keeper{keeps(bytes_of(s))};
  ASSERT_TRUE(e->begin_capture());
  static_cast<void>(
      or_throw(e->submit("k", keeper, [count, p = s.base](const task_context&) {
        ::usleep(1000);
        p[100] = std::byte{1};
        count->fetch_add(1);
      })));
  const capture c = or_throw(e->end_capture());
  ASSERT_TRUE(e->wait_all());
  static_cast<void>(or_throw(e->replay(c)));
  ASSERT_TRUE(e->release(s.id));
  EXPECT_EQ(runs.load(), 2);
}

TEST_P(Modes, CommutingTasksRunOneAtATimeInOrder) {
  const storage s = or_throw(e->allocate(8, "test"));
  auto* value = reinterpret_cast<std::uint64_t*>(s.base);
  const std::array<access, 1> all{commutes(bytes_of(s))};
  std::uint64_t expected = 0;
  for (std::uint64_t i = 1; i <= 500; ++i) {
    static_cast<void>(or_throw(e->submit(
        "add", all, [value, i](const task_context&) { *value = *value * 31 + i; })));
    expected = expected * 31 + i;
  }
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(*value, expected);
}

TEST_P(Modes, AfterOrdersTasksThatShareNoByte) {
  std::uint64_t number = 0;
  for (int round = 0; round < 50; ++round) {
    number = 0;
    task_id last = or_throw(e->submit("one", {}, digit(&number, 1)));
    for (std::uint64_t d = 2; d <= 6; ++d) {
      const std::array<task_id, 1> before{last};
      submit_options with;
      with.after = before;
      last = or_throw(e->submit("next", {}, digit(&number, d), with));
    }
    ASSERT_TRUE(e->wait_all());
    ASSERT_EQ(number, 123456U);
  }
  const std::array<task_id, 1> unknown{e->counters().submitted + 1};
  submit_options with;
  with.after = unknown;
  EXPECT_EQ(e->submit("bad", {}, digit(&number, 0), with).error().code(),
            errc::invalid_argument);
}

TEST_P(Modes, AfterBringsNoFailureAlong) {
  const task_id bad =
      or_throw(e->submit("bad", {}, [](const task_context&) -> result<void> {
        return error(errc::io, "x");
      }));
  const std::array<task_id, 1> before{bad};
  submit_options with;
  with.after = before;
  const task_id next = or_throw(e->submit(
      "next", {}, [](const task_context&) {}, with));
  EXPECT_TRUE(e->wait(next));
  EXPECT_FALSE(e->wait_all());
}

TEST_P(Modes, AfterHoldsInsideACapture) {
  std::uint64_t number = 0;
  ASSERT_TRUE(e->begin_capture());
  task_id last = or_throw(e->submit("one", {}, digit(&number, 1)));
  for (std::uint64_t d = 2; d <= 4; ++d) {
    const std::array<task_id, 1> before{last};
    submit_options with;
    with.after = before;
    last = or_throw(e->submit("next", {}, digit(&number, d), with));
  }
  const capture c = or_throw(e->end_capture());
  ASSERT_TRUE(e->wait_all());
  for (int i = 0; i < 20; ++i) {
    number = 0;
    static_cast<void>(or_throw(e->replay(c)));
    ASSERT_TRUE(e->wait_all());
    ASSERT_EQ(number, 1234U);
  }
}

TEST_P(Modes, EveryTaskRunsWhateverItsHints) {
  const storage s = or_throw(e->allocate(64, "test"));
  std::atomic<int> runs{0};
  auto* count = &runs;
  for (int i = 0; i < 3000; ++i) {
    const auto part = or_throw(bytes_of(s).slice(0, i % 16 * 4, i % 16 * 4 + 4));
    const std::array<access, 1> all{updates(part)};
    submit_options with;
    with.urgent = i % 3 == 0;
    with.worker =
        i % 2 == 0 ? submit_options::anywhere : static_cast<std::uint8_t>(i % 7);
    static_cast<void>(or_throw(e->submit(
        "part", all, [count](const task_context&) { count->fetch_add(1); }, with)));
    if (i % 100 == 0) {
      e->idle(30'000);
    }
  }
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(runs.load(), 3000);
}

/// So that a chain of layers may keep its halves on one core each and is never held up.
TEST(UrgentTasks, GoToTheWorkerTheyWereSentToAndToOthersBeforeWhatIsNotUrgent) {
  const auto filled = [](std::array<task, 4>& t) {
    auto q = std::make_unique<ready_queues>(2, 2, 8);
    t[0].urgent = t[1].urgent = true;
    t[1].worker = t[2].worker = 1;
    for (const std::size_t i :
         {3U, 2U, 1U, 0U}) {  // plain, sent, sent and urgent, urgent
      q->push(0, t[i]);
    }
    return q;
  };
  for (const unsigned w : {0U, 1U}) {
    std::array<task, 4> t;
    const auto q = filled(t);
    const std::array<std::size_t, 4> order = w == 0
                                                 ? std::array<std::size_t, 4>{0, 1, 3, 2}
                                                 : std::array<std::size_t, 4>{1, 0, 2, 3};
    for (const std::size_t i : order) {
      EXPECT_FALSE(q->empty());
      EXPECT_EQ(q->pop(w), &t[i]) << "worker " << w;
    }
    EXPECT_TRUE(q->empty());
    EXPECT_EQ(q->pop(w), nullptr);
  }
}

TEST(UrgentTasks, AreTakenBeforeOthers) {
  auto e = engine_of({}, 1);
  std::uint64_t number = 0;
  const auto digit = [&number](std::uint64_t d) {
    return [p = &number, d](const task_context&) { *p = *p * 10 + d; };
  };
  static_cast<void>(or_throw(e->submit("one", {}, digit(1))));
  static_cast<void>(or_throw(e->submit("two", {}, digit(2))));
  submit_options with;
  with.urgent = true;
  static_cast<void>(or_throw(e->submit("urgent", {}, digit(3), with)));
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(number, 312U);
}

TEST(TaskIds, PassTwoToThe32) {
  engine_options o;
  o.window = 8;
  o.first_task = (task_id{1} << 32) - 100;
  for (const unsigned workers : {1U, 2U}) {
    auto e = engine_of(o, workers);
    const storage s = or_throw(e->allocate(8, "test"));
    auto* value = reinterpret_cast<std::uint64_t*>(s.base);
    const std::array<access, 1> all{updates(bytes_of(s))};
    std::uint64_t expected = 0;
    task_id last = 0;
    for (std::uint64_t i = 1; i <= 300; ++i) {
      last = or_throw(e->submit(
          "step", all, [value, i](const task_context&) { *value = *value * 31 + i; }));
      expected = expected * 31 + i;
    }
    EXPECT_EQ(last, (task_id{1} << 32) + 199);
    ASSERT_TRUE(e->wait(last));
    EXPECT_EQ(*value, expected);
    ASSERT_TRUE(e->wait_all());
  }
}

TEST(Accesses, BeyondTheirRoomStallTheSubmissionOrAreRefused) {
  engine_options o;
  o.accesses = 512;
  for (const unsigned workers : {1U, 2U}) {
    auto e = engine_of(o, workers);
    const storage s = or_throw(e->allocate(4096, "test"));
    std::vector<access> many;
    for (std::int64_t i = 0; i < 200; ++i) {
      many.push_back(writes(or_throw(bytes_of(s).slice(0, i * 4, i * 4 + 4))));
    }
    std::atomic<int> runs{0};
    auto* count = &runs;
    for (int i = 0; i < 50; ++i) {
      static_cast<void>(or_throw(e->submit(
          "many", many, [count](const task_context&) { count->fetch_add(1); })));
    }
    ASSERT_TRUE(e->wait_all());
    EXPECT_EQ(runs.load(), 50);
    many.resize(513, many[0]);
    EXPECT_EQ(e->submit("all", many, [](const task_context&) {}).error().code(),
              errc::out_of_range);
  }
}

/// A kernel that goes on for ever, were it not for the one who notices.
TEST(Watchdog, SaysWhichKernelNothingComesOfAndWhoWaits) {
  for (const unsigned workers : {1U, 2U}) {
    std::atomic<bool> noticed{false};
    std::atomic<bool>* flag = &noticed;
    std::string text;
    engine_options o;
    o.watchdog_ns = 20'000'000;
    o.on_stall = [&text, flag](const std::string& said) {
      // A busy machine may let nothing run for so long that this is said before.
      if (!flag->load() && said.find("runs task 2 \"endless\"") != std::string::npos &&
          said.find("the submitter waits") != std::string::npos) {
        text = said;
        flag->store(true);
      }
    };
    auto e = engine_of(o, workers);
    ::usleep(60'000);  // nothing in flight: nothing to say
    EXPECT_FALSE(noticed.load());
    const storage s = or_throw(e->allocate(8, "test"));
    const std::array<access, 1> all{updates(bytes_of(s))};
    static_cast<void>(or_throw(e->submit("first", all, [](const task_context&) {})));
    static_cast<void>(or_throw(e->submit("endless", all, [flag](const task_context&) {
      while (!flag->load()) {
        ::usleep(500);
      }
    })));
    static_cast<void>(or_throw(e->submit("behind", all, [](const task_context&) {})));
    ASSERT_TRUE(e->wait_all());
    EXPECT_NE(text.find("no task has ended for"), std::string::npos) << text;
    EXPECT_NE(text.find("the submitter waits for task 3 \"behind\"; 2 tasks have not "
                        "ended"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace weir::runtime
