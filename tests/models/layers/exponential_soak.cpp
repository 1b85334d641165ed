// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the vector forms of the exponential for every fp32 number.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "layers/kernels/select.hpp"
#include "weir/base/math/elementary.hpp"

namespace weir::models::layers {
namespace {

/// Returns the scalar exponential. It is not inlined, so no loop turns it into vector
/// code.
__attribute__((noinline)) float scalar_exponential(float x) {
  return math::exp(x);
}

/// Returns how many results differ in their bits, except for the bits of NaNs.
std::uint64_t differences(const std::vector<float>& found,
                          const std::vector<float>& expected) {
  if (std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0) {
    return 0;
  }
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool same = std::bit_cast<std::uint32_t>(found[i]) ==
                          std::bit_cast<std::uint32_t>(expected[i]) ||
                      (std::isnan(found[i]) && std::isnan(expected[i]));
    count += same ? 0 : 1;
  }
  return count;
}

TEST(LayerKernelsSoak, ExponentialOfEveryNumberHasTheBitsOfTheScalarOne) {
  std::vector<const layer_kernels*> tables;
  for (const char* name : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
    if (const auto table = select_layer_kernels(name)) {
      tables.push_back(*table);
      std::printf("%s\n", name);
    }
  }
  constexpr std::uint64_t batch = 4096;
  std::vector<float> in(batch);
  std::vector<float> expected(batch);
  std::vector<float> out(batch);
  std::vector<std::uint64_t> different(tables.size());
  for (std::uint64_t first = 0; first <= 0xFFFF'FFFFU; first += batch) {
    for (std::uint64_t i = 0; i < batch; ++i) {
      in[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i));
      expected[i] = scalar_exponential(in[i]);
    }
    for (std::size_t t = 0; t < tables.size(); ++t) {
      tables[t]->exponential(in.data(), out.data(), static_cast<int>(batch));
      different[t] += differences(out, expected);
    }
  }
  for (std::size_t t = 0; t < tables.size(); ++t) {
    EXPECT_EQ(different[t], 0U) << tables[t]->name;
  }
}

}  // namespace
}  // namespace weir::models::layers
