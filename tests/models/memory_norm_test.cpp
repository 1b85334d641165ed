// SPDX-License-Identifier: Apache-2.0
/// @file
/// The norm of a memory has a bound that holds for every text, gate and key.
/// @source{docs/decisions/414-context-memory-update-is-bounded.md}
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/some_tokens.hpp"
#include "prose/kernels/select.hpp"
#include "weir/base/philox.hpp"
#include "weir/models/prose.hpp"

namespace weir::test {
namespace {

using namespace models;

/// Bound of the norm of a memory, as a multiple of the largest norm of a value:
/// keep / sqrt(1 - keep^2) for the largest keep of a firing.
constexpr double max_keep = 1 - 0x1p-10;
const double bound_per_value = max_keep / std::sqrt(1 - max_keep * max_keep);

/// One level of one head without a model around it, so that a test can choose its keys,
/// values and gates.
class lone_memory {
 public:
  explicit lone_memory(int frequency) {
    h_.frequency = frequency;
    h_.raw_query = zeros(rows);
    h_.raw_stride = head_width;
    h_.gates = gates_ = zeros(2 * window_rows);
    h_.key = key_ = zeros(rows);
    h_.key_t = key_t_ = zeros(rows);
    h_.value = value_ = zeros(rows);
    h_.key_key = key_key_ = zeros(scores);
    for (float** out :
         {&h_.query, &h_.key_memory, &h_.query_memory, &h_.error, &h_.out}) {
      *out = zeros(rows);
    }
    for (float** out :
         {&h_.memory, &h_.accumulator, &h_.memory_before, &h_.memory_after}) {
      *out = zeros(head_width * head_width);
    }
    for (float** out : {&h_.open_theta, &h_.open_keep, &h_.query_inverse, &h_.theta,
                        &h_.theta_slope, &h_.keep}) {
      *out = zeros(window_rows);
    }
    h_.before = zeros(table_rows);
    h_.query_key = zeros(scores);
    h_.table = zeros(table_rows * window_rows);
    h_.states = zeros(8 * head_width * head_width);
    h_.out_stride = head_width;
  }
  /// Runs a window of 64 tokens. `key(t, c)` and `value(t, c)` return element c of row t;
  /// keys may have any length except 0.
  template <class Key, class Value>
  void window(float theta, float alpha, const Key& key, const Value& value) {
    std::fill_n(gates_, window_rows, theta);
    std::fill_n(gates_ + window_rows, window_rows, alpha);
    for (int t = 0; t < window_rows; ++t) {
      double squares = 0;
      for (int c = 0; c < head_width; ++c) {
        squares += std::pow(key(t, c), 2);
      }
      for (int c = 0; c < head_width; ++c) {
        key_[t * head_width + c] = static_cast<float>(key(t, c) / std::sqrt(squares));
        key_t_[c * window_rows + t] = key_[t * head_width + c];
        value_[t * head_width + c] = static_cast<float>(value(t, c));
      }
    }
    for (int t = 0; t < window_rows; ++t) {
      for (int i = 0; i < window_rows; ++i) {
        key_key_[t * window_rows + i] =
            i > t ? 0.0F
                  : std::inner_product(key_ + t * head_width, key_ + (t + 1) * head_width,
                                       key_ + i * head_width, 0.0F);
      }
    }
    h_.fires_at_end = ++windows_ * window_rows % h_.frequency == 0;
    or_throw(select_kernels("auto"))->memory_forward(h_);
  }
  /// Returns the norm of the memory.
  [[nodiscard]] double norm() const {
    double squares = 0;
    for (int i = 0; i < head_width * head_width; ++i) {
      squares += std::pow(static_cast<double>(h_.memory[i]), 2);
    }
    return std::sqrt(squares);
  }

 private:
  static constexpr std::size_t rows = window_rows * head_width;
  static constexpr std::size_t scores = window_rows * window_rows;
  float* zeros(std::size_t count) { return arrays_.emplace_back(count, 0.0F).data(); }

  std::vector<std::vector<float>> arrays_;
  memory_head<float> h_;
  float* gates_;
  float* key_;
  float* key_t_;
  float* value_;
  float* key_key_;
  int windows_ = 0;
};

/// Absolute value of each element of a value with norm 1: 1 / sqrt(32).
constexpr double unit_element = 0.17677669529663688;

TEST(MemoryNorm, HasItsBoundForEveryKeyRateAndDecay) {
  const philox random(7, 1);
  const auto normal = [&](int w, int t, int c) {
    return static_cast<double>(random.normal(
        static_cast<std::uint64_t>((w * window_rows + t) * head_width + c)));
  };
  const auto repeated = [](int, int, int c) { return c == 3 ? 1.0 : 0.5; };
  const auto turning = [](int w, int t, int c) {
    const double angle = 0.01 * (w * window_rows + t);
    return c == 0 ? std::cos(angle) : c == 1 ? std::sin(angle) : 0.0;
  };
  const auto fixed = [](int, int) { return unit_element; };
  const auto alternating = [](int t, int) {
    return t % 2 == 0 ? unit_element : -unit_element;
  };
  for (const int frequency : {1, 2, 4, 8, 16, 32, 64, 512}) {
    for (const float theta : {-1e4F, 0.0F, 2.0F, 1e4F}) {
      for (const float alpha : {-1e4F, -4.0F, 0.0F, 1e4F}) {
        lone_memory same(frequency);
        lone_memory opposed(frequency);
        lone_memory any(frequency);
        lone_memory turns(frequency);
        for (int w = 0; w < 24; ++w) {
          const auto in_window = [w](const auto& key) {
            return [w, &key](int t, int c) { return key(w, t, c); };
          };
          same.window(theta, alpha, in_window(repeated), fixed);
          opposed.window(theta, alpha, in_window(repeated), alternating);
          any.window(theta, alpha, in_window(normal), alternating);
          turns.window(theta, alpha, in_window(turning), fixed);
          ASSERT_LE(same.norm(), 1.0001)
              << "a memory of one key lies between zero and its value; frequency "
              << frequency << ", theta " << theta << ", alpha " << alpha << ", window "
              << w;
          for (const lone_memory* m : {&opposed, &any, &turns}) {
            ASSERT_LE(m->norm(), bound_per_value)
                << "frequency " << frequency << ", theta " << theta << ", alpha " << alpha
                << ", window " << w;
          }
        }
      }
    }
  }
}

TEST(MemoryNorm, AMemoryLearnsTheValueOfAKeyThatRepeats) {
  lone_memory m(1);
  m.window(
      0, -1e4F, [](int, int c) { return c == 3 ? 1.0 : 0.0; },
      [](int, int) { return unit_element; });
  EXPECT_NEAR(m.norm(), 1, 2e-3)
      << "a closed decay gate loses at most 1/1024 of the memory";
}

/// A small model whose gates are all moved to one place by their biases, and the bound of
/// its memories.
class gated_model {
 public:
  gated_model(float theta, float alpha) {
    runtime::engine_options options;
    options.workers = 1;
    engine_ = or_throw(runtime::engine::create(options));
    prose_config config;
    config.width = 16;
    config.hidden = 16;
    config.blocks = 1;
    config.heads = 1;
    config.max_chunk = 512;
    config.warm_up = 4;
    model_ = or_throw(prose::create(*engine_, config));
    for (std::size_t level = 0; level < config.frequencies.size(); ++level) {
      const auto bias = or_throw(
          model_->parameter("block0.level" + std::to_string(level) + ".gate_bias"));
      bias.as<float>()[0] += theta;
      bias.as<float>()[1] += alpha;
    }
  }
  /// Runs one chunk; `next` is the token behind it. Returns false if the pulse failed,
  /// which a number that is not finite causes.
  bool feed(pulse_phase phase, std::span<const std::uint32_t> tokens,
            std::uint32_t next) {
    prose::lane_input in;
    in.tokens = tokens;
    in.lookahead = next;
    in.position = model_->position(0);
    pulse p;
    p.id = p.update = pulses_++;
    p.phase = phase;
    p.total_updates = 1000;
    p.active_levels = active_mask(model_->config().frequencies, in.position,
                                  in.position + tokens.size());
    const auto ticket = or_throw(model_->submit(p, {&in, 1}));
    return model_->finish(ticket).has_value();
  }
  /// Empties the memories.
  void forget() { or_throw(model_->reset_context(0)); }
  /// Returns the memory with the largest norm.
  memory_norm largest() { return or_throw(model_->largest_memory()); }
  /// Computes the bound of the norms from the parameters. A value is the product of a
  /// matrix and a row of the convolution, which is a sum of four rows of norm sqrt(width)
  /// times gains and taps.
  double bound() {
    const auto conv = or_throw(model_->parameter("block0.conv"));
    const auto gain = or_throw(model_->parameter("block0.gain1"));
    const auto value = or_throw(model_->parameter("block0.value"));
    const std::int64_t width = gain.count();
    double reach = 0;
    for (int tap = 0; tap < conv_taps; ++tap) {
      double largest = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        largest = std::max(
            largest, static_cast<double>(std::abs(conv.as<float>()[tap * width + i] *
                                                  gain.as<float>()[i])));
      }
      reach += largest * std::sqrt(static_cast<double>(width));
    }
    double squares = 0;
    for (std::int64_t i = 0; i < value.count(); ++i) {
      squares += std::pow(static_cast<double>(value.as<float>()[i]), 2);
    }
    return bound_per_value * reach * std::sqrt(squares);
  }

 private:
  std::unique_ptr<runtime::engine> engine_;
  std::unique_ptr<prose> model_;
  std::uint64_t pulses_ = 0;
};

TEST(MemoryNorm, HasABoundForLongRunsOfEveryByteWithOpenGates) {
  gated_model m(20, -20);  // the largest steps and the least forgetting
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::vector<std::uint32_t> run(512, byte);
    m.forget();
    for (int pulse = 0; pulse < 8; ++pulse) {
      ASSERT_TRUE(m.feed(pulse_phase::stream, run, byte)) << "byte " << byte;
    }
    EXPECT_LE(m.largest().norm, m.bound()) << "byte " << byte;
    EXPECT_GT(m.largest().norm, 0) << "byte " << byte;
  }
}

TEST(MemoryNorm, HasABoundInEveryPhaseForEveryPlaceOfTheGates) {
  const std::vector<std::uint32_t> noise = some_tokens(8192 + 1, 256, 3);
  const std::vector<std::uint32_t> run(8192 + 1, ' ');
  for (const float theta : {-20.0F, 0.0F, 4.0F, 1e4F}) {
    for (const float alpha : {-1e4F, 0.0F, 20.0F}) {
      for (const pulse_phase phase :
           {pulse_phase::build, pulse_phase::test, pulse_phase::stream}) {
        for (const auto* text : {&noise, &run}) {
          gated_model m(theta, alpha);
          for (std::size_t i = 0; i + 1 < text->size(); i += 256) {
            ASSERT_TRUE(m.feed(phase, std::span(*text).subspan(i, 256), (*text)[i + 256]))
                << name_of(phase) << ", theta " << theta << ", alpha " << alpha
                << ", token " << i;
          }
          EXPECT_LE(m.largest().norm, m.bound())
              << name_of(phase) << ", theta " << theta << ", alpha " << alpha;
        }
      }
    }
  }
}

}  // namespace
}  // namespace weir::test
