// SPDX-License-Identifier: Apache-2.0
/// @file
/// The folder of a run: how it is made, named and locked.
/// @threads{all functions: safe to call concurrently}
#pragma once

#include <string>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/base/file.hpp"

namespace weir::tools {

/// Returns whether a run folder holds a checkpoint.
[[nodiscard]] bool holds_checkpoint(const std::string& folder);

/// Creates a folder and those above it, unless they exist.
/// @error{io, a folder cannot be created}
[[nodiscard]] result<void> make_folders(const std::string& path);

/// A folder of a run and the folders that were created for it.
struct made_folder {
  std::string path;                  ///< the folder
  std::vector<std::string> created;  ///< folders that did not exist, outer ones first
};

/// Creates the folder of a run, with those above it, unless it exists.
/// @param path  The folder; if empty, the next free runs/NAME-N is made.
/// @error{io, a folder cannot be created}
/// @error{already_exists, there is no free number}
[[nodiscard]] result<made_folder> make_run_folder(const std::string& path,
                                                  const std::string& name);

/// Removes the folders that were created for a run, if they are empty.
void remove_if_empty(const made_folder& folder);

/// Takes the lock that a process holds while it works in a run folder.
/// @error{locked, another process works in it} @error{io, the lock cannot be made}
[[nodiscard]] result<file_lock> lock_folder(const std::string& folder);

/// Creates the first of runs/NAME-1, runs/NAME-2, ... that does not exist, and returns
/// its path. Creating the folder reserves it: if two processes try the same number, one
/// succeeds.
/// @error{io, the folder cannot be created}
/// @error{already_exists, there is no free number}
[[nodiscard]] result<std::string> next_run_folder(const std::string& name);

}  // namespace weir::tools
