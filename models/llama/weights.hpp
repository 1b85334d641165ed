// SPDX-License-Identifier: Apache-2.0
/// @file
/// The weights of a Llama model, found by name and checked.
#pragma once

#include <vector>

#include "weir/base/error.hpp"
#include "weir/models/llama.hpp"
#include "weir/models/panels.hpp"

namespace weir::models {

/// Weights of one layer.
struct llama_layer {
  const float* attention_norm = nullptr;  ///< [width]
  panel_matrix query;                     ///< width outputs
  panel_matrix key;                       ///< kv_heads * head width outputs
  panel_matrix value;                     ///< as `key`
  panel_matrix output;                    ///< [width][width]
  const float* mlp_norm = nullptr;        ///< [width]
  panel_matrix gate;                      ///< hidden outputs
  panel_matrix up;                        ///< hidden outputs
  panel_matrix down;                      ///< width outputs, hidden inputs
};

/// Weights of a whole model. They refer to the memory of a `weight_source`.
struct llama_weights {
  panel_matrix embedding;  ///< vocab outputs, width inputs: one output for each token
  std::vector<llama_layer> layers;
  const float* norm = nullptr;  ///< [width]
  panel_matrix head;            ///< vocab outputs; the embedding if it is tied
};

/// Finds all weights of a model.
/// @error{not_found, a weight is missing}
/// @error{config_mismatch, a weight has another shape}
/// @error{corrupt, the panels of a weight are not complete}
[[nodiscard]] result<llama_weights> find_llama_weights(const llama_config& config,
                                                       const weight_source& source);

}  // namespace weir::models
