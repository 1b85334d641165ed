// SPDX-License-Identifier: Apache-2.0
/// @file
/// Lets tasks that load tensors read through a volume reader.
#pragma once

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"
#include "weir/actors/tensor_loader.hpp"

namespace weir::actors {

/// Returns a source that requests fills from a volume reader and waits for them.
///
/// The workers of the reader have their own threads, so a task that waits here does not
/// hold up the work for which it waits. The bytes pass through separate memory: a worker
/// that is late writes there, and not to a tensor that is in use again. The source
/// returns the errors of `volume_reader_actor` for fills.
/// @param stream  Number of an open stream.
/// @threads{safe to call concurrently; system and stream must outlive the source}
[[nodiscard]] stream_source reader_source(caf::actor_system& system,
                                          volume_reader_actor reader,
                                          std::uint64_t stream);

}  // namespace weir::actors
