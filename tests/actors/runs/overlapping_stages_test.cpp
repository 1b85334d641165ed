// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks of two stages that run at the same time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/temp_folder.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/base/file.hpp"

namespace weir::test {
namespace {

/// A stage of eight tasks, which may run side by side; the last one takes long.
template <int Number>
struct eight_parts {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<eight_parts>& s) {
    s.name(Number == 1 ? "test.parts1" : "test.parts2", "works in eight parts");
    s.stateless();
    s.port("x", &eight_parts::x, "n").port("y", &eight_parts::y, "n");
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, s[x].extent(0)));
    for (std::int64_t k = 0; k < 8; ++k) {
      s.submit(
          Number == 1 ? "part of stage 1" : "part of stage 2",
          [k](auto from, auto out) {
            std::this_thread::sleep_for(std::chrono::milliseconds(k == 7 ? 300 : 1));
            out[0] = from[0] + 1;
          },
          read(s[x].slice(0, k, k + 1)), write(to.slice(0, k, k + 1)));
    }
    return s.emit();
  }
};

/// A source of one item with eight elements.
struct eight_elements {
  using cursor = std::uint64_t;
  out<std::uint64_t, 1> x;
  cursor at = 0;
  static void describe(stage_spec<eight_elements>& s) {
    s.name("test.eight", "one item").port("x", &eight_elements::x, "8");
  }
  result<bool> next(pull& p) {
    if (at == 1) {
      return false;
    }
    WEIR_TRY(auto v, p.fill(x, 8));
    std::fill(v.begin(), v.end(), at++);
    return true;
  }
  [[nodiscard]] cursor position() const { return at; }
  result<void> seek(cursor c) {
    at = c;
    return {};
  }
};

/// Returns begin and end of all events of a name in a trace, ascending.
/// @units{microseconds}
std::vector<std::pair<double, double>> times_of(const std::string& trace,
                                                const std::string& name) {
  std::vector<std::pair<double, double>> found;
  const auto parsed = nlohmann::json::parse(trace);
  for (const auto& e : parsed.at("traceEvents")) {
    if (e.value("name", "") == name && e.value("ph", "") == "X") {
      const double begin = e.at("ts").get<double>();
      found.emplace_back(begin, begin + e.at("dur").get<double>());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(PipelineRun, ATaskOfTheSecondStageRunsBeforeTheLastOneOfTheFirstHasEnded) {
  temp_folder folder;
  pipeline p("overlap");
  auto source = p.add<eight_elements>("source");
  auto first = p.add<eight_parts<1>>("first");
  auto second = p.add<eight_parts<2>>("second");
  add_standard_stages();
  auto sink = p.add("sink", "null");
  source >> first >> second >> sink;
  run_options options;
  options.folder = folder.path();
  options.workers = 2;
  options.trace = runtime::trace_mode::all;
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  const auto bytes =
      or_throw(read_file(posix_file_system(), folder.path() + "/trace.json"));
  const std::string text(as_text(bytes));
  const auto one = times_of(text, "part of stage 1");
  const auto two = times_of(text, "part of stage 2");
  ASSERT_EQ(one.size(), 8U);
  ASSERT_EQ(two.size(), 8U);
  EXPECT_LT(two.front().second, one.back().second);
}

}  // namespace
}  // namespace weir::test
