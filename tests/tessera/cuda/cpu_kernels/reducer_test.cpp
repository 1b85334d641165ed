// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that the collectives of processors give the bits that the reductions for GPUs
/// must give.
#include <gtest/gtest.h>

#include "cases/kernel_cases.hpp"
#include "cpu_kernels/calls.hpp"
#include "weir/collective/reduction.hpp"

namespace weir::tessera {
namespace {

using collective::reduction_op;

/// Reduces the inputs of a launch by `collective::reducer`.
std::string reduce_on_processor(const test::kernel_launch& launch) {
  using kernel_machine::value_at;
  const bool tree = launch.name == "weir_reduce_tree";
  const auto* addresses = value_at<const std::byte* const*>(launch.arguments[0]);
  const auto ranks = value_at<std::int32_t>(launch.arguments[1]);
  auto* out = value_at<std::byte*>(launch.arguments[2]);
  const auto number = value_at<std::int32_t>(launch.arguments[4]);
  collective::reduction operation{
      number == 0 ? dtype::fp32 : static_cast<dtype>(number),
      static_cast<reduction_op>(value_at<std::int32_t>(launch.arguments[5])),
      tree ? 1 : 2};
  operation.wide = number == 0;
  const auto reducer = or_throw(collective::reducer::make(operation));
  reducer.reduce(std::span(addresses, static_cast<std::size_t>(ranks)), {&out, 1},
                 static_cast<std::size_t>(value_at<std::int64_t>(launch.arguments[3])));
  return {};
}

TEST(Reducer, EqualsTheOracleOfTheKernelsForGpus) {
  int found = 0;
  for (const bool large : {false, true}) {
    for (const test::kernel_case& c : test::kernel_cases(large)) {
      if (c.name.starts_with("weir_reduce_tree") ||
          c.name.starts_with("weir_sum_exact")) {
        EXPECT_EQ(c.run(reduce_on_processor), "") << c.name;
        ++found;
      }
    }
  }
  EXPECT_EQ(found, 2 * 73);
}

}  // namespace
}  // namespace weir::tessera
