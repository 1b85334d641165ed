// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loops of worlds whose steps repeat: they are replayed, with the results of steps that
/// are submitted.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "random_views.hpp"
#include "support/case_count.hpp"
#include "weir/runtime/in_process.hpp"
#include "weir/world.hpp"
#include "world/repetition.hpp"

namespace weir {
namespace {

using runtime::rank_id;

/// Fields that the steps of the tests use.
struct fields {
  explicit fields(world& ranks)
      : w(ranks),
        now(w.make<double>(rows(3), 10, 4)),
        next(w.make<double>(rows(3), 10, 4)),
        sums(w.per_tile<double>(now)),
        total(w.everywhere<double>()) {
    for (const auto& box : now.tiles()) {
      w.submit(
          "fill",
          [box](view<double, 2> out) {
            for (std::int64_t i = 0; i < out.extent(0); ++i) {
              for (std::int64_t k = 0; k < out.extent(1); ++k) {
                out(i, k) = static_cast<double>((box.lo[0] + i) * 5 + k);
              }
            }
          },
          write(now.of_tile(box)));
    }
  }
  /// Averages, with a number that the kernels capture.
  void smooth(double by) {
    for (const auto& box : now.tiles()) {
      w.submit(
          "smooth",
          [by](wrapped_view<double, 2> in, view<double, 2> out) {
            for (std::int64_t i = 0; i < out.extent(0); ++i) {
              for (std::int64_t k = 0; k < out.extent(1); ++k) {
                out(i, k) = (in(i - 1, k) + in(i, k + 1) + in(i + 1, k)) / 3 + by;
              }
            }
          },
          read(now.wrapped(box, 1)), write(next.of_tile(box)));
    }
    std::swap(now, next);
  }
  /// Subtracts a part of the sum of all elements.
  void normalise() {
    for (const auto& box : now.tiles()) {
      w.submit(
          "sum",
          [](view<const double, 2> in, view<double, 1> out) {
            out(0) = in(0, 0) + in(in.extent(0) - 1, 1);
          },
          read(now.of_tile(box)), write(sums.of_index(box.index)));
    }
    w.reduce(std::plus<>(), sums, total);
    for (const auto& box : now.tiles()) {
      w.submit(
          "subtract",
          [](view<const double, 0> sum, view<double, 2> out) { out(0, 1) -= sum() / 64; },
          read(total), update(now.of_tile(box)));
    }
  }
  std::vector<double> elements() {
    const auto all = or_throw(w.elements(now));
    std::vector<double> out;
    for (std::int64_t i = 0; i < all.extent(0); ++i) {
      for (std::int64_t k = 0; k < all.extent(1); ++k) {
        out.push_back(all(i, k));
      }
    }
    return out;
  }
  world& w;
  world_tensor<double, 2> now;
  world_tensor<double, 2> next;
  world_tensor<double, 1> sums;
  tensor<double, 0> total;
};

/// Result of a rank.
struct repeat_run {
  std::vector<double> elements;
  std::uint64_t replayed = 0;
  std::uint64_t submitted = 0;
};
using repeat_body = std::function<void(world&, fields&, std::int64_t step)>;

/// Runs a loop of 40 steps on each rank; one rank has no transport.
std::vector<repeat_run> run_loop(rank_id ranks, std::uint64_t seed,
                                 const repeat_body& body) {
  runtime::in_process_network net({.ranks = ranks, .max_delay = 3, .seed = seed});
  std::vector<repeat_run> out(ranks);
  std::vector<std::thread> threads;
  for (rank_id r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      runtime::engine_options o;
      o.workers = 1 + (r + static_cast<unsigned>(seed)) % 2;
      o.window = seed % 3 == 0 ? 64 : 1024;
      engine e(o);
      world w(e, net.transport_of(r));
      fields f(w);
      w.repeat(40, [&](std::int64_t step) { body(w, f, step); });
      out[r].elements = f.elements();
      out[r].replayed = e.base().counters().replayed;
      out[r].submitted = e.base().counters().submitted;
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  return out;
}

TEST(WorldRepeat, EqualStepsAreReplayed) {
  const repeat_body body = [](world&, fields& f, std::int64_t) {
    f.smooth(0.125);
    f.normalise();
  };
  const auto alone = run_loop(1, 1, body);
  EXPECT_EQ(alone[0].replayed, 0U);
  for (const rank_id ranks : {2U, 3U, 4U}) {
    for (const repeat_run& run : run_loop(ranks, ranks, body)) {
      EXPECT_EQ(run.elements, alone[0].elements);
      EXPECT_GT(run.replayed, run.submitted * 3 / 4);  // all but six of 40 steps
    }
  }
}

TEST(WorldRepeat, StepsWithOtherCapturesAreSubmitted) {
  const repeat_body body = [](world&, fields& f, std::int64_t step) {
    f.smooth(static_cast<double>(step));
  };
  const auto alone = run_loop(1, 1, body);
  for (const repeat_run& run : run_loop(2, 1, body)) {
    EXPECT_EQ(run.elements, alone[0].elements);
    EXPECT_EQ(run.replayed, 0U);
  }
}

TEST(WorldRepeat, AnEmptyStepEndsARecording) {
  const repeat_body body = [](world&, fields& f, std::int64_t step) {
    if (step % 5 != 4) {
      f.smooth(0.125);
    }
  };
  const auto alone = run_loop(1, 1, body);
  for (const repeat_run& run : run_loop(2, 1, body)) {
    EXPECT_EQ(run.elements, alone[0].elements);
  }
}

/// Does in a step what the seed says: mostly the same, sometimes more, less or something
/// else.
void random_step(std::uint64_t seed, world& w, fields& f, std::int64_t step) {
  test::dice d(seed * 1000 + static_cast<std::uint64_t>(step));
  const bool odd = d.one_in(9);
  if (odd && d.one_in(3)) {
    or_throw(w.elements(f.next));
  }
  f.smooth(odd && d.one_in(3) ? 0.5 : 0.25);
  if (odd && d.one_in(3)) {
    or_throw(w.wait());
  }
  if (!odd || !d.one_in(3)) {
    f.normalise();
  }
  if (odd && d.one_in(3)) {
    f.smooth(1);
  }
  if (odd && d.one_in(4)) {
    const auto more = w.make<double>(rows(1), 3, 3);
    w.release(more);
  }
  if (seed % 5 == 0) {  // waits behind each step, which does not keep it from replays
    or_throw(w.get(f.total));
  }
}

TEST(WorldRepeat, RandomLoopsEqualTheRunOnOneRank) {
  const std::uint64_t loops = test::case_count("WEIR_TEST_LOOPS", 40);
  std::uint64_t replayed = 0;
  for (std::uint64_t seed = 0; seed < loops; ++seed) {
    const repeat_body body = [seed](world& w, fields& f, std::int64_t step) {
      random_step(seed, w, f, step);
    };
    const auto alone = run_loop(1, seed, body);
    for (const repeat_run& run :
         run_loop(2 + static_cast<rank_id>(seed % 3), seed, body)) {
      ASSERT_EQ(run.elements, alone[0].elements) << "seed " << seed;
      replayed += run.replayed;
    }
  }
  EXPECT_GT(replayed, 25 * loops);
}

TEST(WorldRepeat, AFailureInAReplayHasTheNumberOfItsSubmission) {
  std::vector<std::string> texts;
  for (const rank_id ranks : {2U, 3U}) {
    runtime::in_process_network net({.ranks = ranks});
    std::vector<std::thread> threads;
    std::vector<std::string> found(ranks);
    for (rank_id r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        engine e(1);
        world w(e, net.transport_of(r));
        fields f(w);
        const auto count = w.everywhere<double>();
        std::int64_t calls = 0;
        w.repeat(30, [&](std::int64_t) {
          f.smooth(0);
          w.submit_everywhere(
              "count",
              [own = &calls](view<double, 0>) -> result<void> {
                return ++*own == 25 ? result<void>(error(errc::io, "planted"))
                                    : result<void>();
              },
              update(count));
        });
        const auto waited = w.wait();
        ASSERT_FALSE(waited);
        EXPECT_EQ(waited.error().code(), errc::io);
        EXPECT_GT(e.base().counters().replayed, 0U);
        found[r] = waited.error().text();
      });
    }
    for (std::thread& t : threads) {
      t.join();
    }
    texts.insert(texts.end(), found.begin(), found.end());
  }
  for (const std::string& text : texts) {  // 4 tasks fill; each step has 5 tasks
    EXPECT_EQ(text,
              "step 129 \"count\" failed on rank 0: expected success, found: planted");
  }
}

TEST(PeriodFinder, FindsTheShortestPeriod) {
  const auto period_of = [](const std::vector<std::uint64_t>& steps) {
    runtime::period_finder finder;
    for (const std::uint64_t step : steps) {
      finder.add(step);
      finder.end_step();
    }
    return finder.period();
  };
  EXPECT_EQ(period_of({}), 0U);
  EXPECT_EQ(period_of({7}), 0U);
  EXPECT_EQ(period_of({7, 7}), 1U);
  EXPECT_EQ(period_of({1, 2, 1, 2}), 2U);
  EXPECT_EQ(period_of({1, 2, 1}), 0U);
  EXPECT_EQ(period_of({9, 1, 2, 3, 1, 2, 3}), 3U);
  EXPECT_EQ(period_of({1, 2, 3, 4, 1, 2, 3, 4}), 4U);
  EXPECT_EQ(period_of({1, 2, 3, 4, 5, 1, 2, 3, 4, 5}), 0U);
  EXPECT_EQ(period_of({7, 0, 7, 7}), 1U);
  EXPECT_EQ(period_of({7, 7, 0}), 0U);
}

}  // namespace
}  // namespace weir
