// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encoders of the architecture BERT whose result is the mean of the last rows, scaled to
/// length 1: learned positions, layer norms behind each half of a layer, and GELU.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "weir/base/error.hpp"
#include "weir/models/encoder.hpp"
#include "weir/models/panels.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::models {

/// Shape of a BERT model. The defaults are those of all-MiniLM-L6-v2.
struct bert_config {
  std::uint32_t vocab = 30522;     ///< number of token ids
  std::uint32_t width = 384;       ///< features of a row; a multiple of 16
  std::uint32_t hidden = 1536;     ///< features between the products of a layer's end
  std::uint32_t layers = 6;        ///< layers, one after another
  std::uint32_t heads = 12;        ///< heads, each of width / heads features
  std::uint32_t max_tokens = 512;  ///< learned positions: tokens of the longest run
  float epsilon = 1e-12F;          ///< added to the variance in norms
  /// Rows of the embedding of types. All tokens are of the first type.
  std::uint32_t token_types = 2;
};

/// Options of a BERT model that change no bit of its results.
struct bert_options {
  /// "auto", or one of `instruction_sets_here`.
  std::string_view kernels = "auto";
  std::uint32_t max_rows = 2048;      ///< tokens of all runs of a call
  std::uint32_t first_layer = 0;      ///< first layer of this part of the model
  std::uint32_t layers = UINT32_MAX;  ///< layers of this part; more: up to the last one
  /// The last part returns the mean of the rows of each run; false: it returns the rows,
  /// of which `pool_mean` makes the same.
  bool pool = true;
};

/// Writes the mean of some rows, scaled to length 1. Sums go over the rows, and then over
/// the features, in ascending order.
/// @shape{rows: [count][mean.size()], count at least 1}
/// @threads{safe to call concurrently}
void pool_mean(std::span<const float> rows, std::span<float> mean) noexcept;

/// Checks a configuration as `make_bert` does.
/// @error{invalid_argument, a member is out of range, or does not fit to another one}
/// @threads{pure}
[[nodiscard]] result<void> check_config(const bert_config& config);

/// Makes a BERT model, or a part of its layers.
///
/// Names of the weights: `embeddings.{word,position,token_type}_embeddings.weight`,
/// `embeddings.LayerNorm`, and for each layer L below `encoder.layer.L.`:
/// `attention.self.{query,key,value}`, `attention.output.{dense,LayerNorm}`,
/// `intermediate.dense`, `output.{dense,LayerNorm}`, each with `.weight` and `.bias`.
/// Only the weights of the part are looked up.
/// @param engine  Runs the tasks of the model; must outlive it.
/// @param config  Shape of the whole model.
/// @param weights  Must outlive the model, which does not copy them.
/// @param options  Memory, instruction set and layers.
/// @error{invalid_argument, `check_config` refuses the configuration, an option is out of
/// range, or the processor does not have the instruction set}
/// @error{not_found, a weight is missing}
/// @error{config_mismatch, a weight has another shape than the configuration}
/// @error{corrupt, `check_matrix` refuses a weight}
/// @error{out_of_memory}
/// @threads{belongs to the engine's submitter}
[[nodiscard]] result<std::unique_ptr<encoder>> make_bert(
    runtime::engine& engine, const bert_config& config, const weight_source& weights,
    const bert_options& options = {});

}  // namespace weir::models
