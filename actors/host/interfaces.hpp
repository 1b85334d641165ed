// SPDX-License-Identifier: Apache-2.0
/// @file
/// The typed interfaces of the hosts of a pipeline. A comment before a message describes
/// the receiver, as in `weir/actors/interfaces.hpp`.
#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "epochs/epoch_plan.hpp"
#include "weir/actors/messages.hpp"
#include "weir/actors/pipelines.hpp"
#include "weir/pipeline/host/batch_stage.hpp"
#include "weir/pipeline/host/execution.hpp"

namespace weir::actors {

/// Empty items of a source, in the order of their numbers. They belong to the I/O host
/// until it answers.
struct blank_batch {
  std::vector<flow::blank*> items;
};
/// Answer to a `blank_batch`.
using filled_batch = flow::filled_items;
/// Items of a blocking stage, in the order of their numbers. They belong to the I/O host
/// until it answers.
struct exchange_batch {
  std::vector<flow::exchange*> items;
  /// No batch before this one is without an answer. If a batch ends early, the I/O host
  /// leaves the batches behind it alone until the next one of this kind.
  bool first = true;
};
/// Answer to an `exchange_batch`.
using exchanged_batch = flow::processed_items;
/// Complete items of a sink, in the order of their numbers. They belong to the I/O host
/// until it answers.
struct ready_batch {
  std::vector<const flow::ready*> items;
};

/// Runs one source, one blocking stage or one sink. Own thread, because these block.
using io_host_actor = caf::typed_actor<
    // Lets the source fill items.
    caf::replies_to<fill_atom, local<blank_batch>>::with<local<filled_batch>>,
    // Lets the blocking stage process items, up to the first one that fails.
    caf::replies_to<work_atom, local<exchange_batch>>::with<local<exchanged_batch>>,
    // Lets the sink write items. Answers their number. Errors: those of `put`, with the
    // number of the item.
    caf::replies_to<write_atom, local<ready_batch>>::with<std::uint64_t>,
    // Answers the position of the source.
    caf::replies_to<cursor_atom>::with<local<flow::small_record>>,
    // Makes the items of the sink durable and answers its offset. Errors: those of
    // `settle`.
    caf::replies_to<flush_atom>::with<local<flow::small_record>>>;

/// Owns an engine and the execution of a pipeline on it, and is the engine's only
/// submitter. Own thread, on which it gives stages their turns and runs tasks between
/// messages. It begins epochs when its conductor orders them.
using engine_host_actor = caf::typed_actor<
    // From itself: lets stages and tasks work for a millisecond.
    caf::reacts_to<work_atom>,
    // From the conductor: begin an epoch. Replaces an order that was not carried out.
    caf::reacts_to<begin_atom, local<epoch_order>>,
    // Begins the run with the I/O hosts of the configuration. Its report goes to the
    // observer, and an error to `failed` of the configuration.
    caf::reacts_to<launch_atom>,
    // From itself, every 100 ms: samples the run for the conductor and the observer.
    caf::reacts_to<deadline_atom>>;

}  // namespace weir::actors
