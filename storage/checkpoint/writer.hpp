// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes one checkpoint file, before it gets its final name.
#pragma once

#include "checkpoint/layout.hpp"

namespace weir::storage {

/// Refuses sections that a reader would refuse, with the errors of
/// `checkpoint_store::save`.
[[nodiscard]] result<void> check_for_save(std::span<const checkpoint_section> sections,
                                          std::uint64_t pulse_id);
/// Returns the table of a file that holds all of these sections, without offsets.
[[nodiscard]] section_table table_of(std::span<const checkpoint_section> sections);
/// Writes the whole file. The caller makes it durable.
/// @param table  As `table_of` returns it; sections of the base are left out.
/// @error{no_space, the file system is full} @error{io, a write failed}
[[nodiscard]] result<void> write_checkpoint(file& f,
                                            std::span<const checkpoint_section> sections,
                                            section_table table,
                                            const checkpoint_header& header);

}  // namespace weir::storage
