// SPDX-License-Identifier: Apache-2.0
/// @file
/// The memory that this process may use, and the size of its pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir {

/// Memory in bytes; 0 where the system tells nothing.
struct memory_facts {
  std::uint64_t total =
      0;  ///< memory of the machine, or the limit of this process below it
  /// Part of it that programs can get without swapping: free memory, and what caches of
  /// files can give back.
  std::uint64_t available = 0;
};

/// Returns how much memory this process may use: that of the machine (`MemTotal` and
/// `MemAvailable` of Linux), or less if a control group of a container or a service
/// limits it.
/// @param root  Prefix of the paths under which the system tells this; tests have files
/// of their own.
/// @threads{safe to call concurrently}
/// @source{Linux, Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst}
[[nodiscard]] memory_facts memory_of_machine(const char* root = "") noexcept;

/// Asks the system for huge pages (2 MiB) for the whole pages of a block of 8 MiB or
/// more, so that the processor translates fewer addresses. Does nothing for smaller ones,
/// and nothing changes if the system refuses. Each page that is touched then takes 2 MiB,
/// so this is for blocks whose bytes are used side by side.
/// @param begin  First byte of memory of the process. @units{bytes: bytes}
/// @threads{safe to call concurrently}
/// @source{Linux, Documentation/admin-guide/mm/transhuge.rst}
void prefer_huge_pages(std::byte* begin, std::int64_t bytes) noexcept;

}  // namespace weir
