// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests plans against the oracle: every collective, type, operation and algorithm, with
/// steps in random orders, in place and out of place.
#include <gtest/gtest.h>

#include <set>

#include "plans.hpp"
#include "support/case_count.hpp"
#include "weir/collective/choice.hpp"
#include "weir/collective/mesh.hpp"

namespace weir::collective {
namespace {

using test::bytes;
using test::flavour;

const topology plain_topology{1, 2, true};

/// Runs the call in place and out of place and compares all buffers with the oracle.
void expect_call(const collective_call& call, int ranks, const topology& shape,
                 const plan_options& options, std::uint64_t seed,
                 flavour kind = flavour::normal) {
  SCOPED_TRACE(test::text_of(call, ranks) + "; " + test::text_of(options, shape) +
               "; seed " + std::to_string(seed));
  std::mt19937_64 dice(seed);
  const collective_plan plan = or_throw(plan_collective(call, ranks, shape, options));
  const auto inputs =
      test::random_buffers(dice, call.type, ranks, test::input_bytes(call, ranks), kind);
  const auto before =
      test::random_buffers(dice, call.type, ranks, test::output_bytes(call, ranks), kind);
  const auto outside = test::run_plan(plan, inputs, before, false, dice);
  ASSERT_EQ(test::first_difference(outside, test::expected_outputs(call, inputs, before)),
            -1)
      << "the outputs of the call out of place differ";
  if (!call.packed_shards) {
    const auto inside = test::run_plan(plan, inputs, {}, true, dice);
    auto expected = test::expected_outputs(call, inputs, inputs);
    if (call.kind == collective_kind::reduce_scatter ||
        call.kind == collective_kind::scatter) {
      // The bytes around a rank's shard must not change.
      expected = test::expected_outputs(call, inputs, inputs);
    }
    ASSERT_EQ(test::first_difference(inside, expected), -1)
        << "the outputs of the call in place differ";
  }
}

TEST(Plan, EveryCollectiveTypeAndOperationEqualsTheOracle) {
  std::uint64_t seed = 1;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const collective_kind kind : test::all_kinds) {
      for (const dtype type : test::all_types) {
        for (collective_call call : test::calls_of(kind, type, {0, 1, 2})) {
          if (call.level == 0 && reduces(kind) && ranks > 2) {
            continue;  // sums of any order are allowed, so no bits are defined
          }
          const auto n = static_cast<std::size_t>(ranks);
          call.root = static_cast<int>(seed % n);
          call.peer = static_cast<int>(seed / 3 % n);
          const std::array<std::size_t, 3> counts = {0, n, 7 * n};
          call.count = counts[seed % 3];
          call.packed_shards = seed % 5 == 0;
          expect_call(call, ranks, plain_topology, {}, seed++);
        }
      }
    }
  }
}

TEST(Plan, CountsThatTheRanksDoNotDivideAreFineWhereNothingIsCut) {
  for (const collective_kind kind :
       {collective_kind::all_reduce, collective_kind::broadcast, collective_kind::reduce,
        collective_kind::send}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1009}}) {
      for (const int ranks : {3, 4, 7}) {
        collective_call call;
        call.kind = kind;
        call.count = count;
        call.root = 1;
        call.peer = 2;
        for (const algorithm how :
             {algorithm::direct, algorithm::ring, algorithm::tree}) {
          if (is_legal(how, call, ranks, plain_topology)) {
            expect_call(call, ranks, plain_topology, {how, 512}, count);
          }
        }
      }
    }
  }
}

/// Returns all algorithms, chunk sizes and topologies that a call supports.
std::vector<std::pair<topology, plan_options>> all_ways(int ranks,
                                                        const collective_call& call) {
  std::vector<std::pair<topology, plan_options>> ways;
  for (const bool shared : {true, false}) {
    for (const algorithm how :
         {algorithm::direct, algorithm::ring, algorithm::tree, algorithm::hierarchical}) {
      for (const int domains : {1, 2, 3, 4}) {
        for (const std::size_t chunk :
             {std::size_t{0}, std::size_t{1}, std::size_t{3000}}) {
          const topology shape{domains, 1 + domains, shared};
          if ((how == algorithm::hierarchical) == (domains > 1) &&
              is_legal(how, call, ranks, shape)) {
            ways.emplace_back(shape, plan_options{how, chunk});
          }
        }
      }
    }
  }
  return ways;
}

/// Runs a call with all algorithms, chunk sizes and topologies.
void expect_all_ways(const collective_call& call, int ranks, std::uint64_t seed) {
  std::mt19937_64 dice(seed);
  const auto inputs = test::random_buffers(dice, call.type, ranks,
                                           test::input_bytes(call, ranks), flavour::wide);
  const auto expected = test::expected_outputs(call, inputs, inputs);
  for (const auto& [shape, options] : all_ways(ranks, call)) {
    const auto plan = or_throw(plan_collective(call, ranks, shape, options));
    for (const bool in_place : {false, true}) {
      const auto found = test::run_plan(plan, inputs, inputs, in_place, dice);
      ASSERT_EQ(test::first_difference(found, expected), -1)
          << test::text_of(call, ranks) << "; " << test::text_of(options, shape)
          << "; seed " << seed << (in_place ? " in place" : "");
    }
  }
}

TEST(Plan, EveryAlgorithmGivesTheBitsOfTheOracle) {
  weir::test::case_picker tried;
  std::uint64_t seed = 1000;
  for (const int ranks : {2, 3, 4, 5, 6, 8, 12}) {
    for (const collective_kind kind :
         {collective_kind::all_reduce, collective_kind::reduce_scatter,
          collective_kind::reduce, collective_kind::all_gather,
          collective_kind::broadcast}) {
      for (const dtype type : test::all_types) {
        std::vector<collective_call> calls = test::calls_of(kind, type, {0, 1, 2});
        std::erase_if(calls, [&](const collective_call& c) {
          return reduces(kind) && c.level == 0;
        });
        collective_call call = calls[seed % calls.size()];
        const auto n = static_cast<std::size_t>(ranks);
        call.count = n * (kind == collective_kind::all_reduce ? 139 : 150);
        call.root = static_cast<int>(seed % n);
        if (tried.next()) {
          expect_all_ways(call, ranks, seed);
        }
        ++seed;
      }
    }
  }
}

TEST(Plan, AlgorithmsMoveAllToAllGatherAndScatterWithoutSharedMemory) {
  for (const collective_kind kind : {collective_kind::all_to_all, collective_kind::gather,
                                     collective_kind::scatter, collective_kind::send}) {
    for (const int ranks : {2, 3, 5, 8}) {
      collective_call call;
      call.kind = kind;
      call.root = ranks - 1;
      call.peer = 1;
      call.count = static_cast<std::size_t>(ranks) * 333;
      expect_call(call, ranks, {1, 2, false}, {algorithm::direct, 600}, 5);
    }
  }
}

TEST(Plan, AtLevel0EveryAlgorithmIsCloseToTheSum) {
  std::mt19937_64 dice(7);
  collective_call call;
  call.level = 0;
  call.count = 1000;
  for (const int ranks : {4, 6, 9}) {
    const auto inputs =
        test::random_buffers(dice, call.type, ranks, 4000, flavour::normal);
    const bytes exact = test::reduced({call.type, call.op, 2}, inputs);
    for (const auto& [shape, options] : all_ways(ranks, call)) {
      const auto plan = or_throw(plan_collective(call, ranks, shape, options));
      const auto out = test::run_plan(plan, inputs, inputs, false, dice);
      for (int r = 0; r < ranks; ++r) {
        ASSERT_EQ(out[static_cast<std::size_t>(r)], out[0]);
      }
      for (std::size_t i = 0; i < call.count; ++i) {
        float found = 0;
        float wanted = 0;
        std::memcpy(&found, out[0].data() + 4 * i, 4);
        std::memcpy(&wanted, exact.data() + 4 * i, 4);
        ASSERT_NEAR(found, wanted, 1e-5) << test::text_of(options, shape);
      }
    }
  }
}

TEST(Plan, ReduceScatterThenAllGatherIsAllReduce) {
  std::mt19937_64 dice(31);
  for (const dtype type : {dtype::fp32, dtype::bf16, dtype::fp64, dtype::complex128}) {
    for (const int ranks : {2, 3, 8}) {
      for (const int level : {1, 2}) {
        collective_call call;
        call.type = type;
        call.level = level;
        call.count = static_cast<std::size_t>(ranks) * 211;
        const auto run = [&](collective_kind kind, const std::vector<bytes>& in) {
          call.kind = kind;
          const plan_options options{algorithm::ring, 700};
          const auto plan =
              or_throw(plan_collective(call, ranks, plain_topology, options));
          return test::run_plan(plan, in, {}, true, dice);
        };
        const auto inputs = test::random_buffers(
            dice, type, ranks, call.count * info_of(type).size, flavour::wide);
        const auto scattered = run(collective_kind::reduce_scatter, inputs);
        EXPECT_EQ(run(collective_kind::all_gather, scattered),
                  run(collective_kind::all_reduce, inputs))
            << test::text_of(call, ranks);
      }
    }
  }
}

TEST(Plan, AtLevel2TheOrderOfRanksHasNoEffect) {
  std::mt19937_64 dice(77);
  for (const dtype type : {dtype::fp32, dtype::bf16, dtype::fp64, dtype::fp16}) {
    collective_call call;
    call.type = type;
    call.level = 2;
    call.count = 400;
    auto inputs =
        test::random_buffers(dice, type, 8, 400 * info_of(type).size, flavour::wide);
    bytes first;
    for (const auto& [shape, options] : all_ways(8, call)) {
      std::shuffle(inputs.begin(), inputs.end(), dice);
      const auto plan = or_throw(plan_collective(call, 8, shape, options));
      const bytes sum = test::run_plan(plan, inputs, inputs, false, dice)[3];
      first = first.empty() ? sum : first;
      ASSERT_EQ(sum, first) << test::text_of(options, shape);
    }
  }
}

/// Expects an order between every two steps that touch a common byte, if one of them
/// writes it. The input and output of a rank count as one buffer.
void expect_no_races(const collective_plan& plan) {
  struct range {
    std::uint64_t first;
    std::uint64_t last;
    bool writes;
  };
  const auto steps = plan.steps();
  std::vector<std::vector<range>> touched(steps.size());
  std::vector<std::vector<bool>> before(steps.size(), std::vector<bool>(steps.size()));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto add = [&](std::span<const plan_operand> list, bool writes) {
      for (const plan_operand& o : list) {
        for (int r = o.rank; r < o.rank + o.ranks; ++r) {
          const bool scratch = o.buffer == plan_operand::place::scratch;
          const std::uint64_t buffer =
              scratch ? 4096 + o.slot : static_cast<std::uint64_t>(r);
          const std::uint64_t begin = (buffer << 40) + o.offset;
          touched[i].push_back({begin, begin + plan.bytes(steps[i], o), writes});
          ASSERT_TRUE(!scratch ||
                      o.offset + plan.bytes(steps[i], o) <= plan.slot_bytes());
        }
      }
    };
    add(plan.sources(steps[i]), false);
    add(plan.targets(steps[i]), true);
    for (const std::uint32_t b : plan.after(steps[i])) {
      ASSERT_LT(b, i);
      before[i][b] = true;
      for (std::size_t a = 0; a < b; ++a) {
        before[i][a] = before[i][a] || before[b][a];
      }
    }
    for (std::size_t j = 0; j < i; ++j) {
      for (const range& x : touched[i]) {
        for (const range& y : touched[j]) {
          const bool meet = x.first < y.last && y.first < x.last;
          ASSERT_TRUE(!meet || (!x.writes && !y.writes) || before[i][j])
              << "steps " << j << " and " << i;
        }
      }
    }
  }
}

TEST(Plan, StepsThatAreNotOrderedShareNothing) {
  weir::test::case_picker tried;
  for (const collective_kind kind : test::all_kinds) {
    for (const int ranks : {2, 3, 6}) {
      for (const int level : {0, 1, 2}) {
        for (const std::size_t count : {900U, 31U}) {
          collective_call call;
          call.kind = kind;
          call.level = level;
          call.count = static_cast<std::size_t>(ranks) * count;
          call.root = ranks / 2;
          for (const auto& [shape, options] : all_ways(ranks, call)) {
            if (!tried.next()) {
              continue;
            }
            SCOPED_TRACE(test::text_of(call, ranks) + test::text_of(options, shape));
            expect_no_races(or_throw(
                plan_collective(call, ranks, shape,
                                {options.how, options.chunk_bytes * 4, options.wire})));
            if (testing::Test::HasFatalFailure()) {
              return;
            }
          }
        }
      }
    }
  }
}

TEST(Plan, SmallCallsAreFewSteps) {
  collective_call call;
  call.count = (64 << 10) / 4;
  const auto steps = [&](int ranks, int workers) {
    return or_throw(plan_collective(call, ranks, {1, workers, true}, {})).steps().size();
  };
  EXPECT_EQ(steps(2, 2), 1U);
  call.count *= 2;
  EXPECT_EQ(steps(8, 2), 2U);
  call.count *= 8;  // 1 MiB
  EXPECT_EQ(steps(4, 2), 2U);
  call.count *= 64;  // 64 MiB
  EXPECT_EQ(steps(4, 2), 8U);
  EXPECT_EQ(or_throw(plan_collective(call, 4, {1, 2, true}, {})).scratch_bytes(), 0U);
  call.kind = collective_kind::barrier;
  EXPECT_EQ(steps(4, 2), 1U);
}

TEST(Plan, ScratchOfLongCallsIsUsedAgain) {
  collective_call call;
  call.count = std::size_t{16} << 20;  // 64 MiB for each of the 8 ranks
  for (const int level : {1, 2}) {
    call.level = level;
    for (const algorithm how : {algorithm::ring, algorithm::tree}) {
      const auto plan = or_throw(plan_collective(call, 8, plain_topology, {how}));
      EXPECT_LE(plan.scratch_bytes(), std::size_t{160} << 20) << name_of(how);
      EXPECT_LE(plan.steps().size(), 5000U) << name_of(how);
    }
  }
}

TEST(Plan, RefusesImpossibleCalls) {
  const auto code = [](collective_call call, int ranks, plan_options options = {}) {
    const auto plan = plan_collective(call, ranks, plain_topology, options);
    return plan ? errc{} : plan.error().code();
  };
  collective_call call;
  call.count = 10;
  EXPECT_EQ(code(call, 0), errc::invalid_argument);
  EXPECT_EQ(code(call, max_ranks + 1), errc::invalid_argument);
  EXPECT_EQ(code(call, 4, {algorithm::hierarchical}), errc::unsupported);
  EXPECT_EQ(code(call, 4, {algorithm::direct, 0, wire_format::bf16}), errc::unsupported);
  call.op = reduction_op::product;
  call.level = 2;
  EXPECT_EQ(code(call, 4), errc::unsupported);
  call = {};
  call.kind = collective_kind::all_gather;
  call.count = 10;
  EXPECT_EQ(code(call, 4), errc::invalid_argument);
  EXPECT_EQ(code(call, 5), errc{});
  call.kind = collective_kind::broadcast;
  call.root = 4;
  EXPECT_EQ(code(call, 4), errc::invalid_argument);
  call.root = -1;
  EXPECT_EQ(code(call, 4), errc::invalid_argument);
  call = {};
  call.kind = collective_kind::send;
  call.peer = 2;
  EXPECT_EQ(code(call, 2), errc::invalid_argument);
  call = {};
  call.count = static_cast<std::size_t>(-1);
  EXPECT_EQ(code(call, 2), errc::invalid_argument);
  call.type = dtype::uint8;
  EXPECT_EQ(code(call, 2), errc::invalid_argument);
}

}  // namespace
}  // namespace weir::collective
