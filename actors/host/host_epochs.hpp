// SPDX-License-Identifier: Apache-2.0
/// @file
/// The epochs of a run: when one begins, where its barrier stands, when it is taken back,
/// and the write of its checkpoint.
#pragma once

#include "host/host_run.hpp"

namespace weir::actors {

/// Lets sources stop before the next item at which an epoch is due by number.
void place_boundary(engine_host_shell& s);

/// Returns whether a barrier is to be set where the sources stand.
[[nodiscard]] bool stops_sources(const engine_host_shell& s);

/// Begins and saves epochs. Returns whether anything happened.
/// @error{kernel_failed, a state could not be copied} Also returns the error of a source
/// that has failed where no last checkpoint is possible.
[[nodiscard]] result<bool> advance_epoch(host_pointer self);

}  // namespace weir::actors
