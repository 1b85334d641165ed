// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks for all tiles that are submitted by one call: they do what a loop over the tiles
/// does, and the tasks of ranks that are no neighbours are not looked at.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "weir/runtime/in_process.hpp"
#include "weir/world.hpp"

namespace weir {
namespace {

using runtime::rank_id;

/// Result of a rank.
struct series_run {
  std::vector<double> elements;
  runtime::world_counters counters;
  std::uint64_t replayed = 0;
};

/// Runs a program on each of `ranks` threads.
std::vector<series_run> run_series(
    rank_id ranks, const std::function<std::vector<double>(world&)>& body) {
  runtime::in_process_network net({.ranks = ranks, .max_delay = 3, .seed = ranks});
  std::vector<series_run> results(ranks);
  std::vector<std::thread> threads;
  for (rank_id r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      runtime::engine_options o;
      o.workers = 1 + r % 2;
      o.window = 256;
      engine e(o);
      world w(e, net.transport_of(r));
      results[r].elements = body(w);
      results[r].counters = w.base().counters();
      results[r].replayed = e.base().counters().replayed;
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  return results;
}

/// Returns all elements of a tensor, on every rank.
std::vector<double> elements_of(world& w, const world_tensor<double, 2>& t) {
  or_throw(w.elements(t));
  const auto* first = t.all().bytes().as<double>();
  return {first, first + t.all().bytes().count()};
}

/// How the tasks of a program are submitted.
enum class way { loop, series };

/// Fields and the tasks of a step, by a loop over tiles or by one call for all tiles.
struct tiled_fields {
  tiled_fields(world& ranks, way how, const layout& cut)
      : w(ranks),
        by(how),
        now(w.make<double>(cut, 13, 11)),
        next(w.make<double>(cut, 13, 11)),
        sums(w.per_tile<double>(now)),
        total(w.everywhere<double>()) {
    const auto fill = [](const tile<2>& box, view<double, 2> out) {
      for (std::int64_t i = 0; i < out.extent(0); ++i) {
        for (std::int64_t k = 0; k < out.extent(1); ++k) {
          out(i, k) = static_cast<double>((box.lo[0] + i) * 5 + (box.lo[1] + k) * 3 % 7);
        }
      }
    };
    for (const auto& field : {now, next}) {
      if (by == way::series) {
        w.submit_tiles("fill", fill, field.range(), write(field.each()));
        continue;
      }
      for (const auto& box : field.tiles()) {
        w.submit(
            "fill", [fill, box](view<double, 2> out) { fill(box, out); },
            write(field.of_tile(box)));
      }
    }
  }
  /// Averages away from the edges.
  void smooth() {
    const auto mean = [](view<const double, 2> in, view<double, 2> out) {
      for (std::int64_t i = 0; i < out.extent(0); ++i) {
        for (std::int64_t k = 0; k < out.extent(1); ++k) {
          out(i, k) = (in(i, k + 1) + in(i + 2, k + 1) + 2 * in(i + 1, k)) / 4;
        }
      }
    };
    if (by == way::series) {
      w.submit_tiles("smooth", mean, next.range(1), read(now.each(1)),
                     write(next.each()));
    } else {
      for (const auto& box : next.tiles_inside(1)) {
        w.submit("smooth", mean, read(now.around(box, 1)), write(next.of_tile(box)));
      }
    }
    std::swap(now, next);
  }
  /// Changes each tile in place, from what the tile before has become.
  void sweep_in_place() {
    const auto sweep = [](view<const double, 2> around, view<double, 2> out) {
      out(0, 0) = around(0, 0) / 2 + around(around.extent(0) - 1, 0) / 4 + 1;
    };
    if (by == way::series) {
      w.submit_tiles("sweep", sweep, now.range(), read(now.each(2)), update(now.each()));
      return;
    }
    for (const auto& box : now.tiles()) {
      w.submit("sweep", sweep, read(now.around(box, 2)), update(now.of_tile(box)));
    }
  }
  /// Subtracts a part of the sum of the first elements of all tiles.
  void normalise() {
    const auto first = [](view<const double, 2> in, view<double, 1> out) {
      out(0) = in(0, 0);
    };
    const auto subtract = [](view<const double, 0> sum, view<const double, 1> own,
                             view<double, 2> out) { out(0, 0) -= (sum() + own(0)) / 64; };
    if (by == way::series) {
      w.submit_tiles("first", first, now.range(), read(now.each()),
                     write(sums.each_index()));
    } else {
      for (const auto& box : now.tiles()) {
        w.submit("first", first, read(now.of_tile(box)), write(sums.of_index(box.index)));
      }
    }
    w.reduce(std::plus<>(), sums, total);
    if (by == way::series) {
      w.submit_tiles("subtract", subtract, now.range(), read(total),
                     read(sums.each_index()), update(now.each()));
      return;
    }
    for (const auto& box : now.tiles()) {
      w.submit("subtract", subtract, read(total), read(sums.of_index(box.index)),
               update(now.of_tile(box)));
    }
  }
  world& w;
  way by;
  world_tensor<double, 2> now;
  world_tensor<double, 2> next;
  world_tensor<double, 1> sums;
  tensor<double, 0> total;
};

/// Some steps of all kinds, also with a step that differs from the others.
std::vector<double> some_steps(world& w, way by, const layout& cut) {
  tiled_fields f(w, by, cut);
  w.repeat(30, [&](std::int64_t step) {
    f.smooth();
    if (step != 17) {
      f.normalise();
    }
    if (step == 22) {
      f.sweep_in_place();
    }
  });
  f.sweep_in_place();
  return elements_of(w, f.now);
}

const std::array<layout, 4> layouts{rows(1), rows(3), columns(2), blocks(4, 3)};

TEST(TileSeries, HasTheResultsAndTheMessagesOfALoopOverTiles) {
  for (const layout& cut : layouts) {
    const auto alone =
        run_series(1, [&](world& w) { return some_steps(w, way::loop, cut); });
    for (const rank_id ranks : {1U, 2U, 4U}) {
      const auto by_loop =
          run_series(ranks, [&](world& w) { return some_steps(w, way::loop, cut); });
      const auto by_series =
          run_series(ranks, [&](world& w) { return some_steps(w, way::series, cut); });
      for (rank_id r = 0; r < ranks; ++r) {
        EXPECT_EQ(by_series[r].elements, alone[0].elements) << ranks << " ranks";
        EXPECT_EQ(by_series[r].counters.own_tasks, by_loop[r].counters.own_tasks);
        EXPECT_EQ(by_series[r].counters.pieces_sent, by_loop[r].counters.pieces_sent);
        EXPECT_EQ(by_series[r].counters.bytes_sent, by_loop[r].counters.bytes_sent);
      }
    }
  }
}

TEST(TileSeries, IsReplayedInLoopsThatRepeat) {
  const auto loop = [](world& w) {
    tiled_fields f(w, way::series, rows(2));
    w.repeat(40, [&](std::int64_t) {
      f.smooth();
      f.normalise();
    });
    return elements_of(w, f.now);
  };
  const auto alone = run_series(1, loop);
  for (const series_run& run : run_series(3, loop)) {
    EXPECT_EQ(run.elements, alone[0].elements);
    EXPECT_GT(run.replayed, run.counters.own_tasks * 3 / 4);
  }
}

/// A kernel that does not fit into a task, so that the task keeps it elsewhere.
struct large_kernel {
  std::array<double, 60> weights;
  void operator()(view<const double, 2> in, view<double, 2> out) const {
    for (std::int64_t k = 0; k < out.extent(1); ++k) {
      out(0, k) += in(0, k) / 2 + weights.at(static_cast<std::size_t>(k) * 5);
    }
  }
};

TEST(TileSeries, LargeKernelsLiveAsLongAsTheirReplays) {
  const auto loop = [](world& w) {
    tiled_fields f(w, way::series, rows(2));
    w.repeat(60, [&](std::int64_t) {
      large_kernel kernel;
      kernel.weights.fill(0.5);
      w.submit_tiles("large", kernel, f.now.range(), read(f.next.each()),
                     update(f.now.each()));
      std::vector<std::vector<double>> others;  // in memory that might be given back
      for (std::size_t size = 60; size < 100; ++size) {
        others.emplace_back(size, 7.0);
      }
      EXPECT_EQ(others[0][59], 7.0);
    });
    return elements_of(w, f.now);
  };
  const auto alone = run_series(1, loop);
  for (const series_run& run : run_series(2, loop)) {
    EXPECT_EQ(run.elements, alone[0].elements);
    EXPECT_GT(run.replayed, run.counters.own_tasks * 3 / 4);
  }
}

TEST(TileSeries, RunsOnMoreThan64Ranks) {
  const auto steps = [](world& w) {
    const auto a = w.make<double>(rows(1), 200, 2);
    const auto b = w.make<double>(rows(1), 200, 2);
    w.submit_tiles(
        "fill",
        [](const tile<2>& box, view<double, 2> out) {
          out(0, 0) = static_cast<double>(box.index);
        },
        a.range(), write(a.each()));
    w.submit_tiles(
        "shift",
        [](view<const double, 2> in, view<double, 2> out) {
          out(0, 0) = in(0, 0) + in(in.extent(0) - 1, 0) * 3;
        },
        b.range(), read(a.each(1)), write(b.each()));
    return elements_of(w, b);
  };
  const auto alone = run_series(1, steps);
  for (const series_run& run : run_series(70, steps)) {
    EXPECT_EQ(run.elements, alone[0].elements);
  }
}

TEST(TileSeries, RanksWithOtherArgumentsAreFound) {
  runtime::in_process_network net({.ranks = 2});
  std::vector<std::thread> threads;
  for (rank_id r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      engine e(1);
      world w(e, net.transport_of(r));
      const auto a = w.make<double>(rows(1), 8, 2);
      const auto b = w.make<double>(rows(1), 8, 2);
      w.submit_tiles(
          "copy", [](view<const double, 2>, view<double, 2>) {}, b.range(r),
          read(a.each()), write(b.each()));
      const auto waited = w.wait();
      ASSERT_FALSE(waited);
      EXPECT_EQ(waited.error().code(), errc::diverged);
      EXPECT_NE(waited.error().text().find("\"copy\" with other arguments"),
                std::string::npos);
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
}

TEST(TileSeries, AFailedTaskHasTheNumberOfItsSubmission) {
  for (const rank_id ranks : {2U, 3U}) {
    run_series(ranks, [](world& w) -> std::vector<double> {
      const auto a = w.make<double>(rows(1), 9, 2);
      for (int call = 0; call < 2; ++call) {
        w.submit_tiles(
            "fill",
            [call](const tile<2>& box, view<double, 2>) -> result<void> {
              return call == 1 && box.index == 7
                         ? result<void>(error(errc::io, "planted"))
                         : result<void>();
            },
            a.range(), write(a.each()));
      }
      const auto waited = w.wait();
      EXPECT_FALSE(waited);
      EXPECT_EQ(waited.error().text().find("step 17 \"fill\" failed on rank"), 0U);
      return {};
    });
  }
}

TEST(TileSeries, TensorsThatLackTilesAreRefused) {
  engine e(1);
  world w(e);
  const auto a = w.make<double>(rows(1), 8, 2);
  const auto b = w.make<double>(rows(1), 7, 2);
  const auto nothing = [](view<const double, 2>, view<double, 2>) {};
  EXPECT_THROW(
      w.submit_tiles("copy", nothing, a.range(), read(a.each()), write(b.each())),
      std::runtime_error);
  w.submit_tiles("copy", nothing, b.range(), read(a.each()), write(b.each()));
  or_throw(w.wait());
}

/// A series of tasks that each write one byte and read those beside it; counts how often
/// the accesses of a task are asked for.
class counted_series final : public runtime::task_series {
 public:
  counted_series(runtime::world& w, runtime::storage_id from, runtime::storage_id to,
                 std::int64_t tasks)
      : w_(w),
        tasks_(tasks),
        accesses_{
            {{from, runtime::access_mode::read}, {to, runtime::access_mode::write}}} {}
  const char* name() const noexcept override { return "counted"; }
  std::uint64_t digest() const noexcept override { return 1; }
  std::uint64_t identity() const noexcept override { return 1; }
  std::span<const runtime::series_access> accesses() const noexcept override {
    return accesses_;
  }
  std::int64_t size() const noexcept override { return tasks_; }
  rank_id executor_of(std::int64_t task, rank_id ranks) const noexcept override {
    return static_cast<rank_id>(task * ranks / tasks_);
  }
  std::int64_t end_of(rank_id executor, rank_id ranks) const noexcept override {
    return ((std::int64_t{executor} + 1) * tasks_ + ranks - 1) / ranks;
  }
  runtime::byte_range hull_of(std::size_t number, std::int64_t first,
                              std::int64_t last) const noexcept override {
    return number == 1 ? runtime::byte_range{first, last}
                       : runtime::byte_range{std::max<std::int64_t>(first - 1, 0),
                                             std::min(last + 1, tasks_)};
  }
  bool find_accesses(std::int64_t task,
                     std::vector<runtime::access>& out) const override {
    ++asked;
    for (std::size_t i = 0; i < accesses_.size(); ++i) {
      const runtime::byte_range hull = hull_of(i, task, task + 1);
      const std::array<std::int64_t, 1> shape{hull.hi - hull.lo};
      out.push_back(
          {or_throw(runtime::footprint::of_view(accesses_.at(i).store, hull.lo, shape,
                                                std::array{std::int64_t{1}}, 1)),
           accesses_.at(i).mode});
    }
    return true;
  }
  result<void> start(std::int64_t task, std::uint64_t step) const override {
    std::vector<runtime::access> all;
    find_accesses(task, all);
    return w_.start(step, name(), all, [](const runtime::task_context&) {});
  }
  mutable std::uint64_t asked = 0;

 private:
  runtime::world& w_;
  std::int64_t tasks_;
  std::array<runtime::series_access, 2> accesses_;
};

TEST(TileSeries, TasksOfRanksThatAreNoNeighboursAreNotLookedAt) {
  constexpr rank_id ranks = 1000;
  constexpr std::int64_t tasks = ranks * 8;
  const auto link = or_throw(runtime::make_pretended_ranks(500, ranks));
  const auto e = or_throw(runtime::engine::create({}));
  runtime::world w(*e, *link);
  const auto a = or_throw(w.allocate(tasks, "test"));
  const auto b = or_throw(w.allocate(tasks, "test"));
  const auto there = std::make_shared<counted_series>(w, a.id, b.id, tasks);
  const auto back = std::make_shared<counted_series>(w, b.id, a.id, tasks);
  for (int step = 0; step < 5; ++step) {
    there->asked = 0;
    back->asked = 0;
    or_throw(w.submit_series(there));
    or_throw(w.submit_series(back));
    if (step == 0) {
      // The bytes of `b` get their writers, so all tasks are looked at.
      EXPECT_GE(there->asked, static_cast<std::uint64_t>(tasks));
    } else {
      // The rank's own tasks, which are asked twice, and those of both neighbours.
      EXPECT_EQ(there->asked, 32U);
      EXPECT_EQ(back->asked, 32U);
    }
  }
  or_throw(w.wait());
  EXPECT_EQ(w.counters().own_tasks, 80U);
  EXPECT_EQ(w.counters().foreign_tasks, 10U * tasks - 80U);
  EXPECT_EQ(w.counters().pieces_sent, 18U);  // to two neighbours, but not of zeros
}

}  // namespace
}  // namespace weir
