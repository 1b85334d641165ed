// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writing one checkpoint file, not yet under its final name.
#pragma once

#include "weir/storage/checkpoint.hpp"

namespace weir::storage {

/// Refuses what a loader would refuse. @error{as checkpoint_store::save}
[[nodiscard]] result<void> check_for_save(std::span<const checkpoint_section> sections,
                                          std::uint64_t pulse_id);
/// Writes the whole file; the caller makes it durable.
[[nodiscard]] result<void> write_checkpoint(file& f,
                                            std::span<const checkpoint_section> sections,
                                            const checkpoint_header& header);

}  // namespace weir::storage
