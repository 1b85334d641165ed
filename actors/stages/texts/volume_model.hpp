// SPDX-License-Identifier: Apache-2.0
/// @file
/// The model of a volume that a stage of texts uses.
#pragma once

#include <optional>
#include <string>

#include "weir/actors/models.hpp"
#include "weir/base/settings.hpp"
#include "weir/pipeline/stage_object.hpp"

namespace weir::actors {

/// Settings of the stages that use a model.
struct volume_model_settings {
  std::string volume;
  std::string tag;
};

/// Returns the table of `volume_model_settings`.
[[nodiscard]] const settings_table<volume_model_settings>& volume_model_table();

/// A mapped volume and a model in it.
struct volume_model {
  storage::hn4_volume volume;
  model_in_volume stored;

  /// Opens a model.
  /// @param family  Architecture that the stage needs; unset for any.
  /// @error{not_found, there is no such volume or model}
  /// @error{invalid_argument, there are several models and no tag; they are listed}
  /// @error{unsupported, the model is of another family}
  /// @error{corrupt, the volume or the record of the model is damaged} @error{io}
  [[nodiscard]] static result<volume_model> open(
      const opening& run, const volume_model_settings& settings,
      std::optional<models::architecture> family = {});
};

}  // namespace weir::actors
