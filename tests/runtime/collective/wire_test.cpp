// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests wire formats that round numbers: the error stays small, and all ranks get the
/// same result.
#include <gtest/gtest.h>

#include "collective/wire_codec.hpp"
#include "plans.hpp"

namespace weir::collective {
namespace {

using test::bytes;
using test::flavour;

constexpr std::array<wire_format, 3> narrow_wires = {
    wire_format::bf16, wire_format::fp8_e4m3, wire_format::fp8_e5m2};

/// Returns half a unit in the last place of a format, relative to the number.
double relative_error(wire_format wire) {
  switch (wire) {
    case wire_format::bf16: return 0x1p-8;
    case wire_format::fp8_e4m3: return 0x1p-4;
    default: return 0x1p-3;
  }
}

/// Returns the bytes as floats.
std::vector<float> floats(const bytes& from) {
  std::vector<float> out(from.size() / 4);
  std::memcpy(out.data(), from.data(), from.size());
  return out;
}

TEST(Wire, NumbersComeBackWithinHalfAUnit) {
  const std::uint64_t seed = 14;
  std::mt19937_64 dice(seed);
  for (const wire_format wire : narrow_wires) {
    for (const std::size_t count : {1U, 127U, 128U, 129U, 1000U}) {
      const bytes in = test::random_elements(dice, dtype::fp32, count, flavour::normal);
      bytes codes(wire_bytes(wire, count));
      encode_wire(dtype::fp32, wire, in.data(), count, codes.data());
      bytes out(in.size());
      const std::array<std::byte*, 1> to = {out.data()};
      decode_wire(dtype::fp32, wire, codes.data(), count, to);
      const auto before = floats(in);
      const auto after = floats(out);
      for (std::size_t i = 0; i < count; ++i) {
        // The distance of subnormal codes depends on the largest number of the block.
        const double slack = wire == wire_format::bf16 ? 0 : 4.0 * 0x1p-17;
        ASSERT_NEAR(after[i], before[i],
                    std::abs(before[i]) * relative_error(wire) * 1.001 + 4 * slack)
            << name_of(wire) << " element " << i << " seed " << seed;
      }
    }
  }
}

TEST(Wire, ScalesFollowTheLargestNumberOfTheirBlock) {
  std::vector<float> values(3 * wire_block, 0.0F);
  values[5] = 1e30F;
  values[wire_block + 5] = 1e-30F;
  values[wire_block + 6] = std::numeric_limits<float>::quiet_NaN();
  values[wire_block + 7] = HUGE_VALF;
  bytes codes(wire_bytes(wire_format::fp8_e4m3, values.size()));
  std::vector<float> back(values.size());
  const auto* const in = reinterpret_cast<const std::byte*>(values.data());
  const std::array<std::byte*, 1> to = {reinterpret_cast<std::byte*>(back.data())};
  encode_wire(dtype::fp32, wire_format::fp8_e4m3, in, values.size(), codes.data());
  decode_wire(dtype::fp32, wire_format::fp8_e4m3, codes.data(), values.size(), to);
  EXPECT_NEAR(back[5], 1e30F, 1e24F);
  EXPECT_NEAR(back[wire_block + 5], 1e-30F, 1e-36F);
  EXPECT_TRUE(std::isnan(back[wire_block + 6]));
  EXPECT_NEAR(back[wire_block + 7], 1e-30F, 1e-36F);  // the scale saturates
  EXPECT_EQ(back[2 * wire_block], 0.0F);
  EXPECT_EQ(wire_bytes(wire_format::fp8_e4m3, 256), 256U + 8U);
  EXPECT_EQ(wire_bytes(wire_format::bf16, 3), 64U);
}

TEST(Wire, AllReducesAreCloseAndTheSameEverywhere) {
  std::mt19937_64 dice(9);
  for (const wire_format wire : narrow_wires) {
    for (const collective_kind kind :
         {collective_kind::all_reduce, collective_kind::reduce_scatter,
          collective_kind::all_gather, collective_kind::broadcast}) {
      for (const reduction_op op : {reduction_op::sum, reduction_op::average}) {
        for (const int ranks : {2, 3, 4}) {
          collective_call call;
          call.kind = kind;
          call.op = op;
          call.level = 0;
          call.count = static_cast<std::size_t>(ranks) * 777;
          const plan_options options{algorithm::direct, 2000, wire};
          const auto plan = or_throw(plan_collective(call, ranks, {1, 3, true}, options));
          const auto inputs = test::random_buffers(dice, call.type, ranks, call.count * 4,
                                                   flavour::normal);
          const auto outputs = test::run_plan(plan, inputs, inputs, false, dice);
          const auto again = test::run_plan(plan, inputs, {}, true, dice);
          EXPECT_EQ(outputs, again)
              << "the call in place gives the same bits in another order of its steps";
          collective_call exact = call;
          exact.level = 2;
          const auto wanted = test::expected_outputs(exact, inputs, inputs);
          double worst = 0;
          for (std::size_t r = 0; r < outputs.size(); ++r) {
            if (kind != collective_kind::reduce_scatter) {
              ASSERT_EQ(outputs[r], outputs[0]) << name_of(kind);
            }
            const auto found = floats(outputs[r]);
            const auto right = floats(wanted[r]);
            for (std::size_t i = 0; i < found.size(); ++i) {
              worst = std::max(worst, static_cast<double>(std::abs(found[i] - right[i])));
            }
          }
          // Numbers of N(0, 1), and sums of a few of them, stay below 16.
          EXPECT_LT(worst, 16 * ranks * relative_error(wire)) << name_of(kind);
          EXPECT_GT(worst, 0.0) << name_of(kind) << ": the numbers were not rounded";
        }
      }
    }
  }
}

TEST(Wire, IsForCallsThatPromiseNoBits) {
  const auto allowed = [](collective_kind kind, dtype type, reduction_op op, int level,
                          wire_format wire) {
    collective_call call;
    call.kind = kind;
    call.type = type;
    call.op = op;
    call.level = level;
    return check_wire(call, wire).has_value();
  };
  using k = collective_kind;
  EXPECT_TRUE(
      allowed(k::all_reduce, dtype::fp32, reduction_op::sum, 0, wire_format::bf16));
  EXPECT_TRUE(allowed(k::all_reduce, dtype::bf16, reduction_op::average, 0,
                      wire_format::fp8_e4m3));
  EXPECT_TRUE(
      allowed(k::all_gather, dtype::fp32, reduction_op::sum, 1, wire_format::bf16));
  EXPECT_TRUE(allowed(k::gather, dtype::int8, reduction_op::sum, 2, wire_format::plain));
  EXPECT_FALSE(
      allowed(k::all_reduce, dtype::fp32, reduction_op::sum, 1, wire_format::bf16));
  EXPECT_FALSE(
      allowed(k::all_reduce, dtype::bf16, reduction_op::sum, 0, wire_format::bf16));
  EXPECT_FALSE(
      allowed(k::all_reduce, dtype::fp32, reduction_op::max, 0, wire_format::bf16));
  EXPECT_FALSE(
      allowed(k::all_reduce, dtype::int32, reduction_op::sum, 0, wire_format::bf16));
  EXPECT_FALSE(
      allowed(k::all_to_all, dtype::fp32, reduction_op::sum, 0, wire_format::bf16));
}

}  // namespace
}  // namespace weir::collective
