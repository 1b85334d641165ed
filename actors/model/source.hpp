// SPDX-License-Identifier: Apache-2.0
/// @file
/// The files of a model outside of volumes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weir/actors/models.hpp"
#include "weir/storage/block_device.hpp"

namespace weir::actors {

/// A file of weights, mapped into memory, and what the files beside it say.
struct model_source {
  std::string path;                               ///< file of the weights
  std::unique_ptr<storage::block_device> device;  ///< keeps `bytes` valid
  bytes_view bytes;                               ///< content of the file
  model_record record;                            ///< without tag and digest
  std::vector<storage::stored_tensor> tensors;    ///< tensors of the file
  std::vector<models::bound_weight> weights;      ///< weights of the model

  /// Returns a weight as the file has it.
  [[nodiscard]] models::weight_view view(const models::bound_weight& w) const;
};

/// Opens the files of a model and checks everything but the values of the weights, with
/// the errors of `import_model`.
[[nodiscard]] result<model_source> open_model_source(const std::string& path);

}  // namespace weir::actors
