// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of the conductor's messages.
///
/// The conductor is a shell around `epoch_plan`: it gives the plan the time and the
/// events, and sends the orders that the plan returns to the engine host.
#include "epochs/epoch_conductor.hpp"

#include <utility>

#include <fmt/format.h>

#include "shim/deadline_timer.hpp"

namespace weir::actors {
namespace {

using conductor_pointer = epoch_conductor_actor::stateful_pointer<epoch_conductor_shell>;

/// No order means that the plan has nothing to change.
void order(conductor_pointer self, const std::optional<epoch_order>& given) {
  if (given) {
    self->send(self->state.host, begin_atom_v, by_reference(*given));
  }
}

/// A run goes on without the checkpoint, because the one before stands. Only the last one
/// must succeed.
void not_saved(conductor_pointer self, bool last, error cause) {
  auto& s = self->state;
  s.plan.not_saved();
  if (!last) {
    s.config.warning(fmt::format(
        "the checkpoint before item {} is left out, the one before item {} stands: {}",
        s.plan.barrier().next_item, s.plan.durable().next_item, cause.message()));
  }
  // The host, too, gets the error, and gives the image free.
  s.saved.deliver(std::move(cause));
}

/// Has the image of an epoch written and answers the host with its generation, 0 without
/// a saver. The order for the next epoch goes out first, so that sources can go on while
/// the image is being written.
caf::typed_response_promise<std::uint64_t> save(conductor_pointer self,
                                                const local<image_order>& image) {
  auto& s = self->state;
  auto promise = self->make_response_promise<std::uint64_t>();
  s.saved = {promise, "the write of a checkpoint"};
  order(self, s.plan.complete(image->barrier, clock_ns(self)));
  if (!s.config.saver) {
    s.plan.saved();
    s.saved.deliver(std::uint64_t{0});
    return promise;
  }
  // The image travels on by reference; the host keeps it until the answer.
  self->request(s.config.saver, caf::infinite, save_atom_v, image)
      .then(
          [self](std::uint64_t generation) {
            self->state.plan.saved();
            self->state.saved.deliver(generation);
          },
          [self, last = image->last](const caf::error& e) {
            not_saved(self, last, from_caf(e, "writing a checkpoint"));
          });
  return promise;
}

}  // namespace

epoch_conductor_actor::behavior_type epoch_conductor(conductor_pointer self,
                                                     epoch_conductor_config config) {
  install_defaults(self);
  self->state.plan = epoch_plan(config.rules);
  self->state.config = std::move(config);
  return {
      // Samples drive the clock: without them no epoch by time begins.
      reacts(self, "conductor, sample",
             [self](sample_atom, const local<flow::stand>& reached) {
               order(self, self->state.plan.tick(*reached, clock_ns(self)));
             }),
      answers("conductor, save",
              [self](save_atom, const local<image_order>& image) {
                return save(self, image);
              }),
      // The handle of the host comes with this message, because both name each other.
      reacts(self, "conductor, launch",
             [self](launch_atom, const local<run_begin>& begin) {
               self->state.host = begin->host;
               order(self,
                     self->state.plan.launch(begin->from, begin->stored, clock_ns(self)));
             }),
      // A stop asks for the last epoch. It comes from the user, or from the host at the
      // end of all sources.
      reacts(self, "conductor, drain",
             [self](drain_atom) { order(self, self->state.plan.stop()); }),
  };
}

}  // namespace weir::actors
