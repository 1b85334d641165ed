// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handler of the epoch saver's message.
///
/// The saver writes one image at a time, because the host waits for each answer before it
/// begins another epoch. It has its own thread, since a write may take seconds.
#include "epochs/epoch_saver.hpp"

namespace weir::actors {

epoch_saver_actor::behavior_type epoch_saver(
    epoch_saver_actor::stateful_pointer<epoch_saver_shell> self,
    epoch_saver_config config) {
  install_defaults(self);
  return {
      answers("epoch saver, save",
              [config = std::move(config)](
                  save_atom, const local<image_order>& order) -> result<std::uint64_t> {
                WEIR_CHECK(config.store->save(*order->state));
                return config.store->generation();
              }),
  };
}

}  // namespace weir::actors
