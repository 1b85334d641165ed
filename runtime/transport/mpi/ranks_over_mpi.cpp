// SPDX-License-Identifier: Apache-2.0
/// @file
/// Transfers of the transport over MPI: how they begin, move on and end.
///
/// An operation is one send or one receive in MPI. Its buffer belongs to the operation,
/// since MPI may use it after the user of the transport has given up. A receive that was
/// given up stays in MPI (`given_up_`), and its message is kept if it comes late
/// (`late_`). A send that was given up stays there, too, and its message may still go.
#include "ranks_over_mpi.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstring>
#include <iterator>
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
/// Time between two looks for signs of life and for ends of channels.
constexpr std::int64_t look_ns = 10'000'000;
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

/// Returns the words for a message in errors.
std::string name_of_transfer(rank_id from, const message_key& key) {
  return fmt::format("message {} of channel {} from rank {}", key.number, key.channel,
                     from);
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

/// Moves all channels on, and returns the ends of one. Ends that are known already come
/// at once: a look at all sockets takes longer than most users need to go on.
void ranks_over_mpi::poll(std::uint32_t channel, std::vector<transfer_end>& ended) {
  const std::lock_guard lock(mutex_);
  if (channel >= channels_.size() || channels_[channel].ended.empty()) {
    polled_ns_ = now_ns();
    progress();
  }
  move_ends(channel, ended);
}

void ranks_over_mpi::take_ends(std::uint32_t channel, std::vector<transfer_end>& ended) {
  const std::lock_guard lock(mutex_);
  move_ends(channel, ended);
}

/// The end of the last transfer is the last one that is known, because nothing has moved
/// since it was begun.
bool ranks_over_mpi::take_end(std::uint32_t channel, transfer_id last) {
  const std::lock_guard lock(mutex_);
  if (channel >= channels_.size() || channels_[channel].ended.empty()) {
    return false;
  }
  const transfer_end& newest = channels_[channel].ended.back();
  if (newest.id != last || !newest.outcome) {
    return false;
  }
  channels_[channel].ended.pop_back();
  return true;
}

/// Moves the known ends of a channel to `ended`.
void ranks_over_mpi::move_ends(std::uint32_t channel, std::vector<transfer_end>& ended) {
  if (channel >= channels_.size()) {
    return;
  }
  std::vector<transfer_end>& known = channels_[channel].ended;
  std::move(known.begin(), known.end(), std::back_inserter(ended));
  known.clear();
}

/// Moves messages on, and notes the operations that have ended.
/// Called with the mutex locked, by polls and by the pump.
void ranks_over_mpi::progress() {
  const std::int64_t now = now_ns();
  silence_.look(now);
  // MPI needs space for the ends of all operations.
  ends_.resize(std::max(ends_.size(), operations_.size()));
  const int count = mpi_.poll(ends_.data(), static_cast<int>(ends_.size()));
  for (int i = 0; i < count; ++i) {
    end_operation(ends_[static_cast<std::size_t>(i)], now);
  }
  // Control messages and deadlines are looked at less often, since this takes longer.
  if (now - looked_ns_ >= look_ns) {
    looked_ns_ = now;
    look_for_control_messages(now);
    end_overdue();
  }
}

/// `end.owner` is the operation. A cancelled end may be caused by a farewell.
void ranks_over_mpi::end_operation(const operation_end& end, std::int64_t now) {
  const auto found = operations_.find(static_cast<const operation*>(end.owner));
  if (found == operations_.end()) {
    return;
  }
  operation& one = *found->second;
  if (one.is_send) {
    unsent_ -= static_cast<std::int64_t>(one.buffer.size());
    // A sign of life has arrived, so the next may be sent.
    if (one.key.channel == control_channel && one.buffer.empty()) {
      sends_life_[one.other] = false;
    }
  } else if (end.code == 0 && !end.cancelled) {
    heard_[one.other] = now;
  }
  // The operation goes on in another form.
  if (keeps_receiving(one, end)) {
    operations_.erase(found);
    return;
  }
  // Nobody waits for forgotten operations.
  if (!one.is_forgotten) {
    // Only a farewell cancels a receive with a cause.
    const bool abandoned = end.cancelled && one.cause;
    tell_end(one, outcome_of(one, end), abandoned);
  }
  keep_buffer(std::move(one.buffer));
  operations_.erase(found);
}

/// Keeps the message of a receive that was given up, or begins such a receive again if it
/// was taken over and MPI has given it up meanwhile. Returns false for all others.
bool ranks_over_mpi::keeps_receiving(operation& one, const operation_end& end) {
  const sender_and_key which{one.other, one.key};
  if (const auto open = given_up_.find(which);
      open != given_up_.end() && open->second == &one) {
    given_up_.erase(open);
    // The message has come after all, or is one that the receive cannot take. Either is
    // kept for a later receive, which reports it.
    if (!end.cancelled) {
      late_.insert_or_assign(which, late_message{end, std::move(one.buffer)});
    }
    return true;
  }
  // Taken over, but MPI has cancelled it: it begins again.
  if (one.is_forgotten || !one.is_taken_over || !end.cancelled) {
    return false;
  }
  auto again = std::make_unique<operation>();
  again->id = one.id;
  again->other = one.other;
  again->key = one.key;
  again->buffer = std::move(one.buffer);
  again->into = one.into;
  again->begun_ns = one.begun_ns;
  if (const int code = begin_receive(std::move(again)); code != 0) {
    tell_end(one, failure_of_mpi(one, code));
  }
  return true;
}

/// Returns the outcome of an operation, and copies received bytes to their memory.
/// The order matters: a cancelled or truncated operation has no valid number of bytes.
result<void> ranks_over_mpi::outcome_of(operation& one, const operation_end& end) const {
  // By a farewell, or by the end of the channel.
  if (end.cancelled) {
    if (one.cause) {
      return *one.cause;
    }
    return error(errc::stopping,
                 fmt::format("{} not received: expected bytes, found that the receive "
                             "was cancelled",
                             name_of_transfer(one.other, one.key)));
  }
  if (end.truncated) {
    return error(errc::diverged,
                 fmt::format("{} not received: expected {} bytes, found more",
                             name_of_transfer(one.other, one.key), one.into.size()));
  }
  if (end.code != 0) {
    return failure_of_mpi(one, end.code);
  }
  if (one.is_send) {
    return {};
  }
  // The sender has told a failure.
  if (end.bytes == 0) {
    return error(errc::upstream_failed,
                 fmt::format("{} not received: expected bytes, found that the task that "
                             "makes them has failed",
                             name_of_transfer(one.other, one.key)));
  }
  if (end.bytes != one.buffer.size()) {
    return error(
        errc::diverged,
        fmt::format("{} not received: expected {} bytes, found {}",
                    name_of_transfer(one.other, one.key), one.into.size(), end.bytes));
  }
  // The buffer has one byte at least, `into` may have none.
  std::copy_n(one.buffer.begin(), one.into.size(), one.into.begin());
  return {};
}

/// The text is that of the MPI library.
std::string ranks_over_mpi::words_of_mpi(int code) const {
  std::array<char, 512> text{};
  mpi_.explain(code, text.data(), text.size());
  return fmt::format("expected success of {}, found: {}", mpi_.library, text.data());
}

error ranks_over_mpi::failure_of_mpi(const operation& one, int code) const {
  return error(errc::io,
               fmt::format("message {} of channel {} {} rank {} not moved: {}",
                           one.key.number, one.key.channel, one.is_send ? "to" : "from",
                           one.other, words_of_mpi(code)));
}

/// The user finds the end at its next poll of the channel.
void ranks_over_mpi::tell_end(const operation& one, result<void> outcome,
                              bool abandoned) {
  if (!outcome && outcome.error().code() != errc::upstream_failed &&
      outcome.error().code() != errc::rank_lost && !abandoned) {
    has_failed_ = true;  // a silent rank may come back; the end of the transport looks
  }
  if (!one.is_send) {
    receives_.erase({one.other, one.key});
  }
  channels_[one.key.channel].ended.push_back({one.id, std::move(outcome), abandoned});
}

/// Ends the transfers with ranks that have been silent for the deadline. A rank may come
/// back, and its user may begin a receive again, so MPI's part of it is kept. A send
/// cannot be taken back: it keeps its buffer until MPI ends it. A send to a rank that has
/// left the channel, and may live on, ends without an error, as it does between threads.
void ranks_over_mpi::end_overdue() {
  std::vector<operation*> late;
  const auto add_if_late = [&](operation& one) {
    // Counted from the begin of the transfer, or from the last sign of life.
    if (silence_.is_overdue(std::max(one.begun_ns, heard_[one.other]))) {
      late.push_back(&one);
    }
  };
  for (const auto& [key, one] : receives_) {
    add_if_late(*one);
  }
  for (const auto& [at, one] : operations_) {
    if (!one->is_send || one->is_forgotten) {
      continue;
    }
    if (has_left(one->other, one->key.channel)) {
      tell_end(*one, {});
      one->is_forgotten = true;
    } else {
      add_if_late(*one);
    }
  }
  // Users report the first failure, which is that of the oldest transfer.
  std::sort(late.begin(), late.end(),
            [](const operation* a, const operation* b) { return a->id < b->id; });
  for (operation* const one : late) {
    give_up(*one);
  }
}

/// The user is told now. MPI is asked to cancel a receive, which may fail.
void ranks_over_mpi::give_up(operation& one) {
  const std::string silence = words_of_silence(one.other, one.begun_ns);
  if (one.is_send) {
    tell_end(one,
             error(errc::rank_lost,
                   fmt::format("message {} of channel {} not sent to rank {}: {}",
                               one.key.number, one.key.channel, one.other, silence)));
    one.is_forgotten = true;
    return;
  }
  tell_end(one, error(errc::rank_lost,
                      fmt::format("{} not received: {}",
                                  name_of_transfer(one.other, one.key), silence)));
  one.is_forgotten = true;
  given_up_.insert_or_assign(sender_and_key{one.other, one.key}, &one);
  cancel(one, std::nullopt);
}

/// Asks MPI to end a receive. If its message has begun to arrive, it ends as usual. Asks
/// once, because OpenMPI crashes at a second time.
void ranks_over_mpi::cancel(operation& one, std::optional<error> cause) {
  if (!one.is_cancelled) {
    one.is_cancelled = true;
    one.cause = std::move(cause);
    static_cast<void>(mpi_.cancel(&one));
  }
}

/// See `close`.
void ranks_over_mpi::close_channel(std::uint32_t channel) noexcept {
  const std::lock_guard lock(mutex_);
  close(channel);
}

/// Operations of the channel end in MPI without anybody being told.
void ranks_over_mpi::close(std::uint32_t channel) noexcept {
  if (channel >= channels_.size() || !channels_[channel].open) {
    return;
  }
  channels_[channel] = {false, {}};
  for (auto& [at, one] : operations_) {
    // Sends go on, since their bytes may be on their way.
    if (one->key.channel == channel && !one->is_forgotten) {
      one->is_forgotten = true;
      if (!one->is_send) {
        receives_.erase({one->other, one->key});
        cancel(*one, std::nullopt);
      }
    }
  }
  // Nothing of the channel is remembered.
  std::erase_if(gone_,
                [channel](const auto& one) { return one.first.second == channel; });
  const auto is_in_channel = [channel](const auto& one) {
    return one.first.second.channel == channel;
  };
  std::erase_if(given_up_, is_in_channel);
  std::erase_if(late_, is_in_channel);
}

}  // namespace weir::mpi
