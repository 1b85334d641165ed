// SPDX-License-Identifier: Apache-2.0
/// @file
/// Models that are built from a run folder or from parameters, outside of a run.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "stages/prose/job/stored_run.hpp"
#include "weir/actors/speak.hpp"
#include "weir/models/prose.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::actors {

/// A model with its engine. The calling thread is the submitter and the only worker.
struct stored_model {
  std::unique_ptr<runtime::engine> engine;  ///< outlives the model
  std::unique_ptr<models::prose> model;
};

/// Makes a model with initial parameters and empty contexts.
/// @param kernels  Instruction set, see `models::prose::create`.
[[nodiscard]] result<stored_model> new_model(const models::prose_config& config,
                                             std::string_view kernels = "auto");
/// Returns the model of the newest valid checkpoint, with its contexts. Also returns the
/// errors of `checkpoint_store::load_newest`.
/// @param folder  A run folder, or the folder of its checkpoints.
/// @param kernels  Instruction set, see `models::prose::create`.
/// @error{not_found, there is no folder or no checkpoint}
/// @error{config_mismatch, the model was stored under other equations}
[[nodiscard]] result<stored_model> open_stored_model(const std::string& folder,
                                                     std::string_view kernels = "auto");
/// Returns the model of a checkpoint, with its contexts.
/// @param kernels  Instruction set, see `models::prose::create`.
/// @error{config_mismatch, the model was stored under other equations}
[[nodiscard]] result<stored_model> model_of_run(const stored_run& run,
                                                std::string_view kernels = "auto");
/// Returns a model that has these parameters and empty contexts.
/// @param lanes  Number of contexts.
/// @param kernels  Instruction set, see `models::prose::create`.
/// @error{corrupt, a parameter is missing}
/// @error{config_mismatch, a parameter has another shape}
/// @error{unknown_key, the model has no parameter of this name}
[[nodiscard]] result<stored_model> model_with(const parameter_set& parameters,
                                              std::uint32_t lanes = 1,
                                              std::string_view kernels = "auto");

}  // namespace weir::actors
