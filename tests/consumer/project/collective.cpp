// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program outside of the project that sums one number of each of three ranks with the
/// collectives alone, without streams. It prints 42.
#include <array>
#include <cstddef>
#include <cstdio>
#include <weir/collective/reduction.hpp>

int main() {
  const auto sum = weir::or_throw(
      weir::collective::reducer::make({.type = weir::dtype::fp32,
                                       .op = weir::collective::reduction_op::sum,
                                       .level = 2}));
  const std::array<float, 3> ranks = {20.0F, 20.0F, 2.0F};
  float out = 0;
  std::array<const std::byte*, 3> inputs{};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    inputs[i] = reinterpret_cast<const std::byte*>(&ranks[i]);
  }
  const std::array outputs = {reinterpret_cast<std::byte*>(&out)};
  sum.reduce(inputs, outputs, 1);
  std::printf("%g\n", static_cast<double>(out));
}
