// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random weights of small models, under the names that the models look for.
#pragma once

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/layers/some_weights.hpp"
#include "weir/models/bert.hpp"
#include "weir/models/llama.hpp"
#include "weir/models/panels.hpp"

namespace weir::test {

/// Weights by name: panels for the model, and values for a plain evaluation.
class some_source final : public models::weight_source {
 public:
  /// Adds a random matrix with elements between -`size` and `size`.
  void add_matrix(const std::string& name, const models::panel_shape& shape, float size) {
    const byte_vector rows = some_rows(shape, ++seed_, size);
    matrices_[name] = packed(name, shape, rows, 0);
    auto& values = values_[name];
    for (std::uint64_t o = 0; o < shape.outputs; ++o) {
      const auto row = expected_weights(shape, rows, o);
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  /// Adds a random vector with elements around `middle`.
  void add_vector(const std::string& name, std::uint64_t count, float middle) {
    const philox random(++seed_, 78);
    auto& values = vectors_[name];
    for (std::uint64_t i = 0; i < count; ++i) {
      values.push_back(middle + 0.2F * random.normal(i));
    }
  }
  /// Removes a weight.
  void remove(const std::string& name) {
    matrices_.erase(name);
    vectors_.erase(name);
  }

  result<models::panel_matrix> matrix(std::string_view name) const override {
    const auto found = matrices_.find(name);
    if (found == matrices_.end()) {
      return error(errc::not_found, "weights of a test: expected \"" + std::string(name) +
                                        "\", found no such matrix");
    }
    return found->second.view();
  }
  result<std::span<const float>> vector(std::string_view name) const override {
    const auto found = vectors_.find(name);
    if (found == vectors_.end()) {
      return error(errc::not_found, "weights of a test: expected \"" + std::string(name) +
                                        "\", found no such vector");
    }
    return std::span<const float>(found->second);
  }

  /// Returns the values of a matrix, row by row.
  [[nodiscard]] const std::vector<float>& values(const std::string& name) const {
    return values_.at(name);
  }
  /// Returns the values of a vector.
  [[nodiscard]] const std::vector<float>& elements(const std::string& name) const {
    return vectors_.find(name)->second;
  }

 private:
  std::uint64_t seed_ = 100;
  std::map<std::string, owned_matrix, std::less<>> matrices_;
  std::map<std::string, std::vector<float>, std::less<>> vectors_;
  std::map<std::string, std::vector<float>> values_;
};

/// Returns the shape of a small Llama: grouped heads, a vocabulary that does not fill its
/// last panel, contexts of several pages and of more than one segment.
inline models::llama_config small_llama() {
  models::llama_config c;
  c.vocab = 100;
  c.width = 64;
  c.hidden = 96;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.max_context = 512;
  c.rope_base = 1000;
  return c;
}

/// Returns random weights of a Llama.
inline some_source llama_weights_of(const models::llama_config& c,
                                    models::weight_type type) {
  some_source s;
  const std::uint64_t kv = c.width / c.heads * c.kv_heads;
  const auto matrix = [&](const std::string& name, std::uint64_t outputs,
                          std::uint64_t inputs, float size) {
    s.add_matrix(name, {type, outputs, inputs}, size);
  };
  matrix("model.embed_tokens.weight", c.vocab, c.width, 1.0F);
  for (std::uint32_t l = 0; l < c.layers; ++l) {
    const std::string p = "model.layers." + std::to_string(l) + ".";
    s.add_vector(p + "input_layernorm.weight", c.width, 1.0F);
    s.add_vector(p + "post_attention_layernorm.weight", c.width, 1.0F);
    matrix(p + "self_attn.q_proj.weight", c.width, c.width, 0.25F);
    matrix(p + "self_attn.k_proj.weight", kv, c.width, 0.25F);
    matrix(p + "self_attn.v_proj.weight", kv, c.width, 0.25F);
    matrix(p + "self_attn.o_proj.weight", c.width, c.width, 0.25F);
    matrix(p + "mlp.gate_proj.weight", c.hidden, c.width, 0.25F);
    matrix(p + "mlp.up_proj.weight", c.hidden, c.width, 0.25F);
    matrix(p + "mlp.down_proj.weight", c.width, c.hidden, 0.25F);
  }
  s.add_vector("model.norm.weight", c.width, 1.0F);
  if (!c.tied) {
    matrix("lm_head.weight", c.vocab, c.width, 0.25F);
  }
  return s;
}

/// Returns the shape of a small BERT.
inline models::bert_config small_bert() {
  models::bert_config c;
  c.vocab = 90;
  c.width = 64;
  c.hidden = 96;
  c.layers = 3;
  c.heads = 2;
  c.max_tokens = 300;
  return c;
}

/// Returns random weights of a BERT.
inline some_source bert_weights_of(const models::bert_config& c,
                                   models::weight_type type) {
  some_source s;
  const auto dense = [&](const std::string& name, std::uint64_t outputs,
                         std::uint64_t inputs) {
    s.add_matrix(name + ".weight", {type, outputs, inputs}, 0.25F);
    s.add_vector(name + ".bias", outputs, 0.0F);
  };
  const auto norm = [&](const std::string& name) {
    s.add_vector(name + ".weight", c.width, 1.0F);
    s.add_vector(name + ".bias", c.width, 0.0F);
  };
  const auto f32 = models::weight_type::f32;
  s.add_matrix("embeddings.word_embeddings.weight", {type, c.vocab, c.width}, 1.0F);
  s.add_matrix("embeddings.position_embeddings.weight", {f32, c.max_tokens, c.width},
               1.0F);
  s.add_matrix("embeddings.token_type_embeddings.weight", {f32, c.token_types, c.width},
               1.0F);
  norm("embeddings.LayerNorm");
  for (std::uint32_t l = 0; l < c.layers; ++l) {
    const std::string p = "encoder.layer." + std::to_string(l) + ".";
    dense(p + "attention.self.query", c.width, c.width);
    dense(p + "attention.self.key", c.width, c.width);
    dense(p + "attention.self.value", c.width, c.width);
    dense(p + "attention.output.dense", c.width, c.width);
    norm(p + "attention.output.LayerNorm");
    dense(p + "intermediate.dense", c.hidden, c.width);
    dense(p + "output.dense", c.width, c.hidden);
    norm(p + "output.LayerNorm");
  }
  return s;
}

/// Returns random tokens.
inline std::vector<std::uint32_t> some_token_ids(std::size_t count, std::uint32_t vocab,
                                                 std::uint64_t seed) {
  const philox random(seed, 79);
  std::vector<std::uint32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<std::uint32_t>(random.below(i, vocab));
  }
  return tokens;
}

/// Releases the storage of an engine that was made last, as far as its number tells.
inline bool release_last(runtime::engine& engine) {
  for (std::uint32_t index = 1000; index > 0; --index) {
    for (std::uint32_t generation = 0; generation < 4; ++generation) {
      if (engine.release({index - 1, generation})) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace weir::test
