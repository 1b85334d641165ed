// SPDX-License-Identifier: Apache-2.0
/// @file
/// Transfers of the transport over MPI: how they move on and end.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "control.hpp"
#include "ranks_over_mpi.hpp"
#include "weir/base/clock.hpp"

namespace weir::mpi {
namespace {

/// Time between two looks for signs of life and for ends of channels.
constexpr std::int64_t look_ns = 10'000'000;

}  // namespace

/// The number of the message is that of its user.
std::string name_of_transfer(rank_id from, const message_key& key) {
  return fmt::format("message {} of channel {} from rank {}", key.number, key.channel,
                     from);
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

/// The end of the last transfer is the last one that is known, unless messages have moved
/// on since it was begun. A poll then tells it.
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
