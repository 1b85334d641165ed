// SPDX-License-Identifier: Apache-2.0
/// @file
/// The weights of a BERT model, a call in flight, and the tasks of a call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "buffers.hpp"
#include "layers/kernels/table.hpp"
#include "weir/models/bert.hpp"
#include "weir/models/panels.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::models {

/// A product with a bias.
struct biased_matrix {
  panel_matrix matrix;
  const float* bias = nullptr;  ///< [outputs]
};

/// Weights of a layer norm.
struct norm_weights {
  const float* weight = nullptr;  ///< [width]
  const float* bias = nullptr;    ///< [width]
};

/// Weights of one layer.
struct bert_layer {
  biased_matrix query;
  biased_matrix key;
  biased_matrix value;
  biased_matrix attended;  ///< of the results of the attention
  norm_weights attention_norm;
  biased_matrix inner;  ///< width to hidden features
  biased_matrix outer;  ///< hidden features to width
  norm_weights norm;
};

/// Weights of the layers of a part. They refer to the memory of a `weight_source`.
struct bert_weights {
  panel_matrix words;       ///< one output for each token; empty unless the part is first
  panel_matrix positions;   ///< one output for each position
  std::vector<float> type;  ///< [width]: the row of the token type 0
  norm_weights norm;
  std::vector<bert_layer> layers;
};

/// Finds the weights of the layers [first, end), and of the embedding if `first` is 0.
/// @error{not_found, a weight is missing}
/// @error{config_mismatch, a weight has another shape}
/// @error{corrupt, the panels of a weight are not complete}
[[nodiscard]] result<bert_weights> find_bert_weights(const bert_config& config,
                                                     const weight_source& source,
                                                     std::uint32_t first,
                                                     std::uint32_t end);

/// Constant parts of an encoder that its tasks use.
struct bert_parts {
  bert_config config;
  bert_weights weights;
  const layers::layer_kernels* kernels = nullptr;
  int head_width = 0;
  bool takes_rows = false;
  bool returns_runs = false;
};

/// Rows of one run in a call.
struct bert_run {
  int first = 0;
  int rows = 0;
};

/// A call in flight and its buffers. It stays at its address while tasks run.
struct bert_call {
  std::uint64_t serial = 0;           ///< number of the call; 0: the object is free
  runtime::task_id first = 0;         ///< number of its first task; 0: none is submitted
  runtime::task_id last = 0;          ///< number of the last one
  std::vector<std::uint32_t> tokens;  ///< by row
  std::vector<bert_run> runs;

  buffer<float> x;      ///< [rows][width]: input of a layer, and at last its result
  buffer<float> sum;    ///< [rows][width]: results of a half of a layer before its norm
  buffer<float> qkv;    ///< [rows][query, keys, values], each of `width` features
  buffer<float> read;   ///< [rows][width]: results of the attention
  buffer<float> inner;  ///< [rows][hidden]
  buffer<float> means;  ///< [runs][width]: the result of the last part

  /// Returns the number of rows.
  [[nodiscard]] int rows() const { return static_cast<int>(tokens.size()); }
};

/// Submits the tasks of a call, and stores the number of the task that ends last. If a
/// task is refused, the tasks before it have ended when the call returns.
[[nodiscard]] result<void> submit_bert_call(runtime::engine& engine,
                                            const bert_parts& parts, bert_call& call);

}  // namespace weir::models
