// SPDX-License-Identifier: Apache-2.0
/// @file
/// The typed interfaces of the actors that keep the epochs of a pipeline. A comment
/// before a message describes the receiver, as in `weir/actors/interfaces.hpp`.
#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>
#include <cstdint>

#include "host/interfaces.hpp"
#include "weir/actors/messages.hpp"
#include "weir/pipeline/host/image.hpp"

namespace weir::actors {

/// A complete image. It belongs to the receiver until that answers.
struct image_order {
  const flow::image* state = nullptr;
  flow::stand barrier;  ///< place of the barrier
  bool last = false;    ///< the run ends behind this epoch
};

/// The begin of a run.
struct run_begin {
  engine_host_actor host;  ///< gets the orders
  flow::stand from;        ///< place where the run begins
  bool stored = false;     ///< true if a checkpoint holds the items before it
};

/// Owns the checkpoints of a pipeline's run folder. Own thread, because files block.
using epoch_saver_actor = caf::typed_actor<
    // Writes a checkpoint; answers its generation when it is durable. Errors: no_space,
    // io.
    caf::replies_to<save_atom, local<image_order>>::with<std::uint64_t>>;

/// Decides when epochs begin, orders them from an engine host, and has their images
/// saved. It gets messages for epochs and ten times a second, never for items.
using epoch_conductor_actor = caf::typed_actor<
    // From the host: where its sources are. Orders an epoch that is due by time.
    caf::reacts_to<sample_atom, local<flow::stand>>,
    // From the host: the image of an epoch is complete. Answers the generation of the
    // checkpoint when it is durable, or 0 if checkpoints are not kept. Errors: no_space,
    // io; the run then goes on without this checkpoint, unless it was the last one.
    caf::replies_to<save_atom, local<image_order>>::with<std::uint64_t>,
    // From the host: the run begins.
    caf::reacts_to<launch_atom, local<run_begin>>,
    // Orders the last epoch: the run was asked to stop, or the host tells that all stages
    // have ended or that a source has failed.
    caf::reacts_to<drain_atom>>;

}  // namespace weir::actors
