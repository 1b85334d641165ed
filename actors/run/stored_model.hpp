// SPDX-License-Identifier: Apache-2.0
/// @file
/// A model built from what is stored: a run folder, or parameters alone.
#pragma once

#include <memory>
#include <string>

#include "weir/actors/speak.hpp"
#include "weir/models/prose.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::actors {

/// A model with the engine below it, on the calling thread.
struct stored_model {
  std::unique_ptr<runtime::engine> engine;  ///< outlives the model
  std::unique_ptr<models::prose> model;
};

/// The newest valid checkpoint of a run folder, or of its checkpoint folder, as a model
/// with its contexts.
/// @error{not_found, no folder or no checkpoint} @error{as `storage::load_checkpoint`}
[[nodiscard]] result<stored_model> open_stored_model(const std::string& folder);
/// A model of one lane with these parameters and an empty context.
/// @error{corrupt, config_mismatch, a parameter is missing or has another shape}
[[nodiscard]] result<stored_model> model_with(const parameter_set& parameters);

}  // namespace weir::actors
