// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the prose model as a step model: equal bits for every schedule, and refusals.
#include "weir/models/prose_contexts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "support/case_count.hpp"
#include "weir/base/philox.hpp"

namespace weir::models {
namespace {

using bytes_of_text = std::vector<std::uint32_t>;

prose_config config_with_lanes(std::uint32_t lanes) {
  prose_config c;
  c.width = 64;
  c.heads = 1;
  c.hidden = 64;
  c.blocks = 1;
  c.lanes = lanes;
  c.max_chunk = 32;
  c.seed = 5;
  return c;
}

/// A prose model, its engine and its face.
struct speaking_model {
  explicit speaking_model(std::uint32_t lanes, unsigned workers = 1) {
    runtime::engine_options options;
    options.workers = workers;
    engine = or_throw(runtime::engine::create(options));
    model = or_throw(prose::create(*engine, config_with_lanes(lanes)));
    steps = make_prose_contexts(*model);
  }
  std::unique_ptr<runtime::engine> engine;
  std::unique_ptr<prose> model;
  std::unique_ptr<prose_contexts> steps;
};

bytes_of_text some_bytes(std::size_t count, std::uint64_t seed) {
  const philox random(seed, 80);
  bytes_of_text out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::uint32_t>(random.below(i, 256));
  }
  return out;
}

std::vector<float> logits_behind(step_model& model, std::vector<row_group> groups,
                                 std::size_t group = 0) {
  const step_ticket ticket = or_throw(model.submit(groups));
  const auto found = or_throw(model.logits(ticket, group));
  std::vector<float> copy(found.begin(), found.end());
  or_throw(model.finish(ticket));
  return copy;
}

bool equal_logits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

TEST(ProseContexts, LogitsAreThoseOfTheModelItself) {
  const bytes_of_text text = some_bytes(100, 1);
  speaking_model steps(1);
  const context_id context = or_throw(steps.steps->open_context(100));
  const auto found = logits_behind(*steps.steps, {{context, text, true}});
  speaking_model plain(1);
  for (std::size_t at = 0; at < text.size(); at += 32) {
    const std::size_t count = std::min<std::size_t>(32, text.size() - at);
    const prose::lane_input input{std::span(text).subspan(at, count), std::nullopt, at};
    pulse p;
    p.phase = pulse_phase::stream;
    or_throw(plain.model->finish(or_throw(plain.model->submit(p, {&input, 1}))));
  }
  EXPECT_TRUE(equal_logits(found, or_throw(plain.model->pending_logits(0))));
  EXPECT_EQ(or_throw(steps.steps->tokens_in(context)), text.size());
}

/// Returns the logits behind each token of a text that is alone.
std::vector<std::vector<float>> logits_alone(const bytes_of_text& text) {
  speaking_model m(1);
  const context_id context = or_throw(m.steps->open_context(text.size()));
  std::vector<std::vector<float>> out;
  for (const std::uint32_t& token : text) {
    out.push_back(logits_behind(*m.steps, {{context, {&token, 1}, true}}));
  }
  return out;
}

TEST(ProseContexts, BitsDoNotDependOnOtherContextsStepsOrWorkers) {
  std::vector<bytes_of_text> texts;
  std::vector<std::vector<std::vector<float>>> alone;
  for (const std::size_t length : {1U, 40U, 63U, 130U}) {
    texts.push_back(some_bytes(length, length));
    alone.push_back(logits_alone(texts.back()));
  }
  for (const unsigned workers : {1U, 3U}) {
    speaking_model m(4, workers);
    for (std::uint64_t seed = 0; seed < test::case_count("WEIR_PROSE_CASES", 12);
         ++seed) {
      const philox random(seed, 9);
      std::uint64_t draw = 0;
      std::vector<context_id> contexts;
      std::vector<std::size_t> fed(texts.size());
      for (const bytes_of_text& text : texts) {
        contexts.push_back(or_throw(m.steps->open_context(text.size())));
      }
      std::vector<
          std::pair<step_ticket, std::vector<std::pair<std::size_t, std::size_t>>>>
          open;
      const auto compare_oldest = [&] {
        const auto& [ticket, expected] = open.front();
        for (std::size_t g = 0; g < expected.size(); ++g) {
          const auto logits = or_throw(m.steps->logits(ticket, g));
          EXPECT_TRUE(equal_logits({logits.begin(), logits.end()},
                                   alone[expected[g].first][expected[g].second]))
              << "seed " << seed << " text " << expected[g].first << " token "
              << expected[g].second;
        }
        or_throw(m.steps->finish(ticket));
        open.erase(open.begin());
      };
      while (fed != std::vector<std::size_t>{1, 40, 63, 130}) {
        std::vector<row_group> groups;
        std::vector<std::pair<std::size_t, std::size_t>> expected;
        for (std::size_t i = 0; i < texts.size(); ++i) {
          const std::size_t left = texts[i].size() - fed[i];
          if (left > 0 && random.below(draw++, 3) != 0) {
            const std::size_t count = 1 + random.below(draw++, left);
            groups.push_back(
                {contexts[i], std::span(texts[i]).subspan(fed[i], count), true});
            fed[i] += count;
            expected.emplace_back(i, fed[i] - 1);
          }
        }
        if (!groups.empty()) {
          open.emplace_back(or_throw(m.steps->submit(groups)), expected);
        }
        if (open.size() > random.below(draw++, 3)) {
          compare_oldest();
        }
      }
      while (!open.empty()) {
        compare_oldest();
      }
      for (const context_id context : contexts) {
        or_throw(m.steps->close_context(context));
      }
    }
  }
}

TEST(ProseContexts, ForksComputeTheirTokensAgain) {
  const bytes_of_text text = some_bytes(120, 3);
  const auto expected = logits_alone(text);
  speaking_model m(3);
  const context_id source = or_throw(m.steps->open_context(120));
  EXPECT_EQ(or_throw(m.steps->reuse_prefix(source, text)), 0U);
  logits_behind(*m.steps, {{source, std::span(text).first(90), true}});
  for (const std::size_t at : {0U, 33U, 64U, 90U}) {
    const context_id fork = or_throw(m.steps->fork_context(source, at));
    EXPECT_EQ(or_throw(m.steps->tokens_in(fork)), at);
    EXPECT_TRUE(equal_logits(
        logits_behind(*m.steps, {{fork, std::span(text).subspan(at, 20), true}}),
        expected[at + 19]));
    or_throw(m.steps->close_context(fork));
  }
  EXPECT_EQ(m.steps->fork_context(source, 91).error().code(), errc::invalid_argument);
  EXPECT_TRUE(
      equal_logits(logits_behind(*m.steps, {{source, std::span(text).subspan(90), true}}),
                   expected[119]));
}

TEST(ProseContexts, ALaneIsContinuedAsItIs) {
  const bytes_of_text text = some_bytes(80, 4);
  const auto expected = logits_alone(text);
  speaking_model m(2);
  const context_id first = or_throw(m.steps->open_context(80));
  logits_behind(*m.steps, {{first, std::span(text).first(50), true}});
  EXPECT_EQ(m.steps->continue_lane(0).error().code(), errc::lane_mismatch);
  or_throw(m.steps->close_context(first));
  const context_id again = or_throw(m.steps->continue_lane(0));
  EXPECT_TRUE(
      equal_logits(logits_behind(*m.steps, {{again, std::span(text).subspan(50), true}}),
                   expected[79]));
  EXPECT_EQ(or_throw(m.steps->tokens_in(again)), 30U);
  EXPECT_EQ(m.steps->fork_context(again, 1).error().code(), errc::invalid_argument);
  EXPECT_EQ(m.steps->continue_lane(2).error().code(), errc::lane_mismatch);
}

TEST(ProseContexts, ARefusedForkLeavesNoContextOpen) {
  speaking_model m(2);
  const bytes_of_text text = some_bytes(8, 7);
  const context_id source = or_throw(m.steps->open_context(8));
  std::vector<step_ticket> tickets;
  for (std::uint32_t i = 0; i < step_model::max_in_flight; ++i) {
    const row_group group{source, std::span(text).subspan(i, 1), false};
    tickets.push_back(or_throw(m.steps->submit({&group, 1})));
  }
  const auto refused = m.steps->fork_context(source, 4);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  EXPECT_TRUE(m.steps->open_context(8)) << "the lane of the fork is free";
  for (const step_ticket ticket : tickets) {
    EXPECT_TRUE(m.steps->finish(ticket));
  }
}

/// Submits tasks that fail in place of writing the memory of a lane.
void fail_writes_of_lane(speaking_model& m, std::uint32_t lane) {
  for (const named_region& region : m.model->regions()) {
    if (region.kind == region_kind::context && region.lane == lane) {
      const runtime::access one = runtime::writes(region.data);
      or_throw(m.engine->submit("planted", {&one, 1},
                                [](const runtime::task_context&) -> result<void> {
                                  return error(errc::corrupt, "a planted failure");
                                }));
    }
  }
}

TEST(ProseContexts, AFailedStepEndsAllItsPulsesAndBreaksItsContextsAlone) {
  const bytes_of_text text = some_bytes(320, 8);
  const std::span<const std::uint32_t> all(text);
  const auto expected = logits_alone({text.begin(), text.begin() + 100});
  speaking_model m(2);
  const context_id good = or_throw(m.steps->open_context(100));
  for (std::size_t round = 0; round < 8; ++round) {
    const context_id bad = or_throw(m.steps->open_context(1000));
    fail_writes_of_lane(m, 1);
    // Four pulses, or ten, of which the last ones are not submitted any more.
    const bool in_flight = round % 2 == 0;
    const row_group group{bad, all.first(in_flight ? 100 : 320), round % 4 == 0};
    const auto ticket = m.steps->submit({&group, 1});
    EXPECT_EQ(ticket.has_value(), in_flight);
    if (ticket && group.wants_logits) {
      EXPECT_FALSE(m.steps->logits(*ticket, 0));
    }
    if (ticket) {
      EXPECT_FALSE(m.steps->finish(*ticket));
    }
    const row_group next{bad, all.first(1), false};
    const auto refused = m.steps->submit({&next, 1});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::upstream_failed);
    // The other context and the lane itself can be used.
    EXPECT_TRUE(
        equal_logits(logits_behind(*m.steps, {{good, all.subspan(10 * round, 10), true}}),
                     expected[10 * round + 9]));
    or_throw(m.steps->close_context(bad));
    EXPECT_EQ(m.steps->continue_lane(1).error().code(), errc::upstream_failed);
    const context_id again = or_throw(m.steps->open_context(100));
    EXPECT_TRUE(equal_logits(logits_behind(*m.steps, {{again, all.first(100), true}}),
                             expected[99]));
    or_throw(m.steps->close_context(again));
  }
}

TEST(ProseContexts, AContextWithAFailedStepIsForkedFromItsTokens) {
  const bytes_of_text text = some_bytes(70, 9);
  const std::span<const std::uint32_t> all(text);
  const auto expected = logits_alone(text);
  speaking_model m(2);
  const context_id bad = or_throw(m.steps->open_context(100));
  fail_writes_of_lane(m, 0);
  const row_group group{bad, all.first(40), false};
  EXPECT_FALSE(m.steps->finish(or_throw(m.steps->submit({&group, 1}))));
  const context_id fork = or_throw(m.steps->fork_context(bad, 40));
  EXPECT_TRUE(equal_logits(logits_behind(*m.steps, {{fork, all.subspan(40), true}}),
                           expected[69]));
}

TEST(ProseContexts, StepsThatDoNotFitAreRefused) {
  speaking_model m(2);
  const context_id context = or_throw(m.steps->open_context(10));
  or_throw(m.steps->open_context(10));
  EXPECT_EQ(m.steps->open_context(10).error().code(), errc::out_of_memory);
  EXPECT_EQ(m.steps->open_context(0).error().code(), errc::invalid_argument);
  const bytes_of_text text = some_bytes(11, 6);
  const std::uint32_t unknown = 256;
  const auto code = [&](std::vector<row_group> groups) {
    const auto ticket = m.steps->submit(groups);
    return ticket ? errc::internal : ticket.error().code();
  };
  EXPECT_EQ(code({}), errc::invalid_argument);
  EXPECT_EQ(code({{context, {}, true}}), errc::invalid_argument);
  EXPECT_EQ(code({{context, text, true}}), errc::invalid_argument);
  EXPECT_EQ(code({{context, {&unknown, 1}, true}}), errc::invalid_argument);
  EXPECT_EQ(code({{context_id{77}, std::span(text).first(1), true}}), errc::not_found);
  EXPECT_EQ(code({{context, std::span(text).first(1), true},
                  {context, std::span(text).first(1), true}}),
            errc::invalid_argument);
  for (std::uint32_t i = 0; i < step_model::max_in_flight; ++i) {
    EXPECT_EQ(code({{context, std::span(text).subspan(i, 1), false}}), errc::internal);
  }
  EXPECT_EQ(code({{context, std::span(text).first(1), false}}), errc::invalid_argument);
  EXPECT_EQ(m.steps->logits({1}, 0).error().code(), errc::not_found);
  EXPECT_TRUE(m.steps->finish({1}));
  EXPECT_EQ(m.steps->finish({1}).error().code(), errc::not_found);
}

}  // namespace
}  // namespace weir::models
