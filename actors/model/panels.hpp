// SPDX-License-Identifier: Apache-2.0
/// @file
/// Panels of a model in a stream of a volume: where they lie and how they are packed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weir/actors/models.hpp"
#include "weir/models/panels.hpp"

namespace weir::actors {

/// Alignment of panels in memory.
inline constexpr std::uint64_t panel_alignment = 64;

/// Plans where the weights of a model lie in a stream whose blocks hold `payload` bytes.
///
/// A run lies inside one block and begins at a multiple of `panel_alignment` in memory:
/// blocks lie at multiples of it and begin with a header of 48 bytes. Returns nothing if
/// a panel or a vector is larger than a block allows.
[[nodiscard]] std::vector<panel_entry> plan_panels(
    std::span<const models::bound_weight> weights, std::uint64_t payload);
/// Returns the length of the stream of a plan.
[[nodiscard]] std::uint64_t stream_bytes(std::span<const panel_entry> plan);

/// A weight as a file holds it.
struct raw_weight {
  const models::bound_weight* weight;  ///< role, shape and type
  models::weight_view view;            ///< rows in the order of the model
  bytes_view bytes;                    ///< all bytes in the order of the file
  models::weight_files files;          ///< family of the file
};
/// Returns shape and type of the panels of a weight: 16-bit types become fp32.
[[nodiscard]] models::panel_shape shape_of_panels(const models::bound_weight& weight);
/// Packs panels from `first_panel` on, or a whole vector, into `to`.
/// @error{invalid_argument, as of `models::pack_panels`}
[[nodiscard]] result<void> pack_run(const raw_weight& w, std::uint64_t first_panel,
                                    mutable_bytes to);

}  // namespace weir::actors
