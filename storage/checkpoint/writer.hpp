// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes one checkpoint file, before it gets its final name.
#pragma once

#include "weir/storage/checkpoint.hpp"

namespace weir::storage {

/// Refuses sections that a reader would refuse, with the errors of
/// `checkpoint_store::save`.
[[nodiscard]] result<void> check_for_save(std::span<const checkpoint_section> sections,
                                          std::uint64_t pulse_id);
/// Writes the whole file. The caller makes it durable. @error{no_space, the file system
/// is full} @error{io, a write failed}
[[nodiscard]] result<void> write_checkpoint(file& f,
                                            std::span<const checkpoint_section> sections,
                                            const checkpoint_header& header);

}  // namespace weir::storage
