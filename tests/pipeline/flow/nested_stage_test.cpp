// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stage alone whose host puts the inputs of a call into another place when it repeats
/// the call.
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

/// A host with eight calls, whose inputs lie one behind the other from a place on.
struct moving_host {
  moving_host() {
    durable_items d;
    pipeline p("alone");
    auto source = p.add<number_source>("source", {.count = 1, .seed = 1});
    auto stage = p.add<picky>("picky");
    stage.failing(flow::failure_policy::skip);
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
  moving_host h;
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

}  // namespace
}  // namespace weir::test
