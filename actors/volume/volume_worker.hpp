// SPDX-License-Identifier: Apache-2.0
/// @file
/// The volume worker actor: reads from devices for a volume reader. It has its own
/// thread, because devices block.
#pragma once

#include "shim/shim.hpp"
#include "volume/device_opener.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// Configuration of a volume worker. Tests open devices that can fail.
struct volume_worker_config {
  device_opener open_device;  ///< empty: opens files, through the page cache
};
/// State that CAF keeps for a volume worker.
struct volume_worker_shell {
  static constexpr const char* name = "weir.volume_worker_io";
};
/// Returns the behavior of a volume worker; CAF calls this when it spawns the actor.
volume_worker_actor::behavior_type volume_worker_io(
    volume_worker_actor::stateful_pointer<volume_worker_shell> self,
    volume_worker_config config);

}  // namespace weir::actors
