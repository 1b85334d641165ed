// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests meetings of ranks: completion, disagreement, timeouts and late arrivals, in
/// every order of arrival.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "weir/collective/rendezvous.hpp"

namespace weir::collective {
namespace {

constexpr std::uint64_t group_id = 9;

/// Returns a rendezvous that knows one group.
rendezvous with_group(int ranks, std::int64_t patience = 100) {
  rendezvous meetings(patience);
  or_throw(meetings.add_group(group_id, ranks));
  return meetings;
}

/// Returns the arrival of a rank; its rank is also its ticket.
arrival share(int rank, std::uint64_t sequence = 0, std::uint64_t call = 1,
              std::uint64_t descriptor = 2) {
  return {group_id, rank, sequence, call, descriptor, static_cast<std::uint64_t>(rank)};
}

/// Returns the numbers below n, which are the tickets of n ranks.
std::vector<std::uint64_t> ranks_below(int n) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

TEST(Rendezvous, CompletesWithTheLastOfEveryOrder) {
  std::vector<int> order = {0, 1, 2, 3};
  do {
    rendezvous meetings = with_group(4);
    for (int i = 0; i < 3; ++i) {
      const auto outcome = or_throw(meetings.join(share(order[std::size_t(i)]), i));
      ASSERT_EQ(outcome.state, meeting_state::waiting);
      ASSERT_TRUE(outcome.tickets.empty());
    }
    const auto outcome = or_throw(meetings.join(share(order[3]), 3));
    ASSERT_EQ(outcome.state, meeting_state::complete);
    ASSERT_EQ(outcome.tickets, ranks_below(4));
    ASSERT_EQ(meetings.open(), 0U);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Rendezvous, ADifferentCallIsAMismatchForAllWhoeverIsFirst) {
  for (int odd = 0; odd < 3; ++odd) {
    std::vector<int> order = {0, 1, 2};
    do {
      rendezvous meetings = with_group(3);
      std::vector<std::uint64_t> reported;
      for (const int rank : order) {
        const std::uint64_t call = rank == odd ? 7 : 1;
        const auto outcome = or_throw(meetings.join(share(rank, 0, call), 0));
        if (outcome.state != meeting_state::waiting) {
          ASSERT_EQ(outcome.state, meeting_state::collective_mismatch);
          reported.insert(reported.end(), outcome.tickets.begin(), outcome.tickets.end());
        }
      }
      std::sort(reported.begin(), reported.end());
      ASSERT_EQ(reported, ranks_below(3));
      ASSERT_EQ(meetings.open(), 0U);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(Rendezvous, EqualCallsUnderDifferentDescriptorsViolateDeterminism) {
  rendezvous meetings = with_group(3);
  or_throw(meetings.join(share(2), 0));
  const auto outcome = or_throw(meetings.join(share(0, 0, 1, 3), 0));
  EXPECT_EQ(outcome.state, meeting_state::determinism_violation);
  EXPECT_EQ(outcome.tickets, (std::vector<std::uint64_t>{0, 2}));
  const auto late = or_throw(meetings.join(share(1), 0));
  EXPECT_EQ(late.state, meeting_state::determinism_violation);
  EXPECT_EQ(late.tickets, std::vector<std::uint64_t>{1});
  EXPECT_EQ(meetings.open(), 0U);
}

TEST(Rendezvous, ADifferentCallCountsBeforeADifferentDescriptor) {
  rendezvous meetings = with_group(2);
  or_throw(meetings.join(share(0), 0));
  EXPECT_EQ(or_throw(meetings.join(share(1, 0, 5, 6), 0)).state,
            meeting_state::collective_mismatch);
}

TEST(Rendezvous, TimesOutForPresentAndForLateRanks) {
  rendezvous meetings = with_group(3, 100);
  or_throw(meetings.join(share(0), 10));
  or_throw(meetings.join(share(1), 50));
  EXPECT_EQ(meetings.next_deadline(), 110);
  EXPECT_TRUE(meetings.expire(109).empty());
  const auto ended = meetings.expire(110);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].state, meeting_state::timeout);
  EXPECT_EQ(ended[0].tickets, (std::vector<std::uint64_t>{0, 1}));
  EXPECT_TRUE(meetings.expire(1000).empty());
  EXPECT_EQ(meetings.next_deadline(), std::numeric_limits<std::int64_t>::max());
  // The late rank gets the same timeout, even with another call, and leaves no meeting
  // open.
  const auto late = or_throw(meetings.join(share(2, 0, 8, 9), 2000));
  EXPECT_EQ(late.state, meeting_state::timeout);
  EXPECT_EQ(late.tickets, std::vector<std::uint64_t>{2});
  EXPECT_EQ(meetings.open(), 0U);
}

TEST(Rendezvous, ALateRankThatNobodyExpiredEndsTheMeetingItself) {
  rendezvous meetings = with_group(2, 100);
  or_throw(meetings.join(share(0), 0));
  const auto outcome = or_throw(meetings.join(share(1), 100));
  EXPECT_EQ(outcome.state, meeting_state::timeout);
  EXPECT_EQ(outcome.tickets, ranks_below(2));
}

TEST(Rendezvous, SequencesDoNotMix) {
  rendezvous meetings = with_group(2);
  for (std::uint64_t s = 0; s < 5; ++s) {
    EXPECT_EQ(or_throw(meetings.next_sequence(group_id, 0)), s);
    or_throw(meetings.join({group_id, 0, s, 10 + s, 0, 100 + s}, 0));
  }
  EXPECT_EQ(meetings.open(), 5U);
  for (std::uint64_t s = 0; s < 5; ++s) {
    EXPECT_EQ(or_throw(meetings.next_sequence(group_id, 1)), s);
    const auto outcome = or_throw(meetings.join({group_id, 1, s, 10 + s, 0, 200 + s}, 0));
    EXPECT_EQ(outcome.state, meeting_state::complete);
    EXPECT_EQ(outcome.tickets, (std::vector<std::uint64_t>{100 + s, 200 + s}));
  }
}

TEST(Rendezvous, AWithdrawnShareEndsTheMeeting) {
  rendezvous meetings = with_group(3);
  or_throw(meetings.join(share(1), 0));
  const auto outcome = or_throw(meetings.withdraw(group_id, 0, 0, 0));
  EXPECT_EQ(outcome.state, meeting_state::cancelled);
  EXPECT_EQ(outcome.tickets, std::vector<std::uint64_t>{1});
  EXPECT_EQ(or_throw(meetings.join(share(2), 0)).state, meeting_state::cancelled);
  EXPECT_EQ(meetings.open(), 0U);
}

TEST(Rendezvous, ADroppedGroupEndsItsMeetings) {
  rendezvous meetings = with_group(2);
  or_throw(meetings.join(share(0, 0), 0));
  or_throw(meetings.join(share(1, 1), 0));
  const auto ended = meetings.drop_group(group_id);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].state, meeting_state::cancelled);
  EXPECT_EQ(ended[0].tickets, std::vector<std::uint64_t>{0});
  EXPECT_EQ(ended[1].tickets, std::vector<std::uint64_t>{1});
  EXPECT_FALSE(meetings.join(share(0), 0));
  EXPECT_TRUE(meetings.drop_group(group_id).empty());
}

TEST(Rendezvous, RefusesRanksOutsideTheGroupAndSecondArrivals) {
  rendezvous meetings = with_group(2);
  EXPECT_EQ(meetings.add_group(group_id, 2).error().code(), errc::already_exists);
  EXPECT_EQ(meetings.add_group(1, 0).error().code(), errc::invalid_argument);
  EXPECT_EQ(meetings.join({5, 0, 0, 0, 0, 0}, 0).error().code(), errc::not_found);
  EXPECT_EQ(meetings.join(share(2), 0).error().code(), errc::invalid_argument);
  EXPECT_EQ(meetings.join(share(-1), 0).error().code(), errc::invalid_argument);
  or_throw(meetings.join(share(0), 0));
  EXPECT_EQ(meetings.join(share(0), 0).error().code(), errc::invalid_argument);
  EXPECT_EQ(meetings.next_sequence(group_id, 2).error().code(), errc::invalid_argument);
  EXPECT_EQ(meetings.next_sequence(4, 0).error().code(), errc::not_found);
}

TEST(Rendezvous, EndsWhenTheFirstShareHasWaitedAsLongAsItWanted) {
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  rendezvous meetings = with_group(3);  // each share waits for 100
  const auto comes = [&](int rank, std::int64_t patience, std::int64_t now) {
    arrival arriving = share(rank);
    arriving.patience_ns = patience;
    return or_throw(meetings.join(arriving, now)).state;
  };
  EXPECT_EQ(comes(0, -1, 0), meeting_state::waiting);
  EXPECT_EQ(meetings.next_deadline(), never)
      << "a share with a patience of -1 waits for ever";
  EXPECT_EQ(comes(1, 0, 1000), meeting_state::waiting);
  EXPECT_EQ(meetings.next_deadline(), 1100);
  EXPECT_TRUE(meetings.expire(1099).empty());
  const auto over = meetings.expire(1100);
  ASSERT_EQ(over.size(), 1U);
  EXPECT_EQ(over[0].tickets, ranks_below(2));
  EXPECT_EQ(comes(2, -1, 1101), meeting_state::timeout)
      << "the meeting has ended, so a late rank gets its timeout";
  EXPECT_EQ(meetings.open(), 0U);
}

TEST(Rendezvous, ALaterArrivalDoesNotPostponeTheEnd) {
  rendezvous meetings = with_group(3);
  arrival hasty = share(0);
  hasty.patience_ns = 10;
  or_throw(meetings.join(hasty, 0));
  arrival patient = share(1);
  patient.patience_ns = 1000;
  or_throw(meetings.join(patient, 5));
  EXPECT_EQ(meetings.next_deadline(), 10);
}

TEST(Rendezvous, EveryTicketIsHandedOutOnceWhateverHappens) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 dice(seed);
    constexpr int ranks = 4;
    constexpr std::uint64_t meetings_each = 6;
    rendezvous meetings = with_group(ranks, 20);
    std::vector<std::uint64_t> next(ranks);
    std::vector<int> reported(ranks * meetings_each);
    const auto report = [&](const meeting_outcome& outcome) {
      for (const std::uint64_t t : outcome.tickets) {
        ++reported[t];
      }
    };
    std::int64_t now = 0;
    for (std::uint64_t left = ranks * meetings_each; left > 0; now += dice() % 9) {
      const auto r = static_cast<std::size_t>(dice() % ranks);
      if (next[r] == meetings_each) {
        continue;
      }
      const std::uint64_t s = next[r]++;
      const std::uint64_t call = dice() % 12 == 0 ? 2 : 1;
      report(or_throw(meetings.join(
          {group_id, static_cast<int>(r), s, call, 0, r * meetings_each + s}, now)));
      --left;
      if (dice() % 3 == 0) {
        for (const auto& outcome : meetings.expire(now)) {
          report(outcome);
        }
      }
    }
    for (const auto& outcome : meetings.expire(now + 1000)) {
      report(outcome);
    }
    ASSERT_EQ(reported, std::vector<int>(ranks * meetings_each, 1)) << "seed " << seed;
    ASSERT_EQ(meetings.open(), 0U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weir::collective
