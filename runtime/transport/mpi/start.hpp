// SPDX-License-Identifier: Apache-2.0
/// @file
/// The start of the transport over MPI.
#pragma once

#include <atomic>

namespace weir::mpi {

/// True if this process can make no other transport: one exists or has failed, or MPI was
/// started for one and has ended.
[[nodiscard]] std::atomic<bool>& was_made();

}  // namespace weir::mpi
