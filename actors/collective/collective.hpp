// SPDX-License-Identifier: Apache-2.0
/// @file
/// The collective actor: ranks join, each is answered when all is done or nothing can be.
#pragma once

#include <map>
#include <memory>

#include "collective/collective_state.hpp"
#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

struct collective_shell {
  static constexpr const char* name = "weir.collective";
  /// Why there is no group, if there is none: every request is answered that.
  result<std::unique_ptr<collective_state>> core =
      error(errc::not_initialized, "collective group not opened");
  std::map<collective_state::ticket, pending_reply<std::uint64_t>> waiting;
  std::int64_t look_at = INT64_MAX;  ///< when the next look at the clock is due
};
collective_actor::behavior_type collective_group(
    collective_actor::stateful_pointer<collective_shell> self, collective_spec spec);

}  // namespace weir::actors
