// SPDX-License-Identifier: Apache-2.0
/// @file
/// Meetings: which ranks have come, whether their calls agree, and whose time is over. A
/// meeting stays known until all ranks have come, so that late ranks get the same answer.
///
/// The rendezvous neither waits nor knows threads: a caller reports arrivals and the
/// present time, and gets the tickets of the calls that are decided by them. The owner
/// serializes the calls and wakes whoever has to be woken.
#include "weir/collective/rendezvous.hpp"

#include <algorithm>
#include <array>

#include <fmt/core.h>

namespace weir::collective {

std::string_view name_of(meeting_state state) noexcept {
  constexpr std::array<std::string_view, 6> names = {
      "waiting", "complete", "collective_mismatch", "determinism_violation",
      "timeout", "cancelled"};
  return names[static_cast<std::size_t>(state)];
}

result<void> rendezvous::add_group(std::uint64_t group, int ranks) {
  if (ranks < 1) {
    return error(errc::invalid_argument,
                 fmt::format("cannot add group {}: expected at least one rank, found {}",
                             group, ranks));
  }
  const auto [place, fresh] = groups_.try_emplace(group);
  if (!fresh) {
    return error(errc::already_exists, fmt::format("group {} exists already", group));
  }
  place->second.ranks = ranks;
  place->second.next.resize(static_cast<std::size_t>(ranks));
  return {};
}

// Meetings that were decided before have told their ranks already.
std::vector<meeting_outcome> rendezvous::drop_group(std::uint64_t group) {
  std::vector<meeting_outcome> ended;
  const auto place = groups_.find(group);
  if (place == groups_.end()) {
    return ended;
  }
  for (auto& [sequence, m] : place->second.meetings) {
    if (m.state == meeting_state::waiting) {
      ended.push_back(decide(group, sequence, m, meeting_state::cancelled));
    }
  }
  groups_.erase(place);
  return ended;
}

// Ranks number their own calls, so the meeting of a call does not depend on when other
// ranks call.
result<std::uint64_t> rendezvous::next_sequence(std::uint64_t group, int rank) {
  const auto place = groups_.find(group);
  if (place == groups_.end()) {
    return error(errc::not_found, fmt::format("no collective group {}", group));
  }
  if (rank < 0 || rank >= place->second.ranks) {
    return error(errc::invalid_argument,
                 fmt::format("no rank {} in group {}: expected [0, {})", rank, group,
                             place->second.ranks));
  }
  return place->second.next[static_cast<std::size_t>(rank)]++;
}

// Notes the arrival of a rank at a meeting, which the first arrival makes. The earliest
// deadline of all ranks counts.
result<rendezvous::meeting*> rendezvous::enter(std::uint64_t group, int rank,
                                               std::uint64_t sequence,
                                               std::int64_t now_ns,
                                               std::int64_t patience_ns) {
  const auto place = groups_.find(group);
  if (place == groups_.end()) {
    return error(errc::not_found, fmt::format("no collective group {}", group));
  }
  group_state& state = place->second;
  if (rank < 0 || rank >= state.ranks) {
    return error(errc::invalid_argument,
                 fmt::format("no rank {} in group {}: expected [0, {})", rank, group,
                             state.ranks));
  }
  const auto [entry, fresh] = state.meetings.try_emplace(sequence);
  meeting& m = entry->second;
  if (fresh) {
    m.came.resize(static_cast<std::size_t>(state.ranks));
  }
  if (m.came[static_cast<std::size_t>(rank)]) {
    return error(errc::invalid_argument,
                 fmt::format("rank {} has joined collective {} of group {} before", rank,
                             sequence, group));
  }
  m.came[static_cast<std::size_t>(rank)] = true;
  ++m.arrived;
  // A rank that arrives after the deadline does not extend it, and a sum that would
  // overflow is no deadline.
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  if (patience_ns >= 0 && now_ns <= never - patience_ns) {
    m.deadline_ns = std::min(m.deadline_ns, now_ns + patience_ns);
  }
  return &m;
}

// Decides a meeting. Only the tickets of ranks that wait are in the outcome.
meeting_outcome rendezvous::decide(std::uint64_t group, std::uint64_t sequence,
                                   meeting& m, meeting_state state) {
  m.state = state;
  meeting_outcome outcome{state, group, sequence, {}};
  for (const auto& [rank, ticket] : m.waiting) {
    outcome.tickets.push_back(ticket);
  }
  m.waiting.clear();
  return outcome;
}

// Forgets a meeting that is decided once all ranks have come to it.
void rendezvous::forget_if_over(std::uint64_t group, std::uint64_t sequence) {
  group_state& state = groups_.at(group);
  const auto entry = state.meetings.find(sequence);
  if (entry->second.state != meeting_state::waiting &&
      entry->second.arrived == state.ranks) {
    state.meetings.erase(entry);
  }
}

// The first rank that waits sets what the others must agree on. A meeting may be decided
// before all ranks have come, by the first that differs or by the deadline.
result<meeting_outcome> rendezvous::join(const arrival& participant,
                                         std::int64_t now_ns) {
  WEIR_TRY(meeting* const m,
           enter(participant.group, participant.rank, participant.sequence, now_ns,
                 participant.patience_ns == 0 ? patience_ns_ : participant.patience_ns));
  m->waiting.emplace(participant.rank, participant.ticket);
  meeting_outcome outcome{
      meeting_state::waiting, participant.group, participant.sequence, {}};
  if (m->state != meeting_state::waiting) {
    // a late rank gets the same answer
    outcome = decide(participant.group, participant.sequence, *m, m->state);
  } else if (m->deadline_ns <= now_ns && m->arrived > 1) {
    outcome = decide(participant.group, participant.sequence, *m, meeting_state::timeout);
  } else {
    if (m->waiting.size() == 1) {
      m->call = participant.call;
      m->descriptor = participant.descriptor;
    }
    if (m->call != participant.call) {
      outcome = decide(participant.group, participant.sequence, *m,
                       meeting_state::collective_mismatch);
    } else if (m->descriptor != participant.descriptor) {
      outcome = decide(participant.group, participant.sequence, *m,
                       meeting_state::determinism_violation);
    } else if (m->arrived == groups_.at(participant.group).ranks) {
      outcome =
          decide(participant.group, participant.sequence, *m, meeting_state::complete);
    }
  }
  forget_if_over(participant.group, participant.sequence);
  return outcome;
}

// The rank will not take part: the meeting fails for all others. The rank itself counts
// as arrived, so that the meeting can be forgotten.
result<meeting_outcome> rendezvous::withdraw(std::uint64_t group, int rank,
                                             std::uint64_t sequence,
                                             std::int64_t now_ns) {
  WEIR_TRY(meeting* const m, enter(group, rank, sequence, now_ns, -1));
  meeting_outcome outcome{m->state, group, sequence, {}};
  if (m->state == meeting_state::waiting) {
    outcome = decide(group, sequence, *m, meeting_state::cancelled);
  }
  forget_if_over(group, sequence);
  return outcome;
}

// Ends the meetings whose deadline has passed. They stay known for the ranks that come
// later.
std::vector<meeting_outcome> rendezvous::expire(std::int64_t now_ns) {
  std::vector<meeting_outcome> ended;
  for (auto& [group, state] : groups_) {
    for (auto& [sequence, m] : state.meetings) {
      if (m.state == meeting_state::waiting && m.deadline_ns <= now_ns) {
        ended.push_back(decide(group, sequence, m, meeting_state::timeout));
      }
    }
  }
  return ended;
}

// Returns the largest number if no meeting waits. Meetings are few, so all are examined.
std::int64_t rendezvous::next_deadline() const noexcept {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const auto& [group, state] : groups_) {
    for (const auto& [sequence, m] : state.meetings) {
      if (m.state == meeting_state::waiting) {
        first = std::min(first, m.deadline_ns);
      }
    }
  }
  return first;
}

std::size_t rendezvous::open() const noexcept {
  std::size_t count = 0;
  for (const auto& [group, state] : groups_) {
    count += state.meetings.size();
  }
  return count;
}

}  // namespace weir::collective
