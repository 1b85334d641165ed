// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stream actor: messages into a queue, answers when workers say that it has come
/// far enough.
#pragma once

#include <map>
#include <memory>

#include "shim/shim.hpp"
#include "stream/stream_state.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

struct stream_shell {
  static constexpr const char* name = "weir.stream";
  /// Why there is no queue, if there is none: every request is answered that.
  result<std::unique_ptr<stream_state>> core =
      error(errc::not_initialized, "stream not opened");
  std::map<stream_state::ticket, pending_reply<std::uint64_t>> waiting;
  std::int64_t look_at = INT64_MAX;  ///< when the next look at the clock is due
};
stream_actor::behavior_type stream_queue(
    stream_actor::stateful_pointer<stream_shell> self, queue_spec spec);

}  // namespace weir::actors
