// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the layout of kernel arguments: offsets, padding, sizes and the packing of
/// values.
#include "weir/tessera/module/arguments.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace weir::tessera {
namespace {

/// Lays out the parameters, expects this extent, and returns their offsets.
std::vector<std::uint32_t> offsets_of(std::vector<kernel_parameter> parameters,
                                      argument_extent expected) {
  const auto extent = lay_out(parameters);
  EXPECT_TRUE(extent) << extent.error().message();
  EXPECT_EQ(extent ? *extent : argument_extent{}, expected);
  EXPECT_EQ(extent_of(parameters), expected);
  EXPECT_TRUE(check_layout(parameters));
  std::vector<std::uint32_t> out;
  for (const kernel_parameter& p : parameters) {
    out.push_back(p.offset);
  }
  return out;
}

/// Returns a scalar parameter of this type.
kernel_parameter scalar(std::uint32_t dtype) {
  return scalar_parameter("p", dtype);
}

using offsets = std::vector<std::uint32_t>;

TEST(Arguments, LieWhereTheSpecificationsExampleHasThem) {
  const kernel_parameter pointer = pointer_parameter("p", 5);
  EXPECT_EQ(offsets_of({pointer, pointer, pointer, pointer, scalar(9), scalar(9),
                        scalar(9), scalar(9), scalar(5)},
                       {0x34, 0x38}),
            (offsets{0x00, 0x08, 0x10, 0x18, 0x20, 0x24, 0x28, 0x2C, 0x30}));
}

TEST(Arguments, OfMixedSizesAreAlignedToTheirOwn) {
  EXPECT_EQ(offsets_of({scalar(7), scalar(10), scalar(8), scalar(5)}, {24, 24}),
            (offsets{0, 8, 16, 20}));
}

TEST(Arguments, Complex64IsAlignedTo8WhereCTakes4) {
  EXPECT_EQ(offsets_of({scalar(9), scalar(12)}, {16, 16}), (offsets{0, 8}));
}

TEST(Arguments, Complex128IsAlignedTo8WhereVectorsTake16) {
  EXPECT_EQ(offsets_of({scalar(10), scalar(13), scalar(7)}, {25, 32}),
            (offsets{0, 8, 24}));
}

TEST(Arguments, OpaqueBytesOfAnySizeAreAlignedTo8) {
  EXPECT_EQ(offsets_of({scalar(7), opaque_parameter("o", 3), scalar(7),
                        opaque_parameter("o", 20)},
                       {36, 40}),
            (offsets{0, 8, 11, 16}));
}

TEST(Arguments, OfAllTypesHaveTheSizesOfTheABI) {
  const std::array<std::uint32_t, 13> sizes{1, 1, 2, 2, 4, 8, 1, 2, 4, 8, 1, 8, 16};
  for (std::uint32_t id = 1; id <= 13; ++id) {
    EXPECT_EQ(size_of_dtype(id), sizes[id - 1]) << id;
    EXPECT_EQ(scalar(id).size, sizes[id - 1]) << id;
  }
  EXPECT_EQ(size_of_dtype(0), 0U);
  EXPECT_EQ(size_of_dtype(14), 0U);
  EXPECT_EQ(size_of_dtype(32), 0U);
  EXPECT_EQ(name_of_dtype(1), "fp8_e4m3");
  EXPECT_EQ(name_of_dtype(11), "bool");
  EXPECT_EQ(name_of_dtype(33), "");
}

TEST(Arguments, OfNoParametersTakeNoByte) {
  EXPECT_EQ(offsets_of({}, {0, 0}), offsets{});
  EXPECT_TRUE(check_arguments({}, nullptr, 0));
  const char byte = 0;
  EXPECT_TRUE(check_arguments({}, &byte, 0));
  EXPECT_FALSE(check_arguments({}, &byte, 1));
}

TEST(Arguments, MayEndAnywhereInTheirPaddingAndNowhereElse) {
  std::vector<kernel_parameter> parameters{pointer_parameter("p", 5), scalar(9)};
  ASSERT_TRUE(lay_out(parameters));
  const std::array<char, 32> buffer{};
  for (std::size_t bytes = 0; bytes <= buffer.size(); ++bytes) {
    EXPECT_EQ(check_arguments(parameters, buffer.data(), bytes).has_value(),
              bytes >= 12 && bytes <= 16)
        << bytes;
    EXPECT_FALSE(check_arguments(parameters, nullptr, bytes)) << bytes;
  }
}

TEST(Arguments, ThatAreCopiedAreZeroBehindTheirEnd) {
  std::vector<kernel_parameter> parameters{pointer_parameter("p", 5), scalar(9)};
  ASSERT_TRUE(lay_out(parameters));
  std::array<std::byte, 16> buffer;
  buffer.fill(std::byte(7));
  const byte_vector copy = or_throw(copy_arguments(parameters, buffer.data(), 12));
  ASSERT_EQ(copy.size(), 16U);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(std::to_integer<int>(copy[i]), i < 12 ? 7 : 0) << i;
  }
  EXPECT_FALSE(copy_arguments(parameters, buffer.data(), 11));
}

TEST(Arguments, ThatDoNotFitTheirKindAreRefused) {
  const auto refused = [](kernel_parameter p) {
    std::vector<kernel_parameter> one{std::move(p)};
    const auto laid = lay_out(one);
    return !laid && laid.error().code() == errc::invalid_argument;
  };
  EXPECT_TRUE(refused(scalar(0)));
  EXPECT_TRUE(refused(scalar(14)));
  EXPECT_TRUE(refused(scalar(32)));
  EXPECT_TRUE(refused(opaque_parameter("o", 0)));
  EXPECT_TRUE(refused(opaque_parameter("o", max_argument_bytes + 1)));
  EXPECT_FALSE(refused(opaque_parameter("o", max_argument_bytes)));
  EXPECT_TRUE(refused(pointer_parameter("p", 99)));
  EXPECT_FALSE(refused(pointer_parameter("p", 0)));
  kernel_parameter p = scalar(5);
  p.size = 8;
  EXPECT_TRUE(refused(p));
  p = scalar(5);
  p.direction = parameter_direction::out;
  EXPECT_TRUE(refused(p));
  p = pointer_parameter("p", 5);
  p.direction = static_cast<parameter_direction>(3);
  EXPECT_TRUE(refused(p));
  for (const std::uint32_t space : {0U, 1U, 4U}) {
    p = pointer_parameter("p", 5);
    p.space = static_cast<address_space>(space);
    EXPECT_FALSE(refused(p)) << space;
  }
  for (const std::uint32_t space : {2U, 3U, 5U, 6U, 1000U}) {
    p.space = static_cast<address_space>(space);
    EXPECT_TRUE(refused(p)) << space;
  }
  p = scalar(5);
  p.kind = static_cast<parameter_kind>(3);
  EXPECT_TRUE(refused(p));
}

TEST(Arguments, BehindOneAnotherCannotExceedTheLimit) {
  std::vector<kernel_parameter> many(max_argument_bytes / 8, pointer_parameter("p", 5));
  EXPECT_TRUE(lay_out(many));
  many.push_back(scalar(7));
  EXPECT_FALSE(lay_out(many));
  std::vector<kernel_parameter> huge(3, opaque_parameter("o", 0xFFFFFFFF));
  EXPECT_FALSE(lay_out(huge));
}

// For random layouts, each value must be found at its offset and padding must be zero.
TEST(Arguments, ThatArePackedStandAtTheirOffsets) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 engine(seed);
    const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
    std::vector<kernel_parameter> parameters;
    std::vector<byte_vector> values;
    for (std::uint32_t i = 0; i < random() % 12; ++i) {
      const std::uint32_t pick = random() % 15;
      parameters.push_back(pick == 0    ? pointer_parameter("p", 5)
                           : pick == 14 ? opaque_parameter("o", 1 + random() % 40)
                                        : scalar(pick));
      byte_vector value(parameters.back().size);
      std::generate(value.begin(), value.end(),
                    [&] { return static_cast<std::byte>(1 + random() % 255); });
      values.push_back(std::move(value));
    }
    const argument_extent extent = or_throw(lay_out(parameters));
    const std::vector<bytes_view> views(values.begin(), values.end());
    byte_vector packed = or_throw(pack_arguments(parameters, views));
    ASSERT_EQ(packed.size(), extent.padded) << "seed " << seed;
    std::uint32_t end = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const kernel_parameter& p = parameters[i];
      EXPECT_GE(p.offset, end) << "seed " << seed;
      EXPECT_LT(p.offset - end, 8U) << "seed " << seed;
      EXPECT_EQ(p.offset % alignment_of(p), 0U) << "seed " << seed;
      EXPECT_EQ(std::memcmp(packed.data() + p.offset, values[i].data(), p.size), 0);
      std::fill_n(packed.begin() + p.offset, p.size, std::byte(0));
      end = p.offset + p.size;
    }
    EXPECT_EQ(std::count(packed.begin(), packed.end(), std::byte(0)),
              static_cast<std::ptrdiff_t>(packed.size()))
        << "seed " << seed;
    if (!values.empty()) {
      values.back().push_back(std::byte(0));
      const std::vector<bytes_view> longer(values.begin(), values.end());
      EXPECT_FALSE(pack_arguments(parameters, longer)) << "seed " << seed;
      EXPECT_FALSE(pack_arguments(parameters, std::span(views).first(views.size() - 1)));
    }
  }
}

}  // namespace
}  // namespace weir::tessera
