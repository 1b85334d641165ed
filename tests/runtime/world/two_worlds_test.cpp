// SPDX-License-Identifier: Apache-2.0
/// @file
/// Two worlds of one transport whose calls alternate. A rank that has deferred calls of
/// one and waits for the other must not keep the other ranks from coming to that wait.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "random_views.hpp"
#include "support/case_count.hpp"
#include "weir/runtime/in_process.hpp"
#include "weir/world.hpp"

namespace weir {
namespace {

using runtime::rank_id;

/// Two worlds of a rank, each with an engine of its own and two rows of numbers in it.
struct pair_of_worlds {
  struct half {
    half(const runtime::engine_options& o, runtime::transport& link)
        : tasks(o),
          w(tasks, link),
          a(w.make<double>(rows(1), 4, 2)),
          b(w.make<double>(rows(1), 4, 2)),
          boxes(a.tiles()) {}
    /// Adds a row of one field to a row of the other one.
    void add(std::size_t from, std::size_t to, double factor) {
      w.submit(
          "add",
          [factor](view<const double, 2> in, view<double, 2> out) {
            out(0, 0) += factor * in(0, 1) + 1;
            out(0, 1) = out(0, 0) / 3 + in(0, 0) / 2;
          },
          read(a.of_tile(boxes[from])), update(b.of_tile(boxes[to])));
      std::swap(a, b);
    }
    [[nodiscard]] std::vector<double> elements() {
      std::vector<double> out;
      for (auto* const field : {&a, &b}) {
        const auto all = or_throw(w.elements(*field));
        for (std::int64_t i = 0; i < all.extent(0); ++i) {
          out.insert(out.end(), {all(i, 0), all(i, 1)});
        }
      }
      return out;
    }
    engine tasks;
    world w;
    world_tensor<double, 2> a;
    world_tensor<double, 2> b;
    std::vector<world_tensor<double, 2>::box> boxes;
  };
  pair_of_worlds(const std::array<runtime::engine_options, 2>& with,
                 runtime::transport& link)
      : first(with[0], link), second(with[1], link) {}
  half first;
  half second;
};

/// Runs a body on a thread for each rank. `options(rank, world)` are those of an engine.
void run_pairs(rank_id ranks, std::uint64_t seed,
               const std::function<runtime::engine_options(rank_id, int)>& options,
               const std::function<void(pair_of_worlds&, rank_id)>& body) {
  runtime::in_process_network net({.ranks = ranks, .max_delay = 2, .seed = seed});
  std::vector<std::thread> threads;
  for (rank_id r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      pair_of_worlds both({options(r, 0), options(r, 1)}, net.transport_of(r));
      body(both, r);
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}

// Rank 0 replays the steps of the first world, so it defers their calls. Rank 1 does not,
// since they do not fit into its window: it needs the piece of a deferred call before it
// comes to the wait of the second world.
TEST(TwoWorlds, ARankThatWaitsSubmitsWhatItHasDeferredInTheOtherWorld) {
  std::array<std::uint64_t, 2> replayed{};
  run_pairs(
      2, 1,
      [](rank_id r, int) {
        runtime::engine_options o;
        o.workers = 1;
        o.window = r == 0 ? 64 : 4;
        return o;
      },
      [&](pair_of_worlds& both, rank_id r) {
        both.first.w.repeat(30, [&](std::int64_t) {
          both.first.add(3, 0, 1);  // rank 0 runs it
          for (int i = 0; i < 7; ++i) {
            both.first.add(0, 3, 0.5);  // rank 1 runs it and needs row 0
            std::swap(both.first.a, both.first.b);
          }
          or_throw(both.second.w.wait());
          both.first.add(0, 3, 0.25);
        });
        or_throw(both.first.w.wait());
        replayed[r] = both.first.tasks.base().counters().replayed;
      });
  EXPECT_EQ(replayed[1], 0U);
}

/// One call of a step: in one of the worlds, or a wait for one of them.
struct pair_call {
  int world = 0;
  bool waits = false;
  std::size_t from = 0;
  std::size_t to = 0;
};

/// Returns the calls of each step of a loop; most steps have the calls of the first one.
std::vector<pair_call> random_calls(std::uint64_t seed) {
  test::dice d(seed);
  std::vector<pair_call> calls;
  const auto count = d.in(2, 14);
  for (std::int64_t i = 0; i < count; ++i) {
    calls.push_back({static_cast<int>(d.in(0, 1)), d.one_in(6),
                     static_cast<std::size_t>(d.in(0, 3)),
                     static_cast<std::size_t>(d.in(0, 3))});
  }
  return calls;
}

/// Runs a loop of both worlds and returns the elements of all fields.
std::vector<double> run_calls(pair_of_worlds& both, const std::vector<pair_call>& calls,
                              std::uint64_t seed) {
  for (std::int64_t step = 0; step < 24; ++step) {
    both.first.w.base().begin_step();
    both.second.w.base().begin_step();
    for (const pair_call& call : calls) {
      pair_of_worlds::half& half = call.world == 0 ? both.first : both.second;
      if (call.waits) {
        or_throw(half.w.wait());
      } else {
        half.add(call.from, call.to, 0.5);
      }
    }
    if (seed % 4 == 0 && step % 7 == 3) {
      both.second.add(1, 2, 0.125);
    }
    or_throw(both.first.w.base().end_step());
    or_throw(both.second.w.base().end_step());
  }
  or_throw(both.first.w.base().end_steps());
  or_throw(both.second.w.base().end_steps());
  std::vector<double> all = both.first.elements();
  const std::vector<double> more = both.second.elements();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(TwoWorlds, RandomLoopsEqualTheRunOnOneRank) {
  const auto options = [](std::uint64_t seed, rank_id r, int which) {
    test::dice d(seed * 100 + r * 10 + static_cast<std::uint64_t>(which));
    runtime::engine_options o;
    o.workers = static_cast<unsigned>(d.in(1, 2));
    o.window =
        std::array<std::uint32_t, 4>{4, 8, 32, 256}[static_cast<std::size_t>(d.in(0, 3))];
    return o;
  };
  for (std::uint64_t seed = 1; seed <= test::case_count("WEIR_TEST_LOOPS", 40); ++seed) {
    const std::vector<pair_call> calls = random_calls(seed);
    std::vector<std::vector<double>> found(4);
    for (const rank_id ranks : {1U, 2U + static_cast<rank_id>(seed % 2)}) {
      run_pairs(
          ranks, seed, [&](rank_id r, int which) { return options(seed, r, which); },
          [&](pair_of_worlds& both, rank_id r) {
            found[ranks == 1 ? 3 : r] = run_calls(both, calls, seed);
          });
    }
    for (rank_id r = 0; r < 2 + seed % 2; ++r) {
      ASSERT_EQ(found[r], found[3]) << "seed " << seed << " rank " << r;
    }
  }
}

}  // namespace
}  // namespace weir
