// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the engine host tells about a run: samples, its report and its trace.
#pragma once

#include "host/host_run.hpp"

namespace weir::actors {

/// Sends a sample of the run to the conductor and to the observer.
/// @param ask_all  True if no I/O host is at work, so that their stages are asked, too.
void send_samples(host_pointer self, bool ask_all = false);

/// Ends the run behind its last epoch: with its report, or with the error of the source
/// that made it stop.
void finish(host_pointer self);

}  // namespace weir::actors
