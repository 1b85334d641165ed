// SPDX-License-Identifier: Apache-2.0
/// @file
/// Choosing and loading the plug-in for an MPI library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "calls.hpp"
#include "weir/base/error.hpp"

namespace weir::mpi {

/// MPI libraries with a plug-in.
enum class library { none, openmpi, mpich };

/// Returns the library whose launcher has started this process together with others;
/// `none` if this process is the only one. @error{unsupported; srun without a type of
/// MPI}
[[nodiscard]] result<library> library_of_launcher();

/// Returns the number that the launcher has given to this process, if it has told it by a
/// variable of the environment.
[[nodiscard]] std::optional<std::uint32_t> rank_of_launcher();

/// Loads the plug-in for a library, from `folder` if that is not empty.
/// @error{not_found; no folder has the plug-in}
/// @error{unsupported; the plug-in has another version, or the process uses another MPI
/// library than the one that the plug-in was built for}
[[nodiscard]] result<const calls*> load_plugin(library which, const std::string& folder);

}  // namespace weir::mpi
