// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes and inspects run folders.
///
/// A run folder is given with `--out` or made under runs/ with the next free number.
/// Folders that a failed start made and left empty are removed again.
#include "run_folder.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

namespace weir::tools {

namespace fs = std::filesystem;

bool holds_checkpoint(const std::string& folder) {
  const auto names = posix_file_system().list(join_path(folder, "checkpoint"));
  // Names such as ck-000012.weir. The file is not opened: also a damaged checkpoint means
  // that there was a run.
  return names && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return name.size() > 8 && name.compare(0, 3, "ck-") == 0 &&
                  name.compare(name.size() - 5, 5, ".weir") == 0;
         });
}

result<file_lock> lock_folder(const std::string& folder) {
  // The lock belongs to the process and ends with it, so a crash leaves none behind.
  return file_lock::acquire(join_path(folder, "lock"));
}

result<void> make_folders(const std::string& path) {
  std::error_code problem;
  fs::create_directories(path, problem);
  std::error_code ignored;
  // Some implementations report an error for a folder that exists, which is none here.
  if (problem && !fs::is_directory(path, ignored)) {
    return error(errc::io,
                 fmt::format("cannot make run folder \"{}\": expected a folder, found "
                             "\"{}\"",
                             path, problem.message()));
  }
  return {};
}

namespace {

/// Adds the folders of a path that do not exist, outer ones first.
void add_missing(const fs::path& path, std::vector<std::string>& to) {
  std::error_code ignored;
  // Ends at the first folder that exists, or at the empty path in front of a relative
  // one.
  if (path.empty() || fs::exists(path, ignored)) {
    return;
  }
  add_missing(path.parent_path(), to);
  to.push_back(path.string());
}

}  // namespace

result<made_folder> make_run_folder(const std::string& path, const std::string& name) {
  made_folder made;
  // Noted before anything is made, because afterwards it cannot be told what was new.
  add_missing(path.empty() ? fs::path("runs") : fs::path(path), made.created);
  if (path.empty()) {
    WEIR_TRY(made.path, next_run_folder(name));
    // The folder itself is new in any case. `runs` may be, too, and then was noted above.
    made.created.push_back(made.path);
  } else {
    WEIR_CHECK(make_folders(path));
    made.path = path;
  }
  return made;
}

void remove_if_empty(const made_folder& folder) {
  // Inner folders first, because an outer one is not empty before.
  for (auto one = folder.created.rbegin(); one != folder.created.rend(); ++one) {
    std::error_code ignored;
    fs::remove(*one, ignored);  // which keeps a folder with content
  }
}

result<std::string> next_run_folder(const std::string& name) {
  WEIR_CHECK(make_folders("runs"));
  // Numbers begin with 1. The bound ends the search if the folder refuses every name.
  for (int n = 1; n < 1'000'000; ++n) {
    const std::string path = fmt::format("runs/{}-{}", name, n);
    std::error_code problem;
    // Creating is the test whether a name is free, so two processes cannot get the same
    // one.
    if (fs::create_directory(path, problem)) {
      return path;
    }
    // Any other reason will not go away with another number.
    if (problem && problem != std::errc::file_exists) {
      return error(errc::io,
                   fmt::format("cannot make run folder \"{}\": expected a folder, found "
                               "\"{}\"",
                               path, problem.message()));
    }
  }
  return error(errc::already_exists,
               fmt::format("cannot make a run folder runs/{}-N: expected a free "
                           "number, found none",
                           name))
      .hint("choose one with --out");
}

}  // namespace weir::tools
