// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests sums over leaves: they give the same bits for every number of ranks that hold
/// the leaves.
#include <gtest/gtest.h>

#include <numeric>

#include "collective/exact_number.hpp"
#include "plans.hpp"
#include "weir/collective/leaves.hpp"

namespace weir::collective {
namespace {

using test::bytes;
using test::flavour;

/// Runs an all-reduce of partial results and returns the result of a rank.
bytes all_reduced(dtype type, reduction_op op, const std::vector<bytes>& partials,
                  int level, algorithm how) {
  std::mt19937_64 dice(partials.size());
  collective_call call;
  call.type = type;
  call.op = op;
  call.level = level;
  call.count = partials[0].size() / info_of(type).size;
  const auto plan = or_throw(
      plan_collective(call, static_cast<int>(partials.size()), {1, 2, true}, {how, 256}));
  return test::run_plan(plan, partials, partials, true, dice).back();
}

/// Computes the whole sum on `ranks` ranks: local trees, an all-reduce, and rounding.
bytes by_leaf_trees(dtype type, reduction_op op, const std::vector<bytes>& leaves,
                    std::size_t ranks, algorithm how) {
  const std::size_t count = leaves[0].size() / info_of(type).size;
  std::vector<bytes> partials;
  for (std::size_t r = 0; r < ranks; ++r) {
    leaf_tree tree = or_throw(leaf_tree::make({type, op}, count));
    for (std::size_t l = 0; l < leaves.size() / ranks; ++l) {
      or_throw(tree.add(leaves[r * (leaves.size() / ranks) + l].data()));
    }
    partials.emplace_back(tree.bytes());
    or_throw(tree.finish(partials.back().data()));
  }
  const bytes sum = all_reduced(node_type(type), op, partials, 1, how);
  bytes out(leaves[0].size());
  or_throw(round_nodes(type, sum.data(), count, out.data()));
  return out;
}

TEST(Leaves, TreesGiveTheSameBitsForEveryNumberOfRanks) {
  const std::uint64_t seed = 6;
  std::mt19937_64 dice(seed);
  for (const dtype type : {dtype::fp32, dtype::bf16, dtype::fp16, dtype::fp8_e4m3,
                           dtype::fp64, dtype::complex64, dtype::int16}) {
    for (const std::size_t leaves : {8U, 16U, 24U}) {
      const auto data = test::random_buffers(dice, type, static_cast<int>(leaves),
                                             300 * info_of(type).size, flavour::wide);
      const bytes expected = test::reduced({type, reduction_op::sum, 1}, data);
      for (const std::size_t ranks : {1U, 2U, 3U, 4U, 6U, 8U, 24U}) {
        const std::size_t each = leaves / ranks;
        if (leaves % ranks == 0 && (each & (each - 1)) == 0) {
          for (const algorithm how :
               {algorithm::direct, algorithm::ring, algorithm::tree}) {
            ASSERT_EQ(by_leaf_trees(type, reduction_op::sum, data, ranks, how), expected)
                << info_of(type).tessera << " " << leaves << " leaves on " << ranks
                << " ranks, seed " << seed;
          }
        }
      }
    }
  }
}

TEST(Leaves, TreesRefuseNumbersThatAreNoPowersOfTwo) {
  leaf_tree tree = or_throw(leaf_tree::make({dtype::fp32, reduction_op::sum}, 1));
  float x = 1;
  float sum = 0;
  auto* const in = reinterpret_cast<std::byte*>(&x);
  auto* const out = reinterpret_cast<std::byte*>(&sum);
  EXPECT_EQ(tree.finish(out).error().code(), errc::invalid_argument);
  for (int i = 1; i <= 33; ++i) {
    or_throw(tree.add(in));
    ASSERT_EQ(tree.leaves(), static_cast<std::uint64_t>(i));
    if ((i & (i - 1)) != 0) {
      ASSERT_EQ(tree.finish(out).error().code(), errc::invalid_argument) << i;
    }
  }
  EXPECT_EQ(leaf_tree::make({dtype::fp32, reduction_op::average}, 1).error().code(),
            errc::unsupported);
  EXPECT_EQ(leaf_tree::make({dtype::fp32, reduction_op::sum, 2}, 1).error().code(),
            errc::unsupported);
  EXPECT_EQ(leaf_tree::make({dtype::complex64, reduction_op::max}, 1).error().code(),
            errc::unsupported);
  EXPECT_EQ(
      leaf_tree::make({dtype::fp32, reduction_op::sum}, static_cast<std::size_t>(-1))
          .error()
          .code(),
      errc::invalid_argument);
}

/// Returns the bytes of values.
template <class T>
bytes raw(const std::vector<T>& values) {
  bytes out(values.size() * sizeof(T));
  if (!values.empty()) {
    std::memcpy(out.data(), values.data(), out.size());
  }
  return out;
}
/// Returns the values of bytes.
template <class T>
std::vector<T> cooked(const bytes& from) {
  std::vector<T> out(from.size() / sizeof(T));
  std::memcpy(out.data(), from.data(), from.size());
  return out;
}

/// Computes the whole sum with fixed point numbers. `order` assigns the leaves to ranks.
bytes by_fixed_point(dtype type, const std::vector<bytes>& leaves,
                     const std::vector<std::size_t>& order, std::size_t ranks,
                     std::uint64_t first) {
  const std::size_t count = leaves[0].size() / info_of(type).size;
  const fixed_point_sum sum{type, leaves.size(), first, count};
  or_throw(sum.check());
  std::vector<bytes> exponents;
  for (std::size_t r = 0; r < ranks; ++r) {
    std::vector<std::int32_t> own(sum.blocks(), fixed_point_sum::no_exponent);
    for (std::size_t l = r; l < leaves.size(); l += ranks) {
      sum.note_sizes(leaves[order[l]].data(), own);
    }
    exponents.push_back(raw(own));
  }
  const auto shared = cooked<std::int32_t>(
      all_reduced(dtype::int32, reduction_op::max, exponents, 0, algorithm::ring));
  std::vector<bytes> limbs;
  for (std::size_t r = 0; r < ranks; ++r) {
    std::vector<std::int64_t> own(count * sum.limbs());
    for (std::size_t l = r; l < leaves.size(); l += ranks) {
      sum.add(leaves[order[l]].data(), shared, own);
    }
    limbs.push_back(raw(own));
  }
  const auto sums = cooked<std::int64_t>(
      all_reduced(dtype::int64, reduction_op::sum, limbs, 0, algorithm::tree));
  bytes out(leaves[0].size());
  sum.finish(shared, sums, out.data());
  return out;
}

TEST(Leaves, FixedPointSumsDependNeitherOnRanksNorOnOrder) {
  const std::uint64_t seed = 12;
  std::mt19937_64 dice(seed);
  for (const dtype type : {dtype::fp32, dtype::fp64, dtype::bf16, dtype::fp16,
                           dtype::fp8_e4m3, dtype::fp8_e5m2}) {
    for (const flavour kind : {flavour::normal, flavour::wide, flavour::codes}) {
      const auto leaves =
          test::random_buffers(dice, type, 12, 700 * info_of(type).size, kind);
      std::vector<std::size_t> order(leaves.size());
      std::iota(order.begin(), order.end(), 0U);
      const bytes expected = by_fixed_point(type, leaves, order, 1, 100);
      for (const std::size_t ranks : {2U, 3U, 5U, 12U}) {
        std::shuffle(order.begin(), order.end(), dice);
        ASSERT_EQ(by_fixed_point(type, leaves, order, ranks, 100), expected)
            << info_of(type).tessera << " seed " << seed << " ranks " << ranks;
      }
    }
  }
}

TEST(Leaves, FixedPointSumsOfTheSameSizesAreTheExactOnes) {
  std::mt19937_64 dice(5);
  for (const dtype type : {dtype::fp32, dtype::bf16, dtype::fp64, dtype::fp8_e5m2}) {
    // All numbers are multiples of 2^-20 between 1 and 2, so the fixed point sum is
    // exact.
    std::vector<bytes> leaves(9, bytes(256 * info_of(type).size));
    for (bytes& leaf : leaves) {
      for (std::size_t i = 0; i < leaf.size(); i += info_of(type).size) {
        test::put_number(leaf.data() + i, type,
                         1 + std::ldexp(static_cast<double>(dice() % 1048576), -20));
      }
    }
    std::vector<std::size_t> order(leaves.size());
    std::iota(order.begin(), order.end(), 0U);
    ASSERT_EQ(by_fixed_point(type, leaves, order, 3, 0),
              test::reduced({type, reduction_op::sum, 2}, leaves))
        << info_of(type).tessera;
  }
}

TEST(Leaves, FixedPointSumsCutBlocksByTheTensorNotByTheBuffer) {
  std::mt19937_64 dice(50);
  const dtype type = dtype::fp32;
  const auto leaves = test::random_buffers(dice, type, 4, 1000 * 4, flavour::wide);
  std::vector<std::size_t> order = {0, 1, 2, 3};
  const bytes whole = by_fixed_point(type, leaves, order, 2, 0);
  // The shard begins and ends inside a block. It must use the exponents of whole blocks.
  const fixed_point_sum all{type, 4, 0, 1000};
  std::vector<std::int32_t> exponents(all.blocks(), fixed_point_sum::no_exponent);
  for (const bytes& leaf : leaves) {
    all.note_sizes(leaf.data(), exponents);
  }
  const fixed_point_sum shard{type, 4, 300, 500};
  EXPECT_EQ(shard.blocks(), 3U);
  std::vector<std::int64_t> sums(500);
  const std::span<const std::int32_t> own = std::span(exponents).subspan(1, 3);
  for (const bytes& leaf : leaves) {
    shard.add(leaf.data() + 300 * 4, own, sums);
  }
  bytes out(500 * 4);
  shard.finish(own, sums, out.data());
  EXPECT_TRUE(std::equal(out.begin(), out.end(), whole.begin() + 300 * 4));
}

TEST(Leaves, FixedPointSumsTakeExtremeNumbers) {
  const auto sum = [](const std::vector<double>& values) {
    std::vector<bytes> leaves;
    for (const double x : values) {
      leaves.push_back(raw<double>({x}));
    }
    std::vector<std::size_t> order(leaves.size());
    std::iota(order.begin(), order.end(), 0U);
    return cooked<double>(by_fixed_point(dtype::fp64, leaves, order, 1, 0))[0];
  };
  const double huge = std::numeric_limits<double>::max();
  EXPECT_EQ(sum({5e-324, 5e-324, -5e-324}), 5e-324);
  EXPECT_EQ(sum({2e-308, -1e-308}), 2e-308 - 1e-308);
  EXPECT_EQ(sum({huge, huge, -huge}), huge);
  EXPECT_EQ(sum({huge, huge}), HUGE_VAL);
  EXPECT_EQ(sum({0.0, -0.0}), 0.0);
  EXPECT_TRUE(std::isnan(sum({HUGE_VAL, 1})));
  EXPECT_EQ(sum({1.0, 0x1p-100, -1.0}), 0x1p-100);
  EXPECT_EQ((fixed_point_sum{dtype::int32}).check().error().code(), errc::unsupported);
  EXPECT_EQ((fixed_point_sum{dtype::fp32, 0}).check().error().code(),
            errc::invalid_argument);
}

}  // namespace
}  // namespace weir::collective
