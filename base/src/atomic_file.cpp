// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes whole files so that a crash leaves either the old file or the new one.
///
/// The order of the steps is the point: the content must be durable before the rename
/// makes it visible under its path, and the rename must be durable (sync of the folder)
/// before the caller is told so.
///
///   path.PID-N.tmp   created, written, synced
///        |  rename        replaces `path` in one step
///   path             then the folder is synced
///
/// A crash before the rename leaves the old file and a temporary one, which
/// `remove_unfinished` removes at the next start. A crash after it leaves the new file,
/// or the old one if the rename was not durable yet.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "weir/base/file.hpp"

namespace weir {

namespace {

// Returns a name that no other living process or thread uses. It is in the same folder as
// the file, because files cannot be renamed from one file system to another.
// The process id tells processes apart, the number the calls of one process.
std::string temporary_of(const std::string& path) {
  static std::atomic<unsigned> calls{0};
  return path + "." + std::to_string(::getpid()) + "-" + std::to_string(calls++) + ".tmp";
}

// Returns whether a name ends as names of temporary_of do: ".<digits>-<digits>.tmp".
bool is_temporary(std::string_view name) {
  constexpr std::string_view suffix = ".tmp";
  if (!name.ends_with(suffix)) {
    return false;
  }
  name.remove_suffix(suffix.size());
  const std::size_t dot = name.rfind('.');
  const std::size_t dash = name.rfind('-');
  const auto digits = [](std::string_view part) {
    return !part.empty() && std::all_of(part.begin(), part.end(),
                                        [](char c) { return c >= '0' && c <= '9'; });
  };
  return dot != name.npos && dash != name.npos && dash > dot &&
         digits(name.substr(dot + 1, dash - dot - 1)) && digits(name.substr(dash + 1));
}

/// Replaces every occurrence from left to right.
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

// Returns an error with the path of the file, which the user knows, in the place of the
// path of the temporary file. Causes are rewritten as well.
error naming_the_file(const error& e, const std::string& temporary,
                      const std::string& path) {
  std::string text = e.text();
  std::string location = e.location();
  replace_all(text, temporary, path);
  replace_all(location, temporary, path);
  error named =
      error(e.code(), std::move(text)).located(std::move(location)).hint(e.hint());
  return e.cause() == nullptr
             ? named
             : std::move(named).because(naming_the_file(*e.cause(), temporary, path));
}

/// Writes the temporary file and makes its content durable. The file is closed at the
/// end.
result<void> fill(file_system& fs, const std::string& name,
                  const std::function<result<void>(file&)>& write) {
  WEIR_TRY(const auto f, fs.open(name, open_mode::create_new));
  WEIR_CHECK(write(*f));
  return f->sync();
}

}  // namespace

result<void> write_file_atomically(file_system& fs, const std::string& path,
                                   const std::function<result<void>(file&)>& write) {
  const std::string temporary = temporary_of(path);
  // `create_new` would fail on the remains.
  if (fs.exists(temporary)) {  // left by a killed process that had the same process id
    WEIR_CHECK(fs.remove(temporary));
  }
  auto written = fill(fs, temporary, write);
  if (written) {
    written = fs.rename(temporary, path);
  }
  if (!written) {
    if (fs.exists(temporary)) {
      // The caller gets the first failure, not one of this clean-up.
      static_cast<void>(fs.remove(temporary));
    }
    return naming_the_file(written.error(), temporary, path);
  }
  // Without this, a crash could undo the rename although the caller was told that it is
  // done.
  return fs.sync_folder(folder_of(path));
}

result<void> write_file_atomically(file_system& fs, const std::string& path,
                                   bytes_view content) {
  return write_file_atomically(fs, path,
                               [&](file& f) { return write_all(f, 0, content); });
}

result<void> remove_unfinished(file_system& fs, const std::string& path) {
  const std::string folder = folder_of(path);
  // The text behind the last slash, which may be empty: then all names match.
  const std::string_view begin = std::string_view(path).substr(path.rfind('/') + 1);
  WEIR_TRY(const auto names, fs.list(folder));
  for (const std::string& name : names) {
    if (name.starts_with(begin) && is_temporary(name)) {
      WEIR_CHECK(fs.remove(join_path(folder, name)));
    }
  }
  return {};
}

}  // namespace weir
