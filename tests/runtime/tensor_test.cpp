// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests views: which elements each operation addresses, and what it refuses.
#include "weir/runtime/tensor.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "random_views.hpp"

namespace weir::runtime {
namespace {

using test::i64s;

/// A storage whose 16-bit numbers hold their own offsets, so that a view can be read
/// back.
class Tensor : public testing::Test {
 protected:
  Tensor() : memory(2048) {
    for (std::size_t i = 0; i < memory.size(); i += 2) {
      const auto v = static_cast<std::uint16_t>(i / 2);
      std::memcpy(memory.data() + i, &v, 2);
    }
  }
  std::vector<std::byte> memory;
  storage s{{0, 1}, memory.data(), 2048};
  tensor cube = or_throw(tensor::over(s, dtype::uint16, i64s{4, 6, 5}));

  static i64s values(const tensor& t) {
    i64s out;
    std::vector<std::int64_t> starts;
    test::for_each_byte(t.offset(), t.shape(), t.strides(), 1,
                        [&](std::int64_t b) { starts.push_back(b); });
    for (const std::int64_t b : starts) {
      std::uint16_t v = 0;
      std::memcpy(&v, t.store().base + b, 2);
      out.push_back(v);
    }
    return out;
  }
  static i64s list(std::span<const std::int64_t> s) { return {s.begin(), s.end()}; }
};

TEST_F(Tensor, OverAStorageIsRowMajor) {
  EXPECT_EQ(list(cube.strides()), (i64s{60, 10, 2}));
  EXPECT_EQ(cube.count(), 120);
  EXPECT_TRUE(cube.row_major());
  EXPECT_EQ(cube.bytes().hi, 240);
  EXPECT_TRUE(cube.bytes().dense());
  EXPECT_EQ(cube.as<std::uint16_t>()[7], 7);
  i64s expected(120);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(values(cube), expected);
}

TEST_F(Tensor, MustFitIntoItsStorage) {
  EXPECT_EQ(tensor::over(s, dtype::fp64, i64s{257}).error().code(), errc::out_of_range);
  EXPECT_TRUE(tensor::over(s, dtype::fp64, i64s{256}));
  EXPECT_EQ(tensor::over(s, dtype::fp64, i64s{256}, 1).error().code(),
            errc::out_of_range);
  EXPECT_EQ(tensor::over(s, dtype::fp64, i64s{1}, -8).error().code(), errc::out_of_range);
  EXPECT_EQ(tensor::over(s, dtype::fp64, i64s{1LL << 40, 1LL << 40}).error().code(),
            errc::out_of_range);
  EXPECT_EQ(tensor::over(s, dtype::fp64, i64s{0, 1LL << 62}).error().code(),
            errc::out_of_range);
  EXPECT_EQ(tensor::over(s, dtype::bitmask, i64s{8}).error().code(), errc::unsupported);
  EXPECT_FALSE(tensor::over(s, dtype::uint8, i64s(9, 1)));
  EXPECT_FALSE(tensor::over(s, dtype::uint8, i64s{-1}));
}

TEST_F(Tensor, SlicesWithStepsOfBothSigns) {
  const tensor row = or_throw(tensor::over(s, dtype::uint16, i64s{10}));
  EXPECT_EQ(values(or_throw(row.slice(0, 2, 9, 3))), (i64s{2, 5, 8}));
  EXPECT_EQ(values(or_throw(row.slice(0, 9, -1, -1))),
            (i64s{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(values(or_throw(row.slice(0, 9, 0, -4))), (i64s{9, 5, 1}));
  EXPECT_EQ(values(or_throw(row.slice(0, 4, 4))), i64s{});
  EXPECT_EQ(values(or_throw(row.slice(0, 10, 10))), i64s{});
  EXPECT_EQ(values(or_throw(row.slice(0, 1, 10, INT64_MAX))), i64s{1});
  EXPECT_EQ(values(or_throw(row.slice(0, 1, -1, INT64_MIN))), i64s{1});
  const tensor twice = or_throw(or_throw(row.slice(0, 9, -1, -2)).slice(0, 4, -1, -2));
  EXPECT_EQ(values(twice), (i64s{1, 5, 9}));
  for (const auto& bad : {i64s{-1, 3, 1}, i64s{0, 11, 1}, i64s{0, 5, 0}, i64s{10, 0, -1},
                          i64s{5, -2, -1}, i64s{11, 11, 1}}) {
    EXPECT_EQ(row.slice(0, bad[0], bad[1], bad[2]).error().code(), errc::out_of_range);
  }
  EXPECT_FALSE(row.slice(1, 0, 1));
  EXPECT_FALSE(row.slice(-1, 0, 1));
}

TEST_F(Tensor, KeepsTheOtherDimensionsOfASlice) {
  const tensor part = or_throw(cube.slice(1, 2, 4));
  EXPECT_EQ(list(part.shape()), (i64s{4, 2, 5}));
  EXPECT_EQ(values(part)[10], 30 + 10);
  EXPECT_FALSE(part.row_major());
}

TEST_F(Tensor, DropsTheDimensionOfAnIndex) {
  const tensor plane = or_throw(cube.select(1, 3));
  EXPECT_EQ(list(plane.shape()), (i64s{4, 5}));
  EXPECT_EQ(values(plane)[5], 30 + 15);
  const tensor scalar =
      or_throw(or_throw(or_throw(cube.select(0, 1)).select(0, 2)).select(0, 3));
  EXPECT_EQ(scalar.shape().size(), 0U);
  EXPECT_EQ(values(scalar), i64s{30 + 10 + 3});
  EXPECT_EQ(cube.select(0, 4).error().code(), errc::out_of_range);
  EXPECT_EQ(cube.select(0, -1).error().code(), errc::out_of_range);
  EXPECT_FALSE(scalar.select(0, 0));
}

TEST_F(Tensor, ReshapesWhatStridesCanExpress) {
  EXPECT_EQ(values(or_throw(cube.reshape(i64s{2, 60}))), values(cube));
  EXPECT_EQ(values(or_throw(cube.reshape(i64s{120}))), values(cube));
  const tensor part = or_throw(cube.slice(0, 1, 3));
  const tensor split = or_throw(part.reshape(i64s{2, 3, 2, 5}));
  EXPECT_EQ(values(split), values(part));
  const tensor stepped =
      or_throw(cube.slice(2, 0, 5, 2));  // rows of 3 elements, 4 bytes apart
  const tensor longer = or_throw(stepped.reshape(i64s{24, 3}));
  EXPECT_EQ(values(longer), values(stepped));
  EXPECT_EQ(values(or_throw(stepped.reshape(i64s{1, 24, 1, 3, 1}))), values(stepped));
  const auto refused = or_throw(cube.transpose()).reshape(i64s{120});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_FALSE(refused.error().hint().empty());
  EXPECT_FALSE(cube.reshape(i64s{121}));
  EXPECT_FALSE(cube.reshape(i64s{-1, 120}));
  const tensor none = or_throw(cube.slice(0, 2, 2));
  EXPECT_EQ(or_throw(none.reshape(i64s{7, 0})).count(), 0);
}

TEST_F(Tensor, TransposesByPermutations) {
  const tensor t = or_throw(cube.transpose());
  EXPECT_EQ(list(t.shape()), (i64s{5, 6, 4}));
  EXPECT_EQ(values(t)[1], 30);
  EXPECT_EQ(t.bytes(), cube.bytes());
  const std::array<int, 3> order{1, 0, 2};
  EXPECT_EQ(values(or_throw(cube.transpose(order)))[5], 30);
  for (const auto& bad :
       {std::array{0, 0, 1}, std::array{0, 1, 3}, std::array{-1, 0, 1}}) {
    EXPECT_EQ(cube.transpose(bad).error().code(), errc::invalid_argument);
  }
  EXPECT_FALSE(cube.transpose(std::array{1, 0}));
}

TEST_F(Tensor, BroadcastsExtentsOfOne) {
  const tensor row = or_throw(tensor::over(s, dtype::uint16, i64s{1, 3}));
  const tensor many = or_throw(row.broadcast(i64s{2, 4, 3}));
  EXPECT_EQ(many.count(), 24);
  EXPECT_EQ(values(many)[22], 1);
  EXPECT_EQ(many.bytes(), row.bytes());
  EXPECT_FALSE(row.broadcast(i64s{4, 4}));
  EXPECT_FALSE(row.broadcast(i64s{3}));
  EXPECT_FALSE(row.broadcast(i64s{1LL << 40, 1LL << 40, 3}));
}

TEST_F(Tensor, ReinterpretsADenseLastDimension) {
  const tensor bytes = or_throw(cube.reinterpret(dtype::uint8));
  EXPECT_EQ(list(bytes.shape()), (i64s{4, 6, 10}));
  EXPECT_EQ(bytes.bytes(), cube.bytes());
  EXPECT_EQ(list(or_throw(bytes.reinterpret(dtype::uint16)).shape()), (i64s{4, 6, 5}));
  EXPECT_FALSE(cube.reinterpret(dtype::fp32));  // 10 bytes are not a multiple of 4
  const tensor upper = or_throw(bytes.slice(2, 1, 10, 2));
  EXPECT_FALSE(upper.reinterpret(dtype::uint16));
  EXPECT_TRUE(upper.reinterpret(dtype::int8));
  EXPECT_FALSE(cube.reinterpret(dtype::bitmask));
  const tensor scalar = or_throw(tensor::over(s, dtype::fp32, {}));
  EXPECT_TRUE(scalar.reinterpret(dtype::int32));
  EXPECT_FALSE(scalar.reinterpret(dtype::int16));
}

TEST_F(Tensor, StaysInsideItsParentThroughRandomChains) {
  const std::uint64_t seed = 31337;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  test::dice d(seed);
  for (int i = 0; i < 20'000; ++i) {
    const tensor parent = test::random_parent(d, s);
    tensor t = test::random_slices(d, parent, true);
    t = test::random_slices(d, t, true);
    ASSERT_TRUE((test::bytes_in(t) & ~test::bytes_in(parent)).none());
    ASSERT_EQ(test::bytes_in(t), test::bytes_in(t.bytes()));
  }
}

TEST_F(Tensor, ABoxEqualsTheSlicesOfItsDimensions) {
  const std::uint64_t seed = 4711;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  test::dice d(seed);
  for (int i = 0; i < 5'000; ++i) {
    const auto kind = test::all_view_classes[static_cast<std::size_t>(i % 5)];
    const tensor parent = test::random_view(d, s, kind);
    if (parent.count() == 0) {
      continue;
    }
    tensor sliced = parent;
    i64s lo;
    i64s hi;
    for (const std::int64_t n : parent.shape()) {
      lo.push_back(d.in(0, n - 1));
      hi.push_back(d.in(lo.back() + 1, n));
      sliced =
          or_throw(sliced.slice(static_cast<int>(lo.size()) - 1, lo.back(), hi.back()));
    }
    const tensor box = parent.box(lo, hi);
    ASSERT_EQ(list(box.shape()), list(sliced.shape()));
    ASSERT_EQ(list(box.strides()), list(sliced.strides()));
    ASSERT_EQ(box.offset(), sliced.offset());
    ASSERT_EQ(box.type(), sliced.type());
    ASSERT_EQ(box.bytes(), sliced.bytes());
    ASSERT_EQ(test::bytes_in(box), test::bytes_in(box.bytes()));
  }
}

}  // namespace
}  // namespace weir::runtime
