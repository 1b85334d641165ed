// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests reports: drawings, traces, the comparison with other models, and the HTML page.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "drawing/charts.hpp"
#include "drawing/page.hpp"
#include "drawing/trace_data.hpp"
#include "report/comparison.hpp"
#include "report/report.hpp"
#include "report/run_data.hpp"
#include "support/temp_folder.hpp"
#include "weir/base/hash.hpp"

namespace weir::tools {
namespace {

TEST(AxisTicks, AreRoundAndWithinTheRange) {
  EXPECT_EQ(axis_ticks(0, 8, 8), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(axis_ticks(0, 300000, 6).back(), 300000);
  EXPECT_TRUE(axis_ticks(1, 1, 5).empty());
  EXPECT_TRUE(axis_ticks(0, 1, 0).empty());
}

TEST(HtmlPage, EscapesWhatItIsGiven) {
  html_page page("<run> & 'co'", "");
  page.folded("log", "</pre><script>x</script>");
  const std::string html = std::move(page).finish();
  EXPECT_NE(html.find("<title>&lt;run&gt; &amp; &#39;co&#39;</title>"),
            std::string::npos);
  EXPECT_EQ(html.find("<script"), std::string::npos);
}

TEST(Curves, LabelsKeepTheirDistance) {
  std::vector<curve_line> lines;
  for (int i = 0; i < 6; ++i) {
    lines.push_back(
        {"curve " + std::to_string(i), "o0", {{0, 4.0}, {1000, 2.0 + 0.001 * i}}});
  }
  const std::string drawing = draw_curves(lines, 1000);
  std::vector<double> heights;
  for (std::size_t position = 0;
       (position = drawing.find("class=\"label", position)) != std::string::npos;
       ++position) {
    const std::size_t y = drawing.rfind("y=\"", position);
    heights.push_back(std::stod(drawing.substr(y + 3)));
  }
  std::sort(heights.begin(), heights.end());
  ASSERT_EQ(heights.size(), 6U);
  for (std::size_t i = 1; i < heights.size(); ++i) {
    EXPECT_GE(heights[i] - heights[i - 1], 15.9);
  }
}

/// Writes a trace with these events and returns its path.
std::string write_trace(const test::temp_folder& folder, const std::string& events) {
  const std::string path = folder / "trace.json";
  std::ofstream(path) << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [" << events
                      << "]}";
  return path;
}

TEST(Trace, KeepsSpansAndNamesOfThreads) {
  const test::temp_folder folder;
  const std::string path = write_trace(
      folder,
      R"({"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"worker 1"}},)"
      R"({"ph":"M","name":"thread_name","pid":1,"tid":9,"args":{"name":"idle one"}},)"
      R"({"ph":"X","name":"b","ts":30.5,"dur":4,"tid":1,"args":{"ts":1,"name":"no"}},)"
      R"({"ph":"X","name":"save","cat":"span","ts":11,"dur":900,"pid":1,"tid":1000},)"
      R"({"ph":"X","name":"a","cat":"task","ts":10.5,"dur":2,"pid":1,"tid":2,"args":{}},)"
      R"({"ph":"i","name":"mark","ts":1,"tid":1})");
  const trace_data trace = or_throw(read_trace(path));
  EXPECT_EQ(trace.lanes,
            (std::vector<std::string>{"thread 1", "worker 1", "thread 1000"}));
  ASSERT_EQ(trace.spans.size(), 3U);
  EXPECT_EQ(trace.names[trace.spans[0].name], "a");
  EXPECT_EQ(trace.spans[0].start, 0);
  EXPECT_EQ(trace.spans[0].lane, 1U);
  EXPECT_EQ(trace.spans[2].start, 20);
  EXPECT_EQ(trace.length, 900.5);
  const auto shares = kernel_shares(trace);
  EXPECT_EQ(trace.names[shares[0].name], "b");
  EXPECT_EQ(shares[0].total, 4);
  EXPECT_EQ(shares.size(), 2U) << "a span that is no task counts as a kernel";
}

TEST(Trace, IsReadWithoutAnObjectAroundItsList) {
  const test::temp_folder folder;
  const std::string path = folder / "list.json";
  std::ofstream(path) << R"([{"ph":"X","name":"a","ts":1,"dur":2,"tid":3},)"
                      << R"({"ph":"X","name":"a","ts":1,"dur":2,"tid":1e300}])";
  const trace_data trace = or_throw(read_trace(path));
  EXPECT_EQ(trace.names, std::vector<std::string>{"a"});
  EXPECT_EQ(trace.lanes, (std::vector<std::string>{"thread 3", "thread 1e+300"}));
}

TEST(Trace, MayHaveOtherKeysBeforeItsListAndBehindIt) {
  const test::temp_folder folder;
  const std::string path = folder / "keys.json";
  std::ofstream(path) << R"({"metadata":{"name":"no","list":[1]},"traceEvents":[)"
                      << R"({"ph":"X","name":"a","args":{"in":{"name":"no"}},"ts":1}],)"
                      << R"("more":[{"ph":"X","name":"no"}]})";
  const trace_data trace = or_throw(read_trace(path));
  EXPECT_EQ(trace.names, std::vector<std::string>{"a"});
}

TEST(Trace, WithoutAListOrNestedTooDeeplyIsCorrupt) {
  const test::temp_folder folder;
  const std::string path = folder / "bad.json";
  for (const std::string content : {"{}", "7", "[[[[[[[[[]]]]]]]]]"}) {
    std::ofstream(path) << content;
    const auto trace = read_trace(path);
    ASSERT_FALSE(trace) << content;
    EXPECT_EQ(trace.error().code(), errc::corrupt) << content;
  }
  const auto missing = read_trace(folder / "none.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), errc::not_found);
}

TEST(Trace, LeavesSpansOutWhoseTimesNoClockGives) {
  const test::temp_folder folder;
  const trace_data trace = or_throw(read_trace(
      write_trace(folder, R"({"ph":"X","name":"a","ts":1,"dur":2,"tid":1},)"
                          R"({"ph":"X","name":"b","ts":1e308,"dur":1e308,"tid":1},)"
                          R"({"ph":"X","name":"b","ts":1e300,"dur":-1e300,"tid":1},)"
                          R"({"ph":"X","name":"b","ts":-1e300,"dur":1,"tid":1},)"
                          R"({"ph":"X","name":"b","ts":5,"dur":-3,"tid":1})")));
  EXPECT_EQ(trace.names, std::vector<std::string>{"a"});
  EXPECT_EQ(trace.length, 2);
  EXPECT_NE(draw_load(trace).find("</svg>"), std::string::npos);
}

TEST(Report, ComparesNothingIfTheNumberOfTokensIsNone) {
  const test::temp_folder folder;
  for (const char* tokens : {"-5", "1e300"}) {
    std::ofstream(folder / "metrics.json")
        << R"({"phases":{"build":{"tokens":)" << tokens << "}}}";
    const run_data data = or_throw(read_run(folder.path()));
    const std::string expected =
        "comparison with other models: expected a number of Build tokens, found";
    EXPECT_TRUE(
        std::any_of(data.missing.begin(), data.missing.end(),
                    [&](const std::string& one) { return one.starts_with(expected); }))
        << tokens;
  }
}

TEST(Trace, DrawsNothingOfNothing) {
  const test::temp_folder folder;
  const trace_data trace = or_throw(read_trace(write_trace(folder, "")));
  EXPECT_NE(draw_load(trace).find("</svg>"), std::string::npos);
  EXPECT_NE(draw_tasks(trace, 1000).find("</svg>"), std::string::npos);
  EXPECT_NE(kernel_table(trace).find("</table>"), std::string::npos);
}

TEST(Trace, BrokenJsonIsCorrupt) {
  const test::temp_folder folder;
  const auto trace = read_trace(write_trace(folder, "{\"ph\":"));
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code(), errc::corrupt);
}

TEST(Verdict, SaysWhatTheModelDoesNotBeat) {
  corpus_comparison c;
  c.gzip = 1.8;
  c.tokens = 100;
  for (unsigned order = 0; order < 4; ++order) {
    c.counts.push_back({order, 4.0 - order, 3.5 - order, {}});
  }
  const std::string words = verdict(c, 2.5, 1.9, 100);
  EXPECT_NE(
      words.find("beats the count models of order 0 and 1, but not of order 2 and 3"),
      std::string::npos)
      << words;
  EXPECT_NE(words.find("does not beat gzip -9 (2.500 against 1.800"), std::string::npos)
      << words;
  EXPECT_NE(verdict(c, 0.5, 0.4, 100)
                .find("beats the count models of order 0, 1, 2 and 3, and beats gzip"),
            std::string::npos);
  EXPECT_NE(verdict(c, 9, 9, 100).find("beats none of the count models"),
            std::string::npos);
  const std::string again = verdict(c, 0.5, 0.4, 250);
  EXPECT_NE(again.find("2.5 times as many tokens"), std::string::npos) << again;
  EXPECT_EQ(again.find("beats"), std::string::npos) << again;
}

TEST(Corpus, IsReadInOrderOfItsPathsAndCut) {
  const test::temp_folder folder;
  std::ofstream(folder / "b.txt") << "bbbb";
  std::ofstream(folder / "a.txt") << "aaaa";
  const auto whole = or_throw(compare_corpus({folder.path()}, true, 1000));
  ASSERT_EQ(whole.files.size(), 2U);
  EXPECT_EQ(whole.files[0].path, folder / "a.txt");
  EXPECT_EQ(whole.files[0].bytes, 4U);
  EXPECT_EQ(whole.files[0].digest, xxh3_64(as_view("aaaa")));
  EXPECT_EQ(whole.tokens, 9U);
  EXPECT_EQ(or_throw(compare_corpus({folder.path()}, false, 1000)).tokens, 8U);
  EXPECT_EQ(or_throw(compare_corpus({folder.path()}, true, 3)).tokens, 3U);
  EXPECT_FALSE(compare_corpus({"-"}, true, 3));
}

TEST(Report, NeedsNothingOutsideItself) {
  const test::temp_folder folder;
  std::ofstream(folder / "metrics.json")
      << R"({"ended":"finished","tokens":100,)"
         R"("bits_per_byte":{"cumulative":3.5,"last_quarter":3.0}})";
  const auto written = or_throw(write_report(folder.path()));
  std::ifstream in(written.path);
  const std::string html(std::istreambuf_iterator<char>(in), {});
  EXPECT_NE(html.find("3.500"), std::string::npos);
  EXPECT_NE(html.find("Left out: settings"), std::string::npos);
  for (const char* outside :
       {"http://", "https://", "<script", "<link", "@import", "url("}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
}

TEST(Report, OfNoRunSaysSo) {
  EXPECT_EQ(write_report("/no/such/folder").error().code(), errc::not_found);
  const test::temp_folder folder;
  EXPECT_EQ(write_report(folder.path()).error().code(), errc::not_found);
  std::ofstream(folder / "metrics.json") << "[1,";
  EXPECT_EQ(write_report(folder.path()).error().code(), errc::corrupt);
}

TEST(Metrics, NumbersAreFoundByDottedKeys) {
  const auto m = nlohmann::json::parse(R"({"a":{"b":2.5,"t":"x"},"c":"text","d":null})");
  EXPECT_EQ(number_at(m, "a.b"), 2.5);
  EXPECT_EQ(number_at(m, "a.x", 7), 7);
  EXPECT_EQ(number_at(m, "c.b", 7), 7);
  EXPECT_EQ(number_at(m, "d", 7), 7);
  EXPECT_EQ(text_at(m, "c"), "text");
  EXPECT_EQ(text_at(m, "a.t"), "x");
  EXPECT_EQ(text_at(m, "a"), "");
}

}  // namespace
}  // namespace weir::tools
