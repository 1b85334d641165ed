// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs programs through the C interface, correctly or with a planted fault, and compares
/// memory with the interpreter's.
#pragma once

#include <memory>
#include <string>

#include "serial/run/faults.hpp"
#include "support.hpp"

namespace weir::test::serial {

/// Runs a program in a context of the caller, in which `kernel` does what serial_kernel
/// does. Returns the difference from the expected outcome, or an empty string.
[[nodiscard]] std::string run_in(tessContext_t context, tessKernel_t kernel,
                                 const program& p, const fault& with = {});

/// A context with the kernels of random programs. It runs any number of programs.
class machine {
 public:
  explicit machine(int workers);
  ~machine();
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  /// Runs the program. Returns the difference from the expected outcome (a status, or the
  /// first words that differ), or an empty string. After a difference the machine must
  /// not be used again.
  [[nodiscard]] std::string run(const program& p, const fault& with = {});

 private:
  tessContext_t context_ = nullptr;
  std::unique_ptr<registered_module> kernels_;
};

}  // namespace weir::test::serial
