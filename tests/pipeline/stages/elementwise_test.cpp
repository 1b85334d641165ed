// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stage elementwise against plain formulas, at the ends of all ranges.
#include <cmath>
#include <limits>

#include "stages/basic_catalog.hpp"
#include "stages/element_kernels.hpp"

namespace weir::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Runs one operation on the numbers 0, 1, 2, ... as items of three elements.
template <class T>
std::vector<T> results_of(given_settings settings, const std::string& element) {
  settings.emplace("type", element + "[n]");
  const auto tapes = expect_resumable(
      [&](pipeline& p, std::vector<tape>& all) {
        add_basic(p, "source", "generator",
                  {{"count", 4}, {"shape", list_of<int>({3})}, {"element", element}}) >>
            add_basic(p, "op", "elementwise", settings) >>
            add_recorder(p, "sink", all[0]);
      },
      1, 1);
  std::vector<T> all;
  for (const recorded& one : tapes[0]) {
    const auto values = one.values<T>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(Elementwise, ComputesEveryOperation) {
  struct one {
    given_settings settings;
    double (*formula)(double);
  };
  const std::vector<one> cases = {
      {{{"op", "add"}, {"operand", 1.5}}, [](double x) { return x + 1.5; }},
      {{{"op", "subtract"}, {"operand", 4}}, [](double x) { return x - 4; }},
      {{{"op", "multiply"}, {"operand", -0.3}}, [](double x) { return x * -0.3; }},
      {{{"op", "divide"}, {"operand", 3}}, [](double x) { return x / 3; }},
      {{{"op", "negate"}}, [](double x) { return -x; }},
      {{{"op", "absolute"}}, [](double x) { return x; }},
      {{{"op", "minimum"}, {"operand", 5}}, [](double x) { return std::min(x, 5.0); }},
      {{{"op", "maximum"}, {"operand", 5}}, [](double x) { return std::max(x, 5.0); }},
      {{{"op", "relu"}}, [](double x) { return x; }},
      {{{"op", "clamp"}, {"low", 2}, {"high", 7}},
       [](double x) { return std::clamp(x, 2.0, 7.0); }},
  };
  for (const one& c : cases) {
    const auto found = results_of<double>(c.settings, "f64");
    ASSERT_EQ(found.size(), 12U);
    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(found[i], c.formula(static_cast<double>(i)))
          << c.settings.find("op")->second.value.describe() << " of " << i;
    }
  }
}

TEST(Elementwise, ComputesIntegersModuloTheirRange) {
  const auto found = results_of<std::uint8_t>({{"op", "subtract"}, {"operand", 3}}, "u8");
  EXPECT_EQ(found[0], 253);
  EXPECT_EQ(found[11], 8);
  using i64 = flow::arithmetic<std::int64_t>;
  using i8 = flow::arithmetic<std::int8_t>;
  using u16 = flow::arithmetic<std::uint16_t>;
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(i64::add(highest, 1), lowest);
  EXPECT_EQ(i64::negate(lowest), lowest);
  EXPECT_EQ(i64::absolute(lowest), lowest);
  EXPECT_EQ(i64::divide(lowest, -1), lowest);
  EXPECT_EQ(i64::divide(-7, 2), -3);
  EXPECT_EQ(i8::multiply(100, 3), 44);
  EXPECT_EQ(i8::divide(-128, -1), -128);
  EXPECT_EQ(u16::multiply(65535, 65535), 1);
  EXPECT_EQ(u16::negate(1), 65535);
}

TEST(Elementwise, HandsNaNOn) {
  using f64 = flow::arithmetic<double>;
  EXPECT_TRUE(std::isnan(f64::minimum(nan, 1)));
  EXPECT_TRUE(std::isnan(f64::maximum(nan, 1)));
  EXPECT_TRUE(std::isnan(f64::relu(nan)));
  EXPECT_TRUE(std::isnan(f64::clamp(nan, 0, 1)));
  EXPECT_EQ(f64::relu(-2), 0);
}

TEST(Elementwise, ConvertsWithEndsForNumbersOutsideOfTheRange) {
  using flow::converted;
  EXPECT_EQ(converted<std::int32_t>(nan), 0);
  EXPECT_EQ(converted<std::int32_t>(2147483647.9), 2147483647);
  EXPECT_EQ(converted<std::int32_t>(1e30), 2147483647);
  EXPECT_EQ(converted<std::int32_t>(-1e30F), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(converted<std::int64_t>(9.3e18), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(converted<std::int64_t>(9223372036854774784.0), 9223372036854774784);
  EXPECT_EQ(converted<std::uint8_t>(-0.5), 0);
  EXPECT_EQ(converted<std::uint8_t>(255.7F), 255);
  EXPECT_EQ(converted<std::int8_t>(std::uint16_t{300}), 44);
  EXPECT_EQ(converted<float>(16777217), 16777216.0F);
  EXPECT_EQ(converted<std::int32_t>(-1.9), -1);
}

TEST(Elementwise, ConvertsBetweenAllTypes) {
  const std::vector<std::string> types = {"f32", "f64", "i8",  "i16", "i32",
                                          "i64", "u8",  "u16", "u32", "u64"};
  for (const std::string& from : types) {
    for (const std::string& to : types) {
      const auto tapes = run_tapes(
          [&](pipeline& p, std::vector<tape>& all) {
            add_basic(
                p, "source", "generator",
                {{"count", 1}, {"shape", list_of<int>({100})}, {"element", from}}) >>
                add_basic(p, "there", "elementwise",
                          {{"op", "convert"}, {"type", from + "[n]"}, {"to", to}}) >>
                add_basic(p, "back", "elementwise",
                          {{"op", "convert"}, {"type", to + "[n]"}, {"to", "f64"}}) >>
                add_recorder(p, "sink", all[0]);
          },
          1);
      ASSERT_TRUE(tapes) << tapes.error().message();
      const auto values = (*tapes)[0][0].values<double>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], static_cast<double>(i)) << from << " to " << to;
      }
    }
  }
}

TEST(Elementwise, DividesLargeTensorsIntoTasks) {
  const int size = (1 << 17) + 5;
  const auto tapes = run_tapes(
      [&](pipeline& p, std::vector<tape>& all) {
        add_basic(p, "source", "generator",
                  {{"count", 2}, {"shape", list_of<int>({size})}, {"element", "u32"}}) >>
            add_basic(p, "op", "elementwise",
                      {{"op", "add"}, {"operand", 7}, {"type", "u32[n]"}}) >>
            add_recorder(p, "sink", all[0]);
      },
      1);
  ASSERT_TRUE(tapes) << tapes.error().message();
  const auto values = (*tapes)[0][1].values<std::uint32_t>();
  ASSERT_EQ(values.size(), static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], static_cast<std::uint32_t>(size) + i + 7);
  }
}

TEST(Elementwise, RefusesOperandsThatDoNotFit) {
  const auto refuse = [](given_settings settings, const std::string& text) {
    settings.emplace("type", "i8[n]");
    expect_refused("elementwise", settings, errc::invalid_argument, text);
  };
  refuse({{"op", "add"}}, "expected the setting \"operand\"");
  refuse({{"op", "relu"}, {"operand", 1}}, "expected no setting \"operand\"");
  refuse({{"op", "add"}, {"operand", 0.5}}, "integer of i8");
  refuse({{"op", "add"}, {"operand", 128}}, "found 128");
  refuse({{"op", "divide"}, {"operand", 0}}, "other than 0");
  refuse({{"op", "clamp"}, {"low", 1}, {"high", 0}}, "low up to high");
  refuse({{"op", "convert"}}, "\"to\"");
  refuse({{"op", "convert"}, {"to", "c64"}}, "to");
  refuse({{"op", "exp"}}, "op");
  expect_refused("elementwise", {{"op", "relu"}, {"type", "bool[n]"}},
                 errc::invalid_argument, "element type is one of");
}

TEST(BasicStages, AreDescribed) {
  const std::map<std::string, given_settings> needed = {
      {"select", {{"modulo", 2}}},
      {"batch", {{"type", "f32[n]"}}},
      {"unbatch", {{"type", "f32[n]"}}},
      {"elementwise", {{"op", "relu"}, {"type", "f32[n]"}}},
      {"concat", {{"parts", "generator"}}},
      {"mix", {{"parts", "generator"}}},
      {"split", {{"attribute", "a"}, {"outlets", list_of<std::string>({"b"})}}},
      {"window", {{"type", "f32[2]"}}},
      {"reduce", {{"type", "f32[2]"}}},
      {"rate", {{"type", "f32[n]"}}}};
  EXPECT_EQ(basic_stages().names().size(), 15U);
  for (const std::string& name : basic_stages().names()) {
    const auto settings = needed.find(name);
    const auto made = basic_stages().make(
        name, settings == needed.end() ? given_settings() : settings->second);
    ASSERT_TRUE(made) << made.error().message();
    EXPECT_EQ(made->info.name, name);
    EXPECT_GE(made->info.documentation.size(), 20U) << name;
    EXPECT_FALSE(made->info.ports.empty()) << name;
    for (const setting_info& one : made->info.settings) {
      EXPECT_GE(one.documentation.size(), 10U) << name << " " << one.name;
    }
  }
  EXPECT_EQ(flow::add_basic_stages(basic_stages()).error().code(), errc::already_exists);
}

}  // namespace
}  // namespace weir::test
