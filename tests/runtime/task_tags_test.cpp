// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the times inside kernels by the tags of tasks.
#include <gtest/gtest.h>

#include "runtime/tensors.hpp"
#include "weir/base/clock.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::runtime {
namespace {

using namespace weir::test;

class TaskTags : public testing::TestWithParam<unsigned> {};

TEST_P(TaskTags, CountTimeInsideKernelsAlsoInReplays) {
  engine_options options;
  options.workers = GetParam();
  const auto e = or_throw(engine::create(options));
  const storage s = or_throw(e->allocate(8, "test"));
  const auto busy = [&](std::uint16_t tag, int ms) {
    e->tag_tasks(tag);
    submit(*e, "busy", {updates(bytes_of(s))}, [ms](const task_context&) {
      const std::int64_t end = now_ns() + std::int64_t{ms} * 1'000'000;
      while (now_ns() < end) {
      }
    });
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
  EXPECT_EQ(all, e->counters().kernel_ns);
  EXPECT_EQ(e->failures(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Workers, TaskTags, testing::Values(1U, 3U));

}  // namespace
}  // namespace weir::runtime
