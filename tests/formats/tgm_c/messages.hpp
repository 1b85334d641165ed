// SPDX-License-Identifier: Apache-2.0
/// @file
/// A message of two objects, made through the C interface.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "formats/support.hpp"
#include "weir/tgm.h"

namespace weir::test {

inline constexpr const char* two_objects = R"({
  "base": [{"name": "a", "level": 3, "deep": {"x": [1, 2.5, true, null]}}, {"name": "b"}],
  "_extra_": {"run": "first"},
  "descriptors": [
    {"dtype": "float32", "shape": [2, 2], "byte_order": "little"},
    {"dtype": "float64", "shape": [3], "compression": "lz4", "byte_order": "little"}]})";

struct two_arrays {
  std::vector<float> a{1, 2, 3, 4};
  std::vector<double> b{5, 6, 7};
  [[nodiscard]] std::array<const void*, 2> data() const { return {a.data(), b.data()}; }
  [[nodiscard]] std::array<std::size_t, 2> lengths() const { return {16, 24}; }
};

inline tgm_bytes encoded() {
  const two_arrays arrays;
  const auto data = arrays.data();
  const auto lengths = arrays.lengths();
  tgm_bytes out{};
  EXPECT_EQ(tgm_encode(two_objects, data.data(), lengths.data(), 2, &out), TGM_OK)
      << tgm_last_error();
  return out;
}

}  // namespace weir::test
