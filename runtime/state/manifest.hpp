// SPDX-License-Identifier: Apache-2.0
/// @file
/// The manifest of a generation: the state, the step, and size and digest of each part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "state/state_plan.hpp"
#include "weir/base/bytes.hpp"

namespace weir::runtime {

/// The part of a rank as the manifest describes it.
struct part_entry {
  std::string machine;       ///< name of the machine that wrote it
  std::string path;          ///< absolute, or relative to the folder of the manifest
  std::uint64_t bytes = 0;   ///< size of the file
  std::uint64_t digest = 0;  ///< XXH3-64 of the digests behind the tiles
};

/// A generation: the number of parts is the number of ranks that saved it.
struct state_manifest {
  /// Number of the generation, which the name of the manifest has as well.
  std::uint64_t generation = 0;
  /// Step of the program behind which the state was saved.
  std::int64_t step = 0;
  std::vector<item_description> items;
  std::vector<byte_vector> values;  ///< bytes by item; empty for tensors in tiles
  std::vector<part_entry> parts;
};

/// Returns the bytes of a manifest, which end with a digest of those before.
[[nodiscard]] byte_vector encode_manifest(const state_manifest& manifest);
/// Reads the bytes of a manifest. `path` is named in messages.
/// @error{corrupt; it is damaged or no manifest}
/// @error{unsupported_version; a version that this build does not know}
[[nodiscard]] result<state_manifest> decode_manifest(bytes_view bytes,
                                                     const std::string& path);

}  // namespace weir::runtime
