// SPDX-License-Identifier: Apache-2.0
/// @file
/// The I/O host actor: runs one source, one blocking stage or one sink of a pipeline on
/// its own thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "host/interfaces.hpp"
#include "shim/shim.hpp"

namespace weir::actors {

/// Configuration of an I/O host.
struct io_host_config {
  flow::stage_object* stage = nullptr;  ///< owned by `owner`
  std::string name;                     ///< name of the stage, for errors
  /// Gets the time inside the functions of the stage added; owned by `owner`, not null.
  std::atomic<std::int64_t>* busy_ns = nullptr;
  std::shared_ptr<const void> owner;  ///< keeps what the pointers refer to
};
/// State that CAF keeps for an I/O host.
struct io_host_shell {
  static constexpr const char* name = "weir.io_host";
  bool ended_early = false;  ///< the last batch of the blocking stage ended early
  yielding_wait short_wait;  ///< for the next request
};
/// Returns the behavior of an I/O host; CAF calls this when it spawns the actor.
io_host_actor::behavior_type io_host(io_host_actor::stateful_pointer<io_host_shell> self,
                                     const io_host_config& config);

}  // namespace weir::actors
