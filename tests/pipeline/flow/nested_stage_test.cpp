// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stage alone whose host puts the inputs of a call into another place when it repeats
/// the call, and one that fails while tasks of other calls are in flight.
#include <gtest/gtest.h>

#include <array>

#include "support/number_stages.hpp"
#include "weir/pipeline/host/nested_stage.hpp"

namespace weir::test {
namespace {

/// Hands its items on, and refuses those whose first number is a multiple of three.
struct picky {
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<picky>& s) {
    s.name("test.picky", "hands items on").stateless();
    s.port("x", &picky::x, "n").port("y", &picky::y, "n");
  }
  result<void> on_item(step& s) {
    if (s.seq() % 3 == 0) {
      return error(errc::invalid_argument, "a multiple of three");
    }
    s.forward(x, y);
    return s.emit();
  }
};

/// Submits many tasks for an item. Those of the first item fail.
struct many_tasks {
  static constexpr int tasks = 100;
  in<std::uint64_t, 1> x;
  out<std::uint64_t, 1> y;
  static void describe(stage_spec<many_tasks>& s) {
    s.name("test.many_tasks", "submits many tasks for an item").stateless();
    s.port("x", &many_tasks::x, "n").port("y", &many_tasks::y, "n");
  }
  result<void> on_item(step& s) {
    WEIR_TRY(auto to, s.make(y, s[x].extent(0)));
    for (int i = 0; i < tasks; ++i) {
      s.submit(
          "copy",
          [first = s.seq() == 0](auto from, auto out) -> result<void> {
            out[0] = from[0];
            return first ? result<void>(error(errc::corrupt, "planted failure"))
                         : result<void>();
          },
          read(s[x]), write(to));
    }
    return s.emit();
  }
};

/// A host with eight calls, whose inputs lie one behind the other from a place on.
template <class Stage>
struct moving_host {
  explicit moving_host(flow::failure_policy failing) {
    durable_items d;
    pipeline p("alone");
    auto source = p.add<number_source>("source", {.count = 1, .seed = 1});
    auto stage = p.add<Stage>("stage");
    stage.failing(failing);
    auto sink = p.add<number_sink>("sink", sink_of(d));
    source >> stage >> sink;
    const flow::plan plan = or_throw(p.check());
    auto stages = or_throw(p.take_stages());
    alone = or_throw(flow::nested_stage::create(plan.source.stages[1], plan.stages[1],
                                                1 << 20, 1, std::move(stages[1])));
    memory.resize(64);
    whole.base = reinterpret_cast<std::byte*>(memory.data());
    whole.size = static_cast<std::int64_t>(memory.size() * sizeof(std::uint64_t));
  }
  /// Puts the calls from number `first` on to a place, and lets the stage work on them.
  flow::processed_items work(std::uint64_t first, std::size_t place) {
    std::fill(memory.begin(), memory.end(), 999);
    tensors.clear();
    std::vector<flow::call_view> calls;
    for (std::uint64_t seq = first; seq < 8; ++seq) {
      const std::size_t at = place + 2 * (seq - first);
      memory[at] = memory[at + 1] = seq;
      tensors.push_back(or_throw(runtime::tensor::over(
          whole, dtype_of<std::uint64_t>, std::array<std::int64_t, 1>{2},
          static_cast<std::int64_t>(at * sizeof(std::uint64_t)))));
    }
    for (std::uint64_t seq = first; seq < 8; ++seq) {
      flow::call_view& one = calls.emplace_back();
      one.seq = seq;
      one.about = &about;
      one.inputs.push_back(&tensors[seq - first]);
    }
    return alone->work(calls, [&](const flow::made_view& made) -> result<bool> {
      if (!made.skipped) {
        seen.emplace_back(first + made.call, *made.tensors[0]->as<std::uint64_t>());
      }
      return true;
    });
  }
  attributes about;
  std::vector<std::uint64_t> memory;
  std::vector<runtime::tensor> tensors;
  runtime::storage whole;
  std::unique_ptr<flow::nested_stage> alone;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;  ///< numbers and contents
};

TEST(NestedStage, HandsOnWhatItWasGivenAlsoIfItWasMovedSince) {
  moving_host<picky> h(flow::failure_policy::skip);
  for (std::uint64_t next = 0; next < 8;) {
    const auto done = h.work(next, next % 2 == 0 ? 0 : 20);
    next += done.processed;
    if (done.failed) {
      EXPECT_EQ(next % 3, 0U) << done.failed->message();
      ++next;
    }
  }
  ASSERT_EQ(h.seen.size(), 5U);
  for (const auto& [number, content] : h.seen) {
    EXPECT_EQ(content, number);
  }
}

TEST(NestedStage, WaitsForTheTasksOfOtherCallsWhenOneHasFailed) {
  moving_host<many_tasks> h(flow::failure_policy::stop);
  const auto done = h.work(0, 0);
  ASSERT_TRUE(done.failed.has_value());
  EXPECT_EQ(done.processed, 0U);
  EXPECT_EQ(h.alone->host().base().in_flight(), 0U);  // the memory may go now
}

}  // namespace
}  // namespace weir::test
