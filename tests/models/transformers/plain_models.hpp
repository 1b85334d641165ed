// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plain evaluations of the models: loops in double precision over whole sequences, which
/// share no code with the models.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "models/transformers/some_model.hpp"

namespace weir::test {

using plain_row = std::vector<double>;
using plain_rows = std::vector<plain_row>;

/// Returns the products of a row with all rows of a matrix.
inline plain_row plain_product(const std::vector<float>& matrix, const plain_row& row) {
  plain_row out(matrix.size() / row.size());
  for (std::size_t o = 0; o < out.size(); ++o) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      out[o] += static_cast<double>(matrix[o * row.size() + k]) * row[k];
    }
  }
  return out;
}

inline plain_row plain_rms(const plain_row& row, const std::vector<float>& weight,
                           double epsilon) {
  double squares = 0;
  for (const double x : row) {
    squares += x * x;
  }
  plain_row out(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    out[i] = row[i] / std::sqrt(squares / static_cast<double>(row.size()) + epsilon) *
             static_cast<double>(weight[i]);
  }
  return out;
}

/// Returns the attention of a query over some keys, for one head.
inline plain_row plain_head(const double* query, const std::vector<const double*>& keys,
                            const std::vector<const double*>& values, std::size_t width) {
  plain_row weights(keys.size());
  double largest = -1e300;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    for (std::size_t d = 0; d < width; ++d) {
      weights[k] += query[d] * keys[k][d] / std::sqrt(static_cast<double>(width));
    }
    largest = std::max(largest, weights[k]);
  }
  double total = 0;
  for (double& w : weights) {
    w = std::exp(w - largest);
    total += w;
  }
  plain_row out(width);
  for (std::size_t k = 0; k < keys.size(); ++k) {
    for (std::size_t d = 0; d < width; ++d) {
      out[d] += weights[k] / total * values[k][d];
    }
  }
  return out;
}

/// Turns pairs (i, i + width / 2) of each head by the angle of a position.
inline void plain_rotate(plain_row& row, std::size_t width, double position,
                         double base) {
  for (std::size_t first = 0; first < row.size(); first += width) {
    for (std::size_t i = 0; i < width / 2; ++i) {
      const double angle = position * std::pow(base, -2.0 * static_cast<double>(i) /
                                                         static_cast<double>(width));
      const double a = row[first + i];
      const double b = row[first + i + width / 2];
      row[first + i] = a * std::cos(angle) - b * std::sin(angle);
      row[first + i + width / 2] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
}

/// Adds the second half of a layer to a row.
inline void plain_swiglu(const some_source& s, const std::string& prefix, double epsilon,
                         plain_row& x) {
  const plain_row n =
      plain_rms(x, s.elements(prefix + "post_attention_layernorm.weight"), epsilon);
  plain_row gate = plain_product(s.values(prefix + "mlp.gate_proj.weight"), n);
  const plain_row up = plain_product(s.values(prefix + "mlp.up_proj.weight"), n);
  for (std::size_t i = 0; i < gate.size(); ++i) {
    gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  }
  const plain_row down = plain_product(s.values(prefix + "mlp.down_proj.weight"), gate);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] += down[i];
  }
}

/// Adds the first half of a layer to all rows.
inline void plain_self_attention(const models::llama_config& c, const some_source& s,
                                 const std::string& prefix, plain_rows& x) {
  const std::size_t d = c.width / c.heads;
  plain_rows keys;
  plain_rows values;
  for (std::size_t t = 0; t < x.size(); ++t) {
    const plain_row n =
        plain_rms(x[t], s.elements(prefix + "input_layernorm.weight"), c.epsilon);
    plain_row q = plain_product(s.values(prefix + "self_attn.q_proj.weight"), n);
    keys.push_back(plain_product(s.values(prefix + "self_attn.k_proj.weight"), n));
    values.push_back(plain_product(s.values(prefix + "self_attn.v_proj.weight"), n));
    plain_rotate(q, d, static_cast<double>(t), c.rope_base);
    plain_rotate(keys.back(), d, static_cast<double>(t), c.rope_base);
    plain_row read;
    for (std::size_t h = 0; h < c.heads; ++h) {
      const std::size_t column = h / (c.heads / c.kv_heads) * d;
      std::vector<const double*> k;
      std::vector<const double*> v;
      for (std::size_t i = 0; i <= t; ++i) {
        k.push_back(keys[i].data() + column);
        v.push_back(values[i].data() + column);
      }
      const plain_row head = plain_head(q.data() + h * d, k, v, d);
      read.insert(read.end(), head.begin(), head.end());
    }
    const plain_row out =
        plain_product(s.values(prefix + "self_attn.o_proj.weight"), read);
    for (std::size_t i = 0; i < c.width; ++i) {
      x[t][i] += out[i];
    }
  }
}

/// Returns the logits behind each token of a sequence.
inline plain_rows plain_llama(const models::llama_config& c, const some_source& s,
                              const std::vector<std::uint32_t>& tokens) {
  const auto& embedding = s.values("model.embed_tokens.weight");
  plain_rows x;
  for (const std::uint32_t token : tokens) {
    const auto* row = embedding.data() + std::size_t{token} * c.width;
    x.emplace_back(row, row + c.width);
  }
  for (std::uint32_t l = 0; l < c.layers; ++l) {
    const std::string prefix = "model.layers." + std::to_string(l) + ".";
    plain_self_attention(c, s, prefix, x);
    for (plain_row& row : x) {
      plain_swiglu(s, prefix, c.epsilon, row);
    }
  }
  plain_rows logits;
  for (const plain_row& row : x) {
    const plain_row n = plain_rms(row, s.elements("model.norm.weight"), c.epsilon);
    logits.push_back(plain_product(c.tied ? embedding : s.values("lm_head.weight"), n));
  }
  return logits;
}

}  // namespace weir::test
