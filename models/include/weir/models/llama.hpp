// SPDX-License-Identifier: Apache-2.0
/// @file
/// Decoders of the architecture Llama: RMS norms, attention with grouped key and value
/// heads and rotated halves, SwiGLU, and optionally an output matrix that is the
/// embedding.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "weir/base/error.hpp"
#include "weir/models/panels.hpp"
#include "weir/models/step_model.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::models {

/// Shape of a Llama model. The defaults are those of SmolLM2-135M.
struct llama_config {
  std::uint32_t vocab = 49152;       ///< number of token ids
  std::uint32_t width = 576;         ///< features of a row; a multiple of 16
  std::uint32_t hidden = 1536;       ///< features inside SwiGLU; a multiple of 16
  std::uint32_t layers = 30;         ///< layers, one after another
  std::uint32_t heads = 9;           ///< query heads, each of width / heads features
  std::uint32_t kv_heads = 3;        ///< key and value heads; divides `heads`
  std::uint32_t max_context = 8192;  ///< tokens of the longest context
  double rope_base = 100'000;        ///< base of the wavelengths of RoPE
  float epsilon = 1e-5F;             ///< added to the mean square in norms
  bool tied = true;                  ///< the output matrix is the embedding
};

/// Options of a Llama model that change no bit of its results.
struct llama_options {
  /// "auto", or one of `instruction_sets_here`.
  std::string_view kernels = "auto";
  /// Tokens of all contexts together; 0: as many as fit into `kv_memory`, and at most as
  /// many as `max_contexts` contexts of the largest length have.
  std::uint64_t context_tokens = 8192;
  std::uint32_t max_rows = 128;  ///< rows of the largest step
  /// Memory of keys and values if `context_tokens` is 0; 0: `default_kv_memory()`.
  /// @units{bytes}
  std::uint64_t kv_memory = 0;
  /// Contexts that the caller opens at a time at most, if `context_tokens` is 0.
  std::uint32_t max_contexts = 64;
};

/// Returns a quarter of the memory that is available now, at most 4 GiB.
/// @units{bytes}
/// @threads{safe to call concurrently}
[[nodiscard]] std::uint64_t default_kv_memory() noexcept;

/// Returns a quarter of an amount of memory, at most 4 GiB.
/// @units{bytes}
/// @threads{pure}
[[nodiscard]] std::uint64_t default_kv_memory(std::uint64_t available) noexcept;

/// Checks a configuration as `make_llama` does.
/// @error{invalid_argument, a member is out of range, or does not fit to another one}
/// @threads{pure}
[[nodiscard]] result<void> check_config(const llama_config& config);

/// Makes a Llama model.
///
/// Names of the weights: `model.embed_tokens.weight`, for each layer L
/// `model.layers.L.{input_layernorm,post_attention_layernorm}.weight`,
/// `model.layers.L.self_attn.{q,k,v,o}_proj.weight` and
/// `model.layers.L.mlp.{gate,up,down}_proj.weight`, `model.norm.weight`, and
/// `lm_head.weight` unless it is tied.
/// @param engine  Runs the tasks of the model; must outlive it.
/// @param config  Shape of the model.
/// @param weights  Must outlive the model, which does not copy them.
/// @param options  Memory and instruction set.
/// @error{invalid_argument, `check_config` refuses the configuration, an option is out of
/// range, or the processor does not have the instruction set}
/// @error{not_found, a weight is missing}
/// @error{config_mismatch, a weight has another shape than the configuration}
/// @error{corrupt, `check_matrix` refuses a weight}
/// @error{out_of_memory, the system has too little, or `kv_memory` holds no page of 64
/// tokens; the message has both numbers}
/// @threads{belongs to the engine's submitter}
[[nodiscard]] result<std::unique_ptr<step_model>> make_llama(
    runtime::engine& engine, const llama_config& config, const weight_source& weights,
    const llama_options& options = {});

}  // namespace weir::models
