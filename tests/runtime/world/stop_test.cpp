// SPDX-License-Identifier: Apache-2.0
/// @file
/// Worlds that are asked to stop: all ranks end `repeat` before the same step, and the
/// state is saved there.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_folder.hpp"
#include "weir/runtime/in_process.hpp"
#include "weir/world.hpp"

namespace weir {
namespace {

constexpr std::int64_t steps = 60;

/// Runs a body on a thread for each rank, with messages that overtake each other. The
/// windows are small, so that no rank submits much more than it has run.
void run_stop_ranks(runtime::rank_id ranks, std::uint64_t seed,
                    const std::function<void(world&, runtime::rank_id)>& body) {
  runtime::in_process_network net({.ranks = ranks, .max_delay = 3, .seed = seed});
  std::vector<std::thread> threads;
  for (runtime::rank_id r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      runtime::engine_options o;
      o.workers = 1 + r % 2;
      o.window = 32;
      engine e(o);
      world w(e, net.transport_of(r));
      body(w, r);
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}

/// A row of numbers that each step makes from their neighbours.
struct chain {
  explicit chain(world& ranks)
      : w(ranks), now(w.make<double>(rows(2), 14)), next(w.make<double>(rows(2), 14)) {
    for (const auto& box : now.tiles()) {
      w.submit(
          "fill",
          [box](view<double, 1> out) {
            for (std::int64_t i = 0; i < out.extent(0); ++i) {
              out(i) = static_cast<double>(box.lo[0] + i);
            }
          },
          write(now.of_tile(box)));
    }
  }
  void step() {
    for (const auto& box : now.tiles()) {
      w.submit(
          "mean",
          [](wrapped_view<double, 1> in, view<double, 1> out) {
            for (std::int64_t i = 0; i < out.extent(0); ++i) {
              out(i) = (in(i - 1) + 2 * in(i) + in(i + 1)) / 4;
            }
          },
          read(now.wrapped(box, 1)), write(next.of_tile(box)));
    }
    std::swap(now, next);
  }
  std::vector<double> elements() {
    const auto all = or_throw(w.elements(now));
    std::vector<double> out;
    for (std::int64_t i = 0; i < all.extent(0); ++i) {
      out.push_back(all(i));
    }
    return out;
  }
  world& w;
  world_tensor<double, 1> now;
  world_tensor<double, 1> next;
};

/// Returns the elements after a run that nobody stops.
std::vector<double> whole_run() {
  engine e(1);
  world w(e);
  chain c(w);
  w.repeat(steps, [&](std::int64_t) { c.step(); });
  return c.elements();
}

TEST(WorldStop, AllRanksStopBeforeTheSameStepAndResumeOnAnotherNumber) {
  const std::vector<double> expected = whole_run();
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const test::temp_folder folder;
    const std::string state = folder.path() + "/state";
    const auto ranks = static_cast<runtime::rank_id>(2 + seed % 3);
    const auto asks = static_cast<std::int64_t>(7 * seed % 40);
    std::array<std::int64_t, 4> stopped{};
    run_stop_ranks(ranks, seed, [&](world& w, runtime::rank_id r) {
      chain c(w);
      w.checkpoint(state, {.every = seed % 2 == 0 ? 0 : 4}, c.now);
      w.repeat(steps, [&](std::int64_t step) {
        c.step();
        if (step == asks && r == seed % ranks) {
          w.ask_to_stop();
        }
      });
      EXPECT_TRUE(w.stopped());
      stopped[r] = w.stopped_at();
    });
    EXPECT_GT(stopped[0], asks);
    EXPECT_EQ(std::count(stopped.begin(), stopped.begin() + ranks, stopped[0]), ranks);
    run_stop_ranks(5 - ranks, seed, [&](world& w, runtime::rank_id) {
      chain c(w);
      w.checkpoint(state, {.every = 0}, c.now);
      EXPECT_EQ(or_throw(w.resume()), stopped[0]);
      w.repeat(steps, [&](std::int64_t) { c.step(); });
      EXPECT_EQ(c.elements(), expected) << "seed " << seed;
    });
  }
}

TEST(WorldStop, ARankAtAnEarlierStepIsWaitedFor) {
  std::array<std::int64_t, 3> stopped{};
  run_stop_ranks(3, 1, [&](world& w, runtime::rank_id r) {
    chain c(w);
    w.repeat(steps, [&](std::int64_t step) {
      if (r == 2 && step == 5) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      c.step();
      if (r == 1 && step == 30) {
        w.ask_to_stop();  // rank 2 is at step 5, and rank 0 is not far behind
      }
    });
    stopped[r] = w.stopped_at();
    EXPECT_TRUE(w.stopped());
    w.repeat(steps, [&](std::int64_t) { ADD_FAILURE() << "a step after the stop"; });
  });
  EXPECT_GT(stopped[0], 30);
  EXPECT_EQ(stopped[1], stopped[0]);
  EXPECT_EQ(stopped[2], stopped[0]);
}

TEST(WorldStop, ARankThatEndsWhileOthersAgreeIsNamed) {
  run_stop_ranks(2, 1, [&](world& w, runtime::rank_id r) {
    chain c(w);
    if (r == 0) {
      w.ask_to_stop();
      EXPECT_THROW(w.repeat(steps, [&](std::int64_t) { c.step(); }), std::runtime_error);
    }  // rank 1 ends its world instead
  });
}

TEST(WorldStop, ARankThatHasEndedBeforeOthersAgreeIsNamed) {
  runtime::in_process_network net({.ranks = 2});
  engine e(1);
  engine of_other(1);
  world w(e, net.transport_of(0));
  { const world other(of_other, net.transport_of(1)); }
  EXPECT_FALSE(or_throw(w.base().stops_here()));  // hears of the end
  w.ask_to_stop();
  const auto stops = w.base().stops_here();
  ASSERT_FALSE(stops.has_value());
  EXPECT_EQ(stops.error().code(), errc::stopping);
}

/// Raises signals of which the last one must end the process; the others set the mark.
void raise_all(const std::vector<int>& signals) {
  stop_at_signals();
  for (const int number : signals) {
    raise(number);
    if (!runtime::stop_signal_arrived()) {
      _exit(1);
    }
  }
  _exit(0);
}

TEST(WorldStopDeathTest, TheSecondEndingSignalEndsTheProcessWhicheverItIs) {
  EXPECT_EXIT(raise_all({SIGTERM}), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(raise_all({SIGUSR1, SIGINT, SIGUSR1, SIGUSR1}), testing::ExitedWithCode(0),
              "");
  for (const int one : {SIGTERM, SIGINT}) {
    for (const int other : {SIGTERM, SIGINT}) {
      if (one != SIGTERM || other != SIGTERM) {
        EXPECT_EXIT(raise_all({SIGUSR1, one, other}), testing::KilledBySignal(other), "");
      }
    }
  }
}

/// Raises the two SIGTERM that Slurm sends at once, and one a second later.
void raise_three_terms() {
  stop_at_signals();
  raise(SIGTERM);
  raise(SIGTERM);
  std::fputs("goes on", stderr);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  raise(SIGTERM);
  _exit(0);
}

TEST(WorldStopDeathTest, SigtermThatComesTwiceAtOnceIsOneAndALaterOneEndsTheProcess) {
  EXPECT_EXIT(raise_three_terms(), testing::KilledBySignal(SIGTERM), "goes on");
}

/// Makes a world fail because its other rank is silent, and then raises SIGTERM.
void raise_after_a_loss() {
  stop_at_signals();
  std::atomic<std::int64_t> now{0};
  runtime::in_process_network net({.ranks = 2,
                                   .deadline_ns = 500'000'000,
                                   .clock = [&now] { return now.fetch_add(1'000'000); }});
  engine e(1);
  world w(e, net.transport_of(0));
  if (w.wait()) {
    _exit(1);
  }
  raise(SIGTERM);
  _exit(0);
}

TEST(WorldStopDeathTest, AfterALossSigtermEndsTheProcess) {
  EXPECT_EXIT(raise_after_a_loss(), testing::KilledBySignal(SIGTERM), "");
}

void raise_with_own_handler() {
  stop_at_signals();
  std::signal(SIGINT, [](int) { _exit(7); });
  raise(SIGTERM);  // gives SIGTERM its usual effect, but leaves the program's handler
  raise(SIGINT);
  _exit(1);
}

TEST(WorldStopDeathTest, AHandlerOfTheProgramStays) {
  EXPECT_EXIT(raise_with_own_handler(), testing::ExitedWithCode(7), "");
}

TEST(WorldStop, OneRankStopsAtOnce) {
  engine e(1);
  world w(e);
  chain c(w);
  w.repeat(steps, [&](std::int64_t step) {
    c.step();
    if (step == 9) {
      w.ask_to_stop();
    }
  });
  EXPECT_EQ(w.stopped_at(), 10);
}

}  // namespace
}  // namespace weir
