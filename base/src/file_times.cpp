// SPDX-License-Identifier: Apache-2.0
/// @file
/// Times of files from `stat`.
/// `stat` has nanoseconds, which is enough to tell two versions of a file apart.
#include "weir/base/file_times.hpp"

#include <sys/stat.h>

namespace weir {

std::int64_t modification_time(const std::string& path) noexcept {
  struct stat info {};
  // 0 for a file that cannot be reached; callers compare times only.
  if (::stat(path.c_str(), &info) != 0) {
    return 0;
  }
  constexpr std::int64_t second = 1'000'000'000;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * second + info.st_mtim.tv_nsec;
}

}  // namespace weir
