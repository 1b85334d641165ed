// SPDX-License-Identifier: Apache-2.0
/// @file
/// Signals that ask a program to save its state and end.
#pragma once

namespace weir::runtime {

/// From now on SIGUSR1, SIGTERM and SIGINT ask the worlds of this process to stop, see
/// `world::stops_here`. A second SIGTERM or SIGINT ends the process as usual.
/// @threads{call it once, before worlds are made}
void stop_at_signals() noexcept;

/// Returns true if one of these signals has arrived. @threads{safe from any thread}
[[nodiscard]] bool stop_signal_arrived() noexcept;

}  // namespace weir::runtime
