// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the task engine: order, waits, failures, window sizes and storages.
#include "weir/runtime/engine.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tensors.hpp"
#include "weir/base/clock.hpp"

namespace weir::runtime {
namespace {

using i64s = std::vector<std::int64_t>;

/// Returns an engine with this number of workers and this window.
std::unique_ptr<engine> make_engine(unsigned workers, std::uint32_t window = 64) {
  engine_options o;
  o.workers = workers;
  o.window = window;
  return or_throw(engine::create(o));
}

/// Submits a task and returns its id.
task_id submit(engine& e, const char* name, std::vector<access> accesses, auto kernel) {
  return or_throw(e.submit(name, accesses, kernel));
}

/// An engine with a small window, for different numbers of workers.
class Engine : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<engine> e = make_engine(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Workers, Engine, testing::Values(1U, 2U, 4U));

TEST(EngineOptions, RejectNoWorkersAndOddWindows) {
  engine_options o;
  o.workers = 0;
  EXPECT_EQ(engine::create(o).error().code(), errc::invalid_argument);
  o.workers = 1;
  for (const std::uint32_t window : {0U, 1U, 3U, 100U}) {
    o.window = window;
    const auto r = engine::create(o);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code(), errc::invalid_argument);
  }
}

TEST_P(Engine, NeverHasMoreTasksInFlightThanWereSubmitted) {
  std::atomic<std::uint64_t> asked{0};
  std::uint64_t largest = 0;
  std::thread asker([&] {
    for (; asked < 500'000; ++asked) {
      largest = std::max(largest, e->in_flight());
    }
  });
  std::uint64_t tasks = 0;
  for (; asked < 500'000; ++tasks) {
    submit(*e, "short", {}, [](const task_context&) {});
  }
  or_throw(e->wait_all());
  asker.join();
  EXPECT_LE(largest, tasks);
}

TEST_P(Engine, RunsAChainInOrder) {
  const storage s = or_throw(e->allocate(8, "test"));
  auto* value = reinterpret_cast<std::uint64_t*>(s.base);
  std::uint64_t expected = 0;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    submit(*e, "step", {updates(bytes_of(s))},
           [value, i](const task_context&) { *value = *value * 31 + i; });
    expected = expected * 31 + i;
  }
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(*value, expected);
  const engine_counters c = e->counters();
  EXPECT_EQ(c.submitted, 1000U);
  EXPECT_EQ(c.finished, 1000U);
  EXPECT_EQ(c.failed + c.poisoned, 0U);
}

TEST_P(Engine, EffectsOfTasksAreVisibleToAThreadThatSeesThemCounted) {
  if (GetParam() == 1) {
    GTEST_SKIP() << "a single worker runs tasks only while somebody waits";
  }
  int done = 0;  // not atomic: ThreadSanitizer tells whether the counter orders it
  const storage s = or_throw(e->allocate(8, "test"));
  submit(*e, "step", {updates(bytes_of(s))}, [&done](const task_context&) { done = 1; });
  while (e->counters().finished == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(done, 1);
}

TEST_P(Engine, AllocatesZeroedAlignedMemoryAndReportsIt) {
  const storage a = or_throw(e->allocate(1000, "one"));
  const storage b = or_throw(e->allocate(24, "two"));
  const storage c = or_throw(e->allocate(5 << 20, "one"));
  for (const storage& s : {a, b, c}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(s.base) % 64, 0U);
    for (std::int64_t i = 0; i < s.size; ++i) {
      ASSERT_EQ(s.base[i], std::byte{0});
    }
  }
  using row = std::pair<std::string, std::int64_t>;
  EXPECT_EQ(e->memory(), (std::vector<row>{{"one", 1000 + (5 << 20)}, {"two", 24}}));
  ASSERT_TRUE(e->release(a.id));
  EXPECT_EQ(e->memory(), (std::vector<row>{{"one", 5 << 20}, {"two", 24}}));
}

TEST_P(Engine, RefusesMoreMemoryThanThereIs) {
  const auto r = e->allocate(INT64_MAX, "huge");
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::out_of_memory);
  EXPECT_FALSE(e->allocate(-1, "negative"));
}

// Releases a storage and allocates one that gets the same index. A view of the old
// storage must be refused, because it would otherwise access the new one.
TEST_P(Engine, GivesAReusedStorageANewGeneration) {  // T9
  const storage old = or_throw(e->allocate(64, "test"));
  const tensor view = bytes_of(old);
  ASSERT_TRUE(e->release(old.id));
  const storage fresh = or_throw(e->allocate(64, "test"));
  EXPECT_EQ(fresh.id.index, old.id.index);
  EXPECT_NE(fresh.id.generation, old.id.generation);
  const std::array<access, 1> stale{reads(view)};
  const auto r = e->submit("stale", stale, [](const task_context&) {});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code(), errc::not_found);
  EXPECT_EQ(e->release(old.id).error().code(), errc::not_found);
  EXPECT_EQ(e->wait(view).error().code(), errc::not_found);
  EXPECT_EQ(decide_overlap(view.bytes(), bytes_of(fresh).bytes()), overlap::no);
}

// Releases a storage while slow tasks use it. If the release did not wait, the tasks
// would access freed memory and would not all be counted when it returns.
TEST_P(Engine, WaitsForUsersBeforeItReleases) {
  const storage s = or_throw(e->allocate(64, "test"));
  const storage other = or_throw(e->allocate(64, "test"));
  std::atomic<int> ended{0};
  auto* count = &ended;
  const auto slow = [count](const task_context&) {
    ::usleep(2000);
    count->fetch_add(1);
  };
  submit(*e, "writer", {writes(bytes_of(s))}, slow);
  submit(*e, "reader", {reads(bytes_of(s)), writes(bytes_of(other))}, slow);
  ASSERT_TRUE(e->release(s.id));
  EXPECT_EQ(ended.load(), 2);
  ASSERT_TRUE(e->wait_all());
}

// With a window of two tasks, submission has to stall and go on several hundred times.
TEST_P(Engine, RunsMoreTasksThanTheWindowHolds) {
  auto small = make_engine(GetParam(), 2);
  const storage s = or_throw(small->allocate(64, "test"));
  std::atomic<int> runs{0};
  auto* count = &runs;
  for (int i = 0; i < 500; ++i) {
    const auto part = or_throw(bytes_of(s).slice(0, i % 64, i % 64 + 1));
    submit(*small, "part", {updates(part)},
           [count](const task_context&) { count->fetch_add(1); });
  }
  ASSERT_TRUE(small->wait_all());
  EXPECT_EQ(runs.load(), 500);
  EXPECT_GT(small->counters().window_stalls, 0U);
}

TEST_P(Engine, ReachesTheWaiterWithTheKernelsNameAndCause) {
  const storage s = or_throw(e->allocate(8, "test"));
  const storage t = or_throw(e->allocate(8, "test"));
  const task_id bad = submit(
      *e, "divider", {writes(bytes_of(s))}, [](const task_context&) -> result<void> {
        return error(errc::corrupt, "division failed \"row 3\": expected 1, found 0");
      });
  std::atomic<bool> ran{false};
  auto* flag = &ran;
  const task_id reader = submit(*e, "reader", {reads(bytes_of(s)), writes(bytes_of(t))},
                                [flag](const task_context&) { flag->store(true); });
  const task_id far = submit(*e, "far", {reads(bytes_of(t))},
                             [flag](const task_context&) { flag->store(true); });
  const auto first = e->wait(bad);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code(), errc::kernel_failed);
  EXPECT_NE(first.error().text().find("\"divider\""), std::string::npos);
  ASSERT_NE(first.error().cause(), nullptr);
  EXPECT_EQ(first.error().cause()->code(), errc::corrupt);
  for (const task_id id : {reader, far}) {
    const auto r = e->wait(id);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code(), errc::upstream_failed);
    EXPECT_NE(r.error().text().find("\"divider\""), std::string::npos);
    EXPECT_EQ(r.error().root().code(), errc::corrupt);
  }
  EXPECT_EQ(e->wait(bytes_of(t)).error().code(), errc::upstream_failed);
  EXPECT_FALSE(ran.load());
  const auto all = e->wait_all();
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code(), errc::kernel_failed);
  EXPECT_TRUE(e->wait_all());
  EXPECT_EQ(e->counters().failed, 1U);
  EXPECT_EQ(e->counters().poisoned, 2U);
}

// The failed task has left the window when a reader of its bytes is submitted. The engine
// must still know that the bytes are poisoned, until `wait_all` has reported the failure.
TEST_P(Engine, PoisonsWhatIsSubmittedAfterTheFailureHasBeenRetired) {
  const storage s = or_throw(e->allocate(8, "test"));
  const storage t = or_throw(e->allocate(8, "test"));
  const task_id bad = submit(
      *e, "bad", {writes(bytes_of(s))},
      [](const task_context&) -> result<void> { return error(errc::io, "read failed"); });
  EXPECT_FALSE(e->wait(bad));
  for (int i = 0; i < 200; ++i) {  // more than the window: the slot has been used again
    submit(*e, "other", {updates(bytes_of(t))}, [](const task_context&) {});
  }
  const task_id late =
      submit(*e, "late", {reads(bytes_of(s))}, [](const task_context&) {});
  EXPECT_EQ(e->wait(late).error().code(), errc::upstream_failed);
  EXPECT_EQ(e->wait(bad).error().code(), errc::kernel_failed);
  EXPECT_EQ(e->wait(bytes_of(s)).error().code(), errc::upstream_failed);
  EXPECT_FALSE(e->wait_all());
  const task_id healed =
      submit(*e, "healed", {reads(bytes_of(s))}, [](const task_context&) {});
  EXPECT_TRUE(e->wait(healed));
  EXPECT_TRUE(e->wait_all());
}

// A reader that fails has changed nothing, so the task that writes the same bytes after
// it must run.
TEST_P(Engine, DoesNotPoisonAWriterBehindAFailedReader) {
  const storage s = or_throw(e->allocate(8, "test"));
  submit(*e, "reader", {reads(bytes_of(s))},
         [](const task_context&) -> result<void> { return error(errc::io, "no"); });
  const task_id writer =
      submit(*e, "writer", {writes(bytes_of(s))}, [](const task_context&) {});
  EXPECT_TRUE(e->wait(writer));
  EXPECT_FALSE(e->wait_all());
}

TEST_P(Engine, TurnsAnExceptionIntoAFailure) {
  const storage s = or_throw(e->allocate(8, "test"));
  const task_id id =
      submit(*e, "thrower", {writes(bytes_of(s))},
             [](const task_context&) { throw std::runtime_error("out of luck"); });
  const auto r = e->wait(id);
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message().find("out of luck"), std::string::npos);
  EXPECT_FALSE(e->wait_all());
}

// Many independent tasks fail in any order of time. The reported failure must be that of
// the task submitted first, whichever worker failed first.
TEST_P(Engine, ReportsTheOldestFailureFirst) {
  const storage s = or_throw(e->allocate(64, "test"));
  for (int i = 0; i < 32; ++i) {
    const auto part = or_throw(bytes_of(s).slice(0, i, i + 1));
    submit(*e, i == 3 ? "third" : "later", {writes(part)},
           [i](const task_context&) -> result<void> {
             if (i < 3) {
               return {};
             }
             return error(errc::io, "bad part");
           });
  }
  const auto r = e->wait_all();
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().text().find("\"third\""), std::string::npos);
}

// Submits tasks with three accesses in all combinations. An access that conflicts with an
// earlier access of the same task must not make the task wait for itself, which would
// never end.
TEST_P(Engine, DoesNotWaitForWhatATaskHasEnteredItself) {
  const storage s = or_throw(e->allocate(64, "test"));
  const tensor all = bytes_of(s);
  const tensor half = or_throw(all.slice(0, 0, 32));
  const tensor even = or_throw(all.slice(0, 0, 64, 2));
  std::vector<access> kinds;
  for (const tensor& t : {all, half, even}) {
    kinds.insert(kinds.end(), {reads(t), writes(t), updates(t)});
  }
  // All accesses include the first byte, and every task writes it, so the tasks run in
  // order.
  int ran = 0;
  int submitted = 0;
  for (const access& a : kinds) {
    for (const access& b : kinds) {
      for (const access& c : kinds) {
        if (a.mode == access_mode::read && b.mode == access_mode::read &&
            c.mode == access_mode::read) {
          continue;
        }
        submit(*e, "thrice", {a, b, c}, [&ran, submitted](const task_context&) {
          ran += static_cast<int>(ran == submitted);
        });
        ++submitted;
      }
    }
  }
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(ran, submitted);
  EXPECT_EQ(e->counters().finished, static_cast<std::uint64_t>(submitted));
}

TEST_P(Engine, RefusesAccessesThatLeaveTheirStorage) {
  const storage s = or_throw(e->allocate(64, "test"));
  const access inside = writes(bytes_of(s));
  const auto refusal = [&](std::int64_t lo, std::int64_t hi) {
    access a = inside;
    a.bytes.lo = lo;
    a.bytes.hi = hi;
    const auto r = e->submit("task", std::vector{inside, a}, [](const task_context&) {});
    return r ? std::string() : r.error().text();
  };
  EXPECT_EQ(refusal(0, 64), "");
  EXPECT_EQ(refusal(63, 64), "");
  EXPECT_EQ(refusal(1000, 1000), "") << "an access without bytes is allowed anywhere";
  for (const auto& [lo, hi] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 65}, {64, 65}, {-1, 64}, {-2, -1}, {8, 7}, {INT64_MIN, INT64_MAX}}) {
    EXPECT_NE(refusal(lo, hi).find("submission leaves its storage: expected bytes below "
                                   "64, found [" +
                                   std::to_string(lo)),
              std::string::npos)
        << lo << ' ' << hi;
  }
  ASSERT_TRUE(e->release(s.id));
  EXPECT_NE(refusal(0, 64).find("unknown storage"), std::string::npos);
}

TEST_P(Engine, DoesNothingForAccessesOfNoBytes) {
  const storage s = or_throw(e->allocate(64, "test"));
  const std::array<std::int64_t, 1> none{0};
  const tensor empty = or_throw(tensor::over(s, dtype::fp32, none, 16));
  submit(*e, "whole", {writes(bytes_of(s))}, [](const task_context&) {});
  submit(*e, "empty", {updates(empty)}, [](const task_context&) {});
  ASSERT_TRUE(e->wait(empty));
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(e->counters().lookups, 1U);
  EXPECT_EQ(e->counters().edges_waw, 0U);
}

TEST_P(Engine, KnowsTasksThatHaveEnded) {
  const storage s = or_throw(e->allocate(8, "test"));
  EXPECT_FALSE(e->ended(1));
  const task_id id = submit(*e, "one", {writes(bytes_of(s))}, [](const task_context&) {});
  EXPECT_EQ(id, 1U);
  ASSERT_TRUE(e->wait(id));
  EXPECT_TRUE(e->ended(id));
  EXPECT_EQ(e->wait(0).error().code(), errc::invalid_argument);
  EXPECT_EQ(e->wait(99).error().code(), errc::invalid_argument);
}

TEST_P(Engine, GivesEveryKernelTheSameFloatingPointEnvironment) {
  const storage s = or_throw(e->allocate(1024, "test"));
  for (int i = 0; i < 64; ++i) {
    const auto part = or_throw(bytes_of(s).slice(0, i * 8, i * 8 + 8));
    auto* out = reinterpret_cast<double*>(part.data());
    submit(*e, "subnormal", {writes(part)}, [out](const task_context&) {
      volatile double tiny = 1e-300;
      volatile double product = tiny * 1e-10;  // subnormal, so the kernel sees zero
      *out = product + 1.0;
    });
  }
  ASSERT_TRUE(e->wait_all());
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(reinterpret_cast<double*>(s.base)[i], 1.0);
  }
  volatile double tiny = 1e-300;
  volatile double product = tiny * 1e-10;
  EXPECT_GT(product, 0.0);  // the submitter's environment is restored
}

TEST_P(Engine, CountsTimeInsideKernels) {
  const storage s = or_throw(e->allocate(8, "test"));
  for (int i = 0; i < 5; ++i) {
    submit(*e, "busy", {updates(bytes_of(s))}, [](const task_context&) {
      const std::int64_t end = now_ns() + 2'000'000;
      while (now_ns() < end) {
      }
    });
  }
  ASSERT_TRUE(e->wait_all());
  EXPECT_GT(e->counters().kernel_ns, 9'500'000);
  EXPECT_LT(e->counters().kernel_ns, 1'000'000'000);
}

/// Runs five tasks on one thread, so that all of them are live while they are submitted.
TEST(EngineCounters, SayWhatLookUpsHaveCompared) {
  auto e = or_throw(engine::create({}));
  const storage s = or_throw(e->allocate(64, "test"));
  const tensor all = bytes_of(s);
  const tensor even = or_throw(all.slice(0, 0, 64, 2));
  const tensor odd = or_throw(all.slice(0, 1, 64, 2));
  const auto nothing = [](const task_context&) {};
  submit(*e, "all", {writes(all)}, nothing);
  submit(*e, "even", {reads(even)}, nothing);       // finds "all"
  submit(*e, "odd", {writes(odd)}, nothing);        // "all", and not "even"
  submit(*e, "odd again", {reads(odd)}, nothing);   // "odd", which stands for "all"
  submit(*e, "all again", {writes(all)}, nothing);  // all four, and covers them
  const engine_counters c = e->counters();
  EXPECT_EQ(c.lookups, 5U);
  EXPECT_EQ(c.candidates, 9U);
  EXPECT_EQ(c.exact_tests, 8U);  // all tests but two between dense footprints
  EXPECT_EQ(c.maybe, 0U);
  EXPECT_EQ(c.pruned, 4U);
  EXPECT_EQ(c.edges_pruned, 1U);
  EXPECT_EQ(c.edges_raw + c.edges_war + c.edges_waw, 7U);
  EXPECT_TRUE(e->wait_all());
}

TEST_P(Engine, RunsSingleTasksOnRequestAndIdlesWithATimeout) {
  EXPECT_FALSE(e->run_one());
  const std::int64_t start = now_ns();
  e->idle(5'000'000);
  EXPECT_GE(now_ns() - start, 4'900'000);
  const storage s = or_throw(e->allocate(8, "test"));
  std::atomic<int> runs{0};
  auto* count = &runs;
  for (int i = 0; i < 3; ++i) {
    submit(*e, "one", {updates(bytes_of(s))},
           [count](const task_context&) { count->fetch_add(1); });
  }
  while (!e->ended(3)) {
    if (!e->run_one()) {
      e->idle(1'000'000);
    }
  }
  EXPECT_EQ(runs.load(), 3);
}

TEST_P(Engine, EndsIdleWhenAnotherThreadWakesIt) {
  for (int round = 0; round < 20; ++round) {
    std::thread other([&] {
      ::usleep(static_cast<useconds_t>(round * 20));
      e->wake();
    });
    const std::int64_t start = now_ns();
    e->idle(20'000'000'000);
    EXPECT_LT(now_ns() - start, 500'000'000);
    other.join();
  }
}

/// Only `idle` waits here, and no other thread would wake it.
TEST_P(Engine, EndsIdleForEveryTaskThatEnds) {
  if (GetParam() == 1) {
    GTEST_SKIP() << "a thread that only idles needs another thread to run the task";
  }
  for (int i = 0; i < 2'000; ++i) {
    const task_id id = submit(*e, "other", {}, [](const task_context&) {});
    while (!e->ended(id)) {
      const std::int64_t start = now_ns();
      e->idle(20'000'000'000);
      ASSERT_LT(now_ns() - start, 500'000'000)
          << "task " << id << " did not end idle() within 10 s";
    }
  }
}

/// Submits bursts with pauses about as long as threads spin, so that workers park and are
/// woken all the time.
TEST_P(Engine, LosesNoWakeUpBetweenBurstsAndPauses) {
  const storage s = or_throw(e->allocate(64, "test"));
  std::vector<tensor> cells;
  for (std::int64_t i = 0; i < 8; ++i) {
    cells.push_back(or_throw(bytes_of(s).slice(0, i * 8, i * 8 + 8)));
  }
  std::atomic<int> runs{0};
  auto* count = &runs;
  int submitted = 0;
  for (int burst = 0; burst < 400; ++burst) {
    for (int i = 0; i < 1 + burst % 9; ++i) {
      const auto cell = static_cast<std::size_t>(i * burst) % cells.size();
      submit(*e, "part", {updates(cells[cell]), reads(cells[(cell + 1) % cells.size()])},
             [count](const task_context&) { count->fetch_add(1); });
      ++submitted;
    }
    if (burst % 3 == 0) {
      ASSERT_TRUE(e->wait_all());
      ASSERT_EQ(runs.load(), submitted);
    } else if (burst % 3 == 1) {
      e->idle(50'000);
    }
    ::usleep(static_cast<useconds_t>(burst % 7 * 20));
  }
  ASSERT_TRUE(e->wait_all());
  EXPECT_EQ(runs.load(), submitted);
}

/// Workers may leave tiny tasks to each other. They must not do so with two tasks that
/// need to run at the same time.
TEST_P(Engine, RunsTwoKernelsAtOnceAfterThousandsOfTinyOnes) {
  if (GetParam() == 1) {
    GTEST_SKIP() << "two kernels at once need two workers";
  }
  const storage s = or_throw(e->allocate(64, "test"));
  const tensor all = bytes_of(s);
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 3000; ++i) {
      submit(*e, "tiny", {reads(all)}, [](const task_context&) {});
    }
    submit(*e, "last", {writes(all)}, [](const task_context&) {});
    std::atomic<int> here{0};
    auto* count = &here;
    for (int i = 0; i < 2; ++i) {
      submit(*e, "meet", {reads(all)}, [count](const task_context&) {
        count->fetch_add(1);
        const std::int64_t deadline = now_ns() + 20'000'000'000;
        while (count->load() < 2 && now_ns() < deadline) {
        }
        EXPECT_EQ(count->load(), 2);
      });
    }
    ASSERT_TRUE(e->wait_all());
    ASSERT_FALSE(HasFailure());
  }
}

/// Workers leave tiny tasks to a submitter that is busy with the engine. They must not
/// leave them to a submitter that does something else.
TEST_P(Engine, EndsTinyTasksWhileTheSubmitterNeitherSubmitsNorWaits) {
  if (GetParam() == 1) {
    GTEST_SKIP() << "a single worker runs tasks only while somebody waits";
  }
  const storage s = or_throw(e->allocate(64, "test"));
  const tensor all = bytes_of(s);
  std::atomic<int> runs{0};
  auto* count = &runs;
  int submitted = 0;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 300 + round; ++i) {  // a chain, then independent tasks
      submit(*e, "tiny", {round % 2 == 0 ? updates(all) : reads(all)},
             [count](const task_context&) { count->fetch_add(1); });
      ++submitted;
    }
    const std::int64_t deadline = now_ns() + 20'000'000'000;
    while (runs.load() < submitted && now_ns() < deadline) {
      ::usleep(static_cast<useconds_t>(round % 5 * 40));
    }
    ASSERT_EQ(runs.load(), submitted) << "round " << round;
  }
  ASSERT_TRUE(e->wait_all());
}

TEST_P(Engine, ReadsATensorOnlyAfterAllOfItsTiles) {
  const storage s = or_throw(e->allocate(1600, "test"));
  std::atomic<int> tiles{0};
  auto* count = &tiles;
  for (int round = 0; round < 5; ++round) {
    for (std::int64_t i = 0; i < 100; ++i) {
      submit(*e, "tile", {writes(or_throw(bytes_of(s).slice(0, i * 16, i * 16 + 16)))},
             [count](const task_context&) { count->fetch_add(1); });
    }
    std::atomic<int> seen{0};
    auto* out = &seen;
    for (int reader = 0; reader < 64; ++reader) {
      submit(*e, "whole", {reads(bytes_of(s))},
             [count, out](const task_context&) { out->fetch_add(count->load()); });
    }
    submit(*e, "next", {writes(bytes_of(s))}, [out](const task_context&) {
      EXPECT_EQ(out->load() % 64, 0);  // all readers have been here
    });
    ASSERT_TRUE(e->wait_all());
    EXPECT_EQ(seen.load(), 64 * 100 * (round + 1));
  }
}

TEST_P(Engine, DropsWaitingTasksWhenItIsDestroyed) {
  e = make_engine(GetParam(), 4096);
  std::atomic<int> runs{0};
  auto* count = &runs;
  const storage s = or_throw(e->allocate(8, "test"));
  for (int i = 0; i < 2000; ++i) {
    submit(*e, "slow", {updates(bytes_of(s))}, [count](const task_context&) {
      ::usleep(500);
      count->fetch_add(1);
    });
  }
  e.reset();
  EXPECT_LT(runs.load(), 2000);
}

}  // namespace
}  // namespace weir::runtime
