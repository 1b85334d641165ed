// SPDX-License-Identifier: Apache-2.0
/// @file
/// Orders for stream and collective actors. Orders name memory of devices; the data
/// itself never travels in a message.
/// @threads{values; what they point to has the rules of its own type}
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

/// A point in a queue that other queues can wait for.
using event_ptr = std::shared_ptr<const tessera::event>;

/// The queue that a stream actor owns. The context of its mesh must outlive the actor
/// system, or be shut down before the actor system ends.
struct queue_spec {
  std::string name{};  ///< name of the queue, in errors and in the status
  /// Mesh on which the queue is created.
  std::shared_ptr<tessera::mesh> mesh{};
  /// Options of the queue. With a rank, the queue belongs to that rank alone.
  tessera::stream_options options{};
  /// Largest number of operations of which it is not known that they have ended; further
  /// ones are refused. The windows of all streams together should fit into the engine's
  /// window of tasks.
  std::uint32_t window = 256;
  std::int64_t deadline_ns = 60'000'000'000;  ///< for each synchronization to be answered
  /// Orders the queue of a restarted actor behind the queue of its predecessor: the event
  /// is waited for when an actor begins and recorded when it ends. Null if the actor has
  /// no successor.
  std::shared_ptr<tessera::event> handover{};
};

/// Order to launch a kernel. Its parameters are `args`; `request.args` is ignored.
struct launch_order {
  /// Kernel and launch options.
  tessera::launch_request request;
  byte_vector args;                    ///< packed parameters, copied when enqueued
  std::shared_ptr<const void> holder;  ///< kept alive until the launch has ended
};

/// Order to copy memory.
struct copy_order {
  /// Source, target and size of the copy.
  tessera::copy_request request;
  std::shared_ptr<const void>
      holder;  ///< keeps host memory alive until the copy has ended
};

/// The group of ranks that a collective actor serves: `member`, and the ranks that differ
/// from it along `axes` alone. A group must not have two collective actors at a time.
struct collective_spec {
  std::string name{};  ///< name of the group, in errors and in the status
  /// Mesh that the group belongs to.
  std::shared_ptr<tessera::mesh> mesh{};
  /// Axes along which the ranks of the group differ.
  collective::axis_set axes = collective::whole_mesh;
  int member = 0;  ///< any rank of the group
  /// Time that the ranks have to join, from the first to the last; and, once all have
  /// joined, the time that the collective has to end.
  std::int64_t deadline_ns = 60'000'000'000;
};

/// One rank's share of a collective. The n-th order of a rank belongs to the same
/// collective as the n-th order of every other rank of the group.
struct join_order {
  int rank = 0;                         ///< in the mesh
  tessera::collective_request request;  ///< `request.axes` is ignored
  /// Determinism policy under which the rank expects the collective to run. All ranks and
  /// the context must agree.
  tessera::numerics_policy descriptor;
  std::vector<event_ptr> wait_points;  ///< the share begins when all of them are reached
  std::shared_ptr<const void> holder;  ///< kept alive until the share has ended
};

}  // namespace weir::actors
