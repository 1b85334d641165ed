// SPDX-License-Identifier: Apache-2.0
/// @file
/// Removes temporary files that killed processes have left beside a file.
///
/// The name of a temporary file contains the number of the process that made it. A file
/// of a process that still runs may be in use and stays.
///
/// A process number may be in use again by another program; the file then stays until
/// that program ends, which does no harm.
#include "hn4/write/leftovers.hpp"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include "weir/base/file.hpp"

namespace weir::storage {

namespace hn4 {

namespace {

/// Decodes a number that consists of digits alone. Signs and spaces are refused.
std::optional<pid_t> number_of(std::string_view digits) {
  pid_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, number);
  return problem == std::errc() && stop == end && number >= 0 ? std::optional(number)
                                                              : std::nullopt;
}

/// Returns the process that made a temporary file, "FILE.PROCESS-COUNT.tmp", if `name` is
/// one of `file`.
std::optional<pid_t> maker_of(std::string_view name, std::string_view file) {
  constexpr std::string_view suffix = ".tmp";
  if (name.size() <= file.size() + 1 || !name.starts_with(file) ||
      name[file.size()] != '.' || !name.ends_with(suffix)) {
    return std::nullopt;
  }
  name.remove_prefix(file.size() + 1);
  name.remove_suffix(std::min(suffix.size(), name.size()));
  const std::size_t dash = name.find('-');
  if (dash == name.npos || !number_of(name.substr(dash + 1))) {
    return std::nullopt;
  }
  return number_of(name.substr(0, dash));
}

/// Returns whether the maker may still write. This process asks before it makes its own
/// file, so a file with its number is from an earlier process with the same number.
///
/// A process of another user answers with EPERM, which also means that it runs.
bool may_be_written(pid_t maker) {
  return maker != ::getpid() && (::kill(maker, 0) == 0 || errno != ESRCH);
}

/// Removes the temporary files of a path whose makers `select` accepts. `select` gets
/// the process number of the maker. Nothing is removed if the folder cannot be listed.
template <class Select>
result<void> remove_temporaries(const std::string& path, Select select) {
  file_system& files = posix_file_system();
  const std::string folder = folder_of(path);
  const std::string file = path.substr(path.rfind('/') + 1);
  const auto names = files.list(folder);
  if (!names) {
    return {};  // opening the file there reports what is wrong with the folder
  }
  for (const std::string& name : *names) {
    const auto maker = maker_of(name, file);
    if (!maker || !select(*maker)) {
      continue;
    }
    // Another process may have removed the file since the folder was listed.
    if (auto removed = files.remove(join_path(folder, name));
        !removed && removed.error().code() != errc::not_found) {
      return removed;
    }
  }
  return {};
}

}  // namespace

/// The count makes names of one process different.
std::string temporary_path_of(const std::string& path) {
  static std::atomic<unsigned> calls{0};
  return path + "." + std::to_string(::getpid()) + "-" + std::to_string(calls++) + ".tmp";
}

/// Serves a writer that holds the lock of the image. The makers of these files had the
/// same lock, so they cannot be running any more.
result<void> remove_index_leftovers(const std::string& index) {
  return remove_temporaries(index, [](pid_t) { return true; });
}

}  // namespace hn4

/// Serves makers of whole images, several of which may run at the same time.
result<void> hn4_remove_leftovers(const std::string& path) {
  return hn4::remove_temporaries(path,
                                 [](pid_t maker) { return !hn4::may_be_written(maker); });
}

}  // namespace weir::storage
