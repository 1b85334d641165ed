// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests streams against a serial reference: memory must end as if each operation had
/// completed at its call. This holds for every program whose conflicting accesses are
/// ordered by a stream, by events or by waiting threads.
/// @source{the order of operations at the top of tessera.h}
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <memory>

#include <fmt/core.h>

#include "serial/generate/generator.hpp"
#include "serial/rules.hpp"
#include "serial/run/runner.hpp"
#include "serial/shrinker.hpp"
#include "support/case_count.hpp"
#include "weir/base/system/sanitizers.hpp"

namespace weir::test::serial {
namespace {

std::int64_t programs() {
  return static_cast<std::int64_t>(weir::test::case_count("WEIR_TEST_PROGRAMS", 2000));
}
/// Returns the seed of the first program; each further program adds one.
std::uint64_t first_seed() {
  return weir::test::number_or("WEIR_TEST_SEED", 1);
}

/// Returns all features but those named in WEIR_TEST_WITHOUT. Use it to find out which
/// feature a failure needs.
features wanted() {
  const char* const set = std::getenv("WEIR_TEST_WITHOUT");
  const std::string_view without = set == nullptr ? "" : set;
  const auto has = [&](std::string_view name) {
    return without.find(name) == std::string_view::npos;
  };
  features out;
  out.shared_launches = has("shared_launches");
  out.peer_copies = has("peer_copies");
  out.rank_streams = has("rank_streams");
  out.second_mesh = has("second_mesh");
  out.waits_before_captures = has("waits_before_captures");
  out.flagged_captures = has("flagged_captures");
  out.plain_captures = has("plain_captures");
  out.pooled_memory = has("pooled_memory");
  out.graph_memory = has("graph_memory");
  out.child_graphs = has("child_graphs");
  out.updates = has("updates");
  out.host_copies = has("host_copies");
  out.late_streams = has("late_streams");
  out.merged_calls = has("merged_calls");
  out.collectives = has("collectives");
  return out;
}

/// Supplies contexts with two to four workers; each is used for several programs.
class machines {
 public:
  machine& next() {
    constexpr int programs_of_one = 100;
    if (used_ % programs_of_one == 0) {
      replace();
    }
    ++used_;
    return *machine_;
  }
  machine& replace() {
    machine_.reset();  // two contexts cannot register the same kernel names
    machine_ = std::make_unique<machine>(2 + used_ / 100 % 3);
    return *machine_;
  }

 private:
  std::unique_ptr<machine> machine_;
  int used_ = 0;
};

/// Counts the programs and operations that have run.
class tally {
 public:
  void add(const program& p) {
    ++programs_;
    for (const operation& o : p.operations) {
      ++at(of_, static_cast<int>(o.what));
      by_ranks_ += o.shares.empty() ? 0 : 1;
      nested_ += o.what == verb::launch_graph && o.recorded_in != none ? 1 : 0;
      taken_inside_ += o.what == verb::take_memory && o.recorded_in != none ? 1 : 0;
    }
  }
  [[nodiscard]] std::string text() const {
    std::int64_t all = 0;
    std::string kinds;
    for (int v = 0; v < verbs; ++v) {
      all += at(of_, v);
      kinds += fmt::format("\n  {:8} {}", at(of_, v), name_of(static_cast<verb>(v)));
    }
    return fmt::format(
        "{} programs, {} operations:{}\n  {:8} collectives of them that each rank calls"
        "\n  {:8} launches of graphs of them into captures\n  {:8} of the memory taken "
        "of them in captures",
        programs_, all, kinds, by_ranks_, nested_, taken_inside_);
  }
  [[nodiscard]] std::int64_t nested() const { return nested_; }
  [[nodiscard]] std::int64_t taken_inside() const { return taken_inside_; }
  [[nodiscard]] std::int64_t of(verb what) const {
    return at(of_, static_cast<int>(what));
  }

 private:
  std::int64_t programs_ = 0;
  std::int64_t by_ranks_ = 0;
  std::int64_t nested_ = 0;
  std::int64_t taken_inside_ = 0;
  std::array<std::int64_t, verbs> of_{};
};

/// Returns, as text, the smallest program found that fails in the same way.
std::string smallest(const program& p, const fault& with, machines& on) {
  const int runs = 30;
  std::string why;
  const auto fails = [&](const program& candidate) {
    for (int i = 0; i < runs; ++i) {
      std::string wrong = on.next().run(candidate, with);
      if (!wrong.empty()) {
        why = std::move(wrong);
        on.replace();
        return true;
      }
    }
    return false;
  };
  const program found = shrink(p, fails, 1500);
  return fmt::format("the smallest program found that fails ({}):\n{}", why,
                     text_of(found));
}

TEST(TesseraSerial, MemoryEndsAsIfEachOperationRanAtItsCall) {
  machines on;
  tally done;
  for (std::int64_t i = 0; i < programs(); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    const program p = random_program(seed, wanted());
    const std::string wrong = on.next().run(p);
    done.add(p);
    if (!wrong.empty()) {
      on.replace();
      FAIL() << "WEIR_TEST_SEED=" << seed << ": " << wrong << "\n"
             << text_of(p) << smallest(p, {}, on);
    }
  }
  std::cout << done.text() << "\n";
}

TEST(TesseraSerial, ProgramsAreSoundAndHaveOperationsOfAllKinds) {
  tally made;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const program p = random_program(seed, wanted());
    ASSERT_TRUE(is_sound(p)) << "seed " << seed << "\n" << text_of(p);
    made.add(p);
  }
  for (int v = 0; v < verbs; ++v) {
    EXPECT_GT(made.of(static_cast<verb>(v)), 0) << name_of(static_cast<verb>(v));
  }
  EXPECT_GT(made.nested(), 10) << "graphs in graphs";
  EXPECT_GT(made.taken_inside(), 50) << "memory that captures take";
  EXPECT_GT(made.of(verb::update_node), 30);
}

/// Returns the program without one of its operations.
program without(const program& p, std::size_t left_out) {
  program out = p;
  out.operations.erase(out.operations.begin() + static_cast<std::ptrdiff_t>(left_out));
  return out;
}

// Removes each wait of random programs in turn. At least 80 % of the waits must be
// necessary: superfluous waits would hide faults in the order of operations.
TEST(TesseraSerial, MostWaitsAreNeeded) {
  std::int64_t waits = 0;
  std::int64_t needed = 0;
  const std::uint64_t seeds = weir::test::case_count("WEIR_TEST_PROGRAMS", 200);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const program p = random_program(seed, wanted());
    for (std::size_t i = 0; i < p.operations.size(); ++i) {
      const operation& o = p.operations[i];
      if (o.what == verb::wait && o.runs) {
        ++waits;
        needed += is_sound(without(p, i)) ? 0 : 1;
      }
    }
  }
  EXPECT_GT(needed * 10, waits * 8) << needed << " of " << waits;
}

TEST(TesseraSerial, ShrinkingLeavesWhatAFailureNeeds) {
  const auto launches_a_graph = [](const program& p) {
    return std::any_of(p.operations.begin(), p.operations.end(),
                       [](const operation& o) { return o.what == verb::launch_graph; });
  };
  std::uint64_t shrunk = 0;
  const std::uint64_t seeds = weir::test::case_count("WEIR_TEST_PROGRAMS", 60);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const program p = random_program(seed, wanted());
    if (launches_a_graph(p)) {
      ++shrunk;
      const program small = shrink(p, launches_a_graph, 2000);
      ASSERT_TRUE(is_sound(small) && launches_a_graph(small)) << text_of(small);
      // 14 operations suffice for a capture that is not empty, even with a stream that
      // has joined it.
      EXPECT_LE(small.operations.size(), 14U) << "seed " << seed << "\n"
                                              << text_of(small);
    }
  }
  EXPECT_GT(shrunk, seeds / 6);
}

/// One test for each kind of fault that can be planted.
class SerialFault : public testing::TestWithParam<fault_kind> {};

// Plants a fault in random programs until a run gives a wrong result, and then runs the
// same program without the fault. This shows that the tests would find such a fault in
// the runtime.
TEST_P(SerialFault, IsFoundWithin2000Programs) {
  if (thread_sanitizer) {
    GTEST_SKIP() << "the fault is a race, which would end the program";
  }
  machines on;
  std::int64_t planted = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const program p = random_program(first_seed() + i, wanted());
    dice d(i);
    const auto with = plant(GetParam(), p, d);
    if (!with) {
      continue;
    }
    ++planted;
    machine& m = on.next();
    std::string wrong = m.run(p, *with);
    for (int runs = 1; wrong.empty() && runs < 3; ++runs) {
      wrong = m.run(p, *with);
    }
    if (!wrong.empty()) {
      std::cout << "found by program " << i + 1 << ", the " << planted
                << ". with the fault: " << wrong << "\n";
      machine& again = on.replace();
      for (int runs = 0; runs < 5; ++runs) {
        ASSERT_EQ(again.run(p), "") << "the same program without the fault";
      }
      return;
    }
  }
  FAIL() << "expected a wrong result, found none in " << planted << " programs";
}
std::string name_of_fault(const testing::TestParamInfo<fault_kind>& kind) {
  constexpr std::array<const char*, 5> names = {"None", "ADroppedWait",
                                                "AnEventOfOneLane", "PairingByAdmission",
                                                "WaitsLostAtACapture"};
  return names.at(static_cast<std::size_t>(kind.param));
}
INSTANTIATE_TEST_SUITE_P(Kinds, SerialFault,
                         testing::Values(fault_kind::dropped_wait,
                                         fault_kind::event_of_one_chain,
                                         fault_kind::pairing_by_admission,
                                         fault_kind::waits_lost_at_capture),
                         name_of_fault);

}  // namespace
}  // namespace weir::test::serial
