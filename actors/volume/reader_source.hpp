// SPDX-License-Identifier: Apache-2.0
/// @file
/// A volume reader as the source of tasks that load tensors.
#pragma once

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"
#include "weir/actors/tensor_loader.hpp"

namespace weir::actors {

/// Asks the reader to fill memory, and waits. The reader's workers have threads of their
/// own, so a task that waits here holds up nothing that it waits for. The bytes pass
/// through memory of their own: a worker that answers after the deadline writes there,
/// not into a tensor that somebody uses by then.
/// @threads{safe; the system and the stream outlive it}
/// @error{as volume_reader_actor, fill}
[[nodiscard]] stream_source reader_source(caf::actor_system& system,
                                          volume_reader_actor reader,
                                          std::uint64_t stream);

}  // namespace weir::actors
