// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the predictions of a pulse: their sums, their ids, and that nothing else depends
/// on whether a pulse keeps them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/some_tokens.hpp"
#include "weir/models/prose.hpp"

namespace weir::test {
namespace {

/// A pulse of the plan, over the next tokens of the only lane.
struct predicted_step {
  models::pulse_phase phase = models::pulse_phase::build;
  std::size_t tokens = 0;
  bool lookahead = true;
};

/// A small model with one lane that reads a random text.
class predictor {
 public:
  explicit predictor(unsigned workers) {
    runtime::engine_options options;
    options.workers = workers;
    engine_ = or_throw(runtime::engine::create(options));
    models::prose_config config;
    config.vocab = 61;
    config.width = 48;
    config.hidden = 64;
    config.max_chunk = 200;
    text_ = some_tokens(4096, config.vocab, 7);
    model_ = or_throw(models::prose::create(*engine_, config));
  }
  models::prose& model() { return *model_; }

  models::pulse_result run(const predicted_step& step, bool keeps) {
    const std::uint64_t from = model_->position(0);
    models::prose::lane_input in;
    in.tokens = std::span(text_).subspan(from, step.tokens);
    in.position = from;
    if (step.lookahead) {
      in.lookahead = text_[from + step.tokens];
    }
    models::pulse p;
    p.phase = step.phase;
    p.total_updates = 10;
    p.active_levels = step.phase == models::pulse_phase::build ? 1 : 0;
    p.keeps_predictions = keeps;
    const auto ticket = or_throw(model_->submit(p, {&in, 1}));
    return or_throw(model_->finish(ticket));
  }

 private:
  std::unique_ptr<runtime::engine> engine_;
  std::unique_ptr<models::prose> model_;
  std::vector<std::uint32_t> text_;
};

/// Chunks that begin and end inside of windows, in all phases, with predictions that stay
/// pending.
const std::vector<predicted_step> plan_of_predictions = {
    {models::pulse_phase::build, 64, true},   {models::pulse_phase::test, 100, false},
    {models::pulse_phase::stream, 20, true},  {models::pulse_phase::build, 72, false},
    {models::pulse_phase::stream, 190, true}, {models::pulse_phase::stream, 1, false}};

TEST(predictions, add_up_to_the_loss_and_change_nothing) {
  predictor keeping(2);
  predictor plain(1);
  bool pending = false;
  for (const predicted_step& step : plan_of_predictions) {
    const auto r = keeping.run(step, true);
    const auto without = plain.run(step, false);
    EXPECT_TRUE(without.predictions.empty());
    EXPECT_EQ(r.nats_q32, without.nats_q32);
    EXPECT_EQ(r.gradient_norm, without.gradient_norm);
    ASSERT_EQ(r.predictions.size(), 1U);
    const models::lane_predictions& lane = r.predictions[0];
    ASSERT_EQ(lane.likeliest.size(), step.tokens);
    ASSERT_EQ(lane.nats.size(), step.tokens);
    EXPECT_EQ(lane.pending_nats.has_value(), pending);
    double sum = lane.pending_nats.value_or(0);
    for (std::size_t i = 0; i < step.tokens; ++i) {
      const bool known = i + 1 < step.tokens || step.lookahead;
      EXPECT_EQ(std::isnan(lane.nats[i]), !known) << i;
      sum += known ? static_cast<double>(lane.nats[i]) : 0;
    }
    EXPECT_NEAR(sum, r.nats(), 1e-6 * static_cast<double>(step.tokens));
    pending = !step.lookahead;
  }
  EXPECT_EQ(or_throw(keeping.model().state_hash()), or_throw(plain.model().state_hash()));
}

TEST(predictions, name_the_largest_logit) {
  predictor p(1);
  for (const predicted_step& step : plan_of_predictions) {
    const auto r = p.run({step.phase, step.tokens, false}, true);
    const auto logits = or_throw(p.model().pending_logits(0));
    const auto largest = std::max_element(logits.begin(), logits.end());
    EXPECT_EQ(r.predictions[0].likeliest.back(), largest - logits.begin());
  }
}

TEST(predictions, take_the_lowest_id_among_equals) {
  predictor p(1);
  const std::vector<float> zeros(61 * 48, 0.0F);
  ASSERT_TRUE(p.model().load_parameter("unembedding", std::vector<std::int64_t>{61, 48},
                                       bytes_view(std::as_bytes(std::span(zeros)))));
  const auto r = p.run({models::pulse_phase::stream, 70, true}, true);
  for (std::size_t i = 0; i < 70; ++i) {
    EXPECT_EQ(r.predictions[0].likeliest[i], 0U);
    EXPECT_NEAR(r.predictions[0].nats[i], std::log(61.0), 1e-5);
  }
}

}  // namespace
}  // namespace weir::test
