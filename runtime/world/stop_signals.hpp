// SPDX-License-Identifier: Apache-2.0
/// @file
/// Signals of a process whose worlds cannot save their state any more.
#pragma once

namespace weir::runtime {

/// From now on SIGTERM and SIGINT end the process, also if `stop_at_signals` was called.
/// Handlers of the program stay. @threads{safe from any thread and in signal handlers}
void end_at_stop_signals() noexcept;

}  // namespace weir::runtime
