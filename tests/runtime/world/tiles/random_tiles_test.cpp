// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random programs over world tensors, with delayed and reordered messages, equal the run
/// on one rank and the run by plain loops, bit for bit; planted faults are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "support/case_count.hpp"
#include "weir/runtime/in_process.hpp"
#include "world/ranks.hpp"
#include "world/tiles/random_tiles.hpp"

namespace weir {
namespace {

using runtime::rank_id;
using runtime::world_fault;
using test::part_fault;
using test::slice_kinds;

/// Runs of a program on several ranks.
struct runs_on_ranks {
  std::vector<std::vector<double>> elements;  ///< of each rank
  test::sent_pieces sent;                     ///< by all ranks
};

/// Makes an engine of a rank. Some have a small window, so that submissions wait.
runtime::engine_options engine_of_tiles(rank_id rank, std::uint64_t seed) {
  runtime::engine_options o;
  o.workers = 1 + rank % 2;
  o.window = seed % 2 == 0 ? 64 : 4;
  return o;
}

/// Runs a program on threads, whose messages have random delays and overtake each other.
runs_on_ranks run_tiles(const test::tiles_program& p, rank_id ranks, std::uint64_t seed,
                        part_fault of_parts = part_fault::none,
                        world_fault of_pieces = world_fault::none) {
  runs_on_ranks out;
  out.elements.resize(ranks);
  std::vector<test::sent_pieces> sent(ranks);
  runtime::in_process_network net({.ranks = ranks, .max_delay = 4, .seed = seed});
  runtime::on_ranks(net, ranks, [&](rank_id r, runtime::transport& real) {
    runtime::faulty_link link(real, of_pieces);
    engine e(engine_of_tiles(r, seed));
    world w(e, link);
    test::tiles_run one(w, p, of_parts);
    out.elements[r] = one.run();
    sent[r] = one.sent();
  });
  for (const test::sent_pieces& one : sent) {
    out.sent.with_row_steps += one.with_row_steps;
    out.sent.with_column_steps += one.with_column_steps;
    out.sent.transposed += one.transposed;
    out.sent.steps_and_transposed += one.steps_and_transposed;
  }
  return out;
}

TEST(Tiles, RandomProgramsEqualTheRunOnOneRank) {
  test::sent_pieces sent;
  // All of them also under sanitizers: races between ranks show in few programs.
  const std::uint64_t programs = test::case_count("WEIR_TEST_TILES", 500, 500);
  for (std::uint64_t seed = 1; seed <= programs; ++seed) {
    test::dice d(seed);
    const auto p = test::random_tiles_program(
        d, seed % 4 == 0 ? slice_kinds::with_steps : slice_kinds::any);
    engine e(engine_of_tiles(1, seed));
    world alone(e);
    const auto expected = test::tiles_run(alone, p, part_fault::none).run();
    ASSERT_EQ(expected, test::run_plainly(p)) << "seed " << seed;
    const auto found = run_tiles(p, static_cast<rank_id>(2 + seed % 3), seed);
    for (const auto& elements : found.elements) {
      ASSERT_EQ(elements, expected) << "seed " << seed;
    }
    sent.with_row_steps += found.sent.with_row_steps;
    sent.with_column_steps += found.sent.with_column_steps;
    sent.transposed += found.sent.transposed;
    sent.steps_and_transposed += found.sent.steps_and_transposed;
  }
  // The programs move such parts between ranks, each of them at least once on average.
  EXPECT_GE(sent.with_row_steps, programs);
  EXPECT_GE(sent.with_column_steps, programs);
  EXPECT_GE(sent.transposed, programs);
  EXPECT_GE(sent.steps_and_transposed, programs / 10);
}

/// Returns how many of 40 programs on two ranks differ from the run by plain loops. All
/// of their parts have steps.
std::size_t tiles_that_differ(part_fault of_parts, world_fault of_pieces) {
  std::size_t differ = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    test::dice d(seed);
    const auto p = test::random_tiles_program(d, slice_kinds::with_steps);
    const auto expected = test::run_plainly(p);
    const auto found = run_tiles(p, 2, seed, of_parts, of_pieces).elements;
    differ += std::all_of(found.begin(), found.end(),
                          [&](const auto& elements) { return elements == expected; })
                  ? 0
                  : 1;
  }
  return differ;
}

TEST(TilesFaults, AreFoundInPartsWithStepsAndTransposes) {
  EXPECT_EQ(tiles_that_differ(part_fault::none, world_fault::none), 0U);
  EXPECT_GE(tiles_that_differ(part_fault::no_steps, world_fault::none), 38U);
  EXPECT_GE(tiles_that_differ(part_fault::no_transposes, world_fault::none), 38U);
}

TEST(TilesFaults, AreFoundInPiecesWhoseElementsHaveAnotherOrder) {
  EXPECT_GE(tiles_that_differ(part_fault::none, world_fault::reversed_pieces), 38U);
}

TEST(Tiles, PartsWithStepsAreSentAsOnePieceOfTheirBytes) {
  runtime::in_process_network net({.ranks = 2});
  std::array<runtime::world_counters, 2> counters;
  runtime::on_ranks(net, 2, [&](rank_id r, runtime::transport& link) {
    engine e(1);
    world w(e, link);
    const auto from = w.make<double>(blocks(12, 12), 24, 12);
    const auto to = w.make<double>(rows(3), 6, 4);
    const auto last = from.tiles()[1];  // of rank 1
    w.submit(
        "set",
        [](view<double, 2> out) {
          for (std::int64_t i = 0; i < 12; ++i) {
            for (std::int64_t j = 0; j < 12; ++j) {
              out(i, j) = static_cast<double>(100 * i + j);
            }
          }
        },
        write(from.of_tile(last)));
    // Rows 1, 4, 7, 10 and columns 11, 9, 7 of the tile.
    const auto part =
        from.of_tile(last).slice(0, 1, 12, 3).slice(1, 11, 6, -2).transpose();
    w.submit(
        "copy",
        [](view<const double, 2> in, view<double, 2> out) {
          for (std::int64_t i = 0; i < 3; ++i) {
            for (std::int64_t j = 0; j < 4; ++j) {
              out(i, j) = in(i, j);
            }
          }
        },
        read(part), write(to.of_tile(to.tiles()[0])));
    or_throw(w.wait());
    counters[r] = w.base().counters();
    if (r == 0) {
      const auto copied = to.all().elements<const double>();
      for (std::int64_t i = 0; i < 3; ++i) {
        for (std::int64_t j = 0; j < 4; ++j) {
          EXPECT_EQ(copied(i, j), static_cast<double>(100 * (1 + 3 * j) + 11 - 2 * i));
        }
      }
    }
  });
  EXPECT_EQ(counters[1].pieces_sent, 1U);
  EXPECT_EQ(counters[1].bytes_sent, 3 * 4 * 8);
  EXPECT_EQ(counters[0].pieces_sent, 0U);
}

}  // namespace
}  // namespace weir
