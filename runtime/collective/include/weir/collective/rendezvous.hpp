// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where the ranks of a group meet when each of them posts its own share of a collective.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::collective {

/// What became of a meeting. All but `waiting` are final.
enum class meeting_state : std::uint8_t {
  waiting,
  complete,               ///< everybody is there and asks for the same
  collective_mismatch,    ///< two calls differ
  determinism_violation,  ///< equal calls under different descriptors
  timeout,                ///< somebody did not come in time
  cancelled,              ///< somebody will not come
};
[[nodiscard]] std::string_view name_of(meeting_state state) noexcept;

/// One rank's share of one collective.
struct arrival {
  std::uint64_t group = 0;  ///< the caller's number of the group
  int rank = 0;             ///< in the group
  /// Collectives of this rank in this group before this one, see `next_sequence`.
  std::uint64_t sequence = 0;
  std::uint64_t call = 0;        ///< `digest_of` the call
  std::uint64_t descriptor = 0;  ///< digest of the determinism descriptor
  std::uint64_t ticket = 0;      ///< whatever the caller knows the share by
  /// How long it waits for the others; 0: as the meeting point says, negative: for ever.
  std::int64_t patience_ns = 0;
};

/// Who is to be told what. Tickets are in the order of ranks, each is handed out once.
struct meeting_outcome {
  meeting_state state = meeting_state::waiting;
  std::uint64_t group = 0;
  std::uint64_t sequence = 0;
  std::vector<std::uint64_t> tickets;
};

/// Meetings of any number of groups. Ranks meet who have the same sequence number in the
/// same group; the first disagreement, or the end of the waiting time, decides for
/// everybody there and for everybody who comes later: a late rank gets the same answer
/// and opens nothing new.
/// @threads{thread-compatible; nothing in it waits, and the time is an argument}
class rendezvous {
 public:
  /// @param patience_ns  from the arrival of a share that says nothing else to the
  /// timeout; the first share whose time is up ends its meeting
  explicit rendezvous(std::int64_t patience_ns) : patience_ns_(patience_ns) {}

  /// Makes a group known. @error{already_exists, it is; invalid_argument, no ranks}
  result<void> add_group(std::uint64_t group, int ranks);
  /// Forgets a group and ends what is open in it as `cancelled`.
  std::vector<meeting_outcome> drop_group(std::uint64_t group);

  /// Number of the next collective that `rank` posts, and counts it.
  /// @error{not_found, no such group; invalid_argument, no such rank}
  result<std::uint64_t> next_sequence(std::uint64_t group, int rank);

  /// One rank comes. `waiting` has no tickets: the share rests until a later call of
  /// `join`, `withdraw` or `expire` hands its ticket out.
  /// @error{not_found, no such group}
  /// @error{invalid_argument, no such rank, or it has joined this meeting before}
  result<meeting_outcome> join(const arrival& who, std::int64_t now_ns);
  /// A rank says that it will not come, e.g. because its stream failed: ends the meeting
  /// as `cancelled` if it is open. Counts as its arrival.
  /// @error{as join}
  result<meeting_outcome> withdraw(std::uint64_t group, int rank, std::uint64_t sequence,
                                   std::int64_t now_ns);
  /// Ends every meeting whose time is up at `now_ns`, oldest deadline first in each
  /// group.
  std::vector<meeting_outcome> expire(std::int64_t now_ns);
  /// When `expire` has something to do next; the largest number if never.
  [[nodiscard]] std::int64_t next_deadline() const noexcept;

  /// Meetings that somebody still waits in or has yet to hear of.
  [[nodiscard]] std::size_t open() const noexcept;

 private:
  struct meeting {
    meeting_state state = meeting_state::waiting;
    std::int64_t deadline_ns = std::numeric_limits<std::int64_t>::max();
    std::uint64_t call = 0;
    std::uint64_t descriptor = 0;
    int arrived = 0;
    std::map<int, std::uint64_t> waiting;  ///< rank -> ticket
    std::vector<bool> came;
  };
  struct group_state {
    int ranks = 0;
    std::vector<std::uint64_t> next;
    std::map<std::uint64_t, meeting> meetings;
  };

  result<meeting*> enter(std::uint64_t group, int rank, std::uint64_t sequence,
                         std::int64_t now_ns, std::int64_t patience_ns);
  meeting_outcome decide(std::uint64_t group, std::uint64_t sequence, meeting& m,
                         meeting_state state);
  void forget_if_over(std::uint64_t group, std::uint64_t sequence);

  std::int64_t patience_ns_;
  std::map<std::uint64_t, group_state> groups_;
};

}  // namespace weir::collective
