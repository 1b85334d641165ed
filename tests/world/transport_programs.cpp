// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs about single messages: silent ranks, channels, tags and limits.
#include "transport_programs.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weir/base/hash.hpp"

namespace weir::test {
namespace {

/// Polls until a transfer has ended, and returns its outcome.
result<void> outcome_of_transfer(runtime::transport& link, std::uint32_t channel,
                                 result<runtime::transfer_id> begun) {
  WEIR_CHECK(begun);
  for (;;) {
    std::vector<runtime::transfer_end> ended;
    link.poll(channel, ended);
    for (const auto& one : ended) {
      if (one.id == *begun) {
        return one.outcome;
      }
    }
    usleep(200);
  }
}

/// Rank 1 is stopped while it sends a message that rank 0 has begun to receive. Rank 0
/// gives the message up after the deadline, lets rank 1 go on, and receives it again.
result<std::uint64_t> late_message(runtime::transport& link) {
  const std::uint32_t channel = link.open_channel();
  std::vector<std::byte> large(1 << 20, std::byte{7});
  pid_t pid = getpid();
  const auto pid_bytes = std::as_writable_bytes(std::span(&pid, 1));
  if (link.rank() == 1) {
    WEIR_CHECK(outcome_of_transfer(link, channel, link.send(0, {channel, 0}, pid_bytes)));
    const auto begun = link.send(0, {channel, 1}, large);
    raise(SIGSTOP);
    WEIR_CHECK(outcome_of_transfer(link, channel, begun));
    return std::uint64_t{0};
  }
  WEIR_CHECK(
      outcome_of_transfer(link, channel, link.receive(1, {channel, 0}, pid_bytes)));
  std::fill(large.begin(), large.end(), std::byte{0});
  const auto first =
      outcome_of_transfer(link, channel, link.receive(1, {channel, 1}, large));
  kill(pid, SIGCONT);
  if (first || first.error().code() != errc::rank_lost) {
    return error(errc::internal, "expected that rank 1 is silent");
  }
  WEIR_CHECK(outcome_of_transfer(link, channel, link.receive(1, {channel, 1}, large)));
  const bool complete = std::all_of(large.begin(), large.end(),
                                    [](std::byte b) { return b == std::byte{7}; });
  return complete ? result<std::uint64_t>(std::uint64_t{1})
                  : error(errc::internal, "expected all bytes");
}

/// The last rank is stopped, or is late by three deadlines of 500 ms, when all ranks open
/// so many channels that a communicator is copied. Rank 1 then sends a number in the last
/// one.
result<std::uint64_t> opening(runtime::transport& link, bool stops) {
  if (link.rank() + 1 == link.ranks()) {
    if (stops) {
      raise_known(SIGSTOP);
    } else {
      usleep(1'500'000);
    }
  }
  std::uint32_t channel = 0;
  while (channel < 256) {
    channel = link.open_channel();
  }
  std::uint64_t number = link.rank() == 1 ? 7 : 0;
  const auto bytes = std::as_writable_bytes(std::span(&number, 1));
  const runtime::message_key key{channel, 0};
  WEIR_CHECK(outcome_of_transfer(
      link, channel,
      link.rank() == 1 ? link.send(0, key, bytes) : link.receive(1, key, bytes)));
  return number;
}

/// Rank 1 ends its transport while rank 0 opens so many channels that a communicator is
/// copied.
result<std::uint64_t> opening_alone(runtime::transport& link) {
  for (std::uint32_t channel = 0; link.rank() == 0 && channel < 256;) {
    channel = link.open_channel();
    WEIR_CHECK(link.send(1, {channel, 0}, {}));
  }
  return 0;
}

/// Rank 1 leaves a channel in which rank 0 sends a large message, and goes on.
result<std::uint64_t> leaving(runtime::transport& link) {
  const runtime::message_key left{link.open_channel(), 0};
  const runtime::message_key kept{link.open_channel(), 0};
  std::vector<std::byte> large(1 << 20);
  const auto small = std::span(large).first(1);
  if (link.rank() == 1) {
    link.abandon(left.channel, error(errc::stopping, "planted end"));
    WEIR_CHECK(outcome_of_transfer(link, kept.channel, link.receive(0, kept, small)));
  } else {
    WEIR_CHECK(outcome_of_transfer(link, left.channel, link.send(1, left, large)));
    WEIR_CHECK(outcome_of_transfer(link, kept.channel, link.send(1, kept, small)));
  }
  return std::uint64_t{2};
}

/// The ends of transfers of a channel, in any order.
class transfer_ends {
 public:
  transfer_ends(runtime::transport& link, std::uint32_t channel)
      : link_(link), channel_(channel) {}
  /// Polls until a transfer has ended, and returns its outcome.
  result<void> wait(const result<runtime::transfer_id>& begun) {
    WEIR_CHECK(begun);
    auto found = ended_.find(*begun);
    for (; found == ended_.end(); found = ended_.find(*begun)) {
      std::vector<runtime::transfer_end> ended;
      link_.poll(channel_, ended);
      for (auto& one : ended) {
        ended_.emplace(one.id, std::move(one.outcome));
      }
      if (ended.empty()) {
        usleep(200);
      }
    }
    return std::move(ended_.extract(found).mapped());
  }

 private:
  runtime::transport& link_;
  std::uint32_t channel_;
  std::map<runtime::transfer_id, result<void>> ended_;
};

/// Returns the bytes of a message, which differ from those of the others.
std::vector<std::byte> bytes_of_number(std::uint64_t number) {
  std::vector<std::byte> bytes(40'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(number * 131 + i * 7);
  }
  return bytes;
}

constexpr std::uint64_t messages = 20;

/// Rank 0 sends messages, and waits for the end of the oldest one each time that the
/// transport has too many bytes that are not sent. Rank 1 receives only when rank 0 has
/// been refused, or has sent all. Returns the number of refusals.
result<std::uint64_t> send_as_many_as_possible(runtime::transport& link,
                                               std::uint32_t channel,
                                               std::uint32_t control) {
  transfer_ends ends(link, channel);
  std::uint64_t refused = 0;
  std::vector<runtime::transfer_id> open;
  const auto let_go = [&]() -> result<void> {
    return outcome_of_transfer(link, control, link.send(1, {control, 0}, {}));
  };
  for (std::uint64_t number = 0; number < messages;) {
    const auto begun = link.send(1, {channel, number}, bytes_of_number(number));
    if (begun) {
      open.push_back(*begun);
      ++number;
      continue;
    }
    if (begun.error().code() != errc::out_of_memory || open.empty()) {
      return begun.error();
    }
    if (refused++ == 0) {
      WEIR_CHECK(let_go());
    }
    WEIR_CHECK(ends.wait(open.front()));
    open.erase(open.begin());
  }
  if (refused == 0) {
    WEIR_CHECK(let_go());
  }
  for (const runtime::transfer_id one : open) {
    WEIR_CHECK(ends.wait(one));
  }
  return refused;
}

/// Sends more bytes than a small `max_unsent` allows at once. The hash of what rank 1 has
/// received comes back to rank 0.
result<std::uint64_t> unsent(runtime::transport& link, bool is_limited) {
  const std::uint32_t channel = link.open_channel();
  const std::uint32_t control = link.open_channel();
  std::uint64_t sum = 0;
  const auto bytes_of_sum = std::as_writable_bytes(std::span(&sum, 1));
  if (link.rank() == 0) {
    WEIR_TRY(const auto refused, send_as_many_as_possible(link, channel, control));
    if ((refused != 0) != is_limited) {
      return error(errc::internal, "found " + std::to_string(refused) + " refusals");
    }
    WEIR_CHECK(
        outcome_of_transfer(link, control, link.receive(1, {control, 0}, bytes_of_sum)));
    return sum;
  }
  WEIR_CHECK(outcome_of_transfer(link, control, link.receive(0, {control, 0}, {})));
  for (std::uint64_t number = 0; number < messages; ++number) {
    std::vector<std::byte> bytes(bytes_of_number(number).size());
    WEIR_CHECK(
        outcome_of_transfer(link, channel, link.receive(0, {channel, number}, bytes)));
    sum = sum * 31 + xxh3_64(bytes);
  }
  WEIR_CHECK(
      outcome_of_transfer(link, control, link.send(0, {control, 0}, bytes_of_sum)));
  return sum;
}

/// Messages in both directions whose numbers begin before a multiple of the number of
/// tags and pass ten of them, three under way at a time.
result<std::uint64_t> tags(runtime::transport& link) {
  constexpr std::uint64_t step = std::uint64_t{1} << 18;
  const std::uint32_t channel = link.open_channel();
  const runtime::rank_id other = 1 - link.rank();
  transfer_ends ends(link, channel);
  std::uint64_t sum = 0;
  for (std::uint64_t first = 3; first < 43; first += 3) {
    std::array<std::uint64_t, 3> in{};
    std::array<runtime::transfer_id, 3> begun{};
    for (const std::size_t i : {2U, 0U, 1U}) {  // another order than that of the sends
      WEIR_TRY(begun[i], link.receive(other, {channel, (first + i) * step},
                                      std::as_writable_bytes(std::span(&in[i], 1))));
    }
    for (std::uint64_t i = 0; i < 3; ++i) {
      const std::uint64_t number = first + i;
      WEIR_CHECK(ends.wait(link.send(other, {channel, number * step},
                                     std::as_bytes(std::span(&number, 1)))));
    }
    for (std::uint64_t i = 0; i < 3; ++i) {
      WEIR_CHECK(ends.wait(begun[i]));
      if (in[i] != first + i) {
        return error(errc::internal, "a message has come for another one");
      }
      sum = sum * 31 + in[i];
    }
  }
  return sum;
}

/// Both ranks send small and large messages to each other. The end of each transfer is
/// told once: right behind the send, by a poll, or by `take_ends` behind a poll of
/// another channel. Returns the hash of the received bytes.
result<std::uint64_t> ends_told_once(runtime::transport& link) {
  constexpr std::uint64_t count = 60;
  const std::uint32_t channel = link.open_channel();
  const std::uint32_t beside = link.open_channel();
  const runtime::rank_id other = 1 - link.rank();
  std::map<runtime::transfer_id, unsigned> told;
  std::vector<std::vector<std::byte>> in;
  for (std::uint64_t number = 0; number < count; ++number) {
    in.emplace_back(number % 3 == 2 ? bytes_of_number(number).size() : 8);
    WEIR_TRY(const auto begun, link.receive(other, {channel, number}, in.back()));
    told[begun] = 0;
  }
  for (std::uint64_t number = 0; number < count; ++number) {
    const std::vector<std::byte> bytes = bytes_of_number(number);
    WEIR_TRY(const auto begun, link.send(other, {channel, number},
                                         std::span(bytes).first(in[number].size())));
    told[begun] = link.take_end(channel, begun) ? 1 : 0;
    told[begun] += link.take_end(channel, begun) ? 1 : 0;
  }
  std::vector<runtime::transfer_end> ended;
  const auto note = [&]() -> result<void> {
    for (auto& one : ended) {
      WEIR_CHECK(one.outcome);
      ++told[one.id];
    }
    ended.clear();
    usleep(200);
    return {};
  };
  const auto is_open = [](const auto& one) { return one.second == 0; };
  while (std::any_of(told.begin(), told.end(), is_open)) {
    link.poll(channel, ended);
    WEIR_CHECK(note());
    link.poll(beside, ended);
    if (!ended.empty()) {
      return error(errc::internal, "a channel without transfers has ended some");
    }
    link.take_ends(channel, ended);
    WEIR_CHECK(note());
  }
  for (int later = 0; later < 20; ++later) {
    link.poll(channel, ended);
    WEIR_CHECK(note());
  }
  std::uint64_t sum = 0;
  for (std::uint64_t number = 0; number < count; ++number) {
    const std::vector<std::byte> bytes = bytes_of_number(number);
    if (!std::equal(in[number].begin(), in[number].end(), bytes.begin())) {
      return error(errc::internal, "a message has other bytes");
    }
    sum = sum * 31 + xxh3_64(in[number]);
  }
  const bool once = std::all_of(told.begin(), told.end(),
                                [](const auto& one) { return one.second == 1; });
  if (!once || told.size() != 2 * count) {
    return error(errc::internal, "expected that each end is told once");
  }
  return sum;
}

}  // namespace

void raise_known(int signal) {
  std::printf("pid %d\n", getpid());
  std::fflush(stdout);
  raise(signal);
}

const std::map<std::string, transport_program>& transport_programs() {
  static const std::map<std::string, transport_program> all{
      {"late", late_message},
      {"leaving", leaving},
      {"opening", [](runtime::transport& link) { return opening(link, true); }},
      {"opening_late", [](runtime::transport& link) { return opening(link, false); }},
      {"opening_alone", opening_alone},
      {"unsent", [](runtime::transport& link) { return unsent(link, true); }},
      {"sent", [](runtime::transport& link) { return unsent(link, false); }},
      {"tags", tags},
      {"ends", ends_told_once},
  };
  return all;
}

}  // namespace weir::test
