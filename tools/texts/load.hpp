// SPDX-License-Identifier: Apache-2.0
/// @file
/// A model of a volume, its tokenizer and an engine, ready to compute.
#pragma once

#include <memory>
#include <string>

#include "weir/actors/model_weights.hpp"
#include "weir/actors/models.hpp"
#include "weir/models/llama.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::tools {

/// A model of a volume with everything that it needs. Members are destroyed in the
/// opposite order, the engine first.
struct loaded_model {
  storage::hn4_volume volume;                      ///< mapped
  actors::model_in_volume stored;                  ///< record of the model
  formats::tokenizer tokens;                       ///< its tokenizer
  std::unique_ptr<actors::model_weights> weights;  ///< verified
  std::unique_ptr<runtime::engine> engine;         ///< runs its tasks
};

/// Refuses a model of another family.
/// @error{unsupported, the model is of another family}
[[nodiscard]] result<void> expect_family(const actors::model_record& record,
                                         models::architecture family);

/// Loads a decoder.
/// @param tag  May be empty if the volume has one model.
/// @param workers  0: one for each processor.
/// @error{not_found, there is no such volume or model}
/// @error{invalid_argument, there are several models and no tag; they are listed}
/// @error{unsupported, the model is of another family}
/// Other errors are those of `actors::model_weights::load`.
[[nodiscard]] result<std::unique_ptr<loaded_model>> load_decoder(
    const std::string& volume, const std::string& tag, unsigned workers);

/// Makes the decoder of a loaded model, which must outlive it.
/// @param options  Memory and rows of a step.
/// Errors are those of `models::make_llama`.
[[nodiscard]] result<std::unique_ptr<models::step_model>> decoder_of(
    loaded_model& model, const models::llama_options& options);

}  // namespace weir::tools
