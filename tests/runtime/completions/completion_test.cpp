// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests tasks that end after their kernels: who ends them, how failures pass on, what
/// waits for them, and what becomes of handles that nobody uses.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tensors.hpp"
#include "weir/base/clock.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {
namespace {

/// Handles that kernels give to the test.
class handles {
 public:
  void put(completion c) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(c));
  }
  /// Returns the oldest handle, for which it waits.
  completion take() {
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (!all_.empty()) {
          completion out = std::move(all_.front());
          all_.erase(all_.begin());
          return out;
        }
      }
      std::this_thread::yield();
    }
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return all_.size();
  }

 private:
  std::mutex mutex_;
  std::vector<completion> all_;
};

/// An engine with a small window, for different numbers of workers.
class Completion : public testing::TestWithParam<unsigned> {
 protected:
  static engine_options options() {
    engine_options o;
    o.workers = GetParam();
    o.window = 16;
    o.drain = 0;
    return o;
  }
  task_id submit(const char* name, std::vector<access> accesses, auto kernel,
                 const submit_options& with = {}) {
    return or_throw(e->submit(name, accesses, kernel, with));
  }
  /// Submits a task whose kernel gives its handle away.
  task_id submit_later(const char* name, std::vector<access> accesses) {
    return submit(name, std::move(accesses),
                  [given = &given](const task_context& c) { given->put(c.later()); });
  }
  /// Runs tasks until `reached()`.
  void run_until(const std::function<bool()>& reached) {
    while (!reached()) {
      if (!e->run_one()) {
        e->idle(100'000);
      }
    }
  }
  /// Returns the handle of a task that is about to run.
  completion next_handle() {
    run_until([this] { return given.size() != 0; });
    return given.take();
  }

  handles given;
  std::unique_ptr<engine> e = or_throw(engine::create(options()));
  storage s = or_throw(e->allocate(64, "test"));
  int* value = reinterpret_cast<int*>(s.base);
};
INSTANTIATE_TEST_SUITE_P(Workers, Completion, testing::Values(1U, 2U, 3U));

TEST_P(Completion, TheTaskEndsWithItsCompletionAndTheWorkerGoesOn) {
  const task_id first = submit_later("receive", {writes(bytes_of(s))});
  const task_id next = submit("use", {updates(bytes_of(s))},
                              [v = value](const task_context&) { *v *= 2; });
  completion c = next_handle();
  EXPECT_EQ(c.task(), first);
  EXPECT_TRUE(c.awaited());
  const task_id other = submit("other", {}, [](const task_context&) {});
  ASSERT_TRUE(e->wait(other));
  EXPECT_FALSE(e->ended(first));
  EXPECT_FALSE(e->ended(next));
  std::thread([&] {
    *value = 21;
    EXPECT_TRUE(complete(c));
  }).join();
  EXPECT_FALSE(c.awaited());
  ASSERT_TRUE(e->wait(next));
  EXPECT_EQ(*value, 42);
  EXPECT_TRUE(e->wait_all());
  EXPECT_EQ(e->counters().postponed, 1U);
  EXPECT_EQ(e->counters().finished, 3U);
}

TEST_P(Completion, TheSubmitterMayCompleteOutsideOfWaits) {
  const task_id first = submit_later("receive", {writes(bytes_of(s))});
  const completion c = next_handle();
  EXPECT_TRUE(complete(c));
  EXPECT_TRUE(e->wait(first));
}

TEST_P(Completion, AKernelMayCompleteItselfAndOthers) {
  const task_id first = submit_later("receive", {writes(bytes_of(s))});
  completion c = next_handle();
  const task_id second = submit("both", {}, [&c](const task_context& context) {
    const completion own = context.later();
    EXPECT_TRUE(complete(own));
    EXPECT_TRUE(complete(c));
  });
  EXPECT_TRUE(e->wait(second));
  EXPECT_TRUE(e->wait(first));
  EXPECT_EQ(e->counters().postponed, 2U);
}

TEST_P(Completion, ATaskThatIsCompletedEarlyEndsWithItsKernel) {
  std::atomic<bool> goes_on{false};
  std::thread helper([&] {
    EXPECT_TRUE(complete(given.take()));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    *value = 3;  // the kernel has not returned, so no successor may run
    goes_on = true;
  });
  submit("receive", {writes(bytes_of(s))}, [&](const task_context& c) {
    given.put(c.later());
    while (!goes_on) {
      std::this_thread::yield();
    }
  });
  submit("use", {updates(bytes_of(s))}, [v = value](const task_context&) { *v *= 5; });
  EXPECT_TRUE(e->wait_all());
  EXPECT_EQ(*value, 15);
  helper.join();
}

TEST_P(Completion, AFailurePoisonsReaders) {
  const task_id first = submit_later("receive", {writes(bytes_of(s))});
  bool ran = false;
  const task_id before =
      submit("before", {reads(bytes_of(s))}, [&ran](const task_context&) { ran = true; });
  const completion c = next_handle();
  std::thread([&c] {
    EXPECT_TRUE(complete(c, error(errc::io, "the cable is cut")));
  }).join();
  const auto failed = e->wait(first);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), errc::kernel_failed);
  EXPECT_EQ(failed.error().root().code(), errc::io);
  EXPECT_EQ(e->wait(before).error().code(), errc::upstream_failed);
  const task_id after =
      submit("after", {reads(bytes_of(s))}, [&ran](const task_context&) { ran = true; });
  EXPECT_EQ(e->wait(after).error().code(), errc::upstream_failed);
  EXPECT_FALSE(ran);
  EXPECT_FALSE(e->wait_all());
  EXPECT_EQ(e->counters().failed, 1U);
  EXPECT_EQ(e->counters().poisoned, 2U);
}

TEST_P(Completion, APoisonedTaskEndsAtOnceAndAsksForNoHandle) {
  submit("fails", {writes(bytes_of(s))}, [](const task_context&) -> result<void> {
    return error(errc::io, "injected failure");
  });
  const task_id later = submit_later("receive", {updates(bytes_of(s))});
  EXPECT_EQ(e->wait(later).error().code(), errc::upstream_failed);
  EXPECT_EQ(given.size(), 0U);
  EXPECT_FALSE(e->wait_all());
}

TEST_P(Completion, TheFailureOfTheKernelCountsMoreThanTheCompletion) {
  const task_id id = submit("both", {}, [this](const task_context& c) -> result<void> {
    given.put(c.later());
    return error(errc::corrupt, "the kernel has failed");
  });
  const completion c = next_handle();
  run_until([this] { return e->counters().failed == 1; });
  EXPECT_FALSE(e->ended(id));
  EXPECT_TRUE(complete(c, error(errc::io, "too late")));
  EXPECT_EQ(e->wait(id).error().root().code(), errc::corrupt);
  EXPECT_EQ(e->counters().failed, 1U);
  EXPECT_FALSE(e->wait_all());
}

TEST_P(Completion, ASecondCompletionIsAnErrorThatNamesTheTask) {
  const task_id id = submit_later("receive", {});
  const completion c = next_handle();
  EXPECT_TRUE(complete(c));
  for (int i = 0; i < 2; ++i) {  // before the task has ended, and long after that
    const auto second = complete(c);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), errc::internal);
    EXPECT_EQ(second.error().text(),
              "task " + std::to_string(id) +
                  " \"receive\" not completed: expected its first completion, found a "
                  "second one");
    for (int k = 0; k < 40; ++k) {  // other tasks use the record
      submit("other", {}, [](const task_context&) {});
    }
    EXPECT_TRUE(e->wait_all());
  }
  EXPECT_EQ(complete(completion()).error().code(), errc::invalid_argument);
}

TEST_P(Completion, OfTwoThreadsThatCompleteATaskOneIsRefused) {
  for (int round = 0; round < 30; ++round) {
    submit_later("receive", {});
    const completion c = next_handle();
    std::atomic<int> refused{0};
    const auto body = [&] { refused += complete(c) ? 0 : 1; };
    std::thread one(body);
    std::thread two(body);
    EXPECT_TRUE(e->wait_all());
    one.join();
    two.join();
    EXPECT_EQ(refused, 1);
  }
}

TEST_P(Completion, ADroppedHandleAbandonsItsTask) {
  const task_id dropped =
      submit("receive", {}, [](const task_context& c) { static_cast<void>(c.later()); });
  const auto failed = e->wait(dropped);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().root().code(), errc::abandoned);
  const task_id replaced = submit_later("replaced", {});
  completion c = next_handle();
  completion moved = std::move(c);
  EXPECT_EQ(c.task(), 0U);
  EXPECT_TRUE(moved.awaited());
  moved = completion();
  EXPECT_EQ(e->wait(replaced).error().root().text(),
            "task " + std::to_string(replaced) +
                " \"replaced\" abandoned: expected its completion, found that the handle "
                "was dropped");
  EXPECT_FALSE(e->wait_all());
}

TEST_P(Completion, AKernelThatThrowsEndsItsTaskWithItsOwnFailure) {
  const task_id id = submit("throws", {}, [](const task_context& c) {
    const completion own = c.later();
    throw std::runtime_error("injected exception");
  });
  EXPECT_EQ(e->wait(id).error().root().code(), errc::kernel_failed);
  EXPECT_FALSE(e->wait_all());
}

TEST_P(Completion, AHandleIsAskedForOnceAndByTheKernelAlone) {
  const task_id twice = submit("twice", {}, [this](const task_context& c) {
    given.put(c.later());
    static_cast<void>(c.later());
  });
  EXPECT_TRUE(complete(next_handle()));
  EXPECT_NE(e->wait(twice).error().root().text().find("contract violated"),
            std::string::npos);
  const task_id copied = submit("copied", {}, [](const task_context& c) {
    const task_context copy = c;  // NOLINT(performance-unnecessary-copy-initialization)
    static_cast<void>(copy.later());
  });
  EXPECT_FALSE(e->wait(copied));
  EXPECT_THROW(static_cast<void>(task_context(1, 0).later()), std::logic_error);
  EXPECT_FALSE(e->wait_all());
}

TEST_P(Completion, TheDestructorDoesNotWaitWithoutADrain) {
  submit_later("receive", {});
  const completion c = next_handle();
  e = nullptr;
  EXPECT_FALSE(c.awaited());
  const auto refused = complete(c);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::stopping);
}

TEST_P(Completion, TheDestructorWaitsAsLongAsTheDrainSays) {
  engine_options o = options();
  o.drain = 20'000'000;
  e = or_throw(engine::create(o));
  submit_later("receive", {});
  completion c = next_handle();
  const std::int64_t start = now_ns();
  e = nullptr;
  const std::int64_t took = now_ns() - start;
  EXPECT_GE(took, 20'000'000);
  EXPECT_LT(took, 10'000'000'000) << "the task never ends";
  EXPECT_EQ(complete(c).error().code(), errc::stopping);

  o.drain = 3'600'000'000'000;  // an hour
  e = or_throw(engine::create(o));
  submit_later("receive", {});
  c = next_handle();
  std::thread helper([&c] {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    EXPECT_TRUE(complete(c));
  });
  e = nullptr;
  helper.join();
}

TEST_P(Completion, HandlesOutliveTheirEngineWhileThreadsCompleteThem) {
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 4; ++i) {
      submit_later("receive", {});
    }
    run_until([this] { return given.size() == 4; });
    std::thread helper([this] {
      for (int i = 0; i < 4; ++i) {
        const auto outcome = complete(given.take());
        EXPECT_TRUE(outcome || outcome.error().code() == errc::stopping);
      }
    });
    e = nullptr;
    helper.join();
    e = or_throw(engine::create(options()));
  }
}

TEST_P(Completion, TasksThatWaitHoldTheirPlacesInTheWindow) {
  std::atomic<bool> named{false};
  engine_options o = options();
  o.watchdog_ns = 1'000'000;
  o.on_stall = [&named](const std::string& text) {
    const auto says = [&text](const char* part) {
      return text.find(part) != std::string::npos;
    };
    named = named || (says("the submitter waits for task 2 \"receive\"") &&
                      says("; task 1 \"receive\" waits for its completion"));
  };
  e = or_throw(engine::create(o));
  std::atomic<bool> submitted{false};
  std::thread helper([&] {
    while (!named) {
      std::this_thread::yield();
    }
    EXPECT_FALSE(submitted);
    for (int i = 0; i < 17; ++i) {
      EXPECT_TRUE(complete(given.take()));
    }
  });
  for (int i = 0; i < 17; ++i) {  // the window has 16 places
    submit_later("receive", {});
  }
  submitted = true;
  EXPECT_TRUE(e->wait_all());
  helper.join();
}

TEST_P(Completion, ReplaysAndCapturesPostponeEachTime) {
  ASSERT_TRUE(e->begin_capture());
  submit_later("receive", {writes(bytes_of(s))});
  submit("use", {updates(bytes_of(s))}, [v = value](const task_context&) { *v += 1; });
  const capture c = or_throw(e->end_capture());
  std::thread helper([this] {
    for (int i = 0; i < 20; ++i) {
      const completion handle = given.take();
      *value = i * 10;
      EXPECT_TRUE(complete(handle));
    }
  });
  for (int i = 1; i < 20; ++i) {
    static_cast<void>(or_throw(e->replay(c)));
  }
  EXPECT_TRUE(e->wait_all());
  helper.join();
  EXPECT_EQ(*value, 191);
  EXPECT_EQ(e->counters().postponed, 20U);
}

TEST_P(Completion, AFailureInAReplayPoisonsItsFollowersAndTheNextReplay) {
  ASSERT_TRUE(e->begin_capture());
  submit_later("receive", {updates(bytes_of(s))});
  submit("use", {reads(bytes_of(s))}, [](const task_context&) {});
  const capture c = or_throw(e->end_capture());
  EXPECT_TRUE(complete(next_handle()));
  const task_id first = or_throw(e->replay(c));
  const completion failing = next_handle();
  const task_id second = or_throw(e->replay(c));
  EXPECT_TRUE(complete(failing, error(errc::io, "injected failure")));
  EXPECT_EQ(e->wait(first + 1).error().code(), errc::upstream_failed);
  EXPECT_EQ(e->wait(second).error().code(), errc::upstream_failed);
  EXPECT_FALSE(e->wait_all());
}

TEST_P(Completion, AScopeKeepsFreshMemoryUntilTheCompletion) {
  scope inside = or_throw(e->open_scope("block"));
  const storage fresh = or_throw(e->fresh(64));
  submit_later("receive", {writes(bytes_of(fresh))});
  inside.close();
  const completion c = next_handle();
  const storage other = or_throw(e->fresh(64));
  EXPECT_NE(other.base, fresh.base);
  EXPECT_TRUE(complete(c));
  EXPECT_TRUE(e->wait_all());
}

TEST_P(Completion, ManualScopesPassFailuresToTasksThatAskForThem) {
  scope inside = or_throw(e->open_scope("manual", scope_kind::manual));
  const task_id first = submit_later("receive", {});
  submit_options with;
  with.after = std::span(&first, 1);
  const task_id next = submit(
      "use", {}, [](const task_context&) {}, with);
  const completion c = next_handle();
  EXPECT_TRUE(complete(c, error(errc::io, "injected failure")));
  EXPECT_EQ(e->wait(next).error().code(), errc::upstream_failed);
  EXPECT_FALSE(e->wait_all());
}

TEST_P(Completion, TasksThatCommuteInAnyOrderWaitForTheOneInside) {
  const access turn = commutes(bytes_of(s), commute_order::any);
  submit_later("first", {turn});
  const completion c = next_handle();
  std::atomic<int> ran{0};
  for (int i = 0; i < 3; ++i) {
    submit("next", {turn}, [&ran](const task_context&) { ++ran; });
  }
  const task_id other = submit("other", {}, [](const task_context&) {});
  ASSERT_TRUE(e->wait(other));
  for (int i = 0; i < 20; ++i) {
    e->run_one();
  }
  EXPECT_EQ(ran, 0);
  std::thread([&c] { EXPECT_TRUE(complete(c)); }).join();
  EXPECT_TRUE(e->wait_all());
  EXPECT_EQ(ran, 3);
  const task_id again = submit("own", {turn}, [](const task_context& context) {
    EXPECT_TRUE(complete(context.later()));
  });
  submit("last", {turn}, [&ran](const task_context&) { ++ran; });
  EXPECT_TRUE(e->wait(again));
  EXPECT_TRUE(e->wait_all());
  EXPECT_EQ(ran, 4);
}

TEST_P(Completion, TracesKnowTheKernelAndTheCompletion) {
  engine_options o = options();
  o.trace.mode = trace_mode::all;
  e = or_throw(engine::create(o));
  s = or_throw(e->allocate(64, "test"));
  submit_later("receive", {writes(bytes_of(s))});
  submit("use", {reads(bytes_of(s))}, [](const task_context&) {});
  const completion c = next_handle();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(complete(c));
  EXPECT_TRUE(e->wait_all());
  const auto records = e->tracer().records();
  ASSERT_EQ(records.size(), 2U);
  const bool swapped = records[0].id > records[1].id;
  const task_record& receive = records[swapped ? 1 : 0];
  const task_record& use = records[swapped ? 0 : 1];
  EXPECT_GE(receive.completed, receive.ended);
  EXPECT_GE(receive.completed - receive.started, 1'000'000);
  EXPECT_EQ(use.completed, 0);
  EXPECT_EQ(use.ready, receive.completed);
  EXPECT_EQ(use.waited_for, receive.id);
}

TEST_P(Completion, ThePollerRunsWhileCompletionsAreOutstanding) {
  std::atomic<int> polls{0};
  std::atomic<bool> inside{false};
  std::atomic<int> wanted{3};
  engine_options o = options();
  o.poller = [&] {
    EXPECT_FALSE(inside.exchange(true));
    const bool moved = ++polls >= wanted && given.size() != 0;
    if (moved) {
      EXPECT_TRUE(complete(given.take()));
    }
    inside = false;
    return moved;
  };
  e = or_throw(engine::create(o));
  s = or_throw(e->allocate(64, "test"));
  value = reinterpret_cast<int*>(s.base);
  submit("other", {}, [](const task_context&) {});
  EXPECT_TRUE(e->wait_all());
  EXPECT_EQ(polls, 0);
  for (int i = 0; i < 40; ++i) {
    submit_later("receive", {updates(bytes_of(s))});
    submit("use", {updates(bytes_of(s))}, [v = value](const task_context&) { ++*v; });
  }
  EXPECT_TRUE(e->wait_all());
  EXPECT_EQ(*value, 40);
  wanted = polls + 2'000;  // long enough for the poller to yield and to sleep
  submit_later("receive", {});
  EXPECT_TRUE(e->wait_all());
}

TEST_P(Completion, ABusyWorkerPollsBetweenTasks) {
  std::atomic<int> polls{0};
  engine_options o = options();
  o.window = 1024;
  o.poller = [&] {
    ++polls;
    return false;
  };
  e = or_throw(engine::create(o));
  s = or_throw(e->allocate(64, "test"));
  submit_later("receive", {});
  completion c = next_handle();
  const int before = polls;
  task_id last = 0;
  for (int i = 0; i < 300; ++i) {  // a chain, so that one worker is always busy
    last = submit("step", {updates(bytes_of(s))}, [](const task_context&) {
      const std::int64_t end = now_ns() + 3'000;
      while (now_ns() < end) {
      }
    });
  }
  EXPECT_TRUE(e->wait(last));
  EXPECT_GE(polls - before, 100);
  EXPECT_TRUE(complete(c));
  EXPECT_TRUE(e->wait_all());
}

TEST_P(Completion, ThreadsThatServeFinishAnswers) {
  engine_options o = options();
  o.max_workers = GetParam() + 1;
  e = or_throw(engine::create(o));
  s = or_throw(e->allocate(64, "test"));
  std::stop_source leave;
  std::thread guest([&] { EXPECT_TRUE(e->serve(leave.get_token())); });
  std::atomic<bool> used{false};
  submit_later("receive", {writes(bytes_of(s))});
  submit("use", {reads(bytes_of(s))}, [&used](const task_context&) { used = true; });
  EXPECT_TRUE(complete(given.take()));
  while (!used) {  // the submitter does not help
    std::this_thread::yield();
  }
  leave.request_stop();
  guest.join();
  EXPECT_TRUE(e->wait_all());
}

}  // namespace
}  // namespace weir::runtime
