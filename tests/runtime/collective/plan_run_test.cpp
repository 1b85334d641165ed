// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests plans that several threads run, plans over a transport that fails, plans between
/// ranks without shared memory, and buffers of more than 2^31 bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "plans.hpp"
#include "weir/collective/choice.hpp"

namespace weir::collective {
namespace {

using test::bytes;
using test::flavour;

/// Threads that run the steps of a plan as soon as the predecessors have ended.
class step_pool {
 public:
  step_pool(const collective_plan& plan, const collective_buffers& buffers)
      : plan_(plan), buffers_(buffers), missing_(plan.steps().size()) {
    for (std::size_t i = 0; i < missing_.size(); ++i) {
      missing_[i] = plan.after(plan.steps()[i]).size();
    }
  }

  void run(int threads) {
    std::vector<std::jthread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([this] { work(); });
    }
  }

 private:
  void work() {
    for (;;) {
      std::size_t mine = missing_.size();
      {
        const std::lock_guard lock(mutex_);
        if (ended_ == missing_.size()) {
          return;
        }
        for (std::size_t i = 0; i < missing_.size() && mine == missing_.size(); ++i) {
          mine = missing_[i] == 0 ? i : mine;
        }
        if (mine < missing_.size()) {
          missing_[mine] = static_cast<std::size_t>(-1);  // marks the step as taken
        }
      }
      if (mine == missing_.size()) {
        std::this_thread::yield();
        continue;
      }
      or_throw(run_step(plan_, mine, buffers_));
      const std::lock_guard lock(mutex_);
      ++ended_;
      for (std::size_t i = mine + 1; i < missing_.size(); ++i) {
        for (const std::uint32_t before : plan_.after(plan_.steps()[i])) {
          missing_[i] -= before == mine ? 1 : 0;
        }
      }
    }
  }

  const collective_plan& plan_;
  const collective_buffers& buffers_;
  std::mutex mutex_;
  std::vector<std::size_t> missing_;
  std::size_t ended_ = 0;
};

TEST(PlanRun, ThreadsThatObeyDependenciesGiveTheSameBits) {
  std::mt19937_64 dice(3);
  for (const algorithm how :
       {algorithm::direct, algorithm::ring, algorithm::tree, algorithm::hierarchical}) {
    for (const bool shared : {true, false}) {
      for (const int level : {0, 1, 2}) {
        collective_call call;
        call.level = level;
        call.type = level == 0 ? dtype::int32 : dtype::fp32;
        call.count = 5000;
        const topology shape{how == algorithm::hierarchical ? 2 : 1, 3, shared};
        const auto plan = or_throw(plan_collective(call, 4, shape, {how, 2048}));
        const auto inputs =
            test::random_buffers(dice, call.type, 4, call.count * 4, flavour::wide);
        auto outputs = inputs;
        std::vector<const std::byte*> from;
        std::vector<std::byte*> to;
        for (bytes& b : outputs) {
          from.push_back(b.data());
          to.push_back(b.data());
        }
        bytes memory;
        const collective_buffers buffers{
            from, to, test::aligned_scratch(memory, plan.scratch_bytes()), nullptr};
        step_pool(plan, buffers).run(3);
        ASSERT_EQ(outputs, test::expected_outputs(call, inputs, inputs))
            << test::text_of(plan.options(), shape);
      }
    }
  }
}

/// Counts the bytes between each pair of ranks. Can fail from a given call on.
class counting_transport final : public transport {
 public:
  result<void> move(int source, const std::byte* from, int target, std::byte* to,
                    std::size_t count) override {
    if (calls_++ >= fails_from) {
      return error(errc::io, "cannot move bytes in a test of failures");
    }
    if (source != target) {
      crossed += count;
    }
    return in_process_transport().move(source, from, target, to, count);
  }

  std::size_t fails_from = static_cast<std::size_t>(-1);
  std::size_t crossed = 0;

 private:
  std::size_t calls_ = 0;
};

/// Returns the traffic between ranks, in units of one buffer.
std::size_t bytes_crossing(algorithm how, collective_kind kind, int ranks, int level) {
  std::mt19937_64 dice(1);
  collective_call call;
  call.kind = kind;
  call.level = level;
  call.count = static_cast<std::size_t>(ranks) * 512;
  const topology shape{how == algorithm::hierarchical ? 2 : 1, 1, false};
  const auto plan = or_throw(plan_collective(call, ranks, shape, {how, 2048}));
  auto buffers = test::random_buffers(dice, call.type, ranks, call.count * 4, {});
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (bytes& b : buffers) {
    from.push_back(b.data());
    to.push_back(b.data());
  }
  bytes memory;
  counting_transport wire;
  test::run_in_random_order(
      plan, {from, to, test::aligned_scratch(memory, plan.scratch_bytes()), &wire}, dice);
  return wire.crossed / (call.count * 4);
}

TEST(PlanRun, TrafficBetweenRanksIsThatOfTheAlgorithm) {
  // In units of a buffer, all ranks together move 2 (R - 1) for a ring, for a direct
  // exchange and for a tree that sends one partial result per hop.
  for (const int level : {0, 1}) {
    EXPECT_EQ(bytes_crossing(algorithm::direct, collective_kind::all_reduce, 8, level),
              14U);
    EXPECT_EQ(bytes_crossing(algorithm::tree, collective_kind::all_reduce, 8, level),
              14U);
  }
  EXPECT_EQ(bytes_crossing(algorithm::ring, collective_kind::all_reduce, 8, 0), 14U);
  EXPECT_EQ(bytes_crossing(algorithm::hierarchical, collective_kind::all_reduce, 8, 0),
            14U);
  EXPECT_EQ(bytes_crossing(algorithm::ring, collective_kind::reduce_scatter, 8, 0), 7U);
  EXPECT_EQ(bytes_crossing(algorithm::ring, collective_kind::all_gather, 8, 1), 7U);
  EXPECT_EQ(bytes_crossing(algorithm::tree, collective_kind::broadcast, 8, 1), 7U);
}

TEST(PlanRun, WithoutSharedMemoryOnlyCopiesCrossRanks) {
  for (const algorithm how :
       {algorithm::direct, algorithm::ring, algorithm::tree, algorithm::hierarchical}) {
    for (const collective_kind kind : test::all_kinds) {
      collective_call call;
      call.kind = kind;
      call.count = 6000;
      call.root = 3;
      const topology shape{2, 2, false};
      if (!is_legal(how, call, 6, shape)) {
        continue;
      }
      const auto plan = or_throw(plan_collective(call, 6, shape, {how, 1024}));
      for (const plan_step& s : plan.steps()) {
        for (const plan_operand& o : plan.sources(s)) {
          ASSERT_TRUE(s.kind == step_kind::copy || (o.rank == s.rank && o.ranks == 1))
              << name_of(kind) << " by " << name_of(how);
        }
        for (const plan_operand& o : plan.targets(s)) {
          ASSERT_TRUE(o.rank == s.rank && o.ranks == 1)
              << name_of(kind) << " by " << name_of(how);
        }
      }
    }
  }
}

TEST(PlanRun, AFailingTransportIsReportedByItsStep) {
  collective_call call;
  call.count = 6000;
  const auto plan =
      or_throw(plan_collective(call, 3, {1, 1, false}, {algorithm::ring, 4096}));
  std::vector<bytes> buffers(3, bytes(call.count * 4));
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (bytes& b : buffers) {
    from.push_back(b.data());
    to.push_back(b.data());
  }
  bytes memory;
  std::byte* const scratch = test::aligned_scratch(memory, plan.scratch_bytes());
  for (const std::size_t n : {0U, 1U, 5U}) {
    counting_transport wire;
    wire.fails_from = n;
    const collective_buffers all{from, to, scratch, &wire};
    std::size_t failures = 0;
    std::size_t copies = 0;
    for (std::size_t i = 0; i < plan.steps().size(); ++i) {
      const auto done = run_step(plan, i, all);
      failures += done ? 0 : 1;
      copies += plan.steps()[i].kind == step_kind::copy ? 1 : 0;
      EXPECT_TRUE(done || done.error().code() == errc::io);
    }
    EXPECT_EQ(failures, copies - n);
  }
}

TEST(PlanRun, TrafficOfADirectAllReduceIsOneReadAndOneWritePerRank) {
  collective_call call;
  call.count = std::size_t{1} << 20;
  const auto plan = or_throw(plan_collective(call, 4, {1, 2, true}, {}));
  std::size_t total = 0;
  for (const plan_step& s : plan.steps()) {
    total += plan.traffic(s);
  }
  EXPECT_EQ(total, 8 * call.count * 4);
}

// Needs two buffers of a little more than 2^31 bytes, so it runs only if WEIR_TEST_LARGE
// is set.
TEST(PlanRun, BuffersOfMoreThan2To31BytesAreReducedToTheirEnd) {
  if (std::getenv("WEIR_TEST_LARGE") == nullptr) {
    GTEST_SKIP() << "needs 5 GiB; set WEIR_TEST_LARGE to run it";
  }
  for (const algorithm how : {algorithm::direct, algorithm::ring}) {
    collective_call call;
    call.type = dtype::int8;
    call.count = (std::size_t{1} << 31) + 1009;
    const auto plan = or_throw(plan_collective(call, 2, {1, 2, true}, {how}));
    std::vector<bytes> buffers(2, bytes(call.count, std::byte{3}));
    buffers[1][call.count - 1] = std::byte{9};
    buffers[0][std::size_t{1} << 31] = std::byte{100};
    const std::array<const std::byte*, 2> from = {buffers[0].data(), buffers[1].data()};
    const std::array<std::byte*, 2> to = {buffers[0].data(), buffers[1].data()};
    bytes memory;
    std::mt19937_64 dice(1);
    test::run_in_random_order(
        plan, {from, to, test::aligned_scratch(memory, plan.scratch_bytes()), nullptr},
        dice);
    for (const bytes& b : buffers) {
      EXPECT_EQ(b[call.count - 1], std::byte{12});
      EXPECT_EQ(b[std::size_t{1} << 31], std::byte{103});
      EXPECT_EQ(std::count(b.begin(), b.end(), std::byte{6}),
                std::ptrdiff_t(call.count) - 2);
    }
  }
}

}  // namespace
}  // namespace weir::collective
