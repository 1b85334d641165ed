// SPDX-License-Identifier: Apache-2.0
/// @file
/// Records of models, and what they have in common with headers of weights.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/actors/models.hpp"

namespace weir::actors {

/// Ending of the tag that holds the record of a model.
inline constexpr std::string_view record_ending = "/model";
/// Ending of the tag that is reserved for weights in panels.
inline constexpr std::string_view panels_ending = "/panels";

/// Returns a record as JSON.
[[nodiscard]] std::string text_of_record(const model_record& record);
/// Reads a record. @error{corrupt, it is no record, or of a later version}
[[nodiscard]] result<model_record> record_of_text(std::string_view text,
                                                  const std::string& tag);

/// Returns names, types and shapes of tensors in elements: the last dimension of types
/// with blocks counts bytes in `stored_tensor`.
[[nodiscard]] std::vector<models::named_tensor> named_tensors(
    std::span<const storage::stored_tensor> tensors);
/// Returns the number of bytes before the data of the first tensor.
/// @error{corrupt, there are no tensors}
[[nodiscard]] result<std::uint64_t> bytes_before_data(
    std::span<const storage::stored_tensor> tensors, const std::string& name);

}  // namespace weir::actors
