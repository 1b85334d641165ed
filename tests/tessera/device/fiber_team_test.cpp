// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests fiber teams: the order of rounds, threads that end early, exceptions and
/// floating point control of each thread, and guard pages below stacks.
#include "device/cpu/fiber_team.hpp"

#include <algorithm>
#include <cfenv>
#include <functional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weir/base/system/fp_environment.hpp"

namespace weir::tessera {
namespace {

constexpr std::size_t test_stack = (sanitized ? 256 : 64) << 10;

/// Runs a block whose threads each call `body` with their number. `rounds` is called
/// between rounds whose threads asked for it.
void run_team(fiber_team& team, std::int64_t threads,
              const std::function<void(std::int64_t)>& body,
              fiber_team::between rounds = {}) {
  or_throw(team.reserve(threads));
  team.run(
      threads,
      [](void* argument, std::int64_t thread) {
        (*static_cast<const std::function<void(std::int64_t)>*>(argument))(thread);
      },
      const_cast<std::function<void(std::int64_t)>*>(&body), std::move(rounds));
}

/// Returns the (thread, step) pairs in the order in which they must run if thread t waits
/// `waits[t]` times: round by round, and by thread number within a round.
std::vector<std::pair<std::int64_t, int>> expected_order(const std::vector<int>& waits) {
  std::vector<std::pair<std::int64_t, int>> order;
  const int max_waits = *std::max_element(waits.begin(), waits.end());
  for (int round = 0; round <= max_waits; ++round) {
    for (std::size_t t = 0; t < waits.size(); ++t) {
      if (round <= waits[t]) {
        order.emplace_back(static_cast<std::int64_t>(t), round);
      }
    }
  }
  return order;
}

TEST(FiberTeam, RoundsAreInTheOrderOfThreads) {
  std::mt19937 random(20250301);
  fiber_team team(test_stack);
  for (int trial = 0; trial < (sanitized ? 200 : 2000); ++trial) {
    std::vector<int> waits(1 + random() % 40);
    for (int& w : waits) {
      w = random() % 3 == 0 ? 0 : static_cast<int>(random() % 6);
    }
    std::vector<std::pair<std::int64_t, int>> order;
    run_team(team, static_cast<std::int64_t>(waits.size()), [&](std::int64_t t) {
      for (int i = 0; i < waits[static_cast<std::size_t>(t)]; ++i) {
        order.emplace_back(t, i);
        EXPECT_EQ(team.barrier(), 0);
      }
      order.emplace_back(t, waits[static_cast<std::size_t>(t)]);
    });
    ASSERT_EQ(order, expected_order(waits)) << "trial " << trial;
  }
}

TEST(FiberTeam, AThousandThreadsMeetManyTimes) {
  constexpr std::int64_t threads = 1000;
  constexpr int rounds = sanitized ? 20 : 300;
  fiber_team team(test_stack);
  std::vector<std::int64_t> now(threads, 1);
  std::vector<std::int64_t> next(threads);
  std::int64_t behind = 0;
  run_team(team, threads, [&](std::int64_t t) {
    const auto i = static_cast<std::size_t>(t);
    for (int r = 0; r < rounds; ++r) {
      // Each thread reads the values of its neighbour from the last round. The sum is
      // wrong if any thread ran ahead of the barrier.
      next[i] = (now[i] + now[(i + 1) % threads] + r) % 1'000'003;
      (void)team.barrier();
      now[i] = next[i];
      (void)team.barrier();
      behind += t == 0 ? 1 : 0;
    }
  });
  std::vector<std::int64_t> expected(threads, 1);
  for (int r = 0; r < rounds; ++r) {
    std::vector<std::int64_t> step(threads);
    for (std::size_t i = 0; i < threads; ++i) {
      step[i] = (expected[i] + expected[(i + 1) % threads] + r) % 1'000'003;
    }
    expected = step;
  }
  EXPECT_EQ(now, expected);
  EXPECT_EQ(behind, rounds);
}

TEST(FiberTeam, ThreadsThatNeverWaitShareOneStack) {
  fiber_team team(test_stack);
  std::set<std::uintptr_t> pages;
  run_team(team, 500, [&](std::int64_t) {
    volatile int here = 0;
    pages.insert(reinterpret_cast<std::uintptr_t>(&here) / test_stack);
  });
  if (!sanitized) {  // sanitizers may keep locals on another stack
    EXPECT_LE(pages.size(), 2U);
  }
  EXPECT_GE(pages.size(), 1U);
}

TEST(FiberTeam, OneCallIsMadeBetweenRoundsThatAskedForIt) {
  fiber_team team(test_stack);
  for (const std::int64_t threads : {1, 2, 9}) {
    int calls = 0;
    std::vector<int> answers;
    run_team(
        team, threads,
        [&](std::int64_t t) {
          (void)team.barrier();
          if (t == 4) {
            return;  // a thread that has ended counts as arrived
          }
          answers.push_back(team.barrier(true));
          (void)team.barrier();
          answers.push_back(team.barrier(true));
        },
        [&] { return ++calls; });
    EXPECT_EQ(calls, 2);
    const auto each = static_cast<std::size_t>(threads == 9 ? 8 : threads);
    std::vector<int> expected(each, 1);
    expected.resize(2 * each, 2);
    EXPECT_EQ(answers, expected);
  }
}

// The last thread of the round ends instead of arriving at the barrier. The call between
// rounds must still be made once, and both other threads must get its result.
TEST(FiberTeam, TheLastThreadMayEndWhileOthersAskForACall) {
  fiber_team team(test_stack);
  int calls = 0;
  std::vector<int> answers;
  run_team(
      team, 3,
      [&](std::int64_t t) {
        (void)team.barrier();
        if (t != 2) {
          answers.push_back(team.barrier(true));
        }
      },
      [&] { return ++calls; });
  EXPECT_EQ(answers, (std::vector<int>{1, 1}));
}

// The C++ runtime keeps the exceptions being handled per system thread. A switch between
// fibers must save them, or `throw;` would rethrow the exception of another fiber.
TEST(FiberTeam, ExceptionsOfAThreadStayItsOwn) {
  fiber_team team(test_stack);
  std::vector<std::string> seen(8);
  run_team(team, 8, [&](std::int64_t t) {
    const auto i = static_cast<std::size_t>(t);
    try {
      throw std::runtime_error("thread " + std::to_string(t));
    } catch (const std::exception&) {
      (void)team.barrier();  // all eight threads handle their own exception here
      try {
        (void)team.barrier();
        throw;  // rethrows the exception that this thread handles
      } catch (const std::exception& again) {
        seen[i] = again.what();
        (void)team.barrier();
      }
    }
    seen[i] += std::uncaught_exceptions() == 0 ? " done" : " in flight";
  });
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], "thread " + std::to_string(i) + " done");
  }
  EXPECT_EQ(std::current_exception(), nullptr);
}

TEST(FiberTeam, ATeamMayRunWhereAnExceptionIsHandled) {
  fiber_team team(test_stack);
  std::string after;
  try {
    throw std::runtime_error("outer");
  } catch (const std::exception&) {
    run_team(team, 3, [&](std::int64_t) {
      EXPECT_EQ(std::current_exception(), nullptr);
      (void)team.barrier();
    });
    try {
      throw;
    } catch (const std::exception& e) {
      after = e.what();
    }
  }
  EXPECT_EQ(after, "outer");
}

TEST(FiberTeam, FloatingPointControlStaysWithItsThread) {
  fiber_team team(test_stack);
  const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  std::vector<int> found(16);
  const std::uint64_t before = fp_control();
  run_team(team, 16, [&](std::int64_t t) {
    std::fesetround(modes[t % 4]);
    (void)team.barrier();
    (void)team.barrier();
    found[static_cast<std::size_t>(t)] = std::fegetround();
  });
  for (std::size_t t = 0; t < 16; ++t) {
    EXPECT_EQ(found[t], modes[t % 4]) << t;
  }
  EXPECT_EQ(fp_control(), before);
}

// Each thread computes with integers and doubles across 50 barriers. A register that the
// switch does not save would change the result of some thread.
TEST(FiberTeam, RegistersSurviveTheSwitch) {
  fiber_team team(test_stack);
  std::vector<double> sums(64);
  run_team(team, 64, [&](std::int64_t t) {
    double a = 1.0 + static_cast<double>(t);
    double b = 0.5;
    std::int64_t c = t * 3;
    std::int64_t d = t ^ 0x55;
    for (int i = 0; i < 50; ++i) {
      (void)team.barrier();
      a += b;
      b += static_cast<double>(c % 7);
      c += d;
      d = c ^ i;
    }
    sums[static_cast<std::size_t>(t)] = a + b + static_cast<double>(c ^ d);
  });
  for (std::int64_t t = 0; t < 64; ++t) {
    double a = 1.0 + static_cast<double>(t);
    double b = 0.5;
    std::int64_t c = t * 3;
    std::int64_t d = t ^ 0x55;
    for (int i = 0; i < 50; ++i) {
      a += b;
      b += static_cast<double>(c % 7);
      c += d;
      d = c ^ i;
    }
    EXPECT_EQ(sums[static_cast<std::size_t>(t)], a + b + static_cast<double>(c ^ d));
  }
}

TEST(FiberTeam, ATeamMovesFromThreadToThread) {
  fiber_team team(test_stack);
  std::vector<int> counts(6);
  for (std::size_t host = 0; host < counts.size(); ++host) {
    std::thread([&] {
      run_team(team, 20, [&](std::int64_t) {
        ++counts[host];
        (void)team.barrier();
        ++counts[host];
      });
    }).join();
  }
  EXPECT_EQ(counts, std::vector<int>(6, 40));
}

TEST(FiberTeam, ManyTeamsRunAtOnce) {
  std::vector<std::thread> hosts;
  std::vector<std::int64_t> sums(4);
  for (std::size_t h = 0; h < sums.size(); ++h) {
    hosts.emplace_back([&, h] {
      fiber_team team(test_stack);
      for (int trial = 0; trial < 20; ++trial) {
        std::int64_t turn = 0;
        run_team(team, 50, [&](std::int64_t t) {
          for (int r = 0; r < 10; ++r) {
            sums[h] += turn == r * 50 + t ? 1 : 0;
            ++turn;
            (void)team.barrier();
          }
        });
      }
    });
  }
  for (auto& host : hosts) {
    host.join();
  }
  EXPECT_EQ(sums, std::vector<std::int64_t>(4, 20 * 50 * 10));
}

TEST(FiberTeam, TeamsMayRunInsideTeams) {
  fiber_team outer(test_stack);
  std::vector<std::int64_t> order;
  run_team(outer, 3, [&](std::int64_t t) {
    fiber_team inner(test_stack);
    (void)outer.barrier();
    run_team(inner, 2, [&](std::int64_t i) {
      order.push_back(10 * t + i);
      (void)inner.barrier();
      order.push_back(10 * t + i);
    });
    (void)outer.barrier();
  });
  EXPECT_EQ(order,
            (std::vector<std::int64_t>{0, 1, 0, 1, 10, 11, 10, 11, 20, 21, 20, 21}));
}

TEST(FiberTeam, ReservingMoreKeepsWhatThereWas) {
  fiber_team team(test_stack);
  std::int64_t ran = 0;
  for (const std::int64_t threads : {3, 1, 10, 10, 64, 2}) {
    run_team(team, threads, [&](std::int64_t) {
      (void)team.barrier();
      ++ran;
    });
  }
  EXPECT_EQ(ran, 90);
}

// The number of memory mappings of a process is limited, and each guard page costs some.
// Slabs must stop to add guard pages at 8192 and get them back when slabs are destroyed.
TEST(FiberTeam, GuardPagesAreNotAllTheMappingsOfTheProcess) {
  constexpr std::size_t each = 3000;
  constexpr std::size_t bytes = 16 << 10;
  std::vector<std::unique_ptr<stack_slab>> slabs;
  std::size_t guarded = 0;
  for (int i = 0; i < 4; ++i) {
    slabs.push_back(or_throw(stack_slab::make(each, bytes)));
    guarded += slabs.back()->guarded();
    slabs.back()->stack(each - 1)[0] = std::byte{1};
  }
  EXPECT_EQ(slabs[0]->guarded(), each);
  EXPECT_EQ(guarded, 8192U);
  slabs.clear();
  EXPECT_EQ(or_throw(stack_slab::make(each, bytes))->guarded(), each);
}

TEST(FiberTeam, StacksThatTheSystemDoesNotHaveAreAnError) {
  auto slab = stack_slab::make(std::size_t{1} << 30, std::size_t{1} << 30);
  ASSERT_FALSE(slab.has_value());
  EXPECT_EQ(slab.error().code(), errc::out_of_memory);
}

#if !defined(WEIR_ASAN) && !defined(WEIR_TSAN)
[[gnu::noinline]] int descend(volatile int* above, int depth) {
  volatile int here[64] = {depth};
  if (depth == 0) {
    return *above;
  }
  return descend(&here[0], depth - 1) + here[0];
}

// A depth of 100 fits into the 64 KiB of a stack and shows that the recursion itself
// works; 300 does not fit and must hit the guard page.
TEST(FiberTeamDeathTest, ThePageBelowAStackIsProtected) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  fiber_team team(test_stack);
  int result = 0;
  volatile int top = 1;
  run_team(team, 2, [&](std::int64_t) { result += descend(&top, 100); });
  EXPECT_NE(result, 0);
  EXPECT_EXIT(run_team(team, 2,
                       [&](std::int64_t) {
                         (void)team.barrier();
                         result += descend(&top, 300);
                       }),
              testing::KilledBySignal(SIGSEGV), "");
}
#endif

}  // namespace
}  // namespace weir::tessera
