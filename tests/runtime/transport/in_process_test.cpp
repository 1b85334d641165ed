// SPDX-License-Identifier: Apache-2.0
/// @file
/// The transport between threads: keys, delays, losses, deadlines, failures, ends.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <thread>

#include "weir/runtime/in_process.hpp"

namespace weir::runtime {
namespace {

/// Returns 8 bytes that spell a number.
std::array<std::byte, 8> letter_of(std::uint64_t number) {
  std::array<std::byte, 8> bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(number >> (8 * i));
  }
  return bytes;
}

/// A network whose ranks have opened channel 0.
struct opened_network : in_process_network {
  explicit opened_network(in_process_options o) : in_process_network(o) {
    for (rank_id r = 0; r < o.ranks; ++r) {
      EXPECT_EQ(transport_of(r).open_channel(), 0U);
    }
  }
};

/// Polls a rank once and returns the outcome of a transfer that has ended.
std::map<transfer_id, result<void>> ends_of(transport& t, std::uint32_t channel = 0) {
  std::vector<transfer_end> ended;
  t.poll(channel, ended);
  std::map<transfer_id, result<void>> all;
  for (transfer_end& one : ended) {
    all.emplace(one.id, std::move(one.outcome));
  }
  return all;
}

/// Polls until a transfer has ended.
result<void> wait_for_transfer(transport& t, transfer_id id, std::uint32_t channel = 0) {
  for (;;) {
    auto ended = ends_of(t, channel);
    if (const auto found = ended.find(id); found != ended.end()) {
      return std::move(found->second);
    }
    std::this_thread::yield();
  }
}

TEST(InProcess, MessagesFindTheirReceivesByKeyInAnyOrder) {
  opened_network net({.ranks = 2, .max_delay = 9, .seed = 5});
  transport& from = net.transport_of(0);
  transport& to = net.transport_of(1);
  constexpr std::uint64_t count = 60;
  std::array<std::array<std::byte, 8>, count> in{};
  std::map<transfer_id, std::uint64_t> waiting;
  for (std::uint64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(from.send(1, {0, i}, letter_of(i)));
  }
  for (std::uint64_t i = count; i-- > 0;) {
    waiting.emplace(or_throw(to.receive(0, {0, i}, in[i])), i);
  }
  bool overtaken = false;
  std::uint64_t last = 0;
  while (!waiting.empty()) {
    for (const auto& [id, outcome] : ends_of(to)) {
      ASSERT_TRUE(outcome);
      const std::uint64_t number = waiting.at(id);
      EXPECT_EQ(in[number], letter_of(number));
      overtaken = overtaken || number < last;
      last = number;
      waiting.erase(id);
    }
  }
  EXPECT_TRUE(overtaken);
  EXPECT_EQ(ends_of(from).size(), count);
}

TEST(InProcess, ChannelsKeepNumbersApart) {
  in_process_network net({.ranks = 1});
  transport& self = net.transport_of(0);
  const std::uint32_t first = self.open_channel();
  const std::uint32_t second = self.open_channel();
  ASSERT_TRUE(self.send(0, {first, 1}, letter_of(10)));
  ASSERT_TRUE(self.send(0, {second, 1}, letter_of(20)));
  std::array<std::byte, 8> in{};
  const transfer_id id = or_throw(self.receive(0, {second, 1}, in));
  EXPECT_EQ(ends_of(self, first).size(), 1U);  // the send alone
  EXPECT_TRUE(wait_for_transfer(self, id, second));
  EXPECT_EQ(in, letter_of(20));
}

TEST(InProcess, AFailureIsNeverReportedAsSuccess) {
  opened_network net({.ranks = 2});
  std::array<std::byte, 8> in{};
  ASSERT_TRUE(net.transport_of(0).send_failure(1, {0, 0}));
  ASSERT_TRUE(net.transport_of(0).send(1, {0, 1}, std::span(in).first(7)));
  transport& to = net.transport_of(1);
  const transfer_id failed = or_throw(to.receive(0, {0, 0}, in));
  const transfer_id shorter = or_throw(to.receive(0, {0, 1}, in));
  auto ended = ends_of(to);
  EXPECT_EQ(ended.at(failed).error().code(), errc::upstream_failed);
  EXPECT_EQ(ended.at(shorter).error().code(), errc::diverged);
  EXPECT_EQ(ended.at(shorter).error().text(),
            "message 1 of channel 0 from rank 0 not received: expected 8 bytes, found 7");
}

/// Lets time pass while a rank polls each 100 ms, as a rank does that waits. Returns true
/// if no transfer of it has ended.
bool nothing_ends_until(std::int64_t until, std::int64_t& now, transport& waiting) {
  bool none = true;
  while (now < until) {
    now = std::min(until, now + 100'000'000);
    none = ends_of(waiting).empty() && none;
  }
  return none;
}

TEST(InProcess, TheDeadlineCountsFromTheLastSignOfLife) {
  std::int64_t now = 0;
  opened_network net(
      {.ranks = 2, .deadline_ns = 1'000'000'000, .clock = [&now] { return now; }});
  transport& to = net.transport_of(1);
  std::array<std::byte, 8> in{};
  const transfer_id id = or_throw(to.receive(0, {0, 0}, in));
  EXPECT_TRUE(nothing_ends_until(900'000'000, now, to));
  ends_of(net.transport_of(0));  // a sign of life
  EXPECT_TRUE(nothing_ends_until(1'900'000'000, now, to));
  now = 1'901'000'000;
  auto ended = ends_of(to);
  EXPECT_EQ(ended.at(id).error().code(), errc::rank_lost);
  EXPECT_NE(ended.at(id).error().text().find("sign of life of rank 0 within 1000 ms"),
            std::string::npos);
}

TEST(InProcess, ARankThatWasStoppedGivesTheOthersTheWholeDeadlineAgain) {
  std::int64_t now = 0;
  opened_network net(
      {.ranks = 2, .deadline_ns = 1'000'000'000, .clock = [&now] { return now; }});
  transport& to = net.transport_of(1);
  std::array<std::byte, 8> in{};
  const transfer_id id = or_throw(to.receive(0, {0, 0}, in));
  EXPECT_TRUE(nothing_ends_until(900'000'000, now, to));
  now = 5'000'000'000;  // the process was stopped
  EXPECT_TRUE(ends_of(to).empty());
  EXPECT_TRUE(nothing_ends_until(6'000'000'000, now, to));
  now = 6'001'000'000;
  auto ended = ends_of(to);
  EXPECT_EQ(ended.at(id).error().code(), errc::rank_lost);
  EXPECT_NE(ended.at(id).error().text().find("within 1000 ms, found none for 1001 ms"),
            std::string::npos);
}

TEST(InProcess, ARankInsideOfAKernelIsAlive) {
  std::int64_t now = 0;
  opened_network net(
      {.ranks = 2, .deadline_ns = 1'000'000'000, .clock = [&now] { return now; }});
  transport& from = net.transport_of(0);
  transport& to = net.transport_of(1);
  std::array<std::byte, 8> in{};
  const transfer_id id = or_throw(to.receive(0, {0, 0}, in));
  ASSERT_TRUE(from.watches_kernels());
  from.kernel_begins();
  from.kernel_begins();  // a second worker
  EXPECT_TRUE(nothing_ends_until(3'000'000'000, now, to));
  from.kernel_ends();
  EXPECT_TRUE(nothing_ends_until(6'000'000'000, now, to));  // the other worker
  from.kernel_ends();
  // The end was the last sign of life.
  EXPECT_TRUE(nothing_ends_until(7'000'000'000, now, to));
  now = 7'001'000'000;
  EXPECT_EQ(ends_of(to).at(id).error().code(), errc::rank_lost);
}

TEST(InProcess, UnknownRanksAndSecondReceivesAreRefused) {
  opened_network net({.ranks = 2});
  std::array<std::byte, 8> in{};
  transport& t = net.transport_of(0);
  EXPECT_EQ(t.send(2, {0, 0}, in).error().code(), errc::out_of_range);
  EXPECT_EQ(t.receive(2, {0, 0}, in).error().code(), errc::out_of_range);
  EXPECT_TRUE(t.receive(1, {0, 0}, in));
  EXPECT_EQ(t.receive(1, {0, 0}, in).error().code(), errc::already_exists);
}

TEST(InProcess, AClosedChannelTouchesNoMemory) {
  opened_network net({.ranks = 2});
  transport& to = net.transport_of(1);
  std::array<std::byte, 8> in{};
  ASSERT_TRUE(to.receive(0, {0, 0}, in));
  to.close_channel(0);
  ASSERT_TRUE(net.transport_of(0).send(1, {0, 0}, letter_of(7)));
  EXPECT_TRUE(ends_of(to).empty());
  EXPECT_EQ(in, letter_of(0));
  EXPECT_EQ(to.send(0, {0, 0}, in).error().code(), errc::stopping);
}

TEST(InProcess, AClosedChannelKeepsNoMessages) {
  opened_network net({.ranks = 2});
  transport& from = net.transport_of(0);
  transport& to = net.transport_of(1);
  ASSERT_TRUE(from.send(1, {0, 0}, letter_of(1)));
  EXPECT_TRUE(ends_of(to).empty());  // it has arrived and has no receive
  ASSERT_TRUE(from.send(1, {0, 1}, letter_of(2)));
  EXPECT_GT(net.waiting(1), 16);
  to.close_channel(0);
  EXPECT_EQ(net.waiting(1), 0);
  ASSERT_TRUE(from.send(1, {0, 2}, letter_of(3)));
  EXPECT_EQ(net.waiting(1), 0);
  EXPECT_EQ(ends_of(from).size(), 3U);
}

TEST(InProcess, AnAbandonedChannelEndsReceivesBehindTheMessagesBefore) {
  opened_network net({.ranks = 3, .max_delay = 9, .seed = 2});
  transport& from = net.transport_of(0);
  transport& to = net.transport_of(1);
  std::array<std::array<std::byte, 8>, 8> in{};
  std::array<transfer_id, 8> sent{};
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(from.send(1, {0, i}, letter_of(i)));
    sent[i] = or_throw(to.receive(0, {0, i}, in[i]));
  }
  const transfer_id never = or_throw(to.receive(0, {0, 8}, in[0]));
  const transfer_id other = or_throw(to.receive(2, {0, 0}, in[0]));
  from.abandon(0, error(errc::io, "the disk is gone"));
  std::vector<transfer_end> ended;
  while (ended.size() < 9) {
    to.poll(0, ended);
  }
  for (const transfer_end& one : ended) {
    EXPECT_EQ(one.abandoned, one.id == never);
    EXPECT_EQ(one.outcome.has_value(), one.id != never);
    EXPECT_NE(one.id, other);
  }
  const transfer_id later = or_throw(to.receive(0, {0, 9}, in[0]));
  auto ends = ends_of(to);
  EXPECT_EQ(ends.at(later).error().code(), errc::io);
  EXPECT_EQ(ends.at(later).error().text(), "the disk is gone");
  EXPECT_EQ(net.waiting(1), 0);
  EXPECT_EQ(from.send(1, {0, 9}, in[0]).error().code(), errc::stopping);
}

TEST(InProcess, AMailboxHasALimit) {
  opened_network net({.ranks = 2, .max_waiting = 4000});
  transport& from = net.transport_of(0);
  transport& to = net.transport_of(1);
  std::vector<std::byte> large(1500);
  ASSERT_TRUE(from.send(1, {0, 0}, large));
  ASSERT_TRUE(from.send(1, {0, 1}, large));
  const auto refused = from.send(1, {0, 2}, large);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::out_of_memory);
  EXPECT_EQ(refused.error().text().find("message 2 of channel 0 not sent to rank 1: "
                                        "expected at most 4000 bytes"),
            0U);
  const transfer_id id = or_throw(to.receive(0, {0, 0}, large));
  EXPECT_TRUE(wait_for_transfer(to, id));
  EXPECT_TRUE(from.send(1, {0, 2}, large));
}

TEST(InProcess, ALostMessageIsNamedAfterTheDeadline) {
  std::int64_t now = 0;
  opened_network net(
      {.ranks = 2,
       .loses = [](rank_id, rank_id, message_key key) { return key.number == 1; },
       .deadline_ns = 1'000'000'000,
       .clock = [&now] { return now; }});
  transport& from = net.transport_of(0);
  transport& to = net.transport_of(1);
  std::array<std::byte, 8> in{};
  ASSERT_TRUE(from.send(1, {0, 0}, letter_of(4)));
  const transfer_id good = or_throw(to.receive(0, {0, 0}, in));
  const transfer_id bad = or_throw(to.receive(0, {0, 1}, in));
  EXPECT_EQ(ends_of(to).count(good), 1U);
  from.kernel_begins();
  EXPECT_TRUE(nothing_ends_until(5'000'000'000, now, to));  // a long kernel is no loss
  from.kernel_ends();
  ASSERT_TRUE(from.send(1, {0, 1}, in));
  EXPECT_TRUE(nothing_ends_until(6'000'000'000, now, to));
  ends_of(from);  // a sign of life
  now = 6'000'000'001;
  auto ended = ends_of(to);
  EXPECT_EQ(ended.at(bad).error().code(), errc::timeout);
  EXPECT_EQ(ended.at(bad).error().text(),
            "message 1 of channel 0 from rank 0 not received: expected the 2 messages "
            "that the rank has sent in the channel, found 1; the others were lost");
}

TEST(InProcess, ThreadsExchangeMessages) {
  constexpr rank_id ranks = 3;
  constexpr std::uint64_t rounds = 20;
  opened_network net({.ranks = ranks, .max_delay = 3});
  std::array<std::uint64_t, ranks> good{};
  const auto body = [&](rank_id own) {
    transport& t = net.transport_of(own);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const auto out = letter_of(round * ranks + own);
      std::array<std::byte, 8> in{};
      or_throw(t.send((own + 1) % ranks, {0, round}, out));
      const rank_id before = (own + ranks - 1) % ranks;
      or_throw(wait_for_transfer(t, or_throw(t.receive(before, {0, round}, in))));
      good[own] += in == letter_of(round * ranks + before) ? 1 : 0;
    }
  };
  std::vector<std::thread> threads;
  for (rank_id r = 0; r < ranks; ++r) {
    threads.emplace_back(body, r);
  }
  for (std::thread& t : threads) {
    t.join();
  }
  for (const std::uint64_t count : good) {
    EXPECT_EQ(count, rounds);
  }
}

}  // namespace
}  // namespace weir::runtime
