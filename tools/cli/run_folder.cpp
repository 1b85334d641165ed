// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes and inspects run folders.
#include "run_folder.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

namespace weir::tools {

namespace fs = std::filesystem;

bool holds_checkpoint(const std::string& folder) {
  const auto names = posix_file_system().list(join_path(folder, "checkpoint"));
  return names && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return name.size() > 8 && name.compare(0, 3, "ck-") == 0 &&
                  name.compare(name.size() - 5, 5, ".weir") == 0;
         });
}

result<file_lock> lock_folder(const std::string& folder) {
  return file_lock::acquire(join_path(folder, "lock"));
}

result<void> make_folders(const std::string& path) {
  std::error_code problem;
  fs::create_directories(path, problem);
  if (problem && !fs::is_directory(path)) {
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
  if (path.empty() || fs::exists(path, ignored)) {
    return;
  }
  add_missing(path.parent_path(), to);
  to.push_back(path.string());
}

}  // namespace

result<made_folder> make_run_folder(const std::string& path, const std::string& name) {
  made_folder made;
  add_missing(path.empty() ? fs::path("runs") : fs::path(path), made.created);
  if (path.empty()) {
    WEIR_TRY(made.path, next_run_folder(name));
    made.created.push_back(made.path);
  } else {
    WEIR_CHECK(make_folders(path));
    made.path = path;
  }
  return made;
}

void remove_if_empty(const made_folder& folder) {
  for (auto one = folder.created.rbegin(); one != folder.created.rend(); ++one) {
    std::error_code ignored;
    fs::remove(*one, ignored);  // which keeps a folder with content
  }
}

result<std::string> next_run_folder(const std::string& name) {
  WEIR_CHECK(make_folders("runs"));
  for (int n = 1; n < 1'000'000; ++n) {
    const std::string path = fmt::format("runs/{}-{}", name, n);
    std::error_code problem;
    if (fs::create_directory(path, problem)) {
      return path;
    }
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
