// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the engine host tells about a run: its progress, its report and its trace.
#pragma once

#include "host/host_run.hpp"

namespace weir::actors {

/// Passes the progress of the run to the listener of the configuration.
/// @param ask_all  True if no I/O host is at work, so that their stages are asked, too.
void report_progress(host_pointer self, bool ask_all = false);

/// Ends the run behind its last epoch: with its report, or with the error of the source
/// that made it stop.
void finish(host_pointer self);

}  // namespace weir::actors
