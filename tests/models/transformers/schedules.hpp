// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random schedules of a step model, whose logits are compared with those of each
/// sequence alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "layers/kernels/select.hpp"
#include "models/transformers/some_model.hpp"
#include "weir/base/philox.hpp"
#include "weir/models/llama.hpp"
#include "weir/models/step_model.hpp"

namespace weir::test {

using models::context_id;
using models::row_group;
using models::step_model;
using models::step_ticket;

using rows = std::vector<std::vector<float>>;

inline std::unique_ptr<runtime::engine> engine_with(unsigned workers) {
  runtime::engine_options options;
  options.workers = workers;
  return or_throw(runtime::engine::create(options));
}

inline std::vector<float> copy_logits(step_model& model, step_ticket ticket,
                                      std::size_t group) {
  const auto logits = or_throw(model.logits(ticket, group));
  return {logits.begin(), logits.end()};
}

/// Feeds a sequence token by token and returns the logits behind each.
inline rows logits_one_by_one(step_model& model,
                              const std::vector<std::uint32_t>& tokens) {
  rows out;
  const context_id context = or_throw(model.open_context(tokens.size()));
  for (const std::uint32_t token : tokens) {
    const row_group group{context, {&token, 1}, true};
    const step_ticket ticket = or_throw(model.submit({&group, 1}));
    out.push_back(copy_logits(model, ticket, 0));
    or_throw(model.finish(ticket));
  }
  or_throw(model.close_context(context));
  return out;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

/// A sequence and its logits when it was alone.
struct sequence {
  std::vector<std::uint32_t> tokens;
  rows logits;
};

/// Returns sequences of some lengths and their logits, computed one by one with the
/// kernels of the baseline. Those of 64 tokens or more begin with equal tokens, so that
/// they can reuse each other's memory.
inline std::vector<sequence> sequences_alone(const models::llama_config& config,
                                             const some_source& weights,
                                             const std::vector<std::size_t>& lengths) {
  const auto engine = engine_with(1);
  const auto model =
      or_throw(models::make_llama(*engine, config, weights, {"x86-64", 4096, 128}));
  std::vector<sequence> all;
  for (const std::size_t length : lengths) {
    const std::uint64_t seed = length < 64 ? 1000 + all.size() : 1;
    sequence s{some_token_ids(length, config.vocab, seed), {}};
    s.logits = logits_one_by_one(*model, s.tokens);
    all.push_back(std::move(s));
  }
  return all;
}

/// Returns the lengths of 65 sequences: 58 of up to 29 tokens, and 7 of more than a page.
inline std::vector<std::size_t> lengths_of_schedules() {
  std::vector<std::size_t> lengths{64, 65, 100, 127, 128, 130, 290};
  for (std::size_t i = 0; i < 58; ++i) {
    lengths.push_back(1 + i / 2);
  }
  return lengths;
}

/// What random schedules have met.
struct schedule_counts {
  std::uint64_t schedules = 0;
  std::uint64_t compared = 0;     ///< rows of logits that were compared
  std::uint64_t reused = 0;       ///< tokens that a context took from earlier ones
  std::size_t max_sequences = 0;  ///< sequences of the largest step
};

/// One random schedule of a step model: which sequences there are, in which order they
/// arrive, how they are cut into steps, which rows share a step, and how many steps are
/// in flight.
class random_schedule {
 public:
  /// @param max_rows  Rows of the largest step of the model.
  random_schedule(step_model& model, const std::vector<sequence>& pool,
                  std::size_t max_rows, std::uint64_t seed, schedule_counts& counts)
      : model_(model),
        pool_(pool),
        max_rows_(max_rows),
        seed_(seed),
        random_(seed, 1),
        counts_(counts) {}

  /// Feeds a sequence with 0 to 64 others, and expects the bits of each sequence alone.
  void run() {
    const std::size_t largest = draw(2) == 0 ? 8 : pool_.size();
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      waiting_.push_back(i);
    }
    mix(waiting_);
    waiting_.resize(1 + draw(largest));
    while (!waiting_.empty() || !active_.empty()) {
      begin_some();
      feed_some();
      if (in_flight_.size() > draw(3)) {
        finish_oldest();
      }
    }
    while (!in_flight_.empty()) {
      finish_oldest();
    }
    ++counts_.schedules;
  }

 private:
  /// A sequence that has begun.
  struct begun {
    std::size_t number;  ///< in the pool
    std::size_t fed;
    context_id context;
  };
  /// A step that is not finished, and the sequence and token of each of its groups.
  struct pending {
    step_ticket ticket;
    std::vector<row_group> groups;
    std::vector<std::pair<std::size_t, std::size_t>> expected;
  };

  std::size_t draw(std::size_t count) { return random_.below(draws_++, count); }
  template <class T>
  void mix(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[draw(i)]);
    }
  }

  /// Opens the contexts of some sequences that wait.
  void begin_some() {
    std::size_t count = std::min(waiting_.size(), draw(12));
    count =
        active_.empty() && count == 0 ? std::min<std::size_t>(waiting_.size(), 1) : count;
    for (; count > 0; --count) {
      const auto& tokens = pool_[waiting_.back()].tokens;
      begun b{waiting_.back(), 0, or_throw(model_.open_context(tokens.size()))};
      if (draw(2) == 0) {
        b.fed = or_throw(model_.reuse_prefix(b.context, tokens));
        counts_.reused += b.fed;
      }
      active_.push_back(b);
      waiting_.pop_back();
    }
  }

  /// Submits a step with rows of some sequences, and closes those that are complete.
  void feed_some() {
    pending next;
    std::size_t space = max_rows_;
    mix(active_);
    for (begun& b : active_) {
      const std::vector<std::uint32_t>& tokens = pool_[b.number].tokens;
      if (space == 0 || draw(4) == 0) {
        continue;
      }
      // Often one token, sometimes many.
      const std::size_t limit = draw(2) == 0 ? 1 : 40;
      const std::size_t count = 1 + draw(std::min({tokens.size() - b.fed, limit, space}));
      next.groups.push_back({b.context, {tokens.data() + b.fed, count}, draw(3) != 0});
      b.fed += count;
      space -= count;
      next.expected.emplace_back(b.number, b.fed - 1);
    }
    if (next.groups.empty()) {
      return;
    }
    counts_.max_sequences = std::max(counts_.max_sequences, next.groups.size());
    next.ticket = or_throw(model_.submit(next.groups));
    in_flight_.push_back(std::move(next));
    std::erase_if(active_, [&](const begun& b) {
      const bool complete = b.fed == pool_[b.number].tokens.size();
      if (complete) {
        or_throw(model_.close_context(b.context));
      }
      return complete;
    });
  }

  void finish_oldest() {
    const pending& p = in_flight_.front();
    for (std::size_t g = 0; g < p.expected.size(); ++g) {
      if (!p.groups[g].wants_logits) {
        continue;
      }
      const auto& [number, token] = p.expected[g];
      ++counts_.compared;
      EXPECT_TRUE(
          same_bits(copy_logits(model_, p.ticket, g), pool_[number].logits[token]))
          << "seed " << seed_ << " sequence " << number << " token " << token;
    }
    or_throw(model_.finish(p.ticket));
    in_flight_.erase(in_flight_.begin());
  }

  step_model& model_;
  const std::vector<sequence>& pool_;
  std::size_t max_rows_;
  std::uint64_t seed_;
  philox random_;
  std::uint64_t draws_ = 0;
  schedule_counts& counts_;
  std::vector<std::size_t> waiting_;
  std::vector<begun> active_;
  std::vector<pending> in_flight_;
};

/// Runs random schedules with every type of weights, 1 to 4 workers, and every
/// instruction set of this processor. The kernels of the baseline are slow and run a
/// tenth of the schedules of the others.
/// @param cases  Schedules with each type, number of workers and instruction set.
inline schedule_counts run_schedules(std::uint64_t cases, std::uint64_t seed) {
  schedule_counts counts;
  const models::llama_config config = small_llama();
  constexpr std::uint32_t max_rows = 160;
  for (const auto type :
       {models::weight_type::f32, models::weight_type::q8_0, models::weight_type::q4_1}) {
    const some_source weights = llama_weights_of(config, type);
    const auto pool = sequences_alone(config, weights, lengths_of_schedules());
    for (const char* kernels : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
      if (!models::layers::select_layer_kernels(kernels)) {
        continue;
      }
      const bool slow = std::string_view(kernels) == "x86-64";
      for (unsigned workers = 1; workers <= 4; ++workers) {
        SCOPED_TRACE(kernels);
        const auto engine = engine_with(workers);
        const auto model =
            or_throw(make_llama(*engine, config, weights, {kernels, 8192, max_rows}));
        for (std::uint64_t i = 0; i < (slow ? (cases + 9) / 10 : cases); ++i) {
          random_schedule(*model, pool, max_rows, seed++, counts).run();
        }
      }
    }
  }
  return counts;
}

}  // namespace weir::test
