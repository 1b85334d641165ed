// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where ranks that call a collective each for themselves meet.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "weir/runtime/collective/rendezvous.hpp"
#include "weir/runtime/stream/context.hpp"
#include "weir/runtime/stream/operation.hpp"

namespace weir::runtime {

class rank_share;

/// @threads{whoever has the session}
class meeting_point {
 public:
  explicit meeting_point(context& of);

  /// A rank has come with its share, which holds its stream until all are there, or until
  /// something else ends the meeting.
  void join(submission_port::session& in, const ref<rank_share>& share);
  /// The mesh goes: whoever waits in one of its groups, or comes later, is told so.
  void forget(submission_port::session& in, mesh& m);
  /// Everybody who still waits is told that the time is over, and so is who comes later.
  void end_all(submission_port::session& in);

 private:
  void tell(submission_port::session& in, const meeting_outcome& what);
  void look_later();

  context& of_;
  rendezvous meetings_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> groups_;  ///< by number of the mesh
  bool over_ = false;
};

}  // namespace weir::runtime
