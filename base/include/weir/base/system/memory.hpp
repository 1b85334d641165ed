// SPDX-License-Identifier: Apache-2.0
/// @file
/// The memory that the system can still give to a program.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace weir {

/// Returns the bytes of memory that programs can get without swapping: what is free, and
/// what caches of files can give back (`MemAvailable` of Linux).
/// @returns The free memory where the system does not tell more; 0 if it tells nothing.
/// @threads{safe to call concurrently}
[[nodiscard]] inline std::uint64_t available_memory() noexcept {
  unsigned long long kilobytes = 0;
  if (std::FILE* const file = std::fopen("/proc/meminfo", "re")) {
    char line[128];
    while (kilobytes == 0 && std::fgets(line, sizeof line, file) != nullptr) {
      if (std::sscanf(line, "MemAvailable: %llu kB", &kilobytes) != 1) {
        kilobytes = 0;
      }
    }
    std::fclose(file);
  }
  if (kilobytes != 0) {
    return std::uint64_t{kilobytes} * 1024;
  }
  const long pages = ::sysconf(_SC_AVPHYS_PAGES);
  const long size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size)
             : 0;
}

}  // namespace weir
