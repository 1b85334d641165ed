// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the exponential for every fp32 number.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "weir/base/math/elementary.hpp"

namespace weir {
namespace {

TEST(ElementarySoak, ExponentialOfEveryNumberIsRoundedOnce) {
  std::uint64_t failures = 0;
  for (std::uint64_t bits = 0; bits <= 0xFFFF'FFFFU; ++bits) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const float found = math::exp(x);
    // The library's error is below 2^-52, which decides every result that is not near the
    // middle of two fp32 numbers.
    const double value = std::exp(static_cast<double>(x));
    const auto rounded = static_cast<float>(value);
    if (found == rounded || (std::isnan(found) && std::isnan(rounded))) {
      continue;
    }
    const double gap =
        std::abs(static_cast<double>(found) - static_cast<double>(rounded));
    const double distance = std::abs(static_cast<double>(found) - value);
    failures += distance <= 0.501 * gap ? 0 : 1;
  }
  EXPECT_EQ(failures, 0U);
}

}  // namespace
}  // namespace weir
