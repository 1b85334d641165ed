// SPDX-License-Identifier: Apache-2.0
/// @file
/// A step of a Llama model: its rows, the buffers in which it works, and its tasks.
#pragma once

#include <cstdint>
#include <vector>

#include "buffers.hpp"
#include "layers/kernels/table.hpp"
#include "layers/rope.hpp"
#include "llama/pages.hpp"
#include "llama/weights.hpp"
#include "weir/models/llama.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::models {

/// Constant parts of a model that its tasks use.
struct llama_parts {
  llama_config config;
  llama_weights weights;
  layers::rope_table rope;
  const layers::layer_kernels* kernels = nullptr;
  int head_width = 0;
  int kv_width = 0;   ///< features of all keys, or of all values, of a row
  int qkv_width = 0;  ///< features of query, keys and values of a row
  /// Keys and values: [pages][layers][kv heads][keys, values], where keys are
  /// [head width][64] and values are [64][head width].
  buffer<float> pages;

  /// Returns the number of elements of the keys and values of a head in a page.
  [[nodiscard]] std::int64_t head_elements() const {
    return std::int64_t{2} * static_cast<std::int64_t>(page_tokens) * head_width;
  }
  /// Returns the number of elements of a page.
  [[nodiscard]] std::int64_t page_elements() const {
    return head_elements() * config.kv_heads * config.layers;
  }
  /// Returns the index of the keys of a head in a page; its values are behind them.
  [[nodiscard]] std::int64_t head_index(std::uint32_t page, std::uint32_t layer,
                                        std::uint32_t head) const {
    return page * page_elements() +
           (std::int64_t{layer} * config.kv_heads + head) * head_elements();
  }
};

/// The rows of one context in a step.
struct step_context {
  std::uint64_t position = 0;        ///< of the first row in its context
  int first = 0;                     ///< first row of the step
  int rows = 0;                      ///< number of rows
  std::vector<std::uint32_t> pages;  ///< pages up to that of the last row
  int logits = -1;                   ///< row of the logits; -1: not wanted
};

/// A step in flight and its buffers. It stays at its address while tasks run.
struct llama_step {
  std::uint64_t serial = 0;           ///< number of the step; 0: the object is free
  runtime::task_id first = 0;         ///< number of its first task; 0: none is submitted
  runtime::task_id last = 0;          ///< number of the last one
  std::vector<std::uint32_t> tokens;  ///< by row
  std::vector<step_context> groups;
  int logit_rows = 0;

  buffer<float> x;       ///< [rows][width]: the stream to which layers add
  buffer<float> normed;  ///< [rows][width]
  buffer<float> qkv;     ///< [rows][query, keys, values]
  buffer<float> read;    ///< [rows][width]: results of the attention
  buffer<float> inner;   ///< [rows][hidden]
  buffer<float> logits;  ///< [rows][padded vocab]
  std::int64_t logit_stride = 0;

  /// Returns the number of rows.
  [[nodiscard]] int rows() const { return static_cast<int>(tokens.size()); }
};

/// Submits the tasks of a step, and stores the number of the task that ends last. If a
/// task is refused, the tasks before it have ended when the call returns.
[[nodiscard]] result<void> submit_llama_step(runtime::engine& engine,
                                             const llama_parts& parts, llama_step& step);

/// Submits a task that copies a page.
[[nodiscard]] result<void> submit_page_copy(runtime::engine& engine,
                                            const llama_parts& parts,
                                            const page_copy& copy);

}  // namespace weir::models
