// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests what a trace keeps, and that Perfetto can open its file.
#include "weir/runtime/trace.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>

#include "support/temp_folder.hpp"
#include "tensors.hpp"
#include "weir/base/clock.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {
namespace {

constexpr std::int64_t second = 1'000'000'000;

task_record record_of(std::uint64_t id, std::int64_t start) {
  task_record r;
  r.name = "step \"quoted\"";
  r.id = id;
  r.submitted = start - 300;
  r.ready = start - 200;
  r.started = start;
  r.ended = start + 1500;
  return r;
}

trace_options options(trace_mode mode, std::uint64_t max_bytes = 50'000'000) {
  trace_options o;
  o.mode = mode;
  o.max_bytes = max_bytes;
  return o;
}

/// Returns the ids of the recorded tasks.
std::vector<std::uint64_t> ids_in(const trace& t) {
  std::vector<std::uint64_t> out;
  for (const task_record& r : t.records()) {
    out.push_back(r.id);
  }
  return out;
}

/// Returns the contents of a file.
std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns 0 if python3 reads the file as JSON and its events have the fields that
/// Perfetto needs.
int check_with_python(const std::string& path, std::size_t tasks) {
  const std::string script =
      "import json,sys\n"
      "t=json.load(open(sys.argv[1]))['traceEvents']\n"
      "x=[e for e in t if e['ph']=='X']\n"
      "assert all(k in e for e in x for k in ('name','ts','dur','pid','tid')), 'fields'\n"
      "c=[e for e in x if e.get('cat')=='task']\n"
      "assert len(c)==int(sys.argv[2]), len(c)\n"
      "k=('id','pulse','submit','ready','waited_for','waited_for_name','why')\n"
      "assert all(n in e['args'] for e in c for n in k), 'args'\n"
      "assert any(e['ph']=='M' and e['name']=='thread_name' for e in t), 'names'\n";
  const std::string command =
      "python3 -c \"" + script + "\" '" + path + "' " + std::to_string(tasks);
  return std::system(command.c_str());
}

TEST(Trace, RecordsNothingWhenItIsOff) {
  const trace t(options(trace_mode::off), 1);
  EXPECT_FALSE(t.recording());
  EXPECT_TRUE(t.records().empty());
}

TEST(Trace, KeepsBothEndsAndMarkedPulsesOfALongRun) {
  trace t(options(trace_mode::window), 2);
  EXPECT_TRUE(t.recording());
  for (std::uint64_t i = 0; i < 100; ++i) {  // ten pulses per second
    t.begin_pulse(i, i == 50);
    task_record r = record_of(i + 1, second + static_cast<std::int64_t>(i) * second / 10);
    r.pulse = t.pulse();
    r.keep = t.keeps();
    t.record(static_cast<unsigned>(i % 2), r);
  }
  std::vector<std::uint64_t> expected;
  for (std::uint64_t i = 0; i < 100; ++i) {
    if (i < 20 || i == 50 || i >= 79) {
      expected.push_back(i + 1);
    }
  }
  EXPECT_EQ(ids_in(t), expected);
}

TEST(Trace, WritesChromeJsonThatPythonReads) {
  const test::temp_folder folder;
  trace t(options(trace_mode::all), 2);
  for (std::uint64_t i = 0; i < 200; ++i) {
    task_record r = record_of(i + 1, second + static_cast<std::int64_t>(i) * 2000);
    r.waited_for = i;
    r.waited_for_name = "earlier";
    r.worker = static_cast<std::uint32_t>(i % 2);
    t.record(r.worker, r);
  }
  t.span("checkpoint", "write \\ \"ck-1\"", second, second + 5000);
  ASSERT_TRUE(t.write(posix_file_system(), folder / "trace.json"));
  EXPECT_EQ(check_with_python(folder / "trace.json", 200), 0);
}

TEST(Trace, DropsTheMiddleOfARunIfTheFileWouldBeTooLarge) {
  const test::temp_folder folder;
  constexpr std::uint64_t max_bytes = 20'000;
  trace t(options(trace_mode::all, max_bytes), 1);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    t.record(0, record_of(i + 1, second + static_cast<std::int64_t>(i) * 2000));
  }
  ASSERT_TRUE(t.write(posix_file_system(), folder / "trace.json"));
  const std::string text = text_of(folder / "trace.json");
  EXPECT_LE(text.size(), max_bytes);
  EXPECT_GT(text.size(), max_bytes * 3 / 4);
  EXPECT_NE(text.find("\"id\":1,"), std::string::npos);
  EXPECT_NE(text.find("\"id\":1000,"), std::string::npos);
  EXPECT_EQ(text.find("\"id\":500,"), std::string::npos);
}

TEST(Trace, OfNothingIsAValidFile) {
  const test::temp_folder folder;
  const trace t(options(trace_mode::window), 1);
  ASSERT_TRUE(t.write(posix_file_system(), folder / "trace.json"));
  EXPECT_EQ(check_with_python(folder / "trace.json", 0), 0);
}

TEST(Trace, OfAnEngineSaysWhyATaskWaited) {
  engine_options o;
  o.workers = 2;
  o.trace.mode = trace_mode::all;
  const auto e = or_throw(engine::create(o));
  const storage s = or_throw(e->allocate(8, "test"));
  const std::array<std::int64_t, 1> shape{8};
  const std::array<access, 1> a{updates(or_throw(tensor::over(s, dtype::uint8, shape)))};
  std::atomic<bool> both_submitted{false};
  auto* gate = &both_submitted;
  const auto busy = [gate](const task_context&) {
    const std::int64_t end = now_ns() + 300'000;
    while (now_ns() < end || !gate->load()) {
    }
  };
  e->tracer().begin_pulse(3, false);
  or_throw(e->submit("producer", a, busy));
  or_throw(e->submit("consumer", a, busy));
  both_submitted = true;
  ASSERT_TRUE(e->wait_all());
  const auto records = e->tracer().records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_STREQ(records[0].name, "producer");
  EXPECT_EQ(records[0].waited_for, 0U);
  EXPECT_EQ(records[1].waited_for, 1U);
  EXPECT_STREQ(records[1].waited_for_name, "producer");
  for (const task_record& r : records) {
    EXPECT_EQ(r.pulse, 3U);
    EXPECT_LE(r.submitted, r.ready);
    EXPECT_LE(r.ready, r.started);
    EXPECT_GE(r.ended - r.started, 300'000);
  }
  EXPECT_GE(records[1].started, records[0].ended);
  EXPECT_GE(e->counters().kernel_ns, 600'000);
}

class TaskTags : public testing::TestWithParam<unsigned> {};

TEST_P(TaskTags, CountTimeInsideKernelsAlsoInReplays) {
  engine_options options;
  options.workers = GetParam();
  const auto e = or_throw(engine::create(options));
  const storage s = or_throw(e->allocate(8, "test"));
  const auto busy = [&](std::uint16_t tag, int ms) {
    e->tag_tasks(tag);
    const auto kernel = [ms](const task_context&) {
      const std::int64_t end = now_ns() + std::int64_t{ms} * 1'000'000;
      while (now_ns() < end) {
      }
    };
    or_throw(e->submit("busy", std::vector<access>{updates(bytes_of(s))}, kernel));
  };
  or_throw(e->begin_capture());
  busy(3, 2);
  busy(5, 4);
  const capture c = or_throw(e->end_capture());
  e->tag_tasks(60'000);  // counts as the last one
  ASSERT_TRUE(e->replay(c));
  busy(engine::max_tags - 1, 1);
  ASSERT_TRUE(e->wait_all());
  const auto times = e->kernel_times();
  std::int64_t all = 0;
  for (std::size_t tag = 0; tag < times.size(); ++tag) {
    all += times[tag];
    if (tag != 3 && tag != 5 && tag != engine::max_tags - 1) {
      EXPECT_EQ(times[tag], 0) << tag;
    }
  }
  EXPECT_GT(times[3], 3'900'000);
  EXPECT_GT(times[5], 7'900'000);
  EXPECT_GT(times[engine::max_tags - 1], 900'000);
  // The counter behind the times is compared with the clock anew for each sum.
  const auto sum = static_cast<double>(e->counters().kernel_ns);
  EXPECT_NEAR(static_cast<double>(all), sum, sum / 100);
  EXPECT_EQ(e->failures(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Workers, TaskTags, testing::Values(1U, 3U));

}  // namespace
}  // namespace weir::runtime
