// SPDX-License-Identifier: Apache-2.0
/// @file
/// Interprets kernels from their PTX. The threads of a block run one after the other,
/// each up to its next barrier, in an order that the caller chooses. Accesses are checked
/// as those of the kernels' sources are (cpu_kernels/access_check.hpp).
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "cpu_kernels/machine.hpp"
#include "ptx/module.hpp"

namespace weir::tessera::ptx {

/// A launch.
struct launch {
  kernel_machine::launch_options options;
  /// Values of the parameters, each of the size of the parameter.
  std::span<const void* const> arguments;
  /// Returns whether a range may be accessed; empty: `options.memory` tells.
  std::function<bool(const void* first, std::size_t bytes, bool write)> accessible;
};

/// Outcome of a launch.
struct outcome {
  errc code = errc::kernel_failed;  ///< kind of the fault, if there was one
  std::string fault;                ///< empty if there was none
  /// Global bytes that were accessed, in steps of 16: true if one was written. Noted if
  /// `launch::accessible` is set.
  std::map<std::uintptr_t, bool> touched;
  /// Registers of the thread that ended last.
  std::vector<std::uint64_t> registers;
};

/// Runs a launch to its end or to its first fault.
[[nodiscard]] outcome interpret(const kernel& code, const launch& what);

}  // namespace weir::tessera::ptx
