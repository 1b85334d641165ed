// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the weights of a Llama model by the names of Hugging Face's files.
#include "llama/weights.hpp"

#include <string>

#include "layers/dense.hpp"

namespace weir::models {

namespace {

/// The first weight that is missing gives the error.
result<llama_layer> find_llama_layer(const llama_config& c, const weight_source& source,
                                     std::uint32_t number) {
  using layers::find_matrix;
  using layers::find_vector;
  const std::string prefix = "model.layers." + std::to_string(number) + ".";
  // Key heads have the width of query heads.
  const std::uint64_t kv_width = std::uint64_t{c.width} / c.heads * c.kv_heads;
  llama_layer l;
  WEIR_TRY(l.attention_norm,
           find_vector(source, prefix + "input_layernorm.weight", c.width));
  WEIR_TRY(l.query,
           find_matrix(source, prefix + "self_attn.q_proj.weight", c.width, c.width));
  WEIR_TRY(l.key,
           find_matrix(source, prefix + "self_attn.k_proj.weight", kv_width, c.width));
  WEIR_TRY(l.value,
           find_matrix(source, prefix + "self_attn.v_proj.weight", kv_width, c.width));
  WEIR_TRY(l.output,
           find_matrix(source, prefix + "self_attn.o_proj.weight", c.width, c.width));
  WEIR_TRY(l.mlp_norm,
           find_vector(source, prefix + "post_attention_layernorm.weight", c.width));
  WEIR_TRY(l.gate,
           find_matrix(source, prefix + "mlp.gate_proj.weight", c.hidden, c.width));
  WEIR_TRY(l.up, find_matrix(source, prefix + "mlp.up_proj.weight", c.hidden, c.width));
  WEIR_TRY(l.down,
           find_matrix(source, prefix + "mlp.down_proj.weight", c.width, c.hidden));
  return l;
}

}  // namespace

/// Panels are only referred to, so a tied head takes no memory.
result<llama_weights> find_llama_weights(const llama_config& config,
                                         const weight_source& source) {
  llama_weights w;
  WEIR_TRY(w.embedding, layers::find_matrix(source, "model.embed_tokens.weight",
                                            config.vocab, config.width));
  for (std::uint32_t l = 0; l < config.layers; ++l) {
    WEIR_TRY(llama_layer layer, find_llama_layer(config, source, l));
    w.layers.push_back(std::move(layer));
  }
  WEIR_TRY(w.norm, layers::find_vector(source, "model.norm.weight", config.width));
  // A tied output is the embedding.
  w.head = w.embedding;
  if (!config.tied) {
    WEIR_TRY(w.head,
             layers::find_matrix(source, "lm_head.weight", config.vocab, config.width));
  }
  return w;
}

}  // namespace weir::models
