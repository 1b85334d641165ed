// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is asked of stream and collective actors. No payload moves: orders name memory of
/// devices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/tessera/stream/collective.hpp"
#include "weir/tessera/stream/stream.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::actors {

/// A point in a queue, for others to wait for.
using event_ptr = std::shared_ptr<const tessera::event>;

/// What a stream actor owns. Its context outlives the actor system, or is shut down
/// before that goes.
struct queue_spec {
  std::string name;  ///< in errors and status
  std::shared_ptr<tessera::mesh> on;
  tessera::stream_options options;  ///< a rank: the queue of this one alone
  /// Operations at a time that are not known to have ended; more are refused. All streams
  /// together should fit into the engine's window.
  std::uint32_t window = 256;
  std::int64_t deadline_ns = 60'000'000'000;  ///< of each synchronization
  /// Recorded when the actor ends and waited for when one begins, so that the queue of a
  /// restarted actor begins behind that of its predecessor. Null: nobody follows.
  std::shared_ptr<tessera::event> handover;
};

/// A launch. `what.args` is not looked at: the parameters are `args`.
struct launch_order {
  tessera::launch_request what;
  byte_vector args;
  std::shared_ptr<const void> holder;  ///< kept until it has ended
};

/// A copy. The holder keeps memory of the host until it has ended.
struct copy_order {
  tessera::copy_request what;
  std::shared_ptr<const void> holder;
};

/// One group of ranks: `member` and those that differ from it along `axes` alone. There
/// is one collective actor for a group at a time.
struct collective_spec {
  std::string name;
  std::shared_ptr<tessera::mesh> on;
  collective::axis_set axes = collective::whole_mesh;
  int member = 0;
  /// From the first rank that comes to the last, and once more until the collective has
  /// ended.
  std::int64_t deadline_ns = 60'000'000'000;
};

/// One rank's share of a collective. The n-th order of a rank meets the n-th of the
/// others. `what.axes` is not looked at.
struct join_order {
  int rank = 0;  ///< in the mesh
  tessera::collective_request what;
  /// Under which all ranks expect it to run, the context among them.
  tessera::numerics_policy descriptor;
  std::vector<event_ptr> after;        ///< the share begins behind these points
  std::shared_ptr<const void> holder;  ///< kept until it has ended
};

}  // namespace weir::actors
