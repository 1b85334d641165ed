// SPDX-License-Identifier: Apache-2.0
/// @file
/// The memory that this process may use.
#pragma once

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

}  // namespace weir
