// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names of manifests and parts, and which of them stay in the folders.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "state/manifest.hpp"
#include "weir/base/file.hpp"

namespace weir::runtime {

/// Returns the name of the manifest of a generation: "state-8.manifest".
[[nodiscard]] std::string manifest_name(std::uint64_t generation);
/// Returns the name of the part of a rank: "state-8.rank-2.part", or with the identity of
/// the state "state-8.rank-2.of-0123456789abcdef.part".
/// @param identity  Empty for a part in the folder of the manifests.
[[nodiscard]] std::string part_name(std::uint64_t generation, rank_id rank,
                                    const std::string& identity);
/// Returns the identity of the state whose lock this process holds: 16 hexadecimal
/// digits. The first call for a folder makes it. @param lock_path  Path of the lock file.
/// @error{io; the file cannot be read or written, or there is no random number}
[[nodiscard]] result<std::string> state_identity(const std::string& lock_path);

/// Returns the path of a part. `folder` is that of its manifest.
[[nodiscard]] std::string path_of(const part_entry& part, const std::string& folder);

/// Returns the generations that have a manifest in a folder, ascending.
/// @error{io; the folder cannot be read} @error{not_found; there is no such folder}
[[nodiscard]] result<std::vector<std::uint64_t>> list_generations(
    file_system& files, const std::string& folder);
/// Removes the parts of a state in a folder whose generation is none of `complete`, which
/// ascend. `identity` is empty for the folder of the manifests.
/// A part that another rank removes at the same time is no failure.
/// @error{io; a file cannot be removed} @error{not_found; there is no such folder}
[[nodiscard]] result<void> remove_lonely_parts(
    file_system& files, const std::string& folder, const std::string& identity,
    const std::vector<std::uint64_t>& complete);
/// Removes the manifest of a generation, then the parts that it names and that this
/// machine reaches. Failures leave files, which the next start removes.
void remove_generation(file_system& files, const std::string& folder,
                       std::uint64_t generation);

}  // namespace weir::runtime
