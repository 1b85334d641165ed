// SPDX-License-Identifier: Apache-2.0
/// @file
/// The volume reader actor: passes the requests of its clients to workers, which block in
/// its place.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "shim/deadline_timer.hpp"
#include "shim/shim.hpp"
#include "volume/read_plan.hpp"
#include "weir/actors/interfaces.hpp"

namespace weir::actors {

/// Configuration of a volume reader.
struct volume_reader_config {
  /// Limits of reading ahead, and deadlines.
  read_plan::settings plan;
  std::vector<volume_worker_actor> workers;  ///< at least one
  /// A worker that has not answered for this time gets no more jobs.
  std::chrono::seconds worker_deadline{600};
};

/// State that CAF keeps for a volume reader. The plan knows requests and streams by
/// number; this structure has what belongs to the numbers.
struct volume_reader_shell {
  static constexpr const char* name = "weir.volume_reader";
  /// A request to open a volume.
  struct opening {
    /// Path and tags; the worker gets the same object.
    local<volume_spec> spec;
    /// Owner of the streams that the answer names.
    caf::strong_actor_ptr client;
    pending_reply<local<opened_streams>> reply;
  };
  /// `pull` and `read` answer with a piece, `fill` with the number of bytes.
  using reply =
      std::variant<pending_reply<local<volume_piece>>, pending_reply<std::uint64_t>>;

  std::unique_ptr<read_plan> plan;
  volume_reader_config config;
  /// Requests to open that are not answered, by ticket.
  std::map<read_plan::ticket_id, opening> openings;
  /// Other requests that are not answered, by ticket.
  std::map<read_plan::ticket_id, reply> replies;
  /// Open streams, from which workers get copies.
  std::map<read_plan::stream_id, storage::hn4_stream> streams;
  std::map<caf::actor_addr, std::vector<read_plan::stream_id>> clients;  ///< and streams
  deadline_timer timer;
};
/// Returns the behavior of a volume reader; CAF calls this when it spawns the actor.
volume_reader_actor::behavior_type volume_reader(
    volume_reader_actor::stateful_pointer<volume_reader_shell> self,
    volume_reader_config config);

}  // namespace weir::actors
