// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the conformance suite of backends as sources for GPUs, with executors
/// for the stand-in driver.
#pragma once

#include <memory>
#include <string>

#include "tessera/cuda/stand_in/executor.hpp"
#include "weir/base/bytes.hpp"

namespace weir::tessera::conformance {

/// Code of a kernel that the stand-in driver runs.
enum class kernel_form : std::uint8_t {
  functions,  ///< functions of the test program that compute a whole grid
  sources,    ///< conformance.cu, compiled for the host
  ptx         ///< the PTX that nvcc made of conformance.cu, interpreted
};

/// Returns an executor for kernels of the form `sources` or `ptx`.
[[nodiscard]] std::shared_ptr<stand_in::kernel_executor> kernel_executor_of(
    kernel_form form);

/// Returns a container with a PTX of conformance.cu.
[[nodiscard]] byte_vector conformance_container(const std::string& text);
/// Returns a container with the PTX that this build uses.
[[nodiscard]] byte_vector conformance_container();

}  // namespace weir::tessera::conformance
