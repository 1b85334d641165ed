// SPDX-License-Identifier: Apache-2.0
/// @file
/// The actors of an `actor_system` for programs that use CAF: typed handles, to which
/// actors and `caf::scoped_actor` send the messages of `interfaces.hpp`.
///
/// A program must drop all handles that it got here before it stops the system.
#pragma once

#include "weir/actors/interfaces.hpp"
#include "weir/actors/system.hpp"

namespace weir::actors {

/// Returns the actor system of CAF in which the actors live. Its messages include those
/// of `messages.hpp`. The program may spawn actors of its own in it.
/// @error{stopping, the system has stopped}
/// @threads{safe to call concurrently}
[[nodiscard]] result<caf::actor_system*> caf_system_of(const actor_system& system);
/// Lets the supervisor of the system watch and stop an actor of the program, as the
/// actors of the system. An actor that ends early is a failure of the system.
/// @error{stopping, the system has stopped}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> adopt(const actor_system& system, child_spec child);

/// Returns the typed handle of a volume reader. A stream that a client opens by it ends
/// with this client.
/// @error{stopping, the actor or its system has ended}
/// @threads{safe to call concurrently}
[[nodiscard]] result<volume_reader_actor> actor_of(const volume_reader_handle& handle);
/// Returns the typed handle of a message reader, which is open.
/// @error{stopping, the actor or its system has ended}
/// @threads{safe to call concurrently}
[[nodiscard]] result<message_reader_actor> actor_of(const message_reader_handle& handle);
/// Returns the typed handle of a message appender, which is open.
/// @error{stopping, the actor or its system has ended}
/// @threads{safe to call concurrently}
[[nodiscard]] result<message_appender_actor> actor_of(
    const message_appender_handle& handle);
/// Returns the typed handle of a stream.
/// @error{stopping, the actor or its system has ended}
/// @threads{safe to call concurrently}
[[nodiscard]] result<stream_actor> actor_of(const stream_handle& handle);
/// Returns the typed handle of a collective.
/// @error{stopping, the actor or its system has ended}
/// @threads{safe to call concurrently}
[[nodiscard]] result<collective_actor> actor_of(const collective_handle& handle);

}  // namespace weir::actors
