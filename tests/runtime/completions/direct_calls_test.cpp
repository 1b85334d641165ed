// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests calls in place of tasks: when they are allowed, and that they have the effect of
/// tasks.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>

#include "tensors.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/system/fp_environment.hpp"
#include "weir/runtime/calls/call_or_submit.hpp"

namespace weir::runtime {
namespace {

constexpr std::int64_t long_ns = 60'000'000'000;
/// Kernels that are short in these tests, whatever else the machine does meanwhile.
constexpr std::int64_t short_ns = 1'000'000;
/// A kernel that is long enough to end all calls of its tag.
constexpr std::int64_t long_kernel_ns = 20 * short_ns;

engine_options with_one_worker() {
  engine_options o;
  o.window = 64;
  return o;
}

/// Two workers, which measure the time inside of kernels.
engine_options with_two_workers() {
  engine_options o = with_one_worker();
  o.workers = 2;
  o.kernel_time = true;
  return o;
}

/// Keeps this thread busy.
void spend(std::int64_t ns) {
  for (const std::int64_t end = now_ns() + ns; now_ns() < end;) {
  }
}

std::array<borrowed_access, 1> borrowed(const access& one) {
  return {{{&one.bytes, one.mode}}};
}

/// An engine, a storage of it, and whether `call_now` has called a function.
struct calling {
  explicit calling(const engine_options& o = with_one_worker())
      : e(or_throw(engine::create(o))),
        direct(*e, short_ns),
        memory(or_throw(e->allocate(8, "test"))) {
    direct.allow(long_ns);
  }
  bool calls(access one, std::int64_t ns = 0) {
    bool called = false;
    const result<bool> said = direct.call(borrowed(one), [&]() -> result<void> {
      called = true;
      if (ns != 0) {
        spend(ns);
      }
      return {};
    });
    EXPECT_TRUE(said);
    EXPECT_EQ(*said, called);
    return called;
  }
  bool calls() { return calls(updates(bytes_of(memory))); }
  task_id submit(const std::function<void()>* kernel = nullptr) {
    const access one = updates(bytes_of(memory));
    return or_throw(e->submit("task", {&one, 1}, [kernel](const task_context&) {
      if (kernel != nullptr) {
        (*kernel)();
      }
    }));
  }

  const fp_scope environment{};  // calls need it
  std::unique_ptr<engine> e;
  direct_calls direct;
  /// Asks `count` times for a call of a kernel that takes this time, and submits it as a
  /// task, which ends before the next one begins, if it is not called. Returns how many
  /// were called.
  int called_of(int count, std::int64_t ns) {
    const std::function<void()> kernel = [ns] {
      if (ns != 0) {
        spend(ns);
      }
    };
    int called = 0;
    for (int i = 0; i < count; ++i) {
      direct.allow(long_ns);
      const access one = updates(bytes_of(memory));
      if (calls(one, ns)) {
        ++called;
      } else {
        EXPECT_TRUE(e->wait(submit(&kernel)));
      }
    }
    return called;
  }

  storage memory;
};

TEST(DirectCalls, WithSeveralWorkersAreForKernelsThatWereShortAsTasks) {
  calling c(with_two_workers());
  c.e->tag_tasks(5);
  EXPECT_GT(c.called_of(500, 0), 100);
  // Nothing is known of the kernels of another tag.
  c.e->tag_tasks(6);
  EXPECT_FALSE(c.calls());
}

TEST(DirectCalls, WithSeveralWorkersLeaveLongKernelsToThem) {
  calling c(with_two_workers());
  EXPECT_EQ(c.called_of(70, 2 * short_ns), 0);
  EXPECT_FALSE(c.direct.only_short());
}

TEST(DirectCalls, WithSeveralWorkersEndWhenKernelsBecomeLong) {
  calling c(with_two_workers());
  ASSERT_GT(c.called_of(500, 0), 100);
  // Not every short call is timed, but at least one of seven calls in a row.
  EXPECT_LE(c.called_of(20, long_kernel_ns), 7) << "the first ones are the surprise";
}

TEST(DirectCalls, NeedAnEngineThatMeasuresKernelsIfThereAreSeveralWorkers) {
  engine_options o = with_two_workers();
  o.kernel_time = false;
  calling c(o);
  EXPECT_EQ(c.called_of(300, 0), 0);
}

TEST(DirectCalls, SayWhetherAllKernelsWereShort) {
  calling c(with_two_workers());
  c.e->tag_tasks(5);
  EXPECT_FALSE(c.direct.only_short()) << "nothing was asked for";
  EXPECT_FALSE(c.calls());
  EXPECT_FALSE(c.direct.only_short()) << "nothing is known of the kernel";
  ASSERT_GT(c.called_of(500, 0), 100);
  c.direct.allow(long_ns);
  EXPECT_FALSE(c.direct.only_short()) << "nothing was asked for since then";
  EXPECT_TRUE(c.calls());
  EXPECT_TRUE(c.direct.only_short());
  c.e->tag_tasks(6);
  EXPECT_FALSE(c.calls());
  EXPECT_FALSE(c.direct.only_short()) << "one of two kernels may be long";
}

TEST(DirectCalls, CallsOnlyWhileItIsAllowed) {
  calling c;
  EXPECT_TRUE(c.calls());
  c.direct.allow(0);
  EXPECT_FALSE(c.calls());
  direct_calls never_asked(*c.e);
  EXPECT_FALSE(or_throw(never_asked.call({}, [] { return result<void>(); })));
}

TEST(DirectCalls, WaitsForNothingSoThatTasksInFlightForbidIt) {
  calling c;
  const task_id id = c.submit();
  EXPECT_FALSE(c.calls());
  ASSERT_TRUE(c.e->wait(id));
  EXPECT_TRUE(c.calls());
}

TEST(DirectCalls, IsForbiddenWhereSomebodyElseSeesTheTask) {
  engine_options o = with_one_worker();
  o.workers = 2;
  EXPECT_FALSE(calling(o).calls()) << "another worker";
  o = with_one_worker();
  o.max_workers = 2;
  EXPECT_FALSE(calling(o).calls()) << "a place for another worker";
  o = with_two_workers();
  EXPECT_FALSE(calling(o).calls()) << "a kernel of unknown length and another worker";
  o = with_one_worker();
  o.watchdog_ns = long_ns;
  EXPECT_FALSE(calling(o).calls()) << "a watchdog";
  o = with_one_worker();
  o.trace.mode = trace_mode::all;
  EXPECT_FALSE(calling(o).calls()) << "a trace";

  calling c;
  ASSERT_TRUE(c.e->begin_capture());
  EXPECT_FALSE(c.calls()) << "a capture";
  ASSERT_TRUE(c.e->end_capture());
  {
    const scope manual = or_throw(c.e->open_scope("manual", scope_kind::manual));
    EXPECT_FALSE(c.calls()) << "a manual scope";
  }
  EXPECT_TRUE(c.calls());
}

TEST(DirectCalls, IsForbiddenForAccessesThatAreNotPlainOrNotAllowed) {
  calling c;
  EXPECT_FALSE(c.calls(commutes(bytes_of(c.memory))));
  EXPECT_FALSE(c.calls(keeps(bytes_of(c.memory))));
  const tensor gone = bytes_of(or_throw(c.e->allocate(8, "test")));
  ASSERT_TRUE(c.e->release(gone.store().id));
  EXPECT_FALSE(c.calls(reads(gone)));
  EXPECT_TRUE(c.calls(reads(bytes_of(c.memory))));
}

TEST(DirectCalls, IsForbiddenOnceATaskHasFailed) {
  calling c;
  const std::function<void()> fails = [] { throw std::runtime_error("no"); };
  c.submit(&fails);
  EXPECT_FALSE(c.e->wait_all());
  EXPECT_FALSE(c.calls());
}

TEST(DirectCalls, CountsAsATaskOfItsTag) {
  calling c;
  c.e->tag_tasks(3);
  const access one = updates(bytes_of(c.memory));
  ASSERT_TRUE(or_throw(c.direct.call(borrowed(one), []() -> result<void> {
    const std::int64_t until = now_ns() + 1'000'000;
    while (now_ns() < until) {
    }
    return {};
  })));
  EXPECT_EQ(c.e->counters().submitted, 1U);
  EXPECT_EQ(c.e->counters().finished, 1U);
  EXPECT_EQ(c.e->in_flight(), 0U);
  EXPECT_GE(c.e->kernel_times()[3], 900'000);
  EXPECT_EQ(c.e->kernel_times()[0], 0);
}

/// Calls kernels of which every fourth takes 80 us and the others 5 us. Returns the time
/// that the engine has measured inside of them, over the time that was spent.
double measured_share_of_uneven_kernels() {
  engine_options o = with_one_worker();
  o.kernel_time = true;
  calling c(o);
  std::int64_t spent = 0;
  for (int i = 0; i < 2'000; ++i) {
    const std::int64_t begin = now_ns();
    EXPECT_TRUE(c.calls(updates(bytes_of(c.memory)), i % 4 == 0 ? 80'000 : 5'000));
    spent += now_ns() - begin;
  }
  return static_cast<double>(c.e->kernel_times()[0]) / static_cast<double>(spent);
}

TEST(DirectCalls, EstimateTheTimeOfShortKernelsOfDifferentLength) {
  // A sample at a fixed distance would see only long kernels, or none. A time in which
  // this thread did not run counts four times if it falls into a sample, so several
  // measurements are tried.
  double share = 0;
  for (int tries = 0; tries < 20 && (share < 0.85 || share > 1.1); ++tries) {
    share = measured_share_of_uneven_kernels();
  }
  EXPECT_GE(share, 0.85);
  EXPECT_LE(share, 1.1);
}

TEST(DirectCalls, TimeEachKernelOnceOneWasNotShort) {
  engine_options o = with_one_worker();
  o.kernel_time = true;
  calling c(o);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(c.calls());
  }
  constexpr std::int64_t longer_ns = 2 * short_ns;
  const auto times = [&] { return c.e->kernel_times()[0]; };
  // One of the first seven is timed and stands for four.
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(c.calls(updates(bytes_of(c.memory)), longer_ns));
  }
  const std::int64_t before = times();
  EXPECT_GE(before, 4 * longer_ns);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(c.calls(updates(bytes_of(c.memory)), longer_ns));
  }
  EXPECT_GE(times() - before, 10 * longer_ns);
  EXPECT_EQ(c.e->counters().submitted, 117U);
}

TEST(DirectCalls, NoFunctionSeesTheEnvironmentThatTheOneBeforeItHasLeft) {
  const std::uint64_t another = fp_control();
  ASSERT_NE(another, kernel_fp_control);
  calling c;
  const access one = updates(bytes_of(c.memory));
  for (int calls = 0; calls < 3; ++calls) {
    std::uint64_t inside = 0;
    ASSERT_TRUE(or_throw(c.direct.call(borrowed(one), [&]() -> result<void> {
      inside = fp_control();
      set_fp_control(another);
      return {};
    })));
    EXPECT_EQ(inside, kernel_fp_control);
    EXPECT_EQ(fp_control(), kernel_fp_control);
  }
}

/// Runs a program whose second kernel fails, and returns the errors of its three tasks.
/// @param at_once  Let kernels be called at once.
std::array<std::string, 3> errors_of_failing_program(bool at_once, bool throws) {
  const fp_scope environment;
  weir::engine e;
  direct_calls direct(e.base());
  const auto a = e.make<double>(4);
  const auto b = e.make<double>(4);
  direct.allow(at_once ? long_ns : 0);
  const auto fill = [](auto v) { v[0] = 1; };
  const auto fail = [throws](auto from, auto to) -> result<void> {
    to[0] = from[0];
    if (throws) {
      throw std::runtime_error("a bad day");
    }
    return error(errc::out_of_range, "a bad value");
  };
  const task_id first = call_or_submit(direct, e, "fill", fill, weir::write(a));
  EXPECT_EQ(first == 0, at_once);
  const task_id second =
      call_or_submit(direct, e, "fail", fail, weir::read(a), weir::write(b));
  EXPECT_NE(second, 0U) << "a failure has a task";
  const task_id third = call_or_submit(
      direct, e, "reader", [](auto from, auto to) { to[1] = from[0]; }, weir::read(b),
      weir::write(a));
  EXPECT_NE(third, 0U) << "tasks behind a failure are submitted";
  const auto text_of = [&](task_id id) {
    const auto ended = id == 0 ? result<void>() : e.wait(id);
    if (ended) {
      return std::string("none");
    }
    const error& root = ended.error().root();
    return std::string(name_of(root.code())) + ": " + root.text();
  };
  std::array<std::string, 3> all{text_of(first), text_of(second), text_of(third)};
  EXPECT_FALSE(e.wait());
  return all;
}

TEST(CallOrSubmit, FailsAsATaskDoes) {
  for (const bool throws : {false, true}) {
    const auto tasks = errors_of_failing_program(false, throws);
    EXPECT_EQ(errors_of_failing_program(true, throws), tasks);
    EXPECT_EQ(tasks[0], "none");
    EXPECT_NE(tasks[1], "none");
    EXPECT_EQ(tasks[1], tasks[2]) << "the reader has the failure of its input as root";
  }
}

/// Runs the program of `errors_of_failing_program` with kernels without types.
std::array<std::string, 3> errors_of_failing_bytes(bool at_once, bool throws) {
  const fp_scope environment;
  weir::engine e;
  direct_calls direct(e.base());
  const storage a = or_throw(e.base().allocate(8, "test"));
  const storage b = or_throw(e.base().allocate(8, "test"));
  direct.allow(at_once ? long_ns : 0);
  const std::array fill{writes(bytes_of(a))};
  const std::array copy{reads(bytes_of(a)), writes(bytes_of(b))};
  const std::array back{reads(bytes_of(b)), writes(bytes_of(a))};
  const auto first = call_or_submit_bytes(direct, e, "fill", fill, [] {});
  const auto second =
      call_or_submit_bytes(direct, e, "fail", copy, [throws]() -> result<void> {
        if (throws) {
          throw std::runtime_error("a bad day");
        }
        return error(errc::out_of_range, "a bad value");
      });
  const auto third = call_or_submit_bytes(direct, e, "reader", back, [] {});
  std::array<std::string, 3> all;
  const std::array ids{&first, &second, &third};
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(*ids[i]) << "a failed kernel is no refused submission";
    const task_id id = *ids[i] ? **ids[i] : 0;
    EXPECT_EQ(id == 0, at_once && i == 0) << "a failure has a task";
    const auto ended = id == 0 ? result<void>() : e.wait(id);
    all[i] = ended ? "none"
                   : std::string(name_of(ended.error().root().code())) + ": " +
                         ended.error().root().text();
  }
  EXPECT_FALSE(e.wait());
  return all;
}

TEST(CallOrSubmit, FailsAsATaskDoesWithoutTypes) {
  for (const bool throws : {false, true}) {
    const auto tasks = errors_of_failing_bytes(false, throws);
    EXPECT_EQ(errors_of_failing_bytes(true, throws), tasks);
    EXPECT_EQ(tasks, errors_of_failing_program(true, throws)) << "as with types";
    EXPECT_EQ(tasks[0], "none");
    EXPECT_NE(tasks[1], "none");
  }
}

TEST(CallOrSubmit, KeepsTheOrderOfCallsAndTasks) {
  const fp_scope environment;
  weir::engine e;
  direct_calls direct(e.base());
  const auto x = e.make<std::uint64_t>(1);
  std::uint64_t expected = 0;
  std::uint64_t calls = 0;
  for (std::uint64_t i = 1; i <= 500; ++i) {
    direct.allow(i % 3 == 0 ? long_ns : 0);
    const task_id id = call_or_submit(
        direct, e, "step", [i](auto v) { v[0] = v[0] * 31 + i; }, weir::update(x));
    calls += id == 0 ? 1 : 0;
    expected = expected * 31 + i;
    if (i % 7 == 0) {
      ASSERT_TRUE(e.wait());
    }
  }
  EXPECT_EQ(*e.get(x, 0), expected);
  EXPECT_GT(calls, 10U);
  EXPECT_LT(calls, 490U);
}

}  // namespace
}  // namespace weir::runtime
