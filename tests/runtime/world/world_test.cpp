// SPDX-License-Identifier: Apache-2.0
/// @file
/// Worlds whose ranks are threads: random programs equal the run on one rank, with the
/// same failures on all ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/case_count.hpp"
#include "tensors.hpp"
#include "world/random_worlds.hpp"
#include "world/ranks.hpp"

namespace weir::runtime {
namespace {

using test::case_count;
using test::dice;

/// Runs a program on `ranks` ranks.
std::vector<rank_run> run_on_ranks(const program& p, rank_id ranks, unsigned workers,
                                   std::uint64_t seed) {
  std::vector<rank_run> runs(ranks);
  for (rank_run& one : runs) {
    one.source = &p;
    one.memory.seen.resize(p.tasks.size());
  }
  in_process_network net({.ranks = ranks, .max_delay = 4, .seed = seed});
  on_ranks(net, ranks, [&](rank_id r, transport& link) {
    run_program(&link, runs[r], seed, workers);
  });
  return runs;
}

/// A number of ranks and of workers of each.
struct world_size {
  rank_id ranks;
  unsigned workers;
};
class World : public testing::TestWithParam<world_size> {};
INSTANTIATE_TEST_SUITE_P(Sizes, World,
                         testing::Values(world_size{1, 2}, world_size{2, 1},
                                         world_size{3, 1}, world_size{4, 2}));

TEST_P(World, RandomProgramsEqualTheSerialRun) {
  dice d(900 + GetParam().ranks);
  // All of them also under sanitizers: races between ranks show in few programs.
  for (std::uint64_t i = 0; i < case_count("WEIR_TEST_WORLDS", 125, 125); ++i) {
    const program p = random_program(d, 0);
    const auto runs = run_on_ranks(p, GetParam().ranks, GetParam().workers, i);
    std::vector<std::uint64_t> expected_seen;
    const auto expected = run_serially(p, expected_seen);
    for (const rank_run& run : runs) {
      ASSERT_EQ(run.failure, "");
      ASSERT_EQ(run.result, expected) << "program " << i;
    }
    for (std::size_t k = 0; k < p.tasks.size(); ++k) {
      std::uint64_t seen = 0;  // the executor alone has run the task
      for (const rank_run& run : runs) {
        seen |= run.memory.seen[k];
      }
      ASSERT_EQ(seen, expected_seen[k]) << "program " << i << " task " << k;
    }
  }
}

class SeveralRanks : public World {};
INSTANTIATE_TEST_SUITE_P(Sizes, SeveralRanks,
                         testing::Values(world_size{2, 1}, world_size{3, 1},
                                         world_size{4, 2}));

TEST_P(SeveralRanks, AgreeOnTheOldestFailure) {
  dice d(950 + GetParam().ranks);
  for (std::uint64_t i = 0; i < case_count("WEIR_TEST_WORLDS", 20); ++i) {
    program p = random_program(d, 0);
    const std::size_t first = p.tasks.size() / 2;
    p.tasks[first].fails = true;
    p.tasks.back().fails = true;
    const auto runs = run_on_ranks(p, GetParam().ranks, GetParam().workers, i);
    const std::string begin = "step " + std::to_string(first + 1) + " \"step\" failed";
    ASSERT_EQ(runs[0].failure.find(begin), 0U) << runs[0].failure;
    ASSERT_NE(runs[0].failure.find("injected failure"), std::string::npos);
    for (const rank_run& run : runs) {
      ASSERT_EQ(run.failure, runs[0].failure);
    }
  }
}

/// Runs 40 programs with a planted fault. Returns the failures of both ranks for each
/// program that fails or differs from the serial run on a rank; they are empty if it only
/// differs. A rank that ends early tells the other one.
std::vector<std::array<std::string, 2>> programs_found(world_fault fault) {
  dice d(990);
  std::vector<std::array<std::string, 2>> found;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const program p = random_program(d, 0);
    std::vector<std::uint64_t> seen;
    const auto expected = run_serially(p, seen);
    std::vector<rank_run> runs(2);
    in_process_network net({.ranks = 2, .max_delay = 4, .seed = i});
    on_ranks(net, 2, [&](rank_id r, transport& real) {
      faulty_link link(real, fault);
      runs[r].source = &p;
      runs[r].fault = fault;
      runs[r].memory.seen.resize(p.tasks.size());
      try {
        run_program(&link, runs[r], i, 1);
      } catch (const std::exception& e) {
        runs[r].failure = e.what();
      }
    });
    const bool good = std::all_of(runs.begin(), runs.end(), [&](const rank_run& run) {
      return run.failure.empty() && run.result == expected;
    });
    if (!good) {
      found.push_back({runs[0].failure, runs[1].failure});
    }
  }
  return found;
}

TEST(WorldFaults, NothingIsFoundWithoutAFault) {
  EXPECT_TRUE(programs_found(world_fault::none).empty());
  EXPECT_TRUE(programs_found(world_fault::noted_writes).empty());
}

// All ranks forget the same, so none of them fails: the results alone differ.
TEST(WorldFaults, ALedgerThatForgetsIsFound) {
  const auto found = programs_found(world_fault::forgotten_writes);
  EXPECT_GE(found.size(), 8U);
  for (const auto& failures : found) {
    EXPECT_EQ(failures, (std::array<std::string, 2>{}));
  }
}

TEST(WorldFaults, APieceOneElementShortIsFoundAndNamed) {
  const auto found = programs_found(world_fault::short_piece);
  EXPECT_GE(found.size(), 8U);
  for (const auto& failures : found) {
    EXPECT_NE(failures[0].find(" of channel 0 from rank "), std::string::npos);
    EXPECT_NE(failures[0].find(" bytes, found "), std::string::npos) << failures[0];
    EXPECT_EQ(failures[0], failures[1]);
  }
}

TEST(WorldFaults, AReusedTagIsFound) {
  EXPECT_GE(programs_found(world_fault::reused_tag).size(), 8U);
}

TEST(WorldPieces, AColumnGoesOnceAndIsExactlyItsBytes) {
  in_process_network net({.ranks = 2});
  std::array<world_counters, 2> counters;
  std::array<double, 2> seen{};
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    const auto e = engine_of_rank(1);
    world w(*e, link);
    const tensor m = matrix_of(w, 16, 8);
    const tensor sum = matrix_of(w, 16, 1);
    or_throw(set_rows(w, 0, m, 3));
    const tensor column = or_throw(m.slice(1, 5, 6));
    or_throw(add_column(w, 1, column, sum));
    or_throw(add_column(w, 1, column, sum));
    or_throw(w.wait());
    counters[r] = w.counters();
    seen[r] = sum.as<double>()[15];
  });
  EXPECT_EQ(counters[0].pieces_sent, 1U);
  EXPECT_EQ(counters[0].bytes_sent, 16 * 8);
  EXPECT_EQ(counters[0].own_tasks, 1U);
  EXPECT_EQ(counters[0].foreign_tasks, 2U);
  EXPECT_EQ(counters[1].pieces_sent, 0U);
  EXPECT_EQ(seen[1], 6);
  EXPECT_EQ(seen[0], 0);  // the sum was not asked for on rank 0
}

TEST(WorldPieces, TheWriterSendsItsRegionToAllRanksItself) {
  constexpr rank_id ranks = 4;
  in_process_network net({.ranks = ranks});
  std::array<world_counters, ranks> counters;
  on_ranks(net, ranks, [&](rank_id r, transport& link) {
    const auto e = engine_of_rank(1);
    world w(*e, link);
    const tensor m = matrix_of(w, 4, 1);
    or_throw(set_rows(w, 2, m, 7));
    or_throw(w.bring_everywhere(m));
    or_throw(w.wait());
    counters[r] = w.counters();
    EXPECT_EQ(m.as<double>()[3], 7);
  });
  for (rank_id r = 0; r < ranks; ++r) {
    EXPECT_EQ(counters[r].pieces_sent, r == 2 ? 3U : 0U) << "rank " << r;
    EXPECT_EQ(counters[r].own_tasks + counters[r].foreign_tasks, 1U);
  }
}

// The pieces of two ranks with one worker each cross, and are made only when a task has
// run that stands behind a receive and needs no piece.
TEST(WorldPieces, ATaskBehindAReceiveRunsBeforeThePieceComes) {
  in_process_network net({.ranks = 2});
  std::atomic<bool> has_run{false};
  std::array<std::uint64_t, 2> postponed{};
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    const auto e = engine_of_rank(1);
    world w(*e, link);
    const std::array<tensor, 2> made{matrix_of(w, 4, 1), matrix_of(w, 4, 1)};
    const std::array<tensor, 2> sums{matrix_of(w, 4, 1), matrix_of(w, 4, 1)};
    const std::array<tensor, 2> own{matrix_of(w, 1, 1), matrix_of(w, 1, 1)};
    for (rank_id other = 0; other < 2; ++other) {
      double* const out = made[other].as<double>();
      or_throw(w.submit({other, 1}, "make", std::array{writes(made[other])},
                        [out, &has_run](const task_context&) -> result<void> {
                          for (int i = 0; i < 5'000 && !has_run; ++i) {
                            std::this_thread::sleep_for(std::chrono::milliseconds(1));
                          }
                          std::fill_n(out, 4, 3.0);
                          return has_run ? result<void>()
                                         : result<void>(
                                               error(errc::timeout, "nothing has run"));
                        }));
      or_throw(add_column(w, 1 - other, made[other], sums[1 - other]));
      // Rank 1 runs this while it waits for the piece of rank 0, and makes its own after.
      or_throw(w.submit({1, 0}, "own", std::array{updates(own[other])},
                        [&has_run](const task_context&) { has_run = true; }));
    }
    or_throw(w.wait());
    EXPECT_EQ(sums[r].as<double>()[3], 3);
    postponed[r] = e->counters().postponed;
  });
  EXPECT_GE(postponed[1], 2U);  // a send and a receive
}

TEST(WorldPieces, AWorldThatReleasesMovesOnWhileAnotherWaits) {
  in_process_network net({.ranks = 2});
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    const auto e = engine_of_rank(1);
    const auto f = engine_of_rank(1);
    world first(*e, link);
    world second(*f, link);
    const tensor m = matrix_of(first, 4, 1);
    const tensor sum = matrix_of(first, 4, 1);
    const tensor spare = matrix_of(first, 1, 1);
    or_throw(set_rows(first, 1, m, 5));
    or_throw(add_column(first, 0, m, sum));
    or_throw(first.release(spare.store().id));  // rank 0 needs a piece of rank 1
    or_throw(second.wait());                    // which waits here for rank 0
    or_throw(first.wait());
    EXPECT_EQ(sum.as<double>()[3], r == 0 ? 5 : 0);
  });
}

TEST(WorldPieces, TwoWorldsOnOneTransportDoNotMix) {
  in_process_network net({.ranks = 2, .max_delay = 5});
  std::array<double, 2> seen{};
  on_ranks(net, 2, [&](rank_id r, transport& link) {
    const auto e = engine_of_rank(1);
    const auto f = engine_of_rank(1);
    world first(*e, link);
    world second(*f, link);
    const tensor a = matrix_of(first, 4, 1);
    const tensor b = matrix_of(second, 4, 1);
    for (int i = 1; i <= 8; ++i) {
      or_throw(set_rows(first, 0, a, i));
      or_throw(set_rows(second, 0, b, -i));
      or_throw(first.bring_everywhere(a));
      or_throw(second.bring_everywhere(b));
    }
    or_throw(first.wait());
    or_throw(second.wait());
    seen[r] = a.as<double>()[3] * 100 + b.as<double>()[3];
  });
  EXPECT_EQ(seen[0], 792);
  EXPECT_EQ(seen[1], 792);
}

TEST(WorldOfOneRank, ForwardsToTheEngine) {
  const auto e = engine_of_rank(1);
  world w(*e);
  const tensor m = matrix_of(w, 4, 1);
  or_throw(set_rows(w, 0, m, 2));
  or_throw(add_column(w, 0, m, m));
  or_throw(w.bring_everywhere(m));
  or_throw(w.wait());
  EXPECT_EQ(m.as<double>()[3], 4);
  EXPECT_EQ(e->counters().submitted, 2U);
}

TEST(WorldCounters, NameTheRankAndTheTaskOfTheLongestWait) {
  in_process_network net({.ranks = 3});
  on_ranks(net, 3, [&](rank_id r, transport& link) {
    const auto tasks = engine_of_rank(1);
    world w(*tasks, link);
    const tensor a = matrix_of(w, 2, 4);
    double* first = a.as<double>();
    or_throw(w.submit({2, 1}, "slow", std::array{writes(a)}, [=](const task_context&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      std::fill_n(first, 8, 1.0);
    }));
    const tensor b = matrix_of(w, 2, 1);
    or_throw(add_column(w, 0, a, b));
    const auto all = or_throw(w.gather_counters());
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[r].own_tasks, w.counters().own_tasks);
    EXPECT_EQ(all[2].bytes_sent, 64);
    EXPECT_EQ(all[2].own_tasks, 1U);
    EXPECT_EQ(all[1].foreign_tasks, 2U);
    EXPECT_EQ(all[1].waits, 0U);
    EXPECT_GE(all[0].waits, 1U);
    EXPECT_EQ(all[0].longest_for, 2U);
    EXPECT_STREQ(all[0].longest_task.data(), "add");
    EXPECT_GE(all[0].waited_ns, all[0].longest_ns);
    const std::string table = counter_table(all);
    EXPECT_NE(table.find("rank 2, task \"add\""), std::string::npos) << table;
    EXPECT_NE(counters_as_json(all).find("\"longest_task\": \"add\""), std::string::npos);
  });
}

}  // namespace
}  // namespace weir::runtime
