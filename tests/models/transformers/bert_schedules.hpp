// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random batches of an encoder, whose embeddings are compared with those of each text
/// alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "layers/kernels/select.hpp"
#include "models/transformers/some_model.hpp"
#include "weir/base/philox.hpp"
#include "weir/models/bert.hpp"

namespace weir::test {

/// A text as tokens, and its embedding when it was alone.
struct embedded_text {
  std::vector<std::uint32_t> tokens;
  std::vector<float> alone;
};

/// Rows of the largest call.
inline constexpr std::uint32_t rows_of_batches = 1200;

inline std::unique_ptr<runtime::engine> engine_of_workers(unsigned workers) {
  runtime::engine_options options;
  options.workers = workers;
  return or_throw(runtime::engine::create(options));
}

/// Returns 65 texts, each of which was embedded in a call of its own: many short ones,
/// and some of more than a segment of the attention. All of them fit into one call.
inline std::vector<embedded_text> texts_alone(const models::bert_config& config,
                                              const some_source& weights) {
  const auto engine = engine_of_workers(1);
  const auto model = or_throw(models::make_bert(*engine, config, weights));
  std::vector<std::size_t> lengths{64, 65, 128, 257, 300};
  for (std::size_t i = 0; i < 60; ++i) {
    lengths.push_back(1 + i / 6);
  }
  std::vector<embedded_text> all;
  for (const std::size_t length : lengths) {
    embedded_text t{some_token_ids(length, config.vocab, 500 + all.size()), {}};
    const models::token_run run{t.tokens};
    const auto ticket = or_throw(model->submit({&run, 1}));
    const auto row = or_throw(model->rows(ticket));
    t.alone.assign(row.begin(), row.end());
    or_throw(model->finish(ticket));
    all.push_back(std::move(t));
  }
  return all;
}

/// Numbers of what random batches have met.
struct batch_counts {
  std::uint64_t schedules = 0;
  std::uint64_t compared = 0;   ///< embeddings that were compared
  std::size_t largest_run = 0;  ///< texts of the largest call
};

/// Encoders that hold the layers of a model one after another.
using encoder_parts = std::vector<std::unique_ptr<models::encoder>>;

/// Some texts in random order, cut into calls of random size, several of which are under
/// way at a time in one encoder or in the encoders of a division into parts.
class random_batches {
 public:
  random_batches(const std::vector<encoder_parts>& divisions,
                 const std::vector<embedded_text>& pool, std::uint64_t seed,
                 batch_counts& counts)
      : parts_(divisions[philox(seed, 2).below(0, divisions.size())]),
        pool_(pool),
        seed_(seed),
        random_(seed, 3),
        counts_(counts) {}

  /// Embeds 1 to 65 texts, and expects the bits of each text alone.
  void run() {
    std::vector<std::size_t> waiting(pool_.size());
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      waiting[i] = i;
      std::swap(waiting[i], waiting[draw(i + 1)]);
    }
    waiting.resize(1 + draw(draw(2) == 0 ? 8 : pool_.size()));
    while (!waiting.empty()) {
      if (in_flight_.size() == models::encoder::max_in_flight) {
        finish_oldest();
      }
      begin(waiting);
      // Fewer calls than possible are under way now and then.
      while (in_flight_.size() > draw(models::encoder::max_in_flight + 1)) {
        finish_oldest();
      }
    }
    while (!in_flight_.empty()) {
      finish_oldest();
    }
    ++counts_.schedules;
  }

 private:
  /// A call whose last part is not finished, and the numbers of its texts.
  struct pending {
    models::step_ticket ticket;
    std::vector<std::size_t> numbers;
  };

  std::size_t draw(std::size_t count) { return random_.below(draws_++, count); }

  /// Submits a call with some of the texts that wait, part by part.
  void begin(std::vector<std::size_t>& waiting) {
    pending next;
    std::vector<models::token_run> runs;
    std::size_t space = rows_of_batches;
    const std::size_t limit = draw(3) == 0 ? 1 : 1 + draw(pool_.size());
    while (!waiting.empty() && runs.size() < limit &&
           pool_[waiting.back()].tokens.size() <= space) {
      runs.push_back({pool_[waiting.back()].tokens});
      space -= runs.back().tokens.size();
      next.numbers.push_back(waiting.back());
      waiting.pop_back();
    }
    std::vector<float> carried;
    for (std::size_t part = 0; part + 1 < parts_.size(); ++part) {
      const auto ticket = or_throw(parts_[part]->submit(runs, carried));
      const auto found = or_throw(parts_[part]->rows(ticket));
      carried.assign(found.begin(), found.end());
      or_throw(parts_[part]->finish(ticket));
    }
    next.ticket = or_throw(parts_.back()->submit(runs, carried));
    counts_.largest_run = std::max(counts_.largest_run, runs.size());
    in_flight_.push_back(std::move(next));
  }

  void finish_oldest() {
    const pending& call = in_flight_.front();
    const auto found = or_throw(parts_.back()->rows(call.ticket));
    const std::size_t width = parts_.back()->facts().width;
    for (std::size_t i = 0; i < call.numbers.size(); ++i) {
      const auto& alone = pool_[call.numbers[i]].alone;
      ++counts_.compared;
      EXPECT_EQ(
          std::memcmp(found.data() + i * width, alone.data(), width * sizeof(float)), 0)
          << "seed " << seed_ << " text " << call.numbers[i];
    }
    or_throw(parts_.back()->finish(call.ticket));
    in_flight_.pop_front();
  }

  const encoder_parts& parts_;
  const std::vector<embedded_text>& pool_;
  std::uint64_t seed_;
  philox random_;
  std::uint64_t draws_ = 0;
  batch_counts& counts_;
  std::deque<pending> in_flight_;
};

/// Runs random batches with every type of weights, 1 to 4 workers, and every instruction
/// set of this processor. The kernels of the baseline are slow and run a tenth of the
/// schedules of the others.
/// @param cases  Schedules with each type, number of workers and instruction set.
inline batch_counts run_batches(std::uint64_t cases, std::uint64_t seed) {
  batch_counts counts;
  const models::bert_config config = small_bert();
  for (const auto type :
       {models::weight_type::f32, models::weight_type::q8_0, models::weight_type::q4_1}) {
    const some_source weights = bert_weights_of(config, type);
    const auto pool = texts_alone(config, weights);
    for (const char* kernels : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
      if (!models::layers::select_layer_kernels(kernels)) {
        continue;
      }
      const bool slow = std::string_view(kernels) == "x86-64";
      for (unsigned workers = 1; workers <= 4; ++workers) {
        SCOPED_TRACE(kernels);
        const auto engine = engine_of_workers(workers);
        std::vector<encoder_parts> divisions;
        for (const std::uint32_t layers : {config.layers, 1U, 2U}) {
          encoder_parts& parts = divisions.emplace_back();
          for (std::uint32_t first = 0; first < config.layers; first += layers) {
            parts.push_back(or_throw(models::make_bert(
                *engine, config, weights, {kernels, rows_of_batches, first, layers})));
          }
        }
        for (std::uint64_t i = 0; i < (slow ? (cases + 9) / 10 : cases); ++i) {
          random_batches(divisions, pool, seed++, counts).run();
        }
      }
    }
  }
  return counts;
}

}  // namespace weir::test
