// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conformance of backends: launches, barriers, failures and persistent kernels.
#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <numeric>

#include "conformance.hpp"

namespace weir::tessera::conformance {

TEST_P(Backend, EveryThreadRunsOnceWhateverTheSlices) {
  const std::array<std::array<std::int32_t, 3>, 6> shapes{
      {{1, 1, 1}, {7, 1, 1}, {1, 5, 1}, {1, 1, 4}, {3, 2, 5}, {2, 3, 1}}};
  for (const auto& grid : shapes) {
    for (const auto& block : shapes) {
      for (const unsigned workers : {1U, 2U, 5U}) {
        write_indices_args args{};
        grid_launch launch = launch_of("write_indices", args);
        launch.grid = grid;
        launch.block = block;
        launch.device = second();
        const auto count = static_cast<std::size_t>(launch.blocks() * launch.threads());
        args.out = zeros<std::int32_t>(second(), count);
        ASSERT_EQ(code_of(run(launch, workers)), 0);
        std::vector<std::int32_t> expected(count);
        std::iota(expected.begin(), expected.end(), 1);
        EXPECT_EQ(get(second(), args.out, count), expected);
        free(second(), reinterpret_cast<std::byte*>(args.out));
      }
    }
  }
}

TEST_P(Backend, BlocksKnowWhereTheyRun) {
  write_facts_args args{zeros<std::int32_t>(third(), 18)};
  const std::array<std::byte, 3> constants{std::byte{9}, std::byte{8}, std::byte{7}};
  grid_launch launch = launch_of("write_facts", args);
  launch.device = third();
  launch.grid = {1, 1, 1};
  launch.block = {4, 2, 1};
  launch.facts.rank = 5;
  launch.facts.ranks = 8;
  launch.facts.axis_size = {2, 1, 4, 1};
  launch.facts.axis_index = {1, 0, 2, 0};
  launch.facts.constants = constants;
  ASSERT_EQ(code_of(run(launch)), 0);
  EXPECT_EQ(get(third(), args.out, 18),
            (std::vector<std::int32_t>{1, 1, 1, 4, 2, 1, 5, 8, third(), 2, 1, 4, 1, 1, 0,
                                       2, 0, 9 + 8 + 7}));
  free(third(), reinterpret_cast<std::byte*>(args.out));
}

TEST_P(Backend, ThreadsOfABlockMeetAtBarriers) {
  for (const std::int32_t threads : {1, 2, 32, 100, 128}) {
    constexpr std::int32_t blocks = 5;
    const auto count = static_cast<std::size_t>(threads * blocks);
    std::vector<std::int32_t> values(count);
    std::iota(values.begin(), values.end(), 1);
    reverse_args args{zeros<std::int32_t>(0, count), zeros<std::int32_t>(0, count)};
    put(0, const_cast<std::int32_t*>(args.in), values);
    grid_launch launch = launch_of("reverse", args);
    launch.grid = {blocks, 1, 1};
    launch.block = {threads, 1, 1};
    launch.shared_bytes = static_cast<std::size_t>(threads) * 4;
    ASSERT_EQ(code_of(run(launch, 2)), 0);
    for (std::int32_t b = 0; b < blocks; ++b) {
      std::reverse(values.begin() + b * threads, values.begin() + (b + 1) * threads);
    }
    EXPECT_EQ(get(0, args.out, count), values);
    free(0, reinterpret_cast<std::byte*>(const_cast<std::int32_t*>(args.in)));
    free(0, reinterpret_cast<std::byte*>(args.out));
  }
}

TEST_P(Backend, ABlockThatFailsIsNamed) {
  fail_block_args args{
      zeros<std::int32_t>(0, 12),
      7,
      42,
  };
  grid_launch launch = launch_of("fail_block", args);
  launch.grid = {4, 3, 1};
  const auto outcome = run(launch);
  ASSERT_EQ(code_of(outcome), code_of(errc::kernel_failed));
  const std::string text = outcome.error().message();
  EXPECT_NE(text.find("fail_block"), std::string::npos) << text;
  if (backend().inline_work()) {
    EXPECT_NE(text.find("(3, 1, 0)"), std::string::npos) << text;
    EXPECT_NE(text.find("42"), std::string::npos) << text;
    const auto found = get(0, args.out, 12);
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), 0), 7)
        << "the blocks before the failed one have run";
  }
  args.block = -1;
  EXPECT_EQ(code_of(run(launch)), 0) << "a launch after the failed one succeeds";
  free(0, reinterpret_cast<std::byte*>(args.out));
}

TEST_P(Backend, LaunchesBeyondTheLimitsAreRefused) {
  const launch_limits limits = backend().properties(0)->limits;
  const write_indices_args args{};
  const grid_launch good = launch_of("write_indices", args);
  EXPECT_EQ(code_of(backend().check(good, false)), 0);
  const auto code = [&](auto change) {
    grid_launch l = good;
    change(l);
    return code_of(backend().check(l, false));
  };
  const int refused = code_of(errc::invalid_argument);
  for (std::size_t i = 0; i < 3; ++i) {
    for (const std::int32_t extent : {0, -1, std::numeric_limits<std::int32_t>::min()}) {
      EXPECT_EQ(code([&](auto& l) { l.grid[i] = extent; }), refused);
      EXPECT_EQ(code([&](auto& l) { l.block[i] = extent; }), refused);
    }
    EXPECT_EQ(code([&](auto& l) { l.grid[i] = limits.grid[i]; }), 0);
    if (limits.grid[i] < std::numeric_limits<std::int32_t>::max()) {
      EXPECT_EQ(code([&](auto& l) { l.grid[i] = limits.grid[i] + 1; }), refused);
    }
    EXPECT_EQ(code([&](auto& l) { l.block[i] = limits.block[i] + 1; }), refused);
  }
  EXPECT_EQ(code([&](auto& l) { l.block = {limits.threads, 1, 1}; }), 0);
  EXPECT_EQ(code([&](auto& l) { l.block = {limits.threads / 2, 2, 2}; }), refused);
  EXPECT_EQ(code([&](auto& l) { l.shared_bytes = limits.shared_bytes; }), 0);
  EXPECT_EQ(code([&](auto& l) { l.shared_bytes = limits.shared_bytes + 1; }), refused);
  EXPECT_EQ(code([&](auto& l) { l.code.entry = nullptr; }), refused);
  EXPECT_EQ(code([&](auto& l) { l.args = {l.args.data() + 1, 1}; }), refused);
}

TEST_P(Backend, KernelsRunOnlyInTheModesTheyAreMarkedFor) {
  const until_stop_args args{};
  const grid_launch only = launch_of("until_stop", args);
  EXPECT_EQ(code_of(backend().check(only, false)), code_of(errc::invalid_argument));
  EXPECT_EQ(code_of(backend().check(only, true)), 0);
  const grid_launch never = launch_of("write_indices", args);
  EXPECT_EQ(code_of(backend().check(never, true)), code_of(errc::unsupported));
  EXPECT_EQ(code_of(backend().start_persistent(never, {})), code_of(errc::unsupported));
  grid_launch many = only;
  many.grid = {backend().properties(0)->limits.persistent_blocks + 1, 1, 1};
  EXPECT_EQ(code_of(backend().check(many, true)), code_of(errc::invalid_argument));
}

TEST_P(Backend, SlicesOfBlocksCoverTheGrid) {
  for (const std::int32_t blocks : {1, 2, 3, 17, 1000}) {
    for (unsigned workers = 1; workers <= 8; ++workers) {
      grid_launch launch;
      launch.grid = {blocks, 1, 1};
      const slice_plan plan = backend().plan(launch, workers);
      std::int64_t next = 0;
      std::int64_t shortest = blocks;
      std::int64_t longest = 0;
      for (std::int64_t s = 0; s < plan.slices; ++s) {
        EXPECT_EQ(plan.begin(s), next);
        shortest = std::min(shortest, plan.end(s) - next);
        longest = std::max(longest, plan.end(s) - next);
        next = plan.end(s);
      }
      EXPECT_EQ(next, blocks);
      EXPECT_GE(shortest, 1);
      EXPECT_LE(longest - shortest, 1);
    }
  }
}

TEST_P(Backend, BlocksOfAPersistentKernelMeet) {
  for (const std::int32_t blocks : {1, 2, 7}) {
    const auto n = static_cast<std::size_t>(blocks);
    grid_sum_args args{zeros<std::int32_t>(0, n), zeros<std::int64_t>(0, n), 50, 0};
    grid_launch launch = launch_of("grid_sum", args);
    launch.grid = {blocks, 1, 1};
    std::promise<result<void>> done;
    auto started = backend().start_persistent(
        launch, [&](result<void> r) { done.set_value(std::move(r)); });
    ASSERT_TRUE(started.has_value()) << started.error().message();
    EXPECT_EQ(code_of((*started)->wait(-1)), 0);
    EXPECT_TRUE((*started)->ended());
    EXPECT_EQ(code_of(done.get_future().get()), 0);
    // After round r each slot holds r, so that each sum is blocks * (1 + ... + 50).
    EXPECT_EQ(get(0, args.sums, n), std::vector<std::int64_t>(n, blocks * 1275));
    free(0, reinterpret_cast<std::byte*>(args.slots));
    free(0, reinterpret_cast<std::byte*>(args.sums));
  }
}

TEST_P(Backend, PersistentKernelsRunUntilTheyAreAskedToStop) {
  until_stop_args args{zeros<std::int32_t>(0, 3)};
  std::atomic<int> calls{0};
  std::shared_ptr<persistent_run> running;
  {
    grid_launch launch = launch_of("until_stop", args);
    launch.grid = {3, 1, 1};
    auto started =
        backend().start_persistent(launch, [&](result<void> r) { calls += r ? 1 : 100; });
    ASSERT_TRUE(started.has_value());
    running = *started;
    std::int32_t* const out = args.out;
    args.out = nullptr;  // the backend has copied the arguments at the start
    EXPECT_EQ(code_of(running->wait(2'000'000)), code_of(errc::timeout));
    EXPECT_FALSE(running->ended());
    EXPECT_EQ(calls, 0);
    running->request_stop();
    EXPECT_EQ(code_of(running->wait(-1)), 0);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(get(0, out, 3), (std::vector<std::int32_t>{7, 7, 7}));
    args.out = out;
  }
  running.reset();
  free(0, reinterpret_cast<std::byte*>(args.out));
}

TEST_P(Backend, DroppingAPersistentKernelStopsIt) {
  until_stop_args args{zeros<std::int32_t>(0, 1)};
  std::promise<result<void>> done;
  {
    auto started =
        backend().start_persistent(launch_of("until_stop", args),
                                   [&](result<void> r) { done.set_value(std::move(r)); });
    ASSERT_TRUE(started.has_value());
  }
  EXPECT_EQ(code_of(done.get_future().get()), 0);
  EXPECT_EQ(get(0, args.out, 1), (std::vector<std::int32_t>{7}));
  free(0, reinterpret_cast<std::byte*>(args.out));
}

}  // namespace weir::tessera::conformance
