// SPDX-License-Identifier: Apache-2.0
/// @file
/// The typed interface of the observer of a pipeline. A comment before a message
/// describes the receiver, as in `weir/actors/interfaces.hpp`.
#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>
#include <string>

#include "progress/progress_state.hpp"
#include "weir/actors/messages.hpp"

namespace weir::actors {

/// Turns samples of a run into progress for the user, and ends a run that has stalled.
using progress_observer_actor = caf::typed_actor<
    // From the engine host, ten times a second: takes a sample.
    caf::reacts_to<sample_atom, local<host_sample>>,
    // From the engine host: the run has ended without an error. Passes the report on,
    // behind all progress, with the problems of stages among its warnings.
    caf::reacts_to<ended_atom, local<pipeline_report>>,
    // Answers the progress of the last sample in one line.
    caf::replies_to<status_atom>::with<std::string>>;

}  // namespace weir::actors
