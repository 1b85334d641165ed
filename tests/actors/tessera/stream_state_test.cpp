// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the logic of a stream actor: order, answers, failures that are reported once,
/// windows, deadlines, and the next stream of a handover.
#include "stream/stream_state.hpp"

#include "devices.hpp"

namespace weir::actors {
namespace {

using test::hand_engine;
using test::launch_of;

constexpr int blocks = 5;

/// A mesh of four devices, and streams over it whose tasks the test runs.
struct stream_state_test : testing::Test {
  std::unique_ptr<stream_state> open(queue_spec spec = {}) {
    spec.name = spec.name.empty() ? "scale" : spec.name;
    spec.mesh = engine->mesh;
    return or_throw(stream_state::make(std::move(spec), [this] { ++rings; }));
  }
  [[nodiscard]] launch_order stage(float factor, float addend) const {
    return launch_of("stage", {x, x, factor, addend}, blocks);
  }
  /// Returns the answer to the only synchronization that waits.
  result<std::uint64_t> answer_of(stream_state& s, std::int64_t now = 0) {
    auto all = s.take_answers(now);
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? error(errc::internal, "no answer") : std::move(all[0].outcome);
  }

  hand_engine engine;
  int rings = 0;
  float* x = engine->memory(blocks);
};

TEST_F(stream_state_test, runs_copies_and_launches_in_their_order) {
  auto s = open();
  auto in = std::make_shared<std::vector<float>>(blocks, 2.0F);
  auto out = std::make_shared<std::vector<float>>(blocks);
  using tessera::copy_kind;
  constexpr std::size_t bytes = blocks * sizeof(float);
  EXPECT_EQ(
      or_throw(s->copy({{x, in->data(), bytes, copy_kind::host_to_device, -1}, in})), 1U);
  EXPECT_TRUE(s->launch(stage(3, 1)).has_value());
  EXPECT_TRUE(s->launch(stage(-1, 10)).has_value());
  EXPECT_TRUE(
      s->copy({{out->data(), x, bytes, copy_kind::device_to_host, 2}, out}).has_value());
  const std::weak_ptr<void> alive = in;
  in.reset();
  EXPECT_FALSE(alive.expired()) << "the copy has not run";
  static_cast<void>(s->synchronize(0));
  EXPECT_TRUE(s->take_answers(0).empty());
  EXPECT_EQ(rings, 0);
  engine.run_all();
  EXPECT_EQ(rings, 1);
  EXPECT_EQ(or_throw(answer_of(*s)), 4U);
  EXPECT_TRUE(alive.expired());
  for (int rank = 0; rank < 4; ++rank) {
    const float r = static_cast<float>(rank + 1);
    EXPECT_EQ(engine->instance(x, rank)[blocks - 1], -(2.0F * 3 + r) + 10 * r);
  }
  EXPECT_EQ((*out)[0], engine->instance(x, 2)[0]);
}

TEST_F(stream_state_test, refuses_a_launch_without_a_kernel) {
  auto s = open();
  const auto refused = s->launch({});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_NE(refused.error().text().find("expected a kernel"), std::string::npos)
      << refused.error().text();
  EXPECT_TRUE(s->launch(stage(1, 1)).has_value());
  static_cast<void>(s->synchronize(0));
  engine.run_all();
  EXPECT_EQ(or_throw(answer_of(*s)), 1U) << "a refused launch is no operation";
}

TEST_F(stream_state_test, waits_for_points_of_other_queues) {
  auto first = open();
  auto second = open();
  float* y = engine->memory(blocks);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(first->launch(stage(1, 1)).has_value());
    or_throw(second->wait(*first->record()));
    EXPECT_TRUE(second->launch(launch_of("stage", {x, y, 2, 0}, blocks)).has_value());
    or_throw(first->wait(*second->record()));
  }
  engine.run_all();
  EXPECT_EQ(engine->instance(y, 3)[0], 2 * 20 * 4);
  // A queue that waits for a point of a failed queue fails too.
  EXPECT_TRUE(first->launch(launch_of("broken", {}, 1)).has_value());
  or_throw(second->wait(*first->record()));
  EXPECT_TRUE(second->launch(launch_of("stage", {x, y, 0, 0}, blocks)).has_value());
  static_cast<void>(second->synchronize(0));
  engine.run_all();
  EXPECT_EQ(answer_of(*second).error().code(), errc::kernel_failed);
  EXPECT_EQ(engine->instance(y, 3)[0], 2 * 20 * 4)
      << "a launch behind a failed point must not run";
}

TEST_F(stream_state_test, reports_the_first_failure_once_with_its_cause) {
  auto s = open();
  EXPECT_TRUE(s->launch(stage(1, 1)).has_value());
  const auto number = or_throw(s->launch(launch_of("broken", {}, 1)));
  EXPECT_TRUE(s->launch(stage(100, 100)).has_value());
  static_cast<void>(s->synchronize(0));
  engine.run_all();
  const auto failed = answer_of(*s);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), errc::kernel_failed);
  EXPECT_NE(failed.error().text().find("operation " + std::to_string(number)),
            std::string::npos)
      << failed.error().text();
  EXPECT_EQ(failed.error().location(), "stream \"scale\"");
  ASSERT_NE(failed.error().cause(), nullptr);
  EXPECT_NE(failed.error().message().find("broken"), std::string::npos);
  EXPECT_EQ(engine->instance(x, 0)[0], 1.0F)
      << "an operation behind the failure must not run";
  EXPECT_TRUE(s->launch(stage(2, 0)).has_value());
  static_cast<void>(s->synchronize(0));
  engine.run_all();
  EXPECT_EQ(or_throw(answer_of(*s)), 4U);
  EXPECT_EQ(engine->instance(x, 0)[0], 2.0F);
}

TEST_F(stream_state_test, refuses_more_than_its_window_and_takes_credit_back_by_itself) {
  queue_spec spec;
  spec.window = 8;
  auto s = open(spec);
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(s->launch(stage(1, 1)).has_value());
  }
  EXPECT_EQ(s->launch(stage(1, 1)).error().code(), errc::out_of_range);
  EXPECT_EQ(s->copy({}).error().code(), errc::out_of_range);
  engine.run_all();
  EXPECT_GT(rings, 0);
  EXPECT_NE(s->describe().find("8 operations enqueued, 8 known to have ended"),
            std::string::npos)
      << s->describe();
  EXPECT_TRUE(s->launch(stage(1, 1)).has_value());
  engine.run_all();
  EXPECT_EQ(engine->instance(x, 0)[0], 9.0F);
}

TEST_F(stream_state_test, is_overdue_once_and_loses_no_failure_by_that) {
  queue_spec spec;
  spec.deadline_ns = 1000;
  auto s = open(spec);
  EXPECT_EQ(s->next_deadline(), std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(s->launch(launch_of("broken", {}, 1)).has_value());
  static_cast<void>(s->synchronize(500));
  EXPECT_EQ(s->next_deadline(), 1500);
  EXPECT_TRUE(s->take_answers(1499).empty());
  EXPECT_EQ(answer_of(*s, 1500).error().code(), errc::timeout);
  EXPECT_TRUE(s->take_answers(5000).empty());
  engine.run_all();
  EXPECT_TRUE(s->take_answers(5000).empty())
      << "the overdue synchronization has been answered already";
  static_cast<void>(s->synchronize(6000));
  engine.run_all();
  EXPECT_EQ(answer_of(*s, 6000).error().code(), errc::kernel_failed);
}

TEST_F(stream_state_test, is_never_overdue_if_its_deadline_exceeds_63_bits) {
  queue_spec spec;
  spec.deadline_ns = std::numeric_limits<std::int64_t>::max();
  auto s = open(spec);
  EXPECT_TRUE(s->launch(stage(1, 1)).has_value());
  static_cast<void>(s->synchronize(500));
  EXPECT_EQ(s->next_deadline(), std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(s->take_answers(1000).empty());
  engine.run_all();
  EXPECT_TRUE(answer_of(*s, 2000));
}

// The first stream ends with work in its queue and with a failure. Its successor must run
// behind that work and must not inherit the failure.
TEST_F(stream_state_test, a_successor_begins_behind_and_without_old_failures) {
  queue_spec spec;
  spec.handover = std::make_shared<tessera::event>();
  auto s = open(spec);
  float* y = engine->memory(blocks);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(s->launch(stage(1, 1)).has_value());
  }
  EXPECT_TRUE(s->launch(launch_of("broken", {}, 1)).has_value());
  s = nullptr;
  s = open(spec);
  EXPECT_TRUE(s->launch(launch_of("stage", {x, y, 1, 0}, blocks)).has_value());
  static_cast<void>(s->synchronize(0));
  engine.run_all();
  EXPECT_TRUE(answer_of(*s).has_value());
  EXPECT_EQ(engine->instance(y, 1)[0], 20.0F)
      << "all ten launches of the other stream come first";
}

TEST_F(stream_state_test, names_the_fault_of_orders_and_specs) {
  auto s = open();
  EXPECT_EQ(s->launch(launch_of("stage", {x, x, 1, 1}, 0)).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(s->copy({{x, nullptr, 4, tessera::copy_kind::host_to_device, -1}, nullptr})
                .error()
                .code(),
            errc::invalid_argument);
  EXPECT_EQ(stream_state::make({}, {}).error().code(), errc::invalid_argument);
  queue_spec spec;
  spec.mesh = engine->mesh;
  spec.options.rank = 4;
  EXPECT_EQ(stream_state::make(spec, {}).error().code(), errc::invalid_argument);
  spec.options.rank = 3;
  spec.window = 0;
  EXPECT_EQ(stream_state::make(spec, {}).error().code(), errc::invalid_argument);
}

}  // namespace
}  // namespace weir::actors
