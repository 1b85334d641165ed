// SPDX-License-Identifier: Apache-2.0
/// @file
/// Kernels with one planted fault each, which `plant.py` writes.
#pragma once

#include <string>
#include <vector>

#include "cpu_kernels/machine.hpp"

namespace weir::tessera::kernel_machine {

/// A kernel with a fault.
struct planted_fault {
  std::string name;
  kernel_entry kernel;
  bool race = false;  ///< two accesses that nothing orders, so ThreadSanitizer finds it
};

/// Returns the faults.
[[nodiscard]] std::vector<planted_fault> planted_faults();

}  // namespace weir::tessera::kernel_machine
