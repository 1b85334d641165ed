// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that random programs have the result of serial execution, for any number of
/// workers, window size and delays.
#include <gtest/gtest.h>

#include <memory>

#include "random_programs.hpp"
#include "support/case_count.hpp"

namespace weir::runtime {
namespace {

using namespace weir::test;

/// A program and the memory of its execution.
struct run_state {
  const program* source;
  program_memory* memory;
};

/// Runs random programs on an engine and serially, for different numbers of workers.
class Program : public testing::TestWithParam<unsigned> {
 protected:
  std::uint64_t seed() const {
    return weir::test::number_or("WEIR_TEST_SEED", 1000 + GetParam());
  }
  static std::int64_t programs() {
    return static_cast<std::int64_t>(weir::test::case_count("WEIR_TEST_PROGRAMS", 700));
  }
  std::unique_ptr<engine> make_engine(dice& d) const {
    engine_options o;
    o.workers = GetParam();
    // Small windows provoke every kind of stall.
    o.window = d.one_in(2) ? 64 : 1U << d.in(1, 3);
    o.trace.mode = d.one_in(4) ? trace_mode::all : trace_mode::off;
    o.trace.max_bytes = 100'000;
    return or_throw(engine::create(o));
  }

  /// Submits the program, with random waits and calls that run tasks in between. Returns
  /// the id of the first task.
  static task_id submit_all(engine& e, dice& d, const std::vector<storage>& stores,
                            const run_state& state) {
    task_id first = 0;
    for (std::size_t i = 0; i < state.source->tasks.size(); ++i) {
      std::vector<access> accesses;
      for (const program_access& a : state.source->tasks[i].accesses) {
        const tensor t =
            or_throw(tensor::strided(stores[a.storage], a.view.type(), a.view.offset(),
                                     a.view.shape(), a.view.strides()));
        accesses.push_back({t.bytes(), a.mode});
      }
      const auto kernel = [state, i](const task_context&) -> result<void> {
        const program_task& task = state.source->tasks[i];
        delay(task.delay);
        if (task.fails) {
          return error(errc::io, "injected failure");
        }
        run_task(task, i, *state.memory);
        return {};
      };
      const task_id id = or_throw(e.submit("step", accesses, kernel));
      first = first == 0 ? id : first;
      if (d.one_in(12)) {
        static_cast<void>(e.wait(static_cast<task_id>(
            d.in(static_cast<std::int64_t>(first), static_cast<std::int64_t>(id)))));
      } else if (d.one_in(12)) {
        e.run_one();
      } else if (d.one_in(40)) {
        e.idle(d.in(0, 30'000));
      }
    }
    return first;
  }

  static void fill(std::byte* base, std::int64_t size, std::uint64_t salt) {
    for (std::int64_t i = 0; i < size; ++i) {
      base[i] = static_cast<std::byte>(mix(salt, static_cast<std::uint64_t>(i)) >> 13);
    }
  }

  /// Runs one program both ways and compares memory, reads and outcomes.
  static void compare(engine& e, dice& d, std::int64_t failing_one_in) {
    const program p = random_program(d, failing_one_in);
    std::vector<storage> stores;
    std::vector<std::vector<std::byte>> copies;
    program_memory actual{{}, std::vector<std::uint64_t>(p.tasks.size())};
    program_memory expected{{}, std::vector<std::uint64_t>(p.tasks.size())};
    for (const std::int64_t size : p.sizes) {
      stores.push_back(or_throw(e.allocate(size, "program")));
      fill(stores.back().base, size, static_cast<std::uint64_t>(size));
      copies.emplace_back(stores.back().base, stores.back().base + size);
      actual.bases.push_back(stores.back().base);
    }
    for (auto& copy : copies) {
      expected.bases.push_back(copy.data());
    }
    const task_id first = submit_all(e, d, stores, {&p, &actual});
    const auto roots = expected_roots(p, first);
    for (std::size_t i = 0; i < p.tasks.size(); ++i) {
      if (roots[i] == 0) {
        run_task(p.tasks[i], i, expected);
      }
    }
    check_outcomes(e, p, roots, first);
    EXPECT_EQ(actual.seen, expected.seen);
    for (std::size_t k = 0; k < stores.size(); ++k) {
      ASSERT_EQ(std::memcmp(stores[k].base, copies[k].data(), copies[k].size()), 0);
      ASSERT_TRUE(e.release(stores[k].id));
    }
  }

  static void check_outcomes(engine& e, const program& p,
                             const std::vector<task_id>& roots, task_id first) {
    task_id oldest = 0;
    for (std::size_t i = 0; i < p.tasks.size(); ++i) {
      const auto outcome = e.wait(first + i);
      ASSERT_EQ(outcome.has_value(), roots[i] == 0) << "task " << i;
      if (outcome) {
        continue;
      }
      const bool itself = roots[i] == first + i;
      oldest = oldest == 0 && itself ? roots[i] : oldest;
      ASSERT_EQ(outcome.error().code(),
                itself ? errc::kernel_failed : errc::upstream_failed);
      const std::string name =
          "expected task " + std::to_string(roots[i]) + " to succeed";
      ASSERT_NE(outcome.error().text().find(name), std::string::npos)
          << outcome.error().text();
    }
    const auto all = e.wait_all();
    ASSERT_EQ(all.has_value(), oldest == 0);
    if (!all) {
      const std::string name = "expected task " + std::to_string(oldest) + " to succeed";
      ASSERT_NE(all.error().text().find(name), std::string::npos) << all.error().text();
    }
    ASSERT_TRUE(e.wait_all());
  }

  void run_programs(std::int64_t failing_one_in) {
    dice d(seed() * 2 + static_cast<std::uint64_t>(failing_one_in));
    SCOPED_TRACE(testing::Message() << "WEIR_TEST_SEED=" << seed());
    std::unique_ptr<engine> e;
    for (std::int64_t i = 0; i < programs(); ++i) {
      if (i % 20 == 0) {
        e = make_engine(d);
      }
      SCOPED_TRACE(testing::Message() << "program " << i);
      compare(*e, d, failing_one_in);
      if (HasFailure()) {
        return;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, Program, testing::Values(1U, 2U, 3U, 4U));

TEST_P(Program, EqualsSerialExecution) {  // T14: windows of many sizes
  run_programs(0);
}
TEST_P(Program, PoisonsExactlyWhatDependsOnAFailure) {
  run_programs(12);
}

}  // namespace
}  // namespace weir::runtime
