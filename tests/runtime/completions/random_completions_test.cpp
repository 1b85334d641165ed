// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that random programs have the result of serial execution if a random half of
/// their tasks end later, completed by other threads and by kernels.
#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "random_programs.hpp"
#include "support/case_count.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {
namespace {

using namespace weir::test;

/// Threads that do the work of postponed tasks and complete them, in a random order.
class outside_workers {
 public:
  /// A task whose kernel has given its handle away, and its work.
  struct job {
    completion handle;
    const program_task* task = nullptr;
    std::size_t index = 0;
    program_memory* memory = nullptr;
  };

  explicit outside_workers(std::uint64_t seed) : choice_(seed) {
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }
  ~outside_workers() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& t : threads_) {
      t.join();
    }
  }
  outside_workers(const outside_workers&) = delete;
  outside_workers& operator=(const outside_workers&) = delete;

  void put(job j) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(j));
    }
    changed_.notify_one();
  }
  /// Does a job, if there is one. Kernels call it too.
  bool do_one() {
    job j;
    {
      const std::lock_guard lock(mutex_);
      if (jobs_.empty()) {
        return false;
      }
      const auto i = static_cast<std::size_t>(
          choice_.in(0, static_cast<std::int64_t>(jobs_.size()) - 1));
      std::swap(jobs_[i], jobs_.back());
      j = std::move(jobs_.back());
      jobs_.pop_back();
    }
    delay(j.task->delay);
    if (j.task->fails) {
      static_cast<void>(complete(j.handle, error(errc::io, "injected failure")));
    } else {
      run_task(*j.task, j.index, *j.memory);
      static_cast<void>(complete(j.handle));
    }
    return true;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (jobs_.empty()) {
        changed_.wait(lock);
        continue;
      }
      lock.unlock();
      do_one();
      lock.lock();
    }
  }

  dice choice_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<job> jobs_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

/// A program, and who does the work of postponed tasks. The memory of an execution is the
/// argument of the capture or the replay, or `memory` outside of them.
struct later_state {
  const program* source;
  program_memory* memory;
  outside_workers* others;
};

/// Number of executions of a program that is captured and replayed.
constexpr std::size_t executions = 3;

/// Runs random programs on an engine and serially, for different numbers of workers.
class RandomCompletions : public testing::TestWithParam<unsigned> {
 protected:
  static std::uint64_t seed() { return number_or("WEIR_TEST_SEED", 77'000 + GetParam()); }
  static std::unique_ptr<engine> make_engine(dice& d, outside_workers& others) {
    engine_options o;
    o.workers = GetParam();
    o.window = d.one_in(2) ? 64 : 1U << d.in(1, 3);
    o.trace.mode = d.one_in(4) ? trace_mode::all : trace_mode::off;
    o.trace.max_bytes = 100'000;
    o.kernel_time = d.one_in(2);
    if (d.one_in(3)) {  // the poller is one more thread that completes tasks
      o.poller = [&others] { return others.do_one(); };
    }
    return or_throw(engine::create(o));
  }

  /// Submits one task of the program; a task with an even salt ends later.
  static void submit_one(engine& e, const std::vector<storage>& stores, std::size_t i,
                         const later_state& state) {
    std::vector<access> accesses;
    for (const program_access& a : state.source->tasks[i].accesses) {
      const tensor t =
          or_throw(tensor::strided(stores[a.storage], a.view.type(), a.view.offset(),
                                   a.view.shape(), a.view.strides()));
      accesses.push_back({t.bytes(), a.mode});
    }
    const auto kernel = [state, i](const task_context& c) -> result<void> {
      const program_task& task = state.source->tasks[i];
      program_memory& memory =
          c.argument == nullptr
              ? *state.memory
              : *static_cast<program_memory*>(const_cast<void*>(c.argument));
      if (task.salt % 2 == 0) {
        state.others->put({c.later(), &task, i, &memory});
        delay(task.salt % 5 == 0 ? 1 : 0);
        if (task.salt % 3 == 0) {
          state.others->do_one();  // its own task, or another one
        }
        return {};
      }
      delay(task.delay);
      if (task.fails) {
        return error(errc::io, "injected failure");
      }
      run_task(task, i, memory);
      return {};
    };
    static_cast<void>(or_throw(e.submit("step", accesses, kernel)));
  }

  /// Submits the program, with random waits and calls that run tasks in between. Returns
  /// the number of the first task.
  static task_id submit_all(engine& e, dice& d, const std::vector<storage>& stores,
                            const later_state& state) {
    const std::size_t count = state.source->tasks.size();
    const task_id first = e.counters().submitted + 1;
    for (std::size_t i = 0; i < count; ++i) {
      submit_one(e, stores, i, state);
      if (d.one_in(12)) {
        static_cast<void>(e.wait(static_cast<task_id>(d.in(
            static_cast<std::int64_t>(first), static_cast<std::int64_t>(first + i)))));
      } else if (d.one_in(12)) {
        e.run_one();
      } else if (d.one_in(40)) {
        e.idle(d.in(0, 30'000));
      }
    }
    return first;
  }

  static void fill(std::byte* base, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) {
      base[i] = static_cast<std::byte>(
          mix(static_cast<std::uint64_t>(size), static_cast<std::uint64_t>(i)) >> 13);
    }
  }

  /// Runs one program both ways, once or three times, and compares memory, reads and
  /// outcomes. Repetitions on the engine are replays.
  static void compare(engine& e, dice& d, outside_workers& others,
                      std::int64_t failing_one_in) {
    const program p = random_program(d, failing_one_in);
    std::vector<storage> stores;
    std::vector<std::vector<std::byte>> copies;
    std::array<program_memory, executions> actual;
    std::array<program_memory, executions> expected;
    for (const std::int64_t size : p.sizes) {
      stores.push_back(or_throw(e.allocate(size, "program")));
      fill(stores.back().base, size);
      copies.emplace_back(stores.back().base, stores.back().base + size);
    }
    const bool replays =
        failing_one_in == 0 && p.tasks.size() <= e.window() && d.one_in(2);
    const std::size_t times = replays ? executions : 1;
    for (std::size_t n = 0; n < times; ++n) {
      actual[n].seen.resize(p.tasks.size());
      expected[n].seen.resize(p.tasks.size());
      for (std::size_t k = 0; k < stores.size(); ++k) {
        actual[n].bases.push_back(stores[k].base);
        expected[n].bases.push_back(copies[k].data());
      }
    }
    if (replays) {
      ASSERT_TRUE(e.begin_capture(actual.data()));
    }
    const task_id first = submit_all(e, d, stores, {&p, actual.data(), &others});
    if (replays) {
      const capture recorded = or_throw(e.end_capture());
      for (std::size_t n = 1; n < times; ++n) {
        static_cast<void>(or_throw(e.replay(recorded, &actual[n])));
      }
    }
    const auto roots = expected_roots(p, first);
    for (std::size_t n = 0; n < times; ++n) {
      for (std::size_t i = 0; i < p.tasks.size(); ++i) {
        if (roots[i] == 0) {
          run_task(p.tasks[i], i, expected[n]);
        }
      }
    }
    check_outcomes(e, roots, first);
    for (std::size_t n = 0; n < times; ++n) {
      EXPECT_EQ(actual[n].seen, expected[n].seen);
    }
    for (std::size_t k = 0; k < stores.size(); ++k) {
      ASSERT_EQ(std::memcmp(stores[k].base, copies[k].data(), copies[k].size()), 0);
      ASSERT_TRUE(e.release(stores[k].id));
    }
  }

  /// Expects the failures that the oracle says, and waits for all tasks.
  static void check_outcomes(engine& e, const std::vector<task_id>& roots,
                             task_id first) {
    bool fails = false;
    for (std::size_t i = 0; i < roots.size(); ++i) {
      const auto outcome = e.wait(first + i);
      ASSERT_EQ(outcome.has_value(), roots[i] == 0) << "task " << i;
      fails = fails || !outcome;
      if (!outcome) {
        ASSERT_EQ(outcome.error().code(),
                  roots[i] == first + i ? errc::kernel_failed : errc::upstream_failed);
      }
    }
    ASSERT_EQ(e.wait_all().has_value(), !fails);
  }

  void run_programs(std::int64_t failing_one_in) {
    dice d(seed() * 2 + static_cast<std::uint64_t>(failing_one_in));
    SCOPED_TRACE(testing::Message() << "WEIR_TEST_SEED=" << seed());
    outside_workers others(seed());
    std::unique_ptr<engine> e;
    const std::uint64_t programs = case_count("WEIR_TEST_COMPLETIONS", 400);
    for (std::uint64_t i = 0; i < programs; ++i) {
      if (i % 20 == 0) {
        e = make_engine(d, others);
      }
      SCOPED_TRACE(testing::Message() << "program " << i);
      compare(*e, d, others, failing_one_in);
      if (HasFailure()) {
        return;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, RandomCompletions, testing::Values(1U, 2U, 3U));

TEST_P(RandomCompletions, EqualSerialExecution) {
  run_programs(0);
}
TEST_P(RandomCompletions, PoisonExactlyWhatDependsOnAFailure) {
  run_programs(12);
}

}  // namespace
}  // namespace weir::runtime
