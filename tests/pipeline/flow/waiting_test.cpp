// SPDX-License-Identifier: Apache-2.0
/// @file
/// A run that cannot go on says who waits for whom.
#include <gtest/gtest.h>

#include "support/number_stages.hpp"
#include "weir/pipeline/host/execution.hpp"
#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::test {
namespace {

/// Makes one item of three.
struct first_of_three {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<first_of_three>& s) {
    s.name("test.first_of_three", "hands on every third item").stateless().rate(3, 1);
    s.port("x", &first_of_three::x, "n").port("y", &first_of_three::y, "n");
  }
  result<void> on_item(step& s) {
    s.forward(x, y);
    return s.emit();
  }
};

TEST(Waiting, StagesThatWaitForEachOtherAreTheOnlyOnesThatAreNamed) {
  durable_items d;
  pipeline p("ring");
  auto source = p.add<number_source>("source", {.count = 20, .seed = 5});
  auto sum = p.add<running_sum>("sum");
  auto third = p.add<first_of_three>("third");
  auto sink = p.add<number_sink>("sink", sink_of(d));
  source >> sum >> third >> sink;
  flow::plan plan = or_throw(p.check());
  auto& edge = plan.source.edges.at(1);
  ASSERT_GE(edge.window_items, 3U) << "the check gives the edge room for three items";
  edge.window_items = 2;
  weir::engine host{runtime::engine_options()};
  const auto run = or_throw(
      flow::execution::create(plan, or_throw(p.take_stages()), host, {}, nullptr));
  const std::uint32_t reader = run->sources().front();
  for (bool worked = true; worked;) {
    worked = false;
    if (flow::blank* b = run->grant(reader); b != nullptr) {
      ASSERT_TRUE(or_throw(flow::call_next(run->stage(reader), "source", *b)));
      or_throw(run->deliver(*b));
      worked = true;
    }
    worked = or_throw(run->turn()) || host.base().run_one() || worked;
  }
  EXPECT_EQ(
      run->waiting(),
      "stages wait for each other: \"sum\" waits for \"third\" to let go of an item; "
      "\"third\" waits for an item of \"sum\"");
}

}  // namespace
}  // namespace weir::test
