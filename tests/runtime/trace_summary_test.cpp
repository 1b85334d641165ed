// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests what a trace summary computes from records.
#include "weir/runtime/trace_summary.hpp"

#include <gtest/gtest.h>

#include <array>

#include "weir/runtime/engine.hpp"

namespace weir::runtime {
namespace {

/// Returns the record of a task and of the task that it waited for.
task_record record(std::uint64_t id, const char* name, std::uint64_t waited_for,
                   const char* waited_for_name, std::array<std::int64_t, 4> times,
                   std::uint32_t worker) {
  task_record r;
  r.id = id;
  r.name = name;
  r.waited_for = waited_for;
  r.waited_for_name = waited_for_name;
  r.submitted = times[0];
  r.ready = times[1];
  r.started = times[2];
  r.ended = times[3];
  r.worker = worker;
  return r;
}

/// Returns records in which the chain `a`, `b`, `d` determines the duration; `c` runs
/// beside it.
std::vector<task_record> example() {
  return {record(1, "a", 0, nullptr, {1000, 1000, 1000, 3000}, 0),
          record(2, "b", 1, "a", {1000, 3000, 3500, 5500}, 0),
          record(3, "c", 0, nullptr, {1000, 1000, 1500, 2500}, 1),
          record(4, "d", 2, "b", {1000, 5500, 6000, 7000}, 1)};
}

TEST(TraceSummary, FollowsTheTasksThatWereWaitedForFromTheEnd) {
  const trace_summary s = summarize(example());
  EXPECT_EQ(s.begin, 1000);
  EXPECT_EQ(s.end, 7000);
  ASSERT_EQ(s.critical_path.size(), 3U);
  EXPECT_EQ(s.critical_path[0].name, "a");
  EXPECT_EQ(s.critical_path[1].name, "b");
  EXPECT_EQ(s.critical_path[1].waited, 500);
  EXPECT_EQ(s.critical_path[2].name, "d");
  EXPECT_EQ(s.path_ran(), 5000);
  EXPECT_EQ(s.path_waited(), 1000);
  EXPECT_EQ(s.path_ran() + s.path_waited(), s.end - s.begin);
}

TEST(TraceSummary, FollowsABusyWorkerWhereNoDataWereWaitedFor) {
  auto records = example();
  records.push_back(record(5, "e", 0, nullptr, {1000, 1000, 7000, 9000}, 1));
  records.push_back(record(6, "f", 1, "a", {1000, 3000, 9000, 9500}, 1));
  const trace_summary s = summarize(records);
  ASSERT_EQ(s.critical_path.size(), 5U);  // a, b, d, then e behind d, then f behind e
  EXPECT_EQ(s.critical_path[3].name, "e");
  EXPECT_EQ(s.critical_path[3].waited, 0);
  EXPECT_EQ(s.critical_path[4].name, "f");
  records[4].waited_for = 77;  // no record has this id
  EXPECT_EQ(summarize(records).critical_path.size(), 2U);
}

TEST(TraceSummary, DrawsWhenEachWorkerWasBusy) {
  const trace_summary s = summarize(example());
  ASSERT_EQ(s.workers.size(), 2U);
  EXPECT_EQ(s.workers[0].busy, 4000);
  EXPECT_EQ(s.workers[1].tasks, 2U);
  EXPECT_DOUBLE_EQ(s.workers[0].share[0], 1);   // busy from 1000 on
  EXPECT_DOUBLE_EQ(s.workers[0].share[22], 0);  // 3200 to 3300
  EXPECT_DOUBLE_EQ(s.workers[1].share[59], 1);
}

TEST(TraceSummary, SumsWhatTasksWaitedFor) {
  const trace_summary s = summarize(example());
  ASSERT_EQ(s.waits.size(), 3U);
  EXPECT_EQ(s.waits[0].reason, "data of b");
  EXPECT_EQ(s.waits[0].sum, 4500);
  EXPECT_EQ(s.waits[1].reason, "data of a");
  EXPECT_EQ(s.waits[2].reason, "a free worker");
  EXPECT_EQ(s.waits[2].sum, 1500);
  EXPECT_EQ(s.waits[2].tasks, 3U);
  const double all = 4500.0 + static_cast<double>(s.waits[1].sum) + 1500;
  EXPECT_DOUBLE_EQ(s.share_of(s.waits[0]), 4500 / all);
  EXPECT_DOUBLE_EQ(
      s.share_of(s.waits[0]) + s.share_of(s.waits[1]) + s.share_of(s.waits[2]), 1);
}

TEST(TraceSummary, SurvivesRecordsThatNameEachOther) {
  auto records = example();
  records[0].waited_for = 2;  // the records form a cycle
  records[0].waited_for_name = "b";
  EXPECT_EQ(summarize(records).critical_path.size(), 3U);
  EXPECT_TRUE(summarize({}).critical_path.empty());
  EXPECT_NE(to_text(summarize({})).find("critical path of 0 tasks"), std::string::npos);
}

TEST(TraceSummary, IsWrittenAsText) {
  const std::string text = to_text(summarize(example()));
  EXPECT_NE(text.find("critical path of 3 tasks"), std::string::npos) << text;
  EXPECT_NE(text.find("66.7 % busy, 2 tasks"), std::string::npos) << text;
  EXPECT_NE(text.find("data of b"), std::string::npos) << text;
}

TEST(TraceSummary, OfARealRunEndsWithTheLastTask) {
  engine_options o;
  o.trace.mode = trace_mode::all;
  auto e = or_throw(engine::create(o));
  const storage s = or_throw(e->allocate(8, "test"));
  const std::array<std::int64_t, 1> shape{8};
  const std::array<access, 1> all{
      updates(or_throw(tensor::over(s, dtype::uint8, shape)))};
  for (int i = 0; i < 5; ++i) {
    static_cast<void>(or_throw(e->submit("step", all, [](const task_context&) {})));
  }
  ASSERT_TRUE(e->wait_all());
  const auto records = e->tracer().records();
  const trace_summary summary = summarize(records);
  ASSERT_EQ(summary.critical_path.size(), 5U);
  EXPECT_EQ(summary.critical_path.back().id, 5U);
}

}  // namespace
}  // namespace weir::runtime
