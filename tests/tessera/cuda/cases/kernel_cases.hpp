// SPDX-License-Identifier: Apache-2.0
/// @file
/// Launches of the kernels for GPUs with their expected results. The results are plain
/// loops that share no code with the kernels; every bit must agree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::tessera::test {

/// Memory that a kernel may access.
struct case_memory {
  const void* first;
  std::size_t bytes;
};

/// A launch of a kernel.
struct kernel_launch {
  std::string_view name;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  bool cooperative = false;
  std::vector<const void*> arguments;  ///< addresses of the arguments
  std::vector<std::size_t> sizes;      ///< their sizes
  std::vector<case_memory> memory;
};

/// Runs a launch and returns the text of a fault, or an empty string.
using kernel_runner = std::function<std::string(const kernel_launch&)>;

/// A launch, or several, and the check of the results.
struct kernel_case {
  std::string name;     ///< name for messages
  bool of_demo = true;  ///< the processor has a kernel of this name too
  /// Runs the case. Returns what is wrong, or an empty string.
  std::function<std::string(const kernel_runner&)> run;
};

/// Returns the cases. Those of the set `large` are full grids; the others have few
/// threads and elements.
[[nodiscard]] std::vector<kernel_case> kernel_cases(bool large);

}  // namespace weir::tessera::test
