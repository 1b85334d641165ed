// SPDX-License-Identifier: Apache-2.0
/// @file
/// Transfers of the transport over MPI: how they begin. How they end is in `ends.cpp`.
///
/// An operation is one send or one receive in MPI. Its buffer belongs to the operation,
/// since MPI may use it after the user of the transport has given up. A receive that was
/// given up stays in MPI (`given_up_`), and its message is kept if it comes late
/// (`late_`). A send that was given up stays there, too, and its message may still go.
#include "ranks_over_mpi.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <thread>

#include <fmt/core.h>

#include "control.hpp"
#include "weir/base/clock.hpp"

namespace weir::mpi {
namespace {

/// Messages of at most so many bytes are sent at once by MPI libraries, so that nothing
/// slows down a sender whose receiver is busy. The plug-in sets this limit of OpenMPI.
constexpr std::size_t small_bytes = 16'384;
/// Of so many small messages to a rank, one ends only after its receive has begun.
/// The other small messages end at once, whether or not their receiver is near. This one
/// counts as unsent until then, so `max_unsent` limits a sender that is far ahead.
constexpr std::uint32_t small_between_waits = 16;
/// Largest buffer that is kept for later messages, and the number of them.
constexpr std::size_t max_kept_bytes = std::size_t{1} << 20;
constexpr std::size_t max_kept_buffers = 64;
/// Time between two looks of a rank that waits for a copy of the communicator.
constexpr std::chrono::microseconds copy_sleep{50};

/// Returns the tag of a message. The slot of the channel in its communicator, and the
/// low bits of the number. Messages between two ranks keep their order, so bits above
/// these are not needed.
int tag_of(const message_key& key) {
  const std::uint64_t slot = key.channel % channels_of_communicator + 1;
  const std::uint64_t low = key.number & ((std::uint64_t{1} << number_bits) - 1);
  return static_cast<int>(slot << number_bits | low);
}

/// Returns the communicator of a channel. Each communicator serves a fixed number of
/// channels, because tags are limited.
int communicator_of(const message_key& key) {
  return static_cast<int>(key.channel / channels_of_communicator);
}

}  // namespace

/// A copy of a communicator is made when all tags are used. All ranks open channels in
/// the same order, so all take part. The lock is free between two looks, so that the pump
/// shows signs of life, and the worlds that exist move on, because a rank may need their
/// pieces before it comes to its copy.
std::uint32_t ranks_over_mpi::open_channel() {
  /// Stands for the world that is being made, which does not move on yet.
  struct : runtime::transport_user {
    bool move_on_for_others() override { return false; }
  } newest;
  std::unique_lock lock(mutex_);
  channels_.emplace_back();
  const auto channel = static_cast<std::uint32_t>(channels_.size() - 1);
  const std::uint32_t needed = channel / channels_of_communicator + 1;
  const std::int64_t begun = now_ns();
  // A channel without a communicator exists, but nothing can be moved in it.
  while (communicators_ < needed && !has_failed_) {
    move_copy_on(begun);
    lock.unlock();
    if (!move_others_on(newest)) {
      std::this_thread::sleep_for(copy_sleep);
    }
    lock.lock();
  }
  return channel;
}

/// A rank that is late but shows signs of life is awaited. One that is silent, or has
/// ended its transport, fails the transport, since the copy would never end.
void ranks_over_mpi::move_copy_on(std::int64_t begun) {
  progress();
  bool ready = false;
  int code = 0;
  if (!is_copying_) {
    code = mpi_.begin_copy();
    is_copying_ = code == 0;
  }
  if (code == 0) {
    code = mpi_.copy_ready(&ready);
  }
  if (code != 0) {
    fail(words_of_mpi(code));
  } else if (ready) {
    is_copying_ = false;
    ++communicators_;
  } else if (const auto silent = silent_rank(begun)) {
    fail(words_of_silence(*silent, begun));
  } else if (const auto left = left_rank(begun)) {
    fail(fmt::format("rank {} has ended its transport", *left));
  }
}

/// Notes that the transport cannot end in order. The first cause counts.
void ranks_over_mpi::fail(const std::string& why) {
  has_failed_ = true;
  failure_ = failure_.empty() ? ": " + why : failure_;
}

// MPI counts bytes with an int.
result<void> ranks_over_mpi::check_open(rank_id other, const message_key& key,
                                        std::size_t bytes) const {
  if (other >= ranks_) {
    return error(errc::out_of_range,
                 fmt::format("message {} of channel {} not moved: expected a rank in "
                             "[0, {}), found {}",
                             key.number, key.channel, ranks_, other));
  }
  if (bytes > INT_MAX) {
    return error(errc::out_of_range,
                 fmt::format("message {} of channel {} not moved: expected at most {} "
                             "bytes, found {}",
                             key.number, key.channel, INT_MAX, bytes))
        .hint("cut the tensor into more tiles");
  }
  if (key.channel >= channels_.size() || !channels_[key.channel].open) {
    return error(errc::stopping,
                 fmt::format("message {} not moved: expected an open channel of rank {}, "
                             "found channel {}",
                             key.number, rank_, key.channel));
  }
  if (key.channel / channels_of_communicator >= communicators_) {
    return error(errc::rank_lost,
                 fmt::format("message {} of channel {} not moved: expected a "
                             "communicator that all ranks have opened, found none{}",
                             key.number, key.channel, failure_));
  }
  return {};
}

/// Returns a buffer, an old one if there is any.
std::vector<std::byte> ranks_over_mpi::take_buffer(std::size_t bytes) {
  std::vector<std::byte> buffer;
  if (!spare_.empty()) {
    buffer = std::move(spare_.back());
    spare_.pop_back();
  }
  buffer.resize(bytes);
  return buffer;
}

/// Large buffers are freed.
void ranks_over_mpi::keep_buffer(std::vector<std::byte> buffer) {
  if (buffer.capacity() <= max_kept_bytes && spare_.size() < max_kept_buffers) {
    spare_.push_back(std::move(buffer));
  }
}

/// The bytes are copied, so that the caller may change them.
result<transfer_id> ranks_over_mpi::send(rank_id to, message_key key,
                                         std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  WEIR_CHECK(check_open(to, key, bytes.size()));
  std::vector<std::byte> buffer = take_buffer(std::max<std::size_t>(bytes.size(), 1));
  std::copy(bytes.begin(), bytes.end(), buffer.begin());
  return begin_send(to, key, std::move(buffer));
}

/// An empty message stands for a failure, since usual ones have one byte at least.
result<transfer_id> ranks_over_mpi::send_failure(rank_id to, message_key key) {
  const std::lock_guard lock(mutex_);
  WEIR_CHECK(check_open(to, key, 0));
  return begin_send(to, key, {});
}

// Refuses to send if too many bytes have not left yet, as a rank would otherwise fill its
// memory while the receiver computes.
result<transfer_id> ranks_over_mpi::begin_send(rank_id to, message_key key,
                                               std::vector<std::byte> buffer) {
  // Nobody receives it, and MPI would keep it until the end.
  if (has_left(to, key.channel)) {
    keep_buffer(std::move(buffer));
    channels_[key.channel].ended.push_back({next_transfer_, {}});
    return next_transfer_++;
  }
  // The limit holds for all ranks together.
  const auto bytes = static_cast<std::int64_t>(buffer.size());
  if (bytes > options_.max_unsent - unsent_) {
    return error(errc::out_of_memory,
                 fmt::format("message {} of channel {} not sent to rank {}: expected at "
                             "most {} bytes that are not sent yet, found {}",
                             key.number, key.channel, to, options_.max_unsent,
                             unsent_ + bytes))
        .hint(
            "let the ranks wait for each other more often, or raise "
            "mpi_options::max_unsent");
  }
  auto owned = std::make_unique<operation>();
  operation& one = *owned;
  one.id = next_transfer_;
  one.other = to;
  one.key = key;
  one.is_send = true;
  one.buffer = std::move(buffer);
  one.begun_ns = now_ns();
  // Now and then a small message waits for its receive, so a fast sender cannot run away
  // from a slow receiver.
  const bool is_small = one.buffer.size() <= small_bytes;
  const bool waits = is_small && ++small_[to] % small_between_waits == 0;
  bool ends_at_once = false;
  if (const int code =
          mpi_.send(communicator_of(key), static_cast<int>(to), tag_of(key),
                    one.buffer.data(), static_cast<int>(one.buffer.size()), waits,
                    is_small && !waits ? &ends_at_once : nullptr, &one);
      code != 0) {
    return failure_of_mpi(one, code);
  }
  if (ends_at_once) {
    channels_[key.channel].ended.push_back({one.id, {}});
    keep_buffer(std::move(one.buffer));
    return next_transfer_++;
  }
  // The operation is kept until MPI has ended it.
  unsent_ += bytes;
  operations_.emplace(&one, std::move(owned));
  return next_transfer_++;
}

// The memory of MPI is a buffer of the transport, so `into` may end before MPI is done.
result<transfer_id> ranks_over_mpi::receive(rank_id from, message_key key,
                                            std::span<std::byte> into) {
  const std::lock_guard lock(mutex_);
  WEIR_CHECK(check_open(from, key, into.size()));
  if (receives_.contains({from, key})) {
    return error(errc::already_exists,
                 fmt::format("receive not begun: expected one receive of {}, found a "
                             "second one",
                             name_of_transfer(from, key)));
  }
  // A receive of the same message may have been given up before.
  WEIR_TRY(const bool resumed, resume_receive(from, key, into));
  if (resumed) {
    return next_transfer_++;
  }
  auto owned = std::make_unique<operation>();
  operation& one = *owned;
  one.id = next_transfer_;
  one.other = from;
  one.key = key;
  // The buffer belongs to the operation, as MPI may write to it later.
  one.buffer = take_buffer(std::max<std::size_t>(into.size(), 1));
  one.into = into;
  one.begun_ns = now_ns();
  if (const int code = begin_receive(std::move(owned)); code != 0) {
    return failure_of_mpi({0, from, key}, code);
  }
  return next_transfer_++;
}

/// Gives a receive to MPI, and ends it again if its sender has left the channel. Returns
/// an error code of MPI.
int ranks_over_mpi::begin_receive(std::unique_ptr<operation> owned) {
  operation& one = *owned;
  const int code =
      mpi_.receive(communicator_of(one.key), static_cast<int>(one.other), tag_of(one.key),
                   one.buffer.data(), static_cast<int>(one.buffer.size()), &one);
  if (code != 0) {
    return code;
  }
  operations_.emplace(&one, std::move(owned));
  receives_.insert_or_assign(sender_and_key{one.other, one.key}, &one);
  for (const std::uint32_t channel : {one.key.channel, control_channel}) {
    if (const auto gone = gone_.find({one.other, channel}); gone != gone_.end()) {
      cancel(one, gone->second);  // a message that was sent before still arrives
      break;
    }
  }
  return 0;
}

/// Takes over a receive of the same message that was given up. MPI may have matched the
/// message with it, so a second receive in MPI would never get it. Returns false if there
/// is none.
///
/// There are two cases: the message has come meanwhile, or MPI still waits for it.
result<bool> ranks_over_mpi::resume_receive(rank_id from, const message_key& key,
                                            std::span<std::byte> into) {
  // The size of the buffer, which is never 0.
  const std::size_t bytes = std::max<std::size_t>(into.size(), 1);
  const auto refused = [&](std::size_t before) {
    return error(errc::diverged,
                 fmt::format("{} not received: expected {} bytes as before the rank was "
                             "silent, found {}",
                             name_of_transfer(from, key), before, bytes));
  };
  if (const auto late = late_.find({from, key}); late != late_.end()) {
    // The message is here already: the receive ends at once, and the next poll tells it.
    operation one{next_transfer_, from, key};
    one.buffer = std::move(late->second.buffer);
    one.into = into;
    const operation_end end = late->second.end;
    late_.erase(late);
    if (one.buffer.size() != bytes) {
      return refused(one.buffer.size());
    }
    // The end is noted at once.
    channels_[key.channel].ended.push_back({one.id, outcome_of(one, end)});
    return true;
  }
  const auto found = given_up_.find({from, key});
  if (found == given_up_.end()) {
    return false;
  }
  operation& one = *found->second;
  if (one.buffer.size() != bytes) {
    return refused(one.buffer.size());
  }
  given_up_.erase(found);
  one.id = next_transfer_;
  one.into = into;
  one.begun_ns = now_ns();
  // The operation belongs to a user again.
  one.is_forgotten = false;
  // MPI was asked to cancel this receive. If it does, `keeps_receiving` begins it again.
  one.is_taken_over = true;
  receives_.emplace(sender_and_key{from, key}, &one);
  return true;
}

}  // namespace weir::mpi
