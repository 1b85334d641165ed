// SPDX-License-Identifier: Apache-2.0
/// @file
/// Signs of life, ends of channels, the pump, and the end of the transport over MPI.
///
/// One thread, the pump, makes sure that messages move and that signs of life are sent
/// while the program computes. MPI is called under one lock only, as
/// MPI_THREAD_SERIALIZED requires.
#include "control.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/core.h>

#include "ranks_over_mpi.hpp"
#include "start.hpp"
#include "weir/base/clock.hpp"

namespace weir::mpi {
namespace {

/// Longest time between two signs of life. Short deadlines need them more often.
constexpr std::int64_t max_life_ns = 1'000'000'000;
/// So several signs may be late before a rank counts as lost.
constexpr std::int64_t lives_in_deadline = 5;
/// Time without a poll after which the pump moves messages on.
constexpr std::int64_t busy_ns = 500'000;
/// Shortest and longest time for which the pump sleeps while messages are on their way.
/// It doubles as long as the user polls, because each time that the pump wakes takes the
/// processor from a worker. The longest one is also how late the pump may notice that a
/// long kernel has begun.
constexpr std::chrono::nanoseconds shortest_sleep{1'000'000};
constexpr std::chrono::nanoseconds longest_sleep{4'000'000};
/// Time for which the pump sleeps while no message is on its way, at most.
constexpr std::chrono::milliseconds idle_pump_sleep{50};
/// Time between two looks of a rank that waits for the others at the end.
constexpr std::chrono::microseconds idle_sleep{50};
/// Longest text of a cause that is sent. @units{bytes}
constexpr std::size_t max_cause = 4096;
/// Returns a cause as bytes. Channel and code as numbers of 32 bits, then the text. All
/// ranks run on machines of one byte order.
std::vector<std::byte> bytes_of_cause(std::uint32_t channel, const error& cause) {
  const std::array<std::uint32_t, 2> head{channel,
                                          static_cast<std::uint32_t>(cause.code())};
  const std::size_t length = std::min(cause.text().size(), max_cause);
  std::vector<std::byte> bytes(sizeof head + length);
  std::memcpy(bytes.data(), head.data(), sizeof head);
  std::memcpy(bytes.data() + sizeof head, cause.text().data(), length);
  return bytes;
}

}  // namespace

// All ranks count as heard at the start. The pump begins last, when all members are made.
ranks_over_mpi::ranks_over_mpi(const calls& plugin, const start_facts& facts,
                               mpi_options options)
    : mpi_(plugin),
      options_(std::move(options)),
      started_mpi_(facts.started_here),
      rank_(static_cast<rank_id>(facts.rank)),
      ranks_(static_cast<rank_id>(facts.ranks)),
      small_(ranks_),
      heard_(ranks_, now_ns()),
      silence_(options_.deadline_ns),
      left_ns_(ranks_),
      sends_life_(ranks_) {
  pump_ = std::thread([this] { pump(); });
}

/// Sends a message that belongs to no user. The operation is forgotten at once, so
/// nobody is told its end. Returns false if MPI has not taken the message.
bool ranks_over_mpi::send_control(rank_id to, int tag, std::vector<std::byte> bytes) {
  auto owned = std::make_unique<operation>();
  operation& one = *owned;
  one.other = to;
  one.key = {control_channel, static_cast<std::uint64_t>(tag)};
  one.is_send = true;
  one.is_forgotten = true;
  one.buffer = std::move(bytes);
  // A failure is no error: nobody waits for the end of this message.
  if (mpi_.send(0, static_cast<int>(to), tag, one.buffer.data(),
                static_cast<int>(one.buffer.size()), false, nullptr, &one) != 0) {
    return false;
  }
  unsent_ += static_cast<std::int64_t>(one.buffer.size());
  operations_.emplace(&one, std::move(owned));
  return true;
}

// An ordinary end (`stopping`) is no failure, so the transport can still end in order.
void ranks_over_mpi::abandon(std::uint32_t channel, const error& cause) {
  const std::lock_guard lock(mutex_);
  if (channel >= channels_.size() || !channels_[channel].open) {
    return;
  }
  close(channel);
  // An end with the code `stopping` is the usual one.
  if (cause.code() != errc::stopping) {
    fail(cause.message());
  }
  send_farewells(channel, cause);
}

/// Tells all other ranks that this one sends nothing more in a channel.
void ranks_over_mpi::send_farewells(std::uint32_t channel, const error& cause) {
  for (rank_id to = 0; to < ranks_; ++to) {
    if (to != rank_) {
      static_cast<void>(send_control(to, farewell_tag, bytes_of_cause(channel, cause)));
    }
  }
}

/// Takes all control messages that have come; MPI finds them by their tags.
void ranks_over_mpi::look_for_control_messages(std::int64_t now) {
  std::vector<std::byte> bytes;
  for (const int tag : {life_tag, farewell_tag}) {
    bool found = false;
    int from = 0;
    int count = 0;
    // Each probe finds one message.
    while (mpi_.probe(tag, &found, &from, &count) == 0 && found) {
      bytes.resize(static_cast<std::size_t>(std::max(count, 1)));
      if (mpi_.take(from, tag, bytes.data(), count) != 0) {
        has_failed_ = true;
        return;
      }
      // Any message is a sign of life.
      heard_[static_cast<std::size_t>(from)] = now;
      if (tag == farewell_tag) {
        take_farewell(static_cast<rank_id>(from),
                      std::span(bytes).first(static_cast<std::size_t>(count)));
      }
    }
  }
}

/// Notes that a rank sends nothing more in a channel, and ends the receives from it whose
/// messages it had not sent before. The control channel stands for all channels.
void ranks_over_mpi::take_farewell(rank_id from, std::span<const std::byte> bytes) {
  std::array<std::uint32_t, 2> head{};
  if (bytes.size() < sizeof head) {
    return;
  }
  std::memcpy(head.data(), bytes.data(), sizeof head);
  // The own channel is closed already.
  if (head[0] < channels_.size() && !channels_[head[0]].open) {
    return;
  }
  const std::span<const std::byte> text = bytes.subspan(sizeof head);
  error cause(static_cast<errc>(head[1]),
              std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  if (cause.code() != errc::stopping) {
    fail(cause.message());
  }
  const bool all = head[0] == control_channel;
  left_ns_[from] = all ? now_ns() : left_ns_[from];
  for (const auto& [key, one] : receives_) {
    // A receive whose message has arrived ends as usual.
    if (one->other == from && (all || one->key.channel == head[0])) {
      cancel(*one, cause);
    }
  }
  gone_.try_emplace({from, head[0]}, std::move(cause));
}

/// Sends signs of life, and moves messages on while nobody polls.
/// The mutex is held except while the thread sleeps, so the pump and the user take turns
/// in calling MPI.
void ranks_over_mpi::pump() {
  const std::int64_t life_ns =
      std::min(max_life_ns, options_.deadline_ns / lives_in_deadline);
  const auto idle_length = std::min<std::chrono::nanoseconds>(
      idle_pump_sleep, std::chrono::nanoseconds(runtime::silence_clock::longest_sleep_ns(
                           options_.deadline_ns)));
  std::chrono::nanoseconds length = shortest_sleep;
  std::unique_lock lock(mutex_);
  // Woken early when the transport ends.
  while (!stops_) {
    stopping_.wait_for(lock, operations_.empty() ? idle_length : length,
                       [this] { return stops_; });
    const std::int64_t now = now_ns();
    // A rank that has not taken the last sign gets no other, so signs do not pile up.
    if (now - lived_ns_ >= life_ns && !is_leaving_) {
      lived_ns_ = now;
      for (rank_id to = 0; to < ranks_; ++to) {
        if (to != rank_ && !sends_life_[to]) {
          // A sign that was not sent has no end that would clear the mark.
          sends_life_[to] = send_control(to, life_tag, {});
        }
      }
    }
    // Nobody has polled for a while, as during a long kernel.
    const bool is_polled = now - polled_ns_ < busy_ns;
    if (!is_polled) {
      progress();
    }
    length = is_polled && !operations_.empty() ? std::min(2 * length, longest_sleep)
                                               : shortest_sleep;
  }
}

/// If a rank has failed, MPI is not finished, since MPI_Finalize would wait for that
/// rank. Otherwise MPI of the program goes on, and it may make another transport.
ranks_over_mpi::~ranks_over_mpi() {
  try {
    const std::lock_guard lock(mutex_);
    const std::string why = fmt::format("rank {} has ended its transport", rank_);
    send_farewells(control_channel, error(errc::stopping, why));
  } catch (const std::bad_alloc&) {
    // Without memory the others find this rank silent.
  }
  const bool ends = all_are_here();
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  stopping_.notify_all();
  pump_.join();
  if (ends) {
    static_cast<void>(mpi_.finish());
    was_made() = started_mpi_;
    return;
  }
  // MPI may still use the buffers of transfers that it has not ended, so they are never
  // freed.
  for (auto& [at, one] : operations_) {
    static_cast<void>(one.release());
  }
}

/// The own rank does not count.
std::optional<rank_id> ranks_over_mpi::silent_rank(std::int64_t begun) const {
  for (rank_id r = 0; r < ranks_; ++r) {
    if (r != rank_ && silence_.is_overdue(std::max(begun, heard_[r]))) {
      return r;
    }
  }
  return std::nullopt;
}

/// A rank may have left right behind its own copy, so others have the deadline for
/// theirs.
std::optional<rank_id> ranks_over_mpi::left_rank(std::int64_t begun) const {
  for (rank_id r = 0; r < ranks_; ++r) {
    if (left_ns_[r] != 0 && silence_.is_overdue(std::max(begun, left_ns_[r]))) {
      return r;
    }
  }
  return std::nullopt;
}

/// Returns the words for a rank that has been silent for the deadline, counted from a
/// time or from its last sign of life.
std::string ranks_over_mpi::words_of_silence(rank_id other, std::int64_t since) const {
  return fmt::format(
      "expected a sign of life of rank {} within {} ms, found none for {} ms", other,
      options_.deadline_ns / 1'000'000,
      silence_.since(std::max(since, heard_[other])) / 1'000'000);
}

/// Returns true if a transfer of a user is under way. Control messages do not count.
bool ranks_over_mpi::has_transfers() const {
  return std::any_of(operations_.begin(), operations_.end(),
                     [](const auto& one) { return !one.second->is_forgotten; });
}

/// Waits until own transfers have ended and all ranks are here. Behind a first barrier no
/// rank needs a message, so those that no one has received are dropped, until a second
/// barrier says that all have been. Returns false if a rank has failed. The pump sends
/// signs of life until the second barrier begins.
///   barriers  0  own transfers are still under way
///             1  all ranks have ended their transfers; late messages are dropped
///             2  all ranks have dropped them, and nothing of this rank is under way
bool ranks_over_mpi::all_are_here() {
  int barriers = 0;
  bool ready = true;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      progress();
      // Between the barriers, messages that nobody receives are dropped.
      if (barriers > 0) {
        has_failed_ = has_failed_ || (!ready && mpi_.barrier_ready(&ready) != 0);
        if (barriers > 1 || ready) {
          mpi_.drop();
        }
      }
      // A failure of any rank ends the wait.
      if (has_failed_ || silent_rank(0)) {
        return false;
      }
      if (ready && barriers == 2) {
        return true;
      }
      // From the second barrier on, no signs of life are sent.
      is_leaving_ = is_leaving_ || (barriers > 0 && ready);
      // The first barrier needs the end of own transfers, the second one the end of all
      // operations.
      if (ready && !(barriers == 0 ? has_transfers() : !operations_.empty())) {
        has_failed_ = mpi_.begin_barrier() != 0;
        ready = false;
        ++barriers;
      }
    }
    std::this_thread::sleep_for(idle_sleep);
  }
}

}  // namespace weir::mpi
