// SPDX-License-Identifier: Apache-2.0
/// @file
/// World tensors: tiles and their parts, programs over tiles on 1 to 4 ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "weir/runtime/in_process.hpp"
#include "weir/world.hpp"

namespace weir {
namespace {

using doubles = std::vector<double>;

/// Runs a program on each of `ranks` threads and returns the results of all ranks.
std::vector<doubles> on_each_rank(runtime::rank_id ranks,
                                  const std::function<doubles(world&)>& body) {
  runtime::in_process_network net({.ranks = ranks, .max_delay = 3, .seed = ranks});
  std::vector<doubles> results(ranks);
  std::vector<std::thread> threads;
  for (runtime::rank_id r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      engine e(1 + r % 2);
      world w(e, net.transport_of(r));
      results[r] = body(w);
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  return results;
}

/// Returns all elements of a tensor, on every rank.
template <int Rank>
doubles values_of(world& w, const world_tensor<double, Rank>& t) {
  or_throw(w.elements(t));
  const auto* first = t.all().bytes().template as<double>();
  return {first, first + t.all().bytes().count()};
}

/// Expects the same result on 1 to 4 ranks.
void expect_equal_on_ranks(const doubles& expected,
                           const std::function<doubles(world&)>& body) {
  for (runtime::rank_id ranks = 1; ranks <= 4; ++ranks) {
    for (const doubles& one : on_each_rank(ranks, body)) {
      ASSERT_EQ(one, expected) << ranks << " ranks";
    }
  }
}

/// Submits tasks that give each element a number of its own.
void number_elements(world& w, const world_tensor<double, 2>& t) {
  for (const auto& box : t.tiles()) {
    w.submit(
        "number",
        [box](view<double, 2> out) {
          for (std::int64_t i = 0; i < out.extent(0); ++i) {
            for (std::int64_t j = 0; j < out.extent(1); ++j) {
              out(i, j) =
                  static_cast<double>((box.lo[0] + i) * 37 + (box.lo[1] + j) * 11);
            }
          }
        },
        write(t.of_tile(box)));
  }
}

/// Five steps of averages over the four neighbours, away from the edges.
doubles heat_inside(world& w, const layout& cut, std::int64_t n, std::int64_t m) {
  auto a = w.make<double>(cut, n, m);
  auto b = w.make<double>(cut, n, m);
  number_elements(w, a);
  number_elements(w, b);
  for (int step = 0; step < 5; ++step) {
    for (const auto& box : b.tiles_inside(1)) {
      w.submit(
          "sweep",
          [](view<const double, 2> in, view<double, 2> out) {
            for (std::int64_t i = 0; i < out.extent(0); ++i) {
              for (std::int64_t j = 0; j < out.extent(1); ++j) {
                out(i, j) = 0.25 * (in(i, j + 1) + in(i + 2, j + 1) + in(i + 1, j) +
                                    in(i + 1, j + 2));
              }
            }
          },
          read(a.around(box, 1)), write(b.of_tile(box)));
    }
    std::swap(a, b);
  }
  w.release(b);
  return values_of(w, a);
}

/// Five steps of averages over the eight neighbours, where edges meet.
doubles blur_wrapped(world& w, const layout& cut, std::int64_t n, std::int64_t m) {
  auto a = w.make<double>(cut, n, m);
  auto b = w.make<double>(cut, n, m);
  number_elements(w, a);
  for (int step = 0; step < 5; ++step) {
    for (const auto& box : b.tiles()) {
      w.submit(
          "blur",
          [](wrapped_view<double, 2> in, view<double, 2> out) {
            for (std::int64_t i = 0; i < out.extent(0); ++i) {
              for (std::int64_t j = 0; j < out.extent(1); ++j) {
                double sum = 0;
                for (std::int64_t k = 0; k < 9; ++k) {
                  sum += in(i + k / 3 - 1, j + k % 3 - 1);
                }
                out(i, j) = sum / 8;
              }
            }
          },
          read(a.wrapped(box, 1)), write(b.of_tile(box)));
    }
    std::swap(a, b);
  }
  return values_of(w, a);
}

/// Runs a program in a world of one rank, in one tile.
template <class Program>
doubles in_one_tile(Program&& body) {
  engine e(1);
  world w(e);
  return body(w, rows(1000), 13, 9);
}

TEST(Tiles, MeaningDoesNotDependOnLayoutsAndRanks) {
  const doubles heat = in_one_tile(heat_inside);
  const doubles blur = in_one_tile(blur_wrapped);
  for (const layout& cut : {rows(3), columns(2), blocks(4, 4), blocks(1, 9)}) {
    expect_equal_on_ranks(heat, [&](world& w) { return heat_inside(w, cut, 13, 9); });
    expect_equal_on_ranks(blur, [&](world& w) { return blur_wrapped(w, cut, 13, 9); });
  }
}

/// Passes three rows through four stages, each of which runs on the rank that has its
/// weights. Expects that it does.
doubles pipeline_of_stages(world& w) {
  constexpr std::int64_t stages = 4;
  const auto weights = w.make<double>(rows(1), stages, 8);
  const auto values = w.make<double>(rows(1), 3 * (stages + 1), 8);
  number_elements(w, weights);
  number_elements(w, values);
  const auto row_of = [](const auto& t, std::int64_t row) {
    return t.of_tile(t.tiles()[static_cast<std::size_t>(row)]);
  };
  for (std::int64_t batch = 0; batch < 3; ++batch) {
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      const std::int64_t row = batch * (stages + 1) + stage;
      const auto own = row_of(weights, stage);
      const auto there = stage * w.base().ranks() / stages;
      w.submit(
          "stage",
          [here = w.base().rank(), there](view<const double, 2> by,
                                          view<const double, 2> in, view<double, 2> out) {
            EXPECT_EQ(here, there);
            for (std::int64_t i = 0; i < 8; ++i) {
              out(0, i) = in(0, i) / 2 + by(0, i);
            }
          },
          owner_of(own), read(own), read(row_of(values, row)),
          write(row_of(values, row + 1)));
    }
  }
  return values_of(w, values);
}

TEST(Tiles, ATaskRunsOnTheOwnerThatItNames) {
  engine e(1);
  world one(e);
  expect_equal_on_ranks(pipeline_of_stages(one), pipeline_of_stages);
}

TEST(Tiles, PartsOverEdgesAreClippedOrWrapped) {
  engine e(1);
  world w(e);
  const auto t = w.make<double>(blocks(4, 4), 10, 8);
  ASSERT_EQ(t.tile_count(), 6);
  const auto last = t.tiles().back();
  EXPECT_EQ(last.lo[0], 8);
  EXPECT_EQ(last.hi[0], 10);
  EXPECT_EQ(t.around(last, 1).elements.extent(0), 3);
  EXPECT_EQ(t.wrapped(last, 1).pieces.size(), 4U);  // two ranges of rows and of columns
  EXPECT_EQ(t.wrapped(last, 9).pieces.size(), 1U);  // everything
  EXPECT_EQ(t.tiles_inside(4).size(), 0U);
}

/// Expects that `bytes_of_rank` gives each rank the bytes of its tiles, one behind the
/// other, and together the whole tensor.
template <int Rank>
void expect_bytes_of_ranks(const world_tensor<double, Rank>& t) {
  const runtime::tensor& whole = t.all().bytes();
  const std::int64_t row = whole.strides()[0];
  for (std::int64_t ranks = 1; ranks <= 9; ++ranks) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(ranks));
    const auto tiles = t.tiles();
    for (const auto& box : tiles) {
      const std::int64_t owner =
          box.index * ranks / static_cast<std::int64_t>(tiles.size());
      rows[static_cast<std::size_t>(owner)] += box.hi[0] - box.lo[0];
    }
    const std::byte* next = whole.data();
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const auto own = t.bytes_of_rank(rank, ranks);
      EXPECT_EQ(own.data(), next) << rank << " of " << ranks;
      EXPECT_EQ(own.size(), rows[static_cast<std::size_t>(rank)] * row);
      next += own.size();
    }
  }
}

TEST(Tiles, BytesOfARankAreThoseOfItsTilesIfTheseAreWholeRows) {
  engine e(1);
  world w(e);
  for (std::int64_t extent = 1; extent <= 12; ++extent) {
    expect_bytes_of_ranks(w.make<double>(rows(3), extent));
    expect_bytes_of_ranks(w.make<double>(rows(3), extent, 8));
    expect_bytes_of_ranks(w.make<double>(blocks(3, 8), extent, 8));
    expect_bytes_of_ranks(w.make<double>(rows(5), extent, 2, 4));
  }
  const auto cut = w.make<double>(columns(4), 10, 8);
  EXPECT_EQ(cut.bytes_of_rank(1, 2).size(), 0U);
  EXPECT_EQ(cut.bytes_of_rank(0, 1).size(), 10 * 8 * sizeof(double));
  EXPECT_EQ(w.make<double>(rows(3), 0, 8).bytes_of_rank(0, 2).size(), 0U);
}

TEST(Tiles, WritesOverTheEdgeOfATileAreNotLost) {
  const doubles expected{1, 1, 5, 5, 5, 5, 1, 1};
  expect_equal_on_ranks(expected, [](world& w) {
    const auto t = w.make<double>(rows(2), 8);
    const auto set = [](double value) {
      return [value](view<double, 1> out) { std::fill(out.begin(), out.end(), value); };
    };
    for (const auto& box : t.tiles()) {
      w.submit("set", set(1), write(t.of_tile(box)));
    }
    w.submit("set", set(5), write(t.around(t.tiles()[1], 2)));  // rows 0 to 5
    w.submit("set", set(1), write(t.of_tile(t.tiles()[0])));
    return values_of(w, t);
  });
}

TEST(Tiles, SumsOverTilesHaveTheSameBitsOnAllRanks) {
  const auto body = [](world& w) -> doubles {
    const auto t = w.make<double>(rows(1), 7, 3);
    const auto part = w.per_tile<double>(t);
    const auto sum = w.everywhere<double>();
    const auto largest = w.everywhere<double>();
    for (const auto& box : t.tiles()) {
      w.submit(
          "part",
          [box](view<double, 1> out) {
            out(0) = 0.1 + 1e9 / static_cast<double>(1 + box.index);
          },
          write(part.of_index(box.index)));
    }
    w.reduce(std::plus<>(), part, sum);
    w.reduce([](double a, double b) { return std::max(a, b); }, part, largest);
    w.submit_everywhere(
        "scale", [](view<const double, 0> by, view<double, 0> out) { out() /= by(); },
        read(largest), update(sum));
    const double total = or_throw(w.get(sum));
    return {total, or_throw(w.get(largest))};
  };
  engine e(1);
  world one(e);
  const doubles expected = body(one);
  EXPECT_EQ(expected[1], 0.1 + 1e9);
  expect_equal_on_ranks(expected, body);
}

TEST(Tiles, CapturesOfAKernelEndSoonAfterItsTask) {
  for (const runtime::rank_id ranks : {1U, 2U}) {
    runtime::in_process_network net({.ranks = ranks});
    const auto token = std::make_shared<int>(1);
    engine e(1);
    world w(e, net.transport_of(0));
    const auto t = w.make<double>(rows(1), 2);
    const auto hold = [&] {
      w.submit(
          "hold", [token](view<double, 1> out) { out(0) += *token; },
          update(t.of_tile(t.tiles()[0])));
    };
    for (int i = 0; i < 9; ++i) {
      hold();
    }
    EXPECT_EQ(token.use_count(), 10);
    or_throw(e.wait());
    hold();
    EXPECT_EQ(token.use_count(), 2) << ranks << " ranks";
  }
}

TEST(Tiles, AWorldKeepsTheTransportThatItIsGiven) {
  using made_ranks = result<std::unique_ptr<runtime::transport>>;
  engine e(1);
  const auto expect_ranks = [&](world&& w, runtime::rank_id rank,
                                runtime::rank_id ranks) {
    EXPECT_EQ(w.base().rank(), rank);
    EXPECT_EQ(w.base().ranks(), ranks);
    const auto t = w.make<double>(rows(1), 4);
    for (const auto& box : t.tiles()) {
      w.submit(
          "set", [](view<double, 1> out) { out(0) = 7; }, write(t.of_tile(box)));
    }
    EXPECT_EQ(or_throw(w.elements(t)).extent(0), 4);
  };
  expect_ranks(world(e, runtime::make_pretended_ranks(1, 4)), 1, 4);
  expect_ranks(world(e, or_throw(runtime::make_pretended_ranks(2, 4))), 2, 4);
  expect_ranks(world(e, made_ranks(std::unique_ptr<runtime::transport>())), 0, 1);
  try {
    const world refused(e, made_ranks(error(errc::unsupported, "found MPI_Init")));
    FAIL() << "expected an exception";
  } catch (const std::runtime_error& thrown) {
    EXPECT_NE(std::string_view(thrown.what()).find("found MPI_Init"),
              std::string_view::npos);
  }
}

TEST(Tiles, AKernelThatOwnsMemoryAndThrowsFailsOnAllRanks) {
  for (const doubles& one : on_each_rank(3, [](world& w) -> doubles {
         const auto t = w.make<double>(rows(1), 3);
         const std::string owned(200, 'x');
         for (const auto& box : t.tiles()) {
           w.submit(
               "throw",
               [owned, box](view<double, 1> out) {
                 if (box.index == 1) {
                   throw std::runtime_error("thrown " + owned.substr(0, 3));
                 }
                 out(0) = 1;
               },
               write(t.of_tile(box)));
         }
         const auto waited = w.wait();
         EXPECT_FALSE(waited);
         EXPECT_EQ(waited.error().text(),
                   "step 2 \"throw\" failed on rank 1: expected success, found: kernel "
                   "threw an exception: thrown xxx");
         return {or_throw(w.get(w.everywhere<double>()))};
       })) {
    EXPECT_EQ(one, doubles{0});
  }
}

}  // namespace
}  // namespace weir
