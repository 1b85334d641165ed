// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the engine host does for epochs: it carries out the orders of its conductor, and
/// passes complete images on.
#pragma once

#include "host/host_run.hpp"

namespace weir::actors {

/// Tells the conductor that the run begins.
void tell_begin(host_pointer self);

/// Takes an order of the conductor.
void take_order(host_pointer self, const epoch_order& order);

/// Begins and ends epochs. Returns whether anything happened.
/// @error{kernel_failed, a state could not be copied}
/// @error{invalid_argument, see `execution::begin_epoch`}
[[nodiscard]] result<bool> advance_epoch(host_pointer self);

}  // namespace weir::actors
