// SPDX-License-Identifier: Apache-2.0
/// @file
/// Meetings of ranks that each call their share of a collective.
///
/// A meeting point connects the rendezvous of runtime/collective, which decides who
/// meets, with streams, which wait without occupying workers.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/collective/rendezvous.hpp"
#include "weir/tessera/stream/context.hpp"
#include "weir/tessera/stream/operation.hpp"

namespace weir::tessera {

class rank_share;

/// Ranks whose collectives go together: the ranks of one axis group, under any of its
/// names, or the two ranks of a send.
struct rank_group {
  std::uint64_t number = 0;  ///< number of the group at the rendezvous
  std::vector<int> ranks;    ///< positions in the mesh, in the order of the group
  /// The reason why its ranks do not meet any more; empty while they meet.
  std::optional<error> over;
  /// A meeting whose ranks have called different collectives. It is kept until every rank
  /// has been told.
  struct mismatch {
    std::string text;     ///< the descriptions of two calls that differ
    std::size_t unheard;  ///< number of ranks that have not been told
  };
  std::map<std::uint64_t, mismatch> mismatches;  ///< key: the sequence number
};

/// Lets shares of collectives meet, in the order in which each rank has called them.
/// A share gets its number when it is called; its stream may run it much later. A rank
/// that does not come in time breaks the group, because nobody can know whether its next
/// call is the missing one. From then on every collective of the group fails, until every
/// rank of the mesh has called `recover`.
/// @threads{the thread that holds the submission lock}
class meeting_point {
 public:
  /// Makes a meeting point without groups.
  explicit meeting_point(context& owner);

  /// Gives a rank's share the next number of its group.
  void number(rank_share& share, stream& target);
  /// Checks the group of a share. @error{timeout; the group is broken}
  [[nodiscard]] result<void> check(const rank_share& share, const stream& target);
  /// Adds the share of a rank. Its stream is held until all ranks have come or the
  /// meeting ends otherwise.
  void join(submission_lock::guard& in, const ref<rank_share>& share);
  /// Begins anew for a rank of the mesh; -1: for each of them. Its later calls meet calls
  /// of other ranks after their recovery. When every rank has recovered, the waiting
  /// calls from before fail.
  void recover(submission_lock::guard& in, mesh& m, int rank);
  /// Ends every waiting collective of the mesh. Its ranks do not meet until each has
  /// recovered.
  void abort(submission_lock::guard& in, mesh& m);
  /// Checks the groups of a rank. @error{timeout; one of the groups does not meet any
  /// more}
  [[nodiscard]] result<void> state(const mesh& m, int rank) const;
  /// Ends the groups of a mesh that is dropped. Waiting and later calls fail.
  void forget(submission_lock::guard& in, mesh& m);
  /// Ends all groups with an error that the time is over. Later calls fail too.
  void end_all(submission_lock::guard& in);

 private:
  /// Identifies a group. Calls of ranks with different keys never meet.
  struct group_key {
    std::uint64_t mesh = 0;
    std::uint64_t era = 0;  ///< number of recoveries of the rank
    bool pair = false;      ///< true for the two ranks of a send
    std::vector<int> ranks;
    auto operator<=>(const group_key&) const = default;
  };

  /// Returns the key of the group that a share on this stream belongs to.
  [[nodiscard]] static group_key key_of(const rank_share& share, const stream& target);
  /// Acts on the outcome of a meeting: runs it or ends its shares with errors, and lets
  /// their streams proceed.
  void settle(submission_lock::guard& in, const collective::meeting_outcome& outcome);
  /// Runs the collective, once the shares of all ranks are there and ask for the same.
  void run(submission_lock::guard& in, const std::vector<ref<rank_share>>& shares);
  /// Ends the group and the shares that wait in it.
  void end(submission_lock::guard& in, const std::shared_ptr<rank_group>& group,
           const error& why);
  /// Ends the groups of a mesh whose ranks have recovered less often than `era` times.
  void end_before(submission_lock::guard& in, const mesh& m, std::uint64_t era,
                  const char* why);
  /// Defers a call that ends the meetings whose time is over to the next deadline, and
  /// repeats this as long as meetings wait.
  void look_later();

  context& context_;
  collective::rendezvous meetings_;
  std::map<group_key, std::shared_ptr<rank_group>> groups_;
  std::uint64_t numbers_ = 0;  ///< number of the last group
  bool over_ = false;          ///< the context shuts down: nothing meets any more
  /// Time of the first deferred call of `look_later`; the largest number if there is
  /// none.
  std::int64_t look_at_ns_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace weir::tessera
