// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests types of ports: reading, printing and sizes.
#include "weir/pipeline/port_type.hpp"

#include <gtest/gtest.h>

#include <random>

#include "weir/pipeline/stage_info.hpp"

using namespace weir;
using namespace weir::flow;

namespace {

constexpr std::string_view elements[] = {"f16",  "bf16", "f32",  "f64",  "i8",  "i16",
                                         "i32",  "i64",  "u8",   "u16",  "u32", "u64",
                                         "bool", "c64",  "c128", "e4m3", "e5m2"};

std::string refusal(std::string_view text) {
  const auto type = port_type::parse(text);
  return type ? "accepted" : type.error().message();
}

std::optional<std::int64_t> bytes_of(std::string_view text) {
  return or_throw(port_type::parse(text)).bytes();
}

}  // namespace

TEST(PortType, ReadsEachPartOfAType) {
  const port_type type = or_throw(port_type::parse("f32[n,384,?]"));
  EXPECT_EQ(type.element, dtype::fp32);
  ASSERT_EQ(type.shape.size(), 3U);
  EXPECT_EQ(type.shape[0], (extent{extent::kind::letter, 0, 'n'}));
  EXPECT_EQ(type.shape[1], (extent{extent::kind::fixed, 384, '?'}));
  EXPECT_EQ(type.shape[2], extent{});
  EXPECT_EQ(or_throw(port_type::parse("any")), port_type{});
  EXPECT_TRUE(or_throw(port_type::parse("f64[]")).shape.empty());
}

TEST(PortType, PrintsWhatItHasReadForManyRandomTypes) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 20000; ++i) {
    std::string text(elements[random() % std::size(elements)]);
    text += '[';
    const auto dims = random() % 9;
    for (unsigned long d = 0; d < dims; ++d) {
      text += d == 0 ? "" : ",";
      switch (random() % 3) {
        case 0: text += static_cast<char>('a' + random() % 26); break;
        case 1: text += '?'; break;
        default: text += std::to_string(random() % 100);
      }
    }
    text += ']';
    const port_type type = or_throw(port_type::parse(text));
    ASSERT_EQ(type.text(), text);
    ASSERT_EQ(or_throw(port_type::parse(type.text())), type);
  }
}

TEST(PortType, NoTextMakesTheReaderFailInAnotherWayThanByAnError) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr std::string_view letters = "f3216uianyb[],? 0-9Z";
  for (int i = 0; i < 50000; ++i) {
    std::string text;
    for (auto length = random() % 12; length > 0; --length) {
      text += letters[random() % letters.size()];
    }
    if (const auto type = port_type::parse(text)) {
      ASSERT_EQ(or_throw(port_type::parse(type->text())), *type) << text;
    }
  }
}

TEST(PortType, BlanksAroundExtentsAreNotPrinted) {
  EXPECT_EQ(or_throw(port_type::parse("f32[ n , 384 ]")).text(), "f32[n,384]");
  EXPECT_EQ(or_throw(port_type::parse("u8[ ]")).text(), "u8[]");
}

TEST(PortType, MalformedTypesAreRefusedWithTextAndPosition) {
  EXPECT_EQ(refusal(""),
            "cannot read the type \"\": expected an element type such as f32, or any at "
            "position 1, found the end");
  EXPECT_EQ(
      refusal("f33[n]"),
      "cannot read the type \"f33[n]\": expected an element type such as f32, or any "
      "at position 1, found \"f33[n]\"");
  EXPECT_EQ(refusal("f32"),
            "cannot read the type \"f32\": expected \"[\" at position 4, found the end");
  EXPECT_EQ(
      refusal("f32[n"),
      "cannot read the type \"f32[n\": expected \",\" or \"]\" at position 6, found "
      "the end");
  EXPECT_EQ(
      refusal("f32[n;3]"),
      "cannot read the type \"f32[n;3]\": expected \",\" or \"]\" at position 6, found "
      "\";3]\"");
  EXPECT_EQ(
      refusal("f32[n,]"),
      "cannot read the type \"f32[n,]\": expected a number, a letter from a to z, or "
      "\"?\" at position 7, found \"]\"");
  EXPECT_EQ(
      refusal("f32[-1]"),
      "cannot read the type \"f32[-1]\": expected a number, a letter from a to z, or "
      "\"?\" at position 5, found \"-1]\"");
  EXPECT_EQ(
      refusal("f32[N]"),
      "cannot read the type \"f32[N]\": expected a number, a letter from a to z, or "
      "\"?\" at position 5, found \"N]\"");
  EXPECT_EQ(
      refusal("f32[nk]"),
      "cannot read the type \"f32[nk]\": expected \",\" or \"]\" at position 6, found "
      "\"k]\"");
  EXPECT_EQ(
      refusal("f32[07]"),
      "cannot read the type \"f32[07]\": expected a number without leading zeros at "
      "position 5, found \"07]\"");
  EXPECT_EQ(
      refusal("f32[n] "),
      "cannot read the type \"f32[n] \": expected the end at position 7, found \" \"");
  EXPECT_EQ(
      refusal("any[n]"),
      "cannot read the type \"any[n]\": expected an element type such as f32, or any "
      "at position 1, found \"any[n]\"");
}

TEST(PortType, TooLargeTypesAreRefused) {
  EXPECT_EQ(refusal("u8[9223372036854775807]"), "accepted");
  EXPECT_EQ(
      refusal("u8[9223372036854775808]"),
      "cannot read the type \"u8[9223372036854775808]\": expected a number below 2^63 "
      "at position 4, found \"9223372036854775808]\"");
  EXPECT_EQ(refusal("u16[9223372036854775807]"),
            "cannot read the type \"u16[9223372036854775807]\": expected fewer than 2^63 "
            "bytes, found more");
  EXPECT_EQ(
      refusal("u8[1,1,1,1,1,1,1,1,1]"),
      "cannot read the type \"u8[1,1,1,1,1,1,1,1,1]\": expected at most 8 extents at "
      "position 20, found \"1]\"");
}

TEST(PortType, BytesAreKnownExactlyIfAllExtentsAreFixed) {
  EXPECT_EQ(bytes_of("f32[3,5]"), 60);
  EXPECT_EQ(bytes_of("c128[]"), 16);
  EXPECT_EQ(bytes_of("e4m3[7]"), 7);
  EXPECT_EQ(bytes_of("f64[0,9223372036854775807,9223372036854775807]"), 0);
  EXPECT_EQ(bytes_of("f32[n]"), std::nullopt);
  EXPECT_EQ(bytes_of("f32[3,?]"), std::nullopt);
  EXPECT_EQ(bytes_of("any"), std::nullopt);
}

TEST(StageInfo, PortsAreFoundAndCounted) {
  stage_info info;
  info.ports = {{"x", {}, true}, {"y", {}, false}, {"z", {}, true}};
  EXPECT_EQ(info.find_port("z"), 2);
  EXPECT_EQ(info.find_port("w"), -1);
  EXPECT_EQ(info.inlets(), 2U);
  EXPECT_EQ(info.outlets(), 1U);
}
