// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the memory of the machine and the limits of the control groups around this
/// process.
#include "weir/base/system/memory.hpp"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <string_view>

namespace weir {

namespace {

/// Names of the files of a version of control groups.
struct group_files {
  const char* mount;  ///< folder of the outermost group
  const char* limit;
  const char* used;   ///< memory in use, caches of files included
  const char* cache;  ///< line of `memory.stat` with caches that can be given back
};

constexpr group_files version_1{"/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                                "/memory.usage_in_bytes", "total_inactive_file "};
constexpr group_files version_2{"/sys/fs/cgroup", "/memory.max", "/memory.current",
                                "inactive_file "};

/// Returns the beginning of a file of the system, or nothing if there is no such file.
std::string text_of_file(const std::string& path) {
  std::string text;
  if (std::FILE* const file = std::fopen(path.c_str(), "re")) {
    // Such files are short, apart from those of a machine with many controllers.
    text.resize(std::size_t{1} << 16);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
  }
  return text;
}

/// Returns the number behind `key` at the beginning of a line. A limit may be "max",
/// which is none.
std::optional<std::uint64_t> number_behind(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with(key)) {
      const std::size_t first =
          std::min(line.find_first_not_of(' ', key.size()), line.size());
      std::uint64_t number = 0;
      const char* const end = line.data() + line.size();
      return std::from_chars(line.data() + first, end, number).ec == std::errc()
                 ? std::optional(number)
                 : std::nullopt;
    }
  }
  return std::nullopt;
}

/// Returns the pages of a kind in bytes.
std::uint64_t bytes_of_pages(int kind) noexcept {
  const long pages = ::sysconf(kind);
  const long size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size)
             : 0;
}

/// Applies the limits of a group and of all groups around it. In a container, the path
/// may be one of the host, which does not exist here: the outermost group counts then.
void apply_groups(const std::string& root, const group_files& files, std::string path,
                  memory_facts& facts) {
  while (true) {
    const std::string folder = root + files.mount + path;
    if (const auto limit = number_behind(text_of_file(folder + files.limit), "")) {
      const std::uint64_t used =
          number_behind(text_of_file(folder + files.used), "").value_or(0);
      const std::uint64_t cache =
          number_behind(text_of_file(folder + "/memory.stat"), files.cache).value_or(0);
      const std::uint64_t needed = used - std::min(used, cache);
      facts.total = std::min(facts.total, *limit);
      facts.available = std::min(facts.available, *limit - std::min(*limit, needed));
    }
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) {
      return;
    }
    path.resize(slash);
  }
}

/// Applies the limits of all groups that this process is in. A line is
/// "NUMBER:CONTROLLERS:PATH", without controllers for version 2.
void apply_limits(const std::string& root, memory_facts& facts) {
  const std::string lines = text_of_file(root + "/proc/self/cgroup");
  for (std::string_view text = lines; !text.empty();) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t first = std::min(line.find(':'), line.size());
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) {
      continue;
    }
    const std::string_view listed = line.substr(first + 1, second - first - 1);
    const std::string controllers = fmt::format(",{},", listed);
    const std::string path(line.substr(second + 1));
    if (controllers == ",,") {
      apply_groups(root, version_2, path, facts);
    } else if (controllers.find(",memory,") != std::string::npos) {
      apply_groups(root, version_1, path, facts);
    }
  }
}

}  // namespace

/// Without memory for the texts, what is known so far is returned.
memory_facts memory_of_machine(const char* root) noexcept {
  memory_facts facts{bytes_of_pages(_SC_PHYS_PAGES), bytes_of_pages(_SC_AVPHYS_PAGES)};
  try {
    const std::string text = text_of_file(std::string(root) + "/proc/meminfo");
    constexpr std::uint64_t unit = 1024;
    facts.total = number_behind(text, "MemTotal:").value_or(facts.total / unit) * unit;
    facts.available =
        number_behind(text, "MemAvailable:").value_or(facts.available / unit) * unit;
    apply_limits(root, facts);
  } catch (const std::bad_alloc&) {
  }
  return facts;
}

void prefer_huge_pages(std::byte* begin, std::int64_t bytes) noexcept {
  constexpr std::int64_t least = std::int64_t{8} << 20;
  if (bytes < least) {
    return;
  }
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + page - 1) / page * page;
  const std::uintptr_t end = (address + static_cast<std::uintptr_t>(bytes)) / page * page;
  static_cast<void>(
      ::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE));
}

}  // namespace weir
