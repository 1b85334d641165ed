// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests reductions against the oracle, for all types, operations, levels and numbers of
/// ranks.
#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>
#include <numeric>
#include <random>

#include "collective/kernels/narrow_floats.hpp"
#include "oracle.hpp"
#include "support/case_count.hpp"
#include "weir/base/system/fp_environment.hpp"
#include "weir/collective/reduction.hpp"

namespace weir::collective {
namespace {

using test::bytes;
using test::flavour;

/// A reduction and the size and kind of its inputs.
struct one_case {
  reduction operation;
  int ranks;
  std::size_t count;
  flavour kind;
};

std::string text_of(const one_case& c) {
  return std::string(info_of(c.operation.type).tessera) + " " +
         std::string(name_of(c.operation.op)) + " level " +
         std::to_string(c.operation.level) + (c.operation.wide ? " wide " : " ") +
         std::to_string(c.ranks) + " ranks " + std::to_string(c.count) +
         " elements flavour " + std::to_string(static_cast<int>(c.kind));
}

/// Returns the inputs of a case.
std::vector<bytes> random_inputs(std::uint64_t seed, const one_case& c) {
  std::mt19937_64 dice(seed);
  std::vector<bytes> inputs;
  for (int r = 0; r < c.ranks; ++r) {
    inputs.push_back(test::random_elements(dice, c.operation.type, c.count, c.kind));
  }
  return inputs;
}

/// Reduces the inputs and returns the output.
bytes run(const reducer& reduce, const std::vector<bytes>& inputs, std::size_t count) {
  std::vector<const std::byte*> from;
  for (const bytes& input : inputs) {
    from.push_back(input.data());
  }
  bytes out(inputs[0].size());
  const std::array<std::byte*, 1> to = {out.data()};
  reduce.reduce(from, to, count);
  return out;
}

/// Returns the index of the first element that differs, or -1.
std::ptrdiff_t first_difference(const bytes& a, const bytes& b, std::size_t size) {
  const auto difference = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return difference.first == a.end()
             ? -1
             : (difference.first - a.begin()) / std::ptrdiff_t(size);
}

/// Compares a reduction of random inputs with the oracle.
void expect_oracle(std::uint64_t seed, const one_case& c) {
  const std::vector<bytes> inputs = random_inputs(seed, c);
  const bytes expected = test::reduced(c.operation, inputs);
  const std::size_t size = info_of(c.operation.type).size;
  const bytes fast = run(or_throw(reducer::make(c.operation)), inputs, c.count);
  const bytes plain = run(or_throw(reducer::make_portable(c.operation)), inputs, c.count);
  ASSERT_EQ(first_difference(fast, expected, size), -1) << text_of(c) << " seed " << seed;
  ASSERT_EQ(first_difference(plain, expected, size), -1)
      << text_of(c) << " seed " << seed << " portable";
}

/// Returns the supported combinations of type, operation and level 1 or 2, narrow and
/// wide.
std::vector<reduction> all_reductions() {
  std::vector<reduction> all;
  for (const dtype type : test::all_types) {
    for (const reduction_op op : test::all_ops) {
      for (const int level : {1, 2}) {
        for (const bool wide : {false, true}) {
          const reduction operation{type, op, level, wide};
          if (check_reduction(operation)) {
            all.push_back(operation);
          }
        }
      }
    }
  }
  return all;
}

TEST(Reduction, EqualsTheOracleForEveryTypeOperationAndNumberOfRanks) {
  weir::test::case_picker tried;
  for (const reduction& operation : all_reductions()) {
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17}) {
      for (const flavour kind :
           {flavour::codes, flavour::normal, flavour::wide, flavour::special}) {
        if (tried.next()) {
          expect_oracle(static_cast<std::uint64_t>(ranks), {operation, ranks, 35, kind});
        }
      }
    }
  }
}

TEST(Reduction, EqualsTheOracleAcrossTiles) {
  for (const reduction& operation : all_reductions()) {
    expect_oracle(5, {operation, 3, 521, flavour::normal});
  }
}

TEST(Reduction, TakesNoElements) {
  for (const reduction& operation : all_reductions()) {
    bytes guard(16, std::byte{0x5A});
    const std::array<const std::byte*, 2> from = {guard.data(), guard.data()};
    const std::array<std::byte*, 1> to = {guard.data()};
    or_throw(reducer::make(operation)).reduce(from, to, 0);
    ASSERT_EQ(guard, bytes(16, std::byte{0x5A})) << text_of({operation, 2, 0, {}});
  }
}

TEST(Reduction, WritesEveryOutputAndNothingBeside) {
  constexpr std::size_t margin = 64;
  for (const reduction& operation : all_reductions()) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{67}}) {
      const one_case c{operation, 4, count, flavour::normal};
      std::vector<bytes> inputs = random_inputs(11, c);
      const bytes expected = test::reduced(operation, inputs);
      // Inputs are unaligned, one output is in place, and there are two further outputs.
      std::vector<bytes> padded;
      for (const bytes& input : inputs) {
        padded.emplace_back(input.size() + 2 * margin + 1, std::byte{0xA5});
        std::copy(input.begin(), input.end(), padded.back().begin() + margin + 1);
      }
      padded.emplace_back(expected.size() + 2 * margin + 1, std::byte{0xA5});
      std::vector<const std::byte*> from;
      std::vector<std::byte*> to;
      for (bytes& p : padded) {
        to.push_back(p.data() + margin + 1);
        if (to.size() <= 4) {
          from.push_back(to.back());
        }
      }
      or_throw(reducer::make(operation)).reduce(from, to, count);
      for (const bytes& p : padded) {
        const bytes middle(p.begin() + margin + 1,
                           p.begin() + std::ptrdiff_t(margin + 1 + expected.size()));
        ASSERT_EQ(middle, expected) << text_of(c);
        for (std::size_t i = 0; i < margin; ++i) {
          ASSERT_EQ(p[i], std::byte{0xA5}) << text_of(c);
          ASSERT_EQ(p[p.size() - 1 - i], std::byte{0xA5}) << text_of(c);
        }
      }
    }
  }
}

TEST(Reduction, AtLevel2DoesNotDependOnTheOrderOfRanks) {
  const std::uint64_t seed = 20260301;
  std::mt19937_64 dice(seed);
  for (const reduction& operation : all_reductions()) {
    if (operation.level != 2 || operation.wide) {
      continue;
    }
    for (const flavour kind :
         {flavour::codes, flavour::normal, flavour::wide, flavour::special}) {
      const one_case c{operation, 7, 50, kind};
      std::vector<bytes> inputs = random_inputs(seed, c);
      const reducer reduce = or_throw(reducer::make(operation));
      const bytes expected = run(reduce, inputs, c.count);
      for (int i = 0; i < 6; ++i) {
        std::shuffle(inputs.begin(), inputs.end(), dice);
        ASSERT_EQ(run(reduce, inputs, c.count), expected)
            << text_of(c) << " shuffle " << i;
      }
    }
  }
}

TEST(Reduction, AtLevel1DependsOnTheOrderOfRanks) {
  const one_case c{{dtype::fp32, reduction_op::sum, 1}, 7, 500, flavour::wide};
  std::vector<bytes> inputs = random_inputs(3, c);
  const reducer reduce = or_throw(reducer::make(c.operation));
  const bytes before = run(reduce, inputs, c.count);
  std::reverse(inputs.begin(), inputs.end());
  EXPECT_NE(run(reduce, inputs, c.count), before);
}

TEST(Reduction, OfAPrefixIsThePrefixOfTheReduction) {
  for (const reduction& operation : all_reductions()) {
    const one_case c{operation, 5, 700, flavour::normal};
    const std::vector<bytes> inputs = random_inputs(8, c);
    const reducer reduce = or_throw(reducer::make(operation));
    const bytes whole = run(reduce, inputs, c.count);
    for (const std::size_t count : {1U, 31U, 512U, 699U}) {
      const bytes part = run(reduce, inputs, count);
      const auto end = std::ptrdiff_t(count * info_of(operation.type).size);
      ASSERT_TRUE(std::equal(part.begin(), part.begin() + end, whole.begin()))
          << text_of(c) << " prefix " << count;
    }
  }
}

TEST(Reduction, DoesNotDependOnTheCallersFloatEnvironment) {
  for (const reduction& operation : all_reductions()) {
    const one_case c{operation, 4, 40, flavour::codes};
    const std::vector<bytes> inputs = random_inputs(21, c);
    const reducer reduce = or_throw(reducer::make(operation));
    const bytes expected = run(reduce, inputs, c.count);
    const fp_scope flushing;
    ASSERT_EQ(run(reduce, inputs, c.count), expected) << text_of(c);
    ASSERT_EQ(fp_control(), kernel_fp_control);
    std::fesetround(FE_UPWARD);
    ASSERT_EQ(run(reduce, inputs, c.count), expected) << text_of(c);
    ASSERT_EQ(std::fegetround(), FE_UPWARD);
  }
}

/// Returns the sum of one element per rank.
template <class T>
T one_sum(int level, std::vector<T> values) {
  std::vector<const std::byte*> from;
  for (const T& x : values) {
    from.push_back(reinterpret_cast<const std::byte*>(&x));
  }
  T out{};
  const std::array<std::byte*, 1> to = {reinterpret_cast<std::byte*>(&out)};
  or_throw(reducer::make({dtype_of<T>, reduction_op::sum, level})).reduce(from, to, 1);
  return out;
}

TEST(Reduction, AtLevel2NeverOverflowsOnTheWay) {
  const double huge = std::numeric_limits<double>::max();
  EXPECT_EQ(one_sum<double>(2, {huge, huge, -huge, -huge}), 0.0);
  EXPECT_EQ(one_sum<double>(2, {huge, huge, -huge}), huge);
  EXPECT_EQ(one_sum<double>(2, {huge, 4e291, -4e291}), huge);
  EXPECT_EQ(one_sum<double>(2, {huge, huge}), HUGE_VAL);
  EXPECT_EQ(one_sum<double>(1, {huge, huge, -huge, -huge}) == 0.0, false);
  const float large = std::numeric_limits<float>::max();
  EXPECT_EQ(one_sum<float>(2, {large, large, -large}), large);
}

TEST(Reduction, AtLevel2CountsAddendsThatAreFarSmaller) {
  EXPECT_EQ(one_sum<double>(2, {1e300, 1.0, -1e300}), 1.0);
  EXPECT_EQ(one_sum<double>(2, {1e300, 5e-324, -1e300}), 5e-324);
  EXPECT_EQ(one_sum<float>(2, {1e38F, 1e-45F, -1e38F}), 1e-45F);
  // The second input is half a unit of the result, a tie. Only the tiny last input
  // decides it.
  EXPECT_EQ(one_sum<double>(2, {1.0, 0x1p-53, 0x1p-1074}), 1.0 + 0x1p-52);
  EXPECT_EQ(one_sum<double>(2, {1.0, 0x1p-53, -0x1p-1074}), 1.0);
  EXPECT_EQ(one_sum<double>(2, {1.0, 0x1p-53}), 1.0);
  EXPECT_EQ(one_sum<float>(2, {1.0F, 0x1p-24F, 0x1p-149F}), 1.0F + 0x1p-23F);
}

TEST(Reduction, KeepsSignsOfZeros) {
  for (const int level : {0, 1, 2}) {
    EXPECT_TRUE(std::signbit(one_sum<float>(level, {-0.0F, -0.0F, -0.0F})));
    EXPECT_FALSE(std::signbit(one_sum<float>(level, {-0.0F, 0.0F, -0.0F})));
    EXPECT_FALSE(std::signbit(one_sum<double>(level, {1.5, -1.5, -0.0})));
    EXPECT_TRUE(std::signbit(one_sum<double>(level, {-0.0, -0.0})));
  }
}

/// Reduces halves to partial results and joins them along the canonical tree. The result
/// must have the bits of the whole reduction.
bytes folded(const reducer& reduce, const std::vector<bytes>& inputs, int first, int last,
             std::size_t count, bool finish) {
  std::vector<bytes> halves;
  std::vector<reducer::part> parts;
  if (last - first == 1) {
    parts = {{inputs[static_cast<std::size_t>(first)].data(), false}};
  } else {
    const int middle = canonical_split(first, last);
    halves.push_back(folded(reduce, inputs, first, middle, count, false));
    halves.push_back(folded(reduce, inputs, middle, last, count, false));
    parts = {{halves[0].data(), true}, {halves[1].data(), true}};
  }
  bytes out(count * (finish ? reduce.element_bytes() : reduce.node_bytes()));
  const std::array<std::byte*, 1> to = {out.data()};
  reduce.fold(parts, to, count, finish, static_cast<int>(inputs.size()));
  return out;
}

TEST(Reduction, IsTheJoinOfItsPartialResults) {
  for (const reduction& operation : all_reductions()) {
    const reducer reduce = or_throw(reducer::make(operation));
    if (reduce.rule() == partial_rule::none) {
      continue;
    }
    for (const int ranks : {1, 2, 3, 5, 8, 13}) {
      const one_case c{operation, ranks, 300, flavour::wide};
      const std::vector<bytes> inputs = random_inputs(17, c);
      ASSERT_EQ(folded(reduce, inputs, 0, ranks, c.count, true),
                run(reduce, inputs, c.count))
          << text_of(c);
    }
  }
}

TEST(Reduction, TakesTheLargestNumberOfRanks) {
  for (const dtype type : {dtype::fp32, dtype::fp16, dtype::int32}) {
    for (const int level : {1, 2}) {
      expect_oracle(2, {{type, reduction_op::sum, level}, max_ranks, 3, flavour::wide});
    }
  }
}

TEST(Reduction, RefusesOperationsThatDoNotExist) {
  const auto code = [](dtype type, reduction_op op, int level) {
    const auto made = reducer::make({type, op, level});
    return made ? errc{} : made.error().code();
  };
  EXPECT_EQ(code(dtype::complex64, reduction_op::max, 1), errc::unsupported);
  EXPECT_EQ(code(dtype::complex128, reduction_op::min, 0), errc::unsupported);
  EXPECT_EQ(code(dtype::boolean, reduction_op::average, 1), errc::unsupported);
  EXPECT_EQ(code(dtype::fp32, reduction_op::product, 2), errc::unsupported);
  EXPECT_EQ(code(dtype::complex64, reduction_op::product, 2), errc::unsupported);
  EXPECT_EQ(code(dtype::int32, reduction_op::product, 2), errc{});
  EXPECT_EQ(code(dtype::uint8, reduction_op::sum, 1), errc::invalid_argument);
  EXPECT_EQ(code(static_cast<dtype>(0), reduction_op::sum, 1), errc::invalid_argument);
  EXPECT_EQ(code(dtype::fp32, reduction_op::sum, 3), errc::invalid_argument);
  EXPECT_EQ(code(dtype::fp32, static_cast<reduction_op>(5), 1), errc::invalid_argument);
}

// Compares the fast implementation with the portable one, for outputs at aligned and
// unaligned addresses.
TEST(Reduction, LargeOutputsHaveTheSameBitsWhereverTheyBegin) {
  // From this size on, outputs bypass the caches if their addresses allow it.
  constexpr std::size_t count = (std::size_t{5} << 18) + 13;
  constexpr std::size_t buffer_bytes = count * sizeof(float) + 64;
  std::mt19937 dice(11);
  for (const int ranks : {2, 4}) {
    std::vector<bytes> inputs;
    for (int r = 0; r < ranks; ++r) {
      inputs.emplace_back(buffer_bytes);
      for (std::size_t i = 0; i < count; ++i) {
        const auto x = static_cast<float>(static_cast<int>(dice()));
        std::memcpy(inputs.back().data() + 4 * i, &x, sizeof x);
      }
    }
    for (const std::size_t begin : {std::size_t{0}, std::size_t{4}}) {
      std::vector<bytes> fast(inputs.size(), bytes(buffer_bytes));
      std::vector<bytes> plain(inputs.size(), bytes(buffer_bytes));
      std::vector<const std::byte*> from;
      std::vector<std::byte*> to_fast;
      std::vector<std::byte*> to_plain;
      for (std::size_t r = 0; r < inputs.size(); ++r) {
        from.push_back(inputs[r].data());
        const auto number = reinterpret_cast<std::uintptr_t>(fast[r].data());
        to_fast.push_back(fast[r].data() + (32 - number % 32) % 32 + begin);
        to_plain.push_back(plain[r].data());
      }
      const reduction operation{dtype::fp32, reduction_op::average, 1, false};
      or_throw(reducer::make(operation)).reduce(from, to_fast, count);
      or_throw(reducer::make_portable(operation)).reduce(from, to_plain, count);
      for (std::size_t r = 0; r < inputs.size(); ++r) {
        EXPECT_EQ(std::memcmp(to_fast[r], to_plain[r], count * sizeof(float)), 0)
            << ranks << " ranks, begin " << begin << ", output " << r;
      }
    }
  }
}

TEST(Reduction, BackwardsGivesTheSameBitsInPlaceAndOutOfPlace) {
  std::mt19937_64 dice(5);
  for (const dtype type : {dtype::boolean, dtype::fp16, dtype::fp32, dtype::complex128}) {
    for (const int level : {0, 1, 2}) {
      for (const std::size_t count : {1U, 4096U, 5003U}) {
        const one_case c{
            {type, reduction_op::sum, level, false}, 3, count, flavour::wide};
        const reducer sum = or_throw(reducer::make(c.operation));
        std::vector<bytes> inputs = random_inputs(dice(), c);
        const bytes expected = run(sum, inputs, count);
        bytes apart(expected.size());
        const std::vector<const std::byte*> from = {inputs[0].data(), inputs[1].data(),
                                                    inputs[2].data()};
        const std::array to = {apart.data(), inputs[1].data()};
        sum.reduce_backwards(from, to, count);
        EXPECT_EQ(apart, expected) << text_of(c);
        EXPECT_EQ(inputs[1], expected) << text_of(c);
      }
    }
  }
}

TEST(Reduction, BackwardsBeginsWithTheLastElements) {
  // The output of each 4 KiB lies where the following 4 KiB of input have just been read.
  constexpr std::size_t stretch = 4096;
  const reducer sum = or_throw(reducer::make({dtype::int8, reduction_op::sum, 1, false}));
  bytes memory(4 * stretch);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory[i] = static_cast<std::byte>(i / stretch);
  }
  const std::array<const std::byte*, 1> from = {memory.data()};
  const std::array<std::byte*, 1> to = {memory.data() + stretch};
  sum.reduce_backwards(from, to, 3 * stretch);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const std::size_t before = i / stretch;
    ASSERT_EQ(memory[i], static_cast<std::byte>(before == 0 ? 0 : before - 1)) << i;
  }
}

}  // namespace
}  // namespace weir::collective
