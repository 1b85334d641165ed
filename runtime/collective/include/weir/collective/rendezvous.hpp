// SPDX-License-Identifier: Apache-2.0
/// @file
/// Meetings of the ranks of a group, each of which posts its own share of a collective.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::collective {

/// State of a meeting. All states except `waiting` are final.
enum class meeting_state : std::uint8_t {
  waiting,
  complete,               ///< all ranks have come with equal calls
  collective_mismatch,    ///< two calls differ
  determinism_violation,  ///< equal calls under different descriptors
  timeout,                ///< a rank did not come in time
  cancelled,              ///< a rank will not come
};
/// Returns the name of a state.
[[nodiscard]] std::string_view name_of(meeting_state state) noexcept;

/// One rank's share of one collective.
struct arrival {
  std::uint64_t group = 0;  ///< the caller's number of the group
  int rank = 0;             ///< rank in the group
  /// Collectives of this rank in this group before this one, see `next_sequence`.
  std::uint64_t sequence = 0;
  std::uint64_t call = 0;        ///< `digest_of` the call
  std::uint64_t descriptor = 0;  ///< digest of the determinism descriptor
  std::uint64_t ticket = 0;      ///< the caller's name of the share
  /// Time that it waits for the others in nanoseconds; 0: as the rendezvous says,
  /// negative: without a limit.
  std::int64_t patience_ns = 0;
};

/// Shares that have ended, and their state. Tickets are in the order of ranks; each is
/// handed out once.
struct meeting_outcome {
  meeting_state state = meeting_state::waiting;  ///< state of the meeting
  std::uint64_t group = 0;                       ///< number of the group
  std::uint64_t sequence = 0;          ///< number of the collective in the group
  std::vector<std::uint64_t> tickets;  ///< tickets of the shares that have ended
};

/// Meetings of any number of groups. Ranks with equal sequence numbers in one group meet.
/// The first difference, or the end of the waiting time, decides for all ranks: a rank
/// that comes later gets the same state and begins no new meeting.
/// @threads{thread-compatible; nothing in it waits, and the time is an argument}
class rendezvous {
 public:
  /// Makes a rendezvous without groups.
  /// @param patience_ns  time from the arrival of a share to its timeout, in nanoseconds,
  /// unless the share gives another; the first timeout ends a meeting
  explicit rendezvous(std::int64_t patience_ns) : patience_ns_(patience_ns) {}

  /// Adds a group. @error{already_exists; it was added before} @error{invalid_argument;
  /// no ranks}
  result<void> add_group(std::uint64_t group, int ranks);
  /// Removes a group and ends its open meetings as `cancelled`.
  std::vector<meeting_outcome> drop_group(std::uint64_t group);

  /// Returns the number of the next collective of a rank, and counts it.
  /// @error{not_found; no such group} @error{invalid_argument; no such rank}
  result<std::uint64_t> next_sequence(std::uint64_t group, int rank);

  /// Adds the share of a rank. The state `waiting` has no tickets: a later call of
  /// `join`, `withdraw` or `expire` hands out the ticket of the share.
  /// @error{not_found; no such group}
  /// @error{invalid_argument; no such rank, or it has joined this meeting before}
  result<meeting_outcome> join(const arrival& share, std::int64_t now_ns);
  /// Reports that a rank will not come, for example because its stream failed. Ends an
  /// open meeting as `cancelled`. Counts as the arrival of the rank.
  /// @error{not_found; no such group} @error{invalid_argument; see join}
  result<meeting_outcome> withdraw(std::uint64_t group, int rank, std::uint64_t sequence,
                                   std::int64_t now_ns);
  /// Ends every meeting whose time is up at `now_ns`, oldest deadline first in each
  /// group.
  std::vector<meeting_outcome> expire(std::int64_t now_ns);
  /// Returns the time at which `expire` ends the next meeting, or the largest number.
  [[nodiscard]] std::int64_t next_deadline() const noexcept;

  /// Returns the number of meetings that are open or whose outcome a rank has not got
  /// yet.
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
