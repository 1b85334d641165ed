// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests that pulses whose tasks an engine replays give the bits of tasks that run one
/// after another.
#include <gtest/gtest.h>

#include "models/some_tokens.hpp"
#include "prose/graph/graph.hpp"
#include "prose/kernels/select.hpp"
#include "prose/state_regions.hpp"

namespace weir::test {
namespace {

using models::graph;
using models::pulse_phase;

constexpr std::size_t text_size = 4096;

/// Returns a small model with two lanes.
models::prose_config two_lanes() {
  models::prose_config config;
  config.width = 48;
  config.hidden = 64;
  config.vocab = 61;
  config.max_chunk = 256;
  config.warm_up = 4;
  config.lanes = 2;
  return config;
}

/// A pulse of the plan, with the length of the chunk of each lane.
struct plan_step {
  pulse_phase phase;
  std::size_t tokens;
};
/// Returns a plan with pulses of different shapes: levels fire in different pulses, one
/// chunk leaves its window open, and some pulses in between do not learn.
std::vector<plan_step> steps() {
  std::vector<plan_step> out(20, {pulse_phase::build, 64});
  out.push_back({pulse_phase::build, 40});
  out.push_back({pulse_phase::build, 24});
  out.insert(out.end(), 6, {pulse_phase::test, 128});
  out.insert(out.end(), 14, {pulse_phase::build, 64});
  return out;
}

/// Runs the plan on a new model. Returns the digest of its state.
std::uint64_t state_after(models::task_runner runner) {
  const auto config = two_lanes();
  auto g = or_throw(graph<float>::create(std::move(runner), config,
                                         *or_throw(models::select_kernels("auto"))));
  std::vector<models::lane_clock> clocks(config.lanes);
  // Each pulse has its own record, because nothing waits for the tasks of a pulse here.
  const auto plan = steps();
  std::vector<models::pulse_record> records(plan.size());
  std::size_t position = 0;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    std::vector<models::prose::lane_input> inputs(config.lanes);
    static const std::vector<std::uint32_t> texts[] = {
        some_tokens(text_size, config.vocab, 1), some_tokens(text_size, config.vocab, 2)};
    for (std::size_t lane = 0; lane < inputs.size(); ++lane) {
      inputs[lane].position = position;
      inputs[lane].tokens = std::span(texts[lane]).subspan(position, plan[i].tokens);
      inputs[lane].lookahead = texts[lane][position + plan[i].tokens];
    }
    models::pulse p;
    p.id = i;
    p.phase = plan[i].phase;
    p.update = i;
    p.total_updates = plan.size();
    p.active_levels =
        models::active_mask(config.frequencies, position, position + plan[i].tokens);
    models::fill_record(records[i], p, inputs, clocks);
    or_throw(g->submit_pulse(records[i]));
    for (std::size_t lane = 0; lane < clocks.size(); ++lane) {
      clocks[lane] = records[i].lanes[lane].after;
    }
    position += plan[i].tokens;
  }
  or_throw(g->runner().wait_all());
  return models::state_regions(config, g->layout(), g->state()).state_hash();
}

TEST(Replay, LeavesTheBitsOfTasksInTheirOrder) {
  const std::uint64_t expected = state_after(models::task_runner(nullptr));
  for (const unsigned workers : {1U, 2U, 3U}) {
    runtime::engine_options options;
    options.workers = workers;
    const auto engine = or_throw(runtime::engine::create(options));
    EXPECT_EQ(state_after(models::task_runner(engine.get())), expected)
        << workers << " workers";
    const auto counters = engine->counters();
    EXPECT_GT(counters.replayed, counters.submitted / 2)
        << "this test needs runs in which most pulses are replayed";
  }
}

}  // namespace
}  // namespace weir::test
