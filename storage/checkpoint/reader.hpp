// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads checkpoint files together with the facts by which later files refer to them.
#pragma once

#include "checkpoint/layout.hpp"

namespace weir::storage {

/// A file that was verified, as far as later files may refer to it.
struct verified_file {
  std::string path;
  std::uint64_t generation = 0;
  std::uint64_t root = 0;  ///< hash of preamble and table
  section_table table;
};
/// A checkpoint and the files that hold its sections.
struct verified_checkpoint {
  checkpoint content;
  verified_file own;
  std::optional<verified_file> base;
};

/// Reads and verifies a checkpoint and its base, with the errors of `load_checkpoint`.
[[nodiscard]] result<verified_checkpoint> load_verified(file_system& fs,
                                                        const std::string& path);

/// Returns the path of a generation in the folder of the checkpoints.
[[nodiscard]] std::string path_of_generation(const std::string& folder,
                                             std::uint64_t generation);

}  // namespace weir::storage
