// SPDX-License-Identifier: Apache-2.0
/// @file
/// Expands paths, folders and patterns to a list of files.
///
/// The list decides the order of the text and so what a run learns. It must be the same
/// on every machine: names are compared bytewise, and hidden files are left out.
#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>

#include "weir/storage/context_source.hpp"

namespace weir::storage {

namespace {

/// Largest depth of nested folders. A chain of links that leads back to itself ends here.
constexpr int max_depth = 40;

/// Returns whether a text contains a wildcard. A text without a wildcard is taken as a
/// path, whatever other characters it has.
bool is_pattern(std::string_view text) {
  return text.find_first_of("*?[") != std::string_view::npos;
}

/// Returns whether a name matches a pattern without slashes. A leading dot is matched by
/// a dot alone; a backslash is an ordinary character.
///
/// Patterns are those of `fnmatch`; a shell that quotes its argument gives the same
/// result.
bool matches(std::string_view pattern, const std::string& name) {
  return ::fnmatch(std::string(pattern).c_str(), name.c_str(),
                   FNM_NOESCAPE | FNM_PERIOD) == 0;
}

using names = std::vector<std::string>;

/// Adds a file, or all files below a folder except hidden ones.
///
/// `depth` is the number of folders above.
result<void> add_tree(file_system& fs, const std::string& path, int depth, names& out) {
  const auto entries = fs.list(path);
  if (!entries) {
    // A file, or a folder that cannot be read.
    out.push_back(path);  // not a folder; opening it as a file reports any other problem
    return {};
  }
  if (depth == max_depth) {
    return error(errc::invalid_argument,
                 fmt::format(
                     "cannot list \"{}\": expected at most {} folders inside each other",
                     path, max_depth))
        .hint("a link leads back to a folder above it");
  }
  for (const std::string& name : *entries) {
    if (name.front() != '.') {
      WEIR_CHECK(add_tree(fs, join_path(path, name), depth + 1, out));
    }
  }
  return {};
}

/// Finds the paths that match a pattern, component by component. `done` is the path that
/// the components before `rest` have matched.
///
/// Components without a wildcard are not looked up; whether the whole path exists is
/// tested at the end.
void add_matches(file_system& fs, const std::string& done, std::string_view rest,
                 names& out) {
  const std::size_t slash = rest.find('/');
  const std::string_view part = rest.substr(0, slash);
  const bool last = slash == std::string_view::npos;
  const std::string_view next = last ? std::string_view() : rest.substr(slash + 1);
  names found;
  // An empty component comes from a leading or a double slash.
  if (!is_pattern(part)) {
    found.emplace_back(part);
  } else if (const auto entries = fs.list(done.empty() ? "." : done)) {
    // A folder that cannot be listed matches nothing.
    for (const std::string& name : *entries) {
      if (matches(part, name)) {
        found.push_back(name);
      }
    }
  }
  for (const std::string& name : found) {
    const std::string path = done.empty() && !name.empty() ? name : join_path(done, name);
    if (last) {
      if (fs.exists(path)) {
        out.push_back(path);
      }
    } else {
      // A leading slash begins at the root.
      add_matches(fs, name.empty() && done.empty() ? "/" : path, next, out);
    }
  }
}

}  // namespace

// A pattern that is the name of a file stands for that file. What one pattern has found
// is sorted, because a folder has no order of its own; the patterns keep their order.
//
// Each pattern must give at least one file, so a wrong name is not overlooked.
result<std::vector<std::string>> expand_paths(file_system& fs,
                                              std::span<const std::string> patterns) {
  names out;
  for (const std::string& pattern : patterns) {
    names found;
    if (!is_pattern(pattern) || fs.exists(pattern)) {
      found.push_back(pattern);
    } else {
      add_matches(fs, "", pattern, found);
    }
    const std::size_t before = out.size();
    // Every match may be a folder, of which all files are taken.
    for (const std::string& path : found) {
      if (!fs.exists(path)) {
        return error(
            errc::not_found,
            fmt::format(
                "cannot find source \"{}\": expected a file or folder, found none",
                path));
      }
      WEIR_CHECK(add_tree(fs, path, 0, out));
    }
    const auto first = out.begin() + static_cast<std::ptrdiff_t>(before);
    std::sort(first, out.end());
    // A file that is found twice by one pattern counts once.
    out.erase(std::unique(first, out.end()), out.end());
    if (out.size() == before) {
      return error(errc::not_found,
                   fmt::format("cannot find source \"{}\": expected at least one file "
                               "there, found none",
                               pattern));
    }
  }
  return out;
}

}  // namespace weir::storage
