// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the weights of a BERT model by the names of Hugging Face's files.
#include <string>

#include "bert/model.hpp"
#include "layers/dense.hpp"

namespace weir::models {

namespace {

/// Both parts must have the shapes of the configuration.
result<biased_matrix> find_biased(const weight_source& source, const std::string& name,
                                  std::uint64_t outputs, std::uint64_t inputs) {
  biased_matrix m;
  WEIR_TRY(m.matrix, layers::find_matrix(source, name + ".weight", outputs, inputs));
  WEIR_TRY(m.bias, layers::find_vector(source, name + ".bias", outputs));
  return m;
}

/// The norm has two vectors.
result<norm_weights> find_norm(const weight_source& source, const std::string& name,
                               std::uint64_t width) {
  norm_weights n;
  WEIR_TRY(n.weight, layers::find_vector(source, name + ".weight", width));
  WEIR_TRY(n.bias, layers::find_vector(source, name + ".bias", width));
  return n;
}

/// Names are those without the prefix of a model with a head.
result<bert_layer> find_bert_layer(const bert_config& c, const weight_source& source,
                                   std::uint32_t number) {
  const std::string p = "encoder.layer." + std::to_string(number) + ".";
  // The first weight that is missing gives the error.
  bert_layer l;
  WEIR_TRY(l.query, find_biased(source, p + "attention.self.query", c.width, c.width));
  WEIR_TRY(l.key, find_biased(source, p + "attention.self.key", c.width, c.width));
  WEIR_TRY(l.value, find_biased(source, p + "attention.self.value", c.width, c.width));
  WEIR_TRY(l.attended,
           find_biased(source, p + "attention.output.dense", c.width, c.width));
  WEIR_TRY(l.attention_norm,
           find_norm(source, p + "attention.output.LayerNorm", c.width));
  WEIR_TRY(l.inner, find_biased(source, p + "intermediate.dense", c.hidden, c.width));
  WEIR_TRY(l.outer, find_biased(source, p + "output.dense", c.width, c.hidden));
  WEIR_TRY(l.norm, find_norm(source, p + "output.LayerNorm", c.width));
  return l;
}

/// Only the first part of a model needs these.
result<void> find_embedding(const bert_config& c, const weight_source& source,
                            bert_weights& w) {
  WEIR_TRY(w.words, layers::find_matrix(source, "embeddings.word_embeddings.weight",
                                        c.vocab, c.width));
  WEIR_TRY(w.positions,
           layers::find_matrix(source, "embeddings.position_embeddings.weight",
                               c.max_tokens, c.width));
  // All tokens are of the first type, so one row is enough.
  WEIR_TRY(const panel_matrix types,
           layers::find_matrix(source, "embeddings.token_type_embeddings.weight",
                               c.token_types, c.width));
  w.type.resize(c.width);
  read_output(types, 0, w.type);
  WEIR_TRY(w.norm, find_norm(source, "embeddings.LayerNorm", c.width));
  return {};
}

}  // namespace

/// Layers are those of the part.
result<bert_weights> find_bert_weights(const bert_config& config,
                                       const weight_source& source, std::uint32_t first,
                                       std::uint32_t end) {
  bert_weights w;
  if (first == 0) {
    WEIR_CHECK(find_embedding(config, source, w));
  }
  for (std::uint32_t l = first; l < end; ++l) {
    WEIR_TRY(bert_layer layer, find_bert_layer(config, source, l));
    w.layers.push_back(std::move(layer));
  }
  return w;
}

}  // namespace weir::models
