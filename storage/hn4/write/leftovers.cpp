// SPDX-License-Identifier: Apache-2.0
/// @file
/// The temporary files that killed processes leave beside a file.
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

std::optional<pid_t> number_of(std::string_view digits) {
  pid_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, number);
  return problem == std::errc() && stop == end && number >= 0 ? std::optional(number)
                                                              : std::nullopt;
}

// The process that made the temporary file `name` of the file `of`, if it is one.
std::optional<pid_t> maker_of(std::string_view name, std::string_view of) {
  constexpr std::string_view suffix = ".tmp";
  if (name.size() <= of.size() + 1 || !name.starts_with(of) || name[of.size()] != '.' ||
      !name.ends_with(suffix)) {
    return std::nullopt;
  }
  name.remove_prefix(of.size() + 1);
  name.remove_suffix(std::min(suffix.size(), name.size()));
  const std::size_t dash = name.find('-');
  if (dash == name.npos || !number_of(name.substr(dash + 1))) {
    return std::nullopt;
  }
  return number_of(name.substr(0, dash));
}

// This process makes its file after it has asked: another one had its number before.
bool may_be_written(pid_t maker) {
  return maker != ::getpid() && (::kill(maker, 0) == 0 || errno != ESRCH);
}

template <class Select>
result<void> remove_temporaries(const std::string& path, Select select) {
  file_system& files = posix_file_system();
  const std::string folder = folder_of(path);
  const std::string of = path.substr(path.rfind('/') + 1);
  const auto names = files.list(folder);
  if (!names) {
    return {};  // whoever opens a file there says what is wrong with the folder
  }
  for (const std::string& name : *names) {
    const auto maker = maker_of(name, of);
    if (maker && select(*maker)) {
      WEIR_CHECK(files.remove(join_path(folder, name)));
    }
  }
  return {};
}

}  // namespace

std::string temporary_path_of(const std::string& path) {
  static std::atomic<unsigned> calls{0};
  return path + "." + std::to_string(::getpid()) + "-" + std::to_string(calls++) + ".tmp";
}

result<void> remove_index_leftovers(const std::string& index) {
  return remove_temporaries(index, [](pid_t) { return true; });
}

}  // namespace hn4

result<void> hn4_remove_leftovers(const std::string& path) {
  return hn4::remove_temporaries(path,
                                 [](pid_t maker) { return !hn4::may_be_written(maker); });
}

}  // namespace weir::storage
