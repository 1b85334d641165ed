// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests accesses without order, order without accesses, urgent tasks, hints, and large
/// ids and counts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
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

/// An engine for different numbers of workers.
class Modes : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<engine> e = engine_of({}, GetParam());
  /// Returns a kernel that appends the digit `d` to the number at `p`.
  static auto digit(std::uint64_t* p, std::uint64_t d) {
    return [p, d](const task_context&) { *p = *p * 10 + d; };
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, Modes, testing::Values(1U, 2U, 4U));

// Alternates writers with tasks whose access asks for no order. Lookups and edges must
// come from the writers alone.
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

// Accesses without order still keep the memory. Releasing must wait for the four slow
// tasks, which would otherwise write freed memory.
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

// The result depends on the order of the tasks, and on the absence of overlap between
// them.
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

// `after` orders tasks that share no data, so a failure of the first must not poison the
// second.
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

/// A chain of layers can then keep each of its halves on one core, and a worker that is
/// busy never delays it.
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
      EXPECT_EQ(q->pop(w).first, &t[i]) << "worker " << w;
    }
    EXPECT_TRUE(q->empty());
    EXPECT_EQ(q->pop(w).first, nullptr);
  }
}

/// Looking into another worker's queue costs its owner a cache line, so half of the tasks
/// are taken at once.
TEST(ReadyTasks, AreTakenFromAnotherByHalves) {
  for (std::size_t count = 1; count <= 64; ++count) {
    std::vector<task> t(count);
    ready_queues q(2, 2, 64);
    for (task& one : t) {
      q.push(0, one);
    }
    const std::size_t half = std::min<std::size_t>((count + 1) / 2, 16);
    const ready_queues::taken some = q.pop(1);
    EXPECT_EQ(some.first, t.data());
    EXPECT_EQ(some.moved, half - 1) << count;
    if (half < count) {
      EXPECT_EQ(q.pop(0).first, &t[half])
          << "half of the tasks have moved to the other queue";
    }
    for (std::size_t i = 1; i < half; ++i) {
      EXPECT_EQ(q.pop(1).first, &t[i]) << "the oldest task comes first";
    }
    std::size_t left = count - std::min(half + 1, count);
    while (q.pop(left % 2 == 0 ? 1 : 0).first != nullptr) {
      --left;
    }
    EXPECT_EQ(left, 0U) << count;
    EXPECT_TRUE(q.empty());
  }
}

TEST(ReadyTasks, AreLeftToOthersWhileTheyAreFew) {
  using enum ready_queues::scope;
  struct rule {
    ready_queues::scope range;
    unsigned owner;
    std::size_t least;
  };
  constexpr std::size_t never = 65;
  for (const rule& r :
       {rule{any, 0, 1}, rule{any, 1, 1}, rule{any, 2, 1}, rule{unless_few, 0, 16},
        rule{unless_few, 2, 1}, rule{own, 0, never}, rule{own, 1, 1}, rule{own, 2, never},
        rule{surplus, 0, 64}, rule{surplus, 1, 1}, rule{surplus, 2, 64}}) {
    std::vector<task> t(never);
    ready_queues q(3, 3, 128);
    std::size_t pushed = 0;
    while (pushed < never && q.pop(1, r.range).first == nullptr) {
      EXPECT_EQ(q.empty(r.owner), pushed == 0);
      q.push(r.owner, t.at(pushed++));
    }
    EXPECT_EQ(pushed, r.least) << "owner " << r.owner;
  }
}

TEST(ReadyTasks, ThatWereSentAreTakenByAWorkerThatLeavesTheQueuesOfOthersAlone) {
  using enum ready_queues::scope;
  std::array<task, 4> t;
  ready_queues q(3, 3, 64);
  t[0].worker = 1;
  t[1].urgent = true;
  q.push(0, t[0]);
  q.push(0, t[1]);
  q.send(2, t[2]);
  q.push(0, t[3]);
  EXPECT_EQ(q.pop(1, own).first, &t[1]);
  EXPECT_EQ(q.pop(1, surplus).first, t.data());
  EXPECT_EQ(q.pop(1, surplus).first, nullptr);
  EXPECT_EQ(q.pop(2, own).first, &t[2]);
  EXPECT_EQ(q.pop(2, own).first, nullptr);
  EXPECT_EQ(q.pop(2, any).first, &t[3]);
  EXPECT_TRUE(q.empty());
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

TEST(Accesses, BeyondTheCapacityStallTheSubmissionOrAreRefused) {
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

/// An engine with a watchdog. Kernels called "endless" run until the watchdog has
/// reported a text that contains all of `awaited`.
class Watchdog : public testing::TestWithParam<unsigned> {
 protected:
  void watch(std::vector<std::string> awaited) {
    awaited_ = std::move(awaited);
    engine_options o;
    o.watchdog_ns = 20'000'000;
    o.on_stall = [this](const std::string& said) {
      const auto holds = [&](const std::string& part) {
        return said.find(part) != std::string::npos;
      };
      // On a busy machine, the watchdog may report before the awaited state is reached.
      if (!noticed_ && std::all_of(awaited_.begin(), awaited_.end(), holds)) {
        text_ = said;
        noticed_ = true;
      }
    };
    e_ = engine_of(o, GetParam());
    store_ = or_throw(e_->allocate(8, "test"));
  }
  /// Submits a task that runs behind all others, or one that waits for no other.
  void submit(const char* name, bool ordered = true, bool urgent = false) {
    const std::array<access, 1> all{updates(bytes_of(store_))};
    submit_options with;
    with.urgent = urgent;
    const bool endless = std::string(name) == "endless";
    const auto kernel = [this, endless](const task_context&) {
      started_ += static_cast<int>(endless);
      while (endless && !noticed_) {
        ::usleep(500);
      }
    };
    static_cast<void>(
        or_throw(e_->submit(name, std::span(all).first(ordered ? 1 : 0), kernel, with)));
  }
  void expect_said(const std::string& text) const {
    EXPECT_NE(text_.find(text), std::string::npos) << text_;
  }

  std::vector<std::string> awaited_;
  std::atomic<bool> noticed_{false};
  std::atomic<int> started_{0};
  std::string text_;
  storage store_;
  std::unique_ptr<engine> e_;
};
INSTANTIATE_TEST_SUITE_P(Workers, Watchdog, testing::Values(1U, 2U));

TEST_P(Watchdog, NamesTheKernelThatDoesNotEndAndTheTasksThatWait) {
  watch({"runs task 2 \"endless\"", "the submitter waits"});
  ::usleep(60'000);  // no task is in flight, so nothing is reported
  EXPECT_FALSE(noticed_.load());
  for (const char* name : {"first", "endless", "behind", "last"}) {
    submit(name);
  }
  ASSERT_TRUE(e_->wait_all());
  expect_said("no task has ended for");
  expect_said(
      "the submitter waits for task 4 \"last\"; 3 tasks have not ended; "
      "task 3 \"behind\" waits for task 2 \"endless\"; "
      "task 4 \"last\" waits for task 3 \"behind\"");
}

TEST_P(Watchdog, NamesTasksOfReplaysThatWaitForOthersAndForWorkers) {
  watch({"runs task 4 \"endless\"", "the submitter waits"});
  ASSERT_TRUE(e_->begin_capture());
  submit("one");
  submit("two");
  const capture c = or_throw(e_->end_capture());
  submit("before");
  submit("endless");
  for (int i = 0; i < 2; ++i) {
    static_cast<void>(or_throw(e_->replay(c)));
  }
  for (int i = 0; i < 20; ++i) {
    submit("more");
  }
  ASSERT_TRUE(e_->wait_all());
  expect_said(
      "task 5 \"one\" waits for task 4 \"endless\"; "
      "task 6 \"two\" waits for task 5 \"one\" and task 4 \"endless\"; "
      "task 7 \"one\" waits for task 6 \"two\" and task 4 \"endless\"; "
      "task 8 \"two\" waits for task 7 \"one\" and task 4 \"endless\"; "
      "task 9 \"more\" waits for task 8 \"two\"");
  expect_said("and 16 more wait");
}

TEST_P(Watchdog, NamesReadyTasksThatWaitForAWorker) {
  watch({"runs task 1 \"endless\"", "the submitter waits"});
  submit("endless", false, true);
  while (started_ + 1 < static_cast<int>(GetParam())) {
    ::usleep(500);
  }
  if (GetParam() == 2) {
    submit("endless", false, true);  // runs on the submitter
  }
  submit("ready", false);
  ASSERT_TRUE(e_->wait_all());
  expect_said(GetParam() == 2 ? "task 3 \"ready\" waits for a worker or its turn"
                              : "task 2 \"ready\" waits for a worker or its turn");
}

}  // namespace
}  // namespace weir::runtime
