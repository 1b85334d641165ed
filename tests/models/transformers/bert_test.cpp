// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests BERT models with random weights: values against a plain evaluation, and equal
/// bits for every batch, number of workers, instruction set and division into parts.
#include "weir/models/bert.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "layers/kernels/select.hpp"
#include "models/transformers/bert_schedules.hpp"
#include "models/transformers/plain_models.hpp"
#include "models/transformers/some_model.hpp"
#include "support/case_count.hpp"

namespace weir::models {
namespace {

using test::bert_weights_of;
using test::plain_row;
using test::plain_rows;
using test::release_last;
using test::small_bert;
using test::some_source;
using test::some_token_ids;

plain_row plain_layer_norm(const some_source& s, const std::string& name,
                           const plain_row& row, double epsilon) {
  double mean = 0;
  for (const double x : row) {
    mean += x / static_cast<double>(row.size());
  }
  double variance = 0;
  for (const double x : row) {
    variance += (x - mean) * (x - mean) / static_cast<double>(row.size());
  }
  plain_row out(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    out[i] = (row[i] - mean) / std::sqrt(variance + epsilon) *
                 static_cast<double>(s.elements(name + ".weight")[i]) +
             static_cast<double>(s.elements(name + ".bias")[i]);
  }
  return out;
}

plain_row plain_dense(const some_source& s, const std::string& name,
                      const plain_row& row) {
  plain_row out = test::plain_product(s.values(name + ".weight"), row);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] += static_cast<double>(s.elements(name + ".bias")[i]);
  }
  return out;
}

plain_row plain_sum(const plain_row& a, const plain_row& b) {
  plain_row out(a);
  for (std::size_t i = 0; i < a.size(); ++i) {
    out[i] += b[i];
  }
  return out;
}

/// Computes one layer for all rows.
void plain_bert_layer(const bert_config& c, const some_source& s, const std::string& p,
                      plain_rows& x) {
  const std::size_t d = c.width / c.heads;
  plain_rows q;
  plain_rows k;
  plain_rows v;
  for (const plain_row& row : x) {
    q.push_back(plain_dense(s, p + "attention.self.query", row));
    k.push_back(plain_dense(s, p + "attention.self.key", row));
    v.push_back(plain_dense(s, p + "attention.self.value", row));
  }
  for (std::size_t t = 0; t < x.size(); ++t) {
    plain_row read;
    for (std::size_t h = 0; h < c.heads; ++h) {
      std::vector<const double*> keys;
      std::vector<const double*> values;
      for (std::size_t i = 0; i < x.size(); ++i) {
        keys.push_back(k[i].data() + h * d);
        values.push_back(v[i].data() + h * d);
      }
      const plain_row head = test::plain_head(q[t].data() + h * d, keys, values, d);
      read.insert(read.end(), head.begin(), head.end());
    }
    const plain_row attended = plain_dense(s, p + "attention.output.dense", read);
    x[t] = plain_layer_norm(s, p + "attention.output.LayerNorm",
                            plain_sum(attended, x[t]), c.epsilon);
    plain_row inner = plain_dense(s, p + "intermediate.dense", x[t]);
    for (double& value : inner) {
      value = value / 2 * (1 + std::erf(value / std::sqrt(2.0)));
    }
    const plain_row outer = plain_dense(s, p + "output.dense", inner);
    x[t] = plain_layer_norm(s, p + "output.LayerNorm", plain_sum(outer, x[t]), c.epsilon);
  }
}

plain_row plain_bert(const bert_config& c, const some_source& s,
                     const std::vector<std::uint32_t>& tokens) {
  plain_rows x;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    plain_row row(c.width);
    for (std::size_t i = 0; i < c.width; ++i) {
      row[i] =
          static_cast<double>(
              s.values("embeddings.word_embeddings.weight")[tokens[t] * c.width + i]) +
          static_cast<double>(
              s.values("embeddings.position_embeddings.weight")[t * c.width + i]) +
          static_cast<double>(s.values("embeddings.token_type_embeddings.weight")[i]);
    }
    x.push_back(plain_layer_norm(s, "embeddings.LayerNorm", row, c.epsilon));
  }
  for (std::uint32_t l = 0; l < c.layers; ++l) {
    plain_bert_layer(c, s, "encoder.layer." + std::to_string(l) + ".", x);
  }
  plain_row mean(c.width);
  double squares = 0;
  for (std::size_t i = 0; i < c.width; ++i) {
    for (const plain_row& row : x) {
      mean[i] += row[i] / static_cast<double>(x.size());
    }
    squares += mean[i] * mean[i];
  }
  for (double& value : mean) {
    value /= std::sqrt(squares);
  }
  return mean;
}

std::unique_ptr<runtime::engine> bert_engine(unsigned workers) {
  runtime::engine_options options;
  options.workers = workers;
  return or_throw(runtime::engine::create(options));
}

/// Returns the rows of some runs.
std::vector<float> encode_all(encoder& model, const std::vector<token_run>& runs,
                              const std::vector<float>& rows = {}) {
  const step_ticket ticket = or_throw(model.submit(runs, rows));
  const auto out = or_throw(model.rows(ticket));
  std::vector<float> copy(out.begin(), out.end());
  or_throw(model.finish(ticket));
  return copy;
}

bool equal_vectors(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

/// Sequences of tokens and runs that refer to them.
struct texts {
  std::vector<std::vector<std::uint32_t>> tokens;
  std::vector<token_run> runs;
};

texts some_texts(const bert_config& config) {
  texts t;
  for (const std::size_t length : {1U, 7U, 64U, 65U, 270U, 12U}) {
    t.tokens.push_back(some_token_ids(length, config.vocab, length));
  }
  for (const auto& tokens : t.tokens) {
    t.runs.push_back({tokens});
  }
  return t;
}

TEST(Bert, EmbeddingsAreThoseOfAPlainEvaluation) {
  const bert_config config = small_bert();
  for (const weight_type type :
       {weight_type::f32, weight_type::q8_0, weight_type::q4_1}) {
    const some_source weights = bert_weights_of(config, type);
    const auto engine = bert_engine(1);
    const auto model = or_throw(make_bert(*engine, config, weights));
    for (const std::size_t length : {1U, 5U, 70U}) {
      const auto tokens = some_token_ids(length, config.vocab, length);
      const auto found = encode_all(*model, {{tokens}});
      const plain_row expected = plain_bert(config, weights, tokens);
      ASSERT_EQ(found.size(), config.width);
      for (std::size_t i = 0; i < config.width; ++i) {
        ASSERT_NEAR(static_cast<double>(found[i]), expected[i], 1e-5)
            << name_of(type) << " " << length;
      }
    }
  }
}

TEST(Bert, BitsDoNotDependOnBatchWorkersOrInstructionSet) {
  const bert_config config = small_bert();
  const some_source weights = bert_weights_of(config, weight_type::f32);
  const texts all = some_texts(config);
  std::vector<float> alone;
  for (const char* kernels : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
    if (!layers::select_layer_kernels(kernels)) {
      continue;
    }
    for (const unsigned workers : {1U, 3U}) {
      // The kernels of the baseline are slow: one number of workers is enough for them.
      if (std::string_view(kernels) == "x86-64" && workers != 1) {
        continue;
      }
      const auto engine = bert_engine(workers);
      const auto model = or_throw(make_bert(*engine, config, weights, {kernels, 600}));
      EXPECT_EQ(model->facts().instruction_set, kernels);
      if (alone.empty()) {
        for (const token_run& run : all.runs) {
          const auto row = encode_all(*model, {run});
          alone.insert(alone.end(), row.begin(), row.end());
        }
      }
      EXPECT_TRUE(equal_vectors(encode_all(*model, all.runs), alone))
          << kernels << " workers " << workers;
    }
  }
}

TEST(Bert, EmbeddingsDoNotDependOnScheduleBatchTypeOrParts) {
  const auto cases = test::case_count("WEIR_BERT_CASES", 8);
  const test::batch_counts counts = test::run_batches(cases, 1);
  RecordProperty("schedules", std::to_string(counts.schedules));
  RecordProperty("compared", std::to_string(counts.compared));
  EXPECT_GE(counts.schedules, 24U);
  EXPECT_GE(counts.compared, counts.schedules);
  EXPECT_GE(counts.largest_run, 8U);
}

TEST(Bert, PartsGiveTheBitsOfTheWholeModel) {
  const bert_config config = small_bert();
  const some_source weights = bert_weights_of(config, weight_type::q8_0);
  const texts all = some_texts(config);
  const auto engine = bert_engine(2);
  const auto whole = or_throw(make_bert(*engine, config, weights, {"auto", 600}));
  const auto expected = encode_all(*whole, all.runs);
  for (const std::uint32_t layers : {1U, 2U}) {
    std::vector<float> rows;
    for (std::uint32_t first = 0; first < config.layers; first += layers) {
      const auto part =
          or_throw(make_bert(*engine, config, weights, {"auto", 600, first, layers}));
      EXPECT_EQ(part->facts().takes_rows, first > 0);
      EXPECT_EQ(part->facts().returns_runs, first + layers >= config.layers);
      rows = encode_all(*part, all.runs, rows);
    }
    EXPECT_TRUE(equal_vectors(rows, expected)) << layers;
  }
}

TEST(Bert, CallsOverlap) {
  const bert_config config = small_bert();
  const some_source weights = bert_weights_of(config, weight_type::f32);
  const texts all = some_texts(config);
  const auto engine = bert_engine(2);
  const auto model = or_throw(make_bert(*engine, config, weights, {"auto", 600}));
  const auto expected = encode_all(*model, all.runs);
  std::vector<step_ticket> tickets;
  for (std::size_t i = 0; i < encoder::max_in_flight; ++i) {
    tickets.push_back(or_throw(model->submit({&all.runs[i], 1})));
  }
  EXPECT_EQ(model->submit({&all.runs[0], 1}).error().code(), errc::invalid_argument);
  for (std::size_t i = tickets.size(); i-- > 0;) {
    const auto row = or_throw(model->rows(tickets[i]));
    EXPECT_TRUE(model->ended(tickets[i]));
    EXPECT_TRUE(
        std::equal(row.begin(), row.end(),
                   expected.begin() + static_cast<std::ptrdiff_t>(i * config.width)));
    or_throw(model->finish(tickets[i]));
  }
}

// The results of the last call of several are gone, so its tasks are refused behind those
// of the layers.
TEST(Bert, TasksOfACallThatIsRefusedHaveEnded) {
  const bert_config config = small_bert();
  const some_source weights = bert_weights_of(config, weight_type::f32);
  const texts all = some_texts(config);
  const auto engine = bert_engine(2);
  const auto model = or_throw(make_bert(*engine, config, weights, {"auto", 600}));
  const auto expected = encode_all(*model, {all.runs[0]});
  ASSERT_TRUE(release_last(*engine));
  std::vector<step_ticket> tickets;
  for (std::size_t i = 1; i < encoder::max_in_flight; ++i) {
    tickets.push_back(or_throw(model->submit({&all.runs[i], 1})));
  }
  for (const step_ticket& one : tickets) {
    or_throw(model->rows(one));
  }
  for (int i = 0; i < 20; ++i) {
    const auto refused = model->submit(all.runs);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::not_found);
    const runtime::engine_counters now = engine->counters();
    EXPECT_EQ(now.submitted, now.finished);
  }
  or_throw(model->finish(tickets.front()));
  EXPECT_TRUE(equal_vectors(encode_all(*model, {all.runs[0]}), expected));
}

TEST(Bert, CallsAndPartsThatDoNotFitAreRefused) {
  const bert_config config = small_bert();
  const some_source weights = bert_weights_of(config, weight_type::f32);
  const auto engine = bert_engine(1);
  const auto model = or_throw(make_bert(*engine, config, weights, {"auto", 310}));
  const auto tokens = some_token_ids(301, config.vocab, 1);
  const std::span<const std::uint32_t> all(tokens);
  const std::uint32_t unknown = config.vocab;
  const std::vector<float> rows(config.width);
  const auto code = [&](std::vector<token_run> runs, std::span<const float> given) {
    const auto ticket = model->submit(runs, given);
    return ticket ? errc::internal : ticket.error().code();
  };
  EXPECT_EQ(code({}, {}), errc::invalid_argument);
  EXPECT_EQ(code({{}}, {}), errc::invalid_argument);
  EXPECT_EQ(code({{all}}, {}), errc::invalid_argument);
  EXPECT_EQ(code({{all.first(200)}, {all.first(111)}}, {}), errc::invalid_argument);
  EXPECT_EQ(code({{{&unknown, 1}}}, {}), errc::invalid_argument);
  EXPECT_EQ(code({{all.first(1)}}, rows), errc::invalid_argument);
  EXPECT_EQ(model->rows({7}).error().code(), errc::not_found);
  EXPECT_EQ(model->finish({7}).error().code(), errc::not_found);
  EXPECT_EQ(make_bert(*engine, config, weights, {"auto", 310, 3}).error().code(),
            errc::invalid_argument);
  bert_config other = config;
  other.heads = 3;
  EXPECT_EQ(make_bert(*engine, other, weights).error().code(), errc::invalid_argument);
  other = config;
  other.vocab = 91;
  EXPECT_EQ(make_bert(*engine, other, weights).error().code(), errc::config_mismatch);
  other = config;
  other.token_types = 0;
  EXPECT_EQ(make_bert(*engine, other, weights).error().code(), errc::invalid_argument);
  // The embedding of types has as many rows as the model says.
  for (const std::uint32_t types : {1U, 4U}) {
    other.token_types = types;
    EXPECT_EQ(make_bert(*engine, other, weights).error().code(), errc::config_mismatch);
    EXPECT_TRUE(make_bert(*engine, other, bert_weights_of(other, weight_type::f32)));
  }
}

}  // namespace
}  // namespace weir::models
