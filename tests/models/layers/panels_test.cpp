// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests packing, checking and reading of panels against the definitions of the types.
#include "weir/models/panels.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "models/layers/some_weights.hpp"
#include "weir/models/rotary_rows.hpp"

namespace weir::models {
namespace {

using test::expected_weights;
using test::packed;
using test::some_rows;

const weight_type all_types[] = {weight_type::f32, weight_type::q8_0, weight_type::q4_1};

TEST(Panels, EveryOutputReadsBackAsTheFileDefinesIt) {
  for (const weight_type type : all_types) {
    for (const std::uint64_t outputs : {1U, 16U, 37U}) {
      const panel_shape shape{type, outputs, 96};
      const byte_vector rows = some_rows(shape, 7);
      const auto matrix = packed("w", shape, rows, 0);
      ASSERT_TRUE(check_matrix("w", matrix.view()));
      std::vector<float> weights(shape.inputs);
      for (std::uint64_t o = 0; o < outputs; ++o) {
        read_output(matrix.view(), o, weights);
        EXPECT_EQ(weights, expected_weights(shape, rows, o)) << name_of(type) << o;
      }
    }
  }
}

TEST(Panels, PanelsHaveAsManyBytesAsTheirRows) {
  EXPECT_EQ((panel_shape{weight_type::f32, 48, 64}).packed_bytes(), 48U * 64 * 4);
  EXPECT_EQ((panel_shape{weight_type::q8_0, 48, 64}).packed_bytes(), 48U * 2 * 34);
  EXPECT_EQ((panel_shape{weight_type::q4_1, 48, 64}).packed_bytes(), 48U * 2 * 20);
  EXPECT_EQ((panel_shape{weight_type::f32, 33, 64}).packed_bytes(), 48U * 64 * 4);
}

TEST(Panels, PairsOfRowsBecomeHalves) {
  // A head of 8: rows 0, 2, 4, 6 of a GGUF file are the first elements of the pairs.
  const std::uint64_t expected[] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
  for (std::uint64_t o = 0; o < 16; ++o) {
    EXPECT_EQ(row_of_pairs(o, 8), expected[o]);
  }
  for (const weight_type type : all_types) {
    const panel_shape shape{type, 32, 32};
    const byte_vector rows = some_rows(shape, 3);
    const auto matrix = packed("q", shape, rows, 8);
    std::vector<float> weights(shape.inputs);
    for (std::uint64_t o = 0; o < shape.outputs; ++o) {
      read_output(matrix.view(), o, weights);
      EXPECT_EQ(weights, expected_weights(shape, rows, row_of_pairs(o, 8)));
    }
  }
}

TEST(Panels, PanelsCanBePackedAndStoredInParts) {
  const panel_shape shape{weight_type::q8_0, 80, 64};
  const byte_vector rows = some_rows(shape, 11);
  const auto whole = packed("w", shape, rows, 0);
  byte_vector first(2 * shape.panel_bytes());
  byte_vector second(3 * shape.panel_bytes());
  ASSERT_TRUE(pack_panels("w", shape, rows, 0, 0, first));
  ASSERT_TRUE(pack_panels("w", shape, rows, 0, 2, second));
  const panel_matrix parts{shape, {{0, first}, {2, second}}};
  ASSERT_TRUE(check_matrix("w", parts));
  for (std::uint64_t p = 0; p < shape.panels(); ++p) {
    const std::byte* a = panel_address(parts, p);
    const std::byte* b = panel_address(whole.view(), p);
    EXPECT_TRUE(std::equal(a, a + shape.panel_bytes(), b)) << p;
  }
}

TEST(Panels, ShapesThatDoNotFitAreRefused) {
  EXPECT_EQ(check_shape("w", {weight_type::f32, 0, 8}).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(
      check_shape("w", {weight_type::q8_0, 16, 48}).error().message(),
      "shape of the weights \"w\": expected at least one output and a multiple of 32 "
      "inputs for the type q8_0, found 16 x 48");
  EXPECT_EQ(
      check_shape("w", {weight_type::f32, 16, std::uint64_t{1} << 31}).error().code(),
      errc::out_of_range);
  const panel_shape shape{weight_type::f32, 32, 8};
  byte_vector panels(shape.packed_bytes());
  const byte_vector rows = some_rows(shape, 1);
  const bytes_view few(rows.data(), rows.size() - 1);
  EXPECT_EQ(pack_panels("w", shape, few, 0, 0, panels).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(pack_panels("w", shape, rows, 0, 1, panels).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(pack_panels("w", shape, rows, 12, 0, panels).error().code(),
            errc::invalid_argument);
}

TEST(Panels, RunsThatMissPanelsAreRefused) {
  const panel_shape shape{weight_type::f32, 32, 8};
  const byte_vector panels(shape.packed_bytes());
  const bytes_view all(panels);
  const std::uint64_t one = shape.panel_bytes();
  const auto code = [&](std::vector<panel_run> runs) {
    return check_matrix("w", {shape, std::move(runs)}).error().code();
  };
  EXPECT_EQ(code({}), errc::corrupt);
  EXPECT_EQ(code({{0, all.first(one)}}), errc::corrupt);
  EXPECT_EQ(code({{1, all.first(one)}}), errc::corrupt);
  EXPECT_EQ(code({{0, all.first(one)}, {0, all.first(one)}}), errc::corrupt);
  EXPECT_EQ(code({{0, all.first(one - 4)}}), errc::corrupt);
  EXPECT_EQ(code({{0, all}, {2, all.first(one)}}), errc::corrupt);
}

}  // namespace
}  // namespace weir::models
