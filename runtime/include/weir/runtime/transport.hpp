// SPDX-License-Identifier: Apache-2.0
/// @file
/// The interface of transports: messages between ranks, named by keys and moved by
/// polling.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weir/base/error.hpp"

namespace weir::runtime {

/// Number of a rank: one of the parts that run the same program together.
using rank_id = std::uint32_t;

/// Name of a message between two ranks. Users of one transport have channels of their
/// own, so their numbers never meet.
struct message_key {
  std::uint32_t channel = 0;  ///< user of the transport, see `transport::open_channel`
  std::uint64_t number = 0;   ///< number among the messages from one rank to another
  friend auto operator<=>(const message_key&, const message_key&) = default;
};

/// Number of a send or a receive of one rank; never used twice.
using transfer_id = std::uint64_t;

/// The end of a send or a receive.
struct transfer_end {
  transfer_id id = 0;    ///< transfer that has ended
  result<void> outcome;  ///< success, or the reason why the bytes were not moved
  /// True if the sender has abandoned the channel. The error is then its cause.
  bool abandoned = false;
};

/// A user of a transport, which moves on while another user of it waits.
/// @threads{belongs to the thread that submits to the worlds of its transport}
class transport_user {
 public:
  virtual ~transport_user() = default;
  /// Does a part of the work that other ranks may wait for. Returns false if there was
  /// none. If it waits, it moves the other users on meanwhile.
  virtual bool move_on_for_others() = 0;

 protected:
  transport_user() = default;
  transport_user(const transport_user&) = default;
  transport_user& operator=(const transport_user&) = default;
};

/// One rank's access to the others. Nothing moves but inside of calls: memory of a
/// receive is written inside of `poll` and `take_ends` alone, and never after the end of
/// the transfer or of its channel.
/// @threads{safe from any thread, apart from `open_channel`, `enter`, `leave` and
/// `move_others_on`, which belong to one thread; each rank has an object of its own}
class transport {
 public:
  virtual ~transport() = default;
  transport(const transport&) = delete;
  transport& operator=(const transport&) = delete;

  /// Returns the number of this rank, in [0, ranks()).
  [[nodiscard]] virtual rank_id rank() const noexcept = 0;
  /// Returns the number of ranks.
  [[nodiscard]] virtual rank_id ranks() const noexcept = 0;
  /// Returns true if the other ranks do not exist, see `make_pretended_ranks`.
  [[nodiscard]] virtual bool is_pretended() const noexcept { return false; }
  /// Returns a channel that no other user of the transport has. All ranks open their
  /// channels in the same order. If it waits for them, the users move on meanwhile.
  [[nodiscard]] virtual std::uint32_t open_channel() = 0;
  /// Forgets all transfers of a channel. Their memory is not touched afterwards, and
  /// later calls begin no transfers in it.
  virtual void close_channel(std::uint32_t channel) noexcept = 0;
  /// Closes a channel and tells all other ranks that this rank sends nothing more in it.
  /// Their receives from it, present and later ones, end with the code and the text of
  /// `cause`, unless their messages were sent before.
  virtual void abandon(std::uint32_t channel, const error& cause) = 0;

  /// Begins to send bytes, which the caller keeps until the transfer has ended.
  /// @error{out_of_range; no such rank} @error{stopping; the channel is closed}
  /// @error{out_of_memory; the receiver leaves too many messages waiting}
  [[nodiscard]] virtual result<transfer_id> send(rank_id to, message_key key,
                                                 std::span<const std::byte> bytes) = 0;
  /// Begins to send the news that the bytes of a message do not exist, because the task
  /// that should have made them failed. The receive ends as `upstream_failed`.
  /// @error{out_of_range; see `send`} @error{stopping; see `send`}
  /// @error{out_of_memory; see `send`}
  [[nodiscard]] virtual result<transfer_id> send_failure(rank_id to, message_key key) = 0;
  /// Begins to receive the message with a key into memory that the caller keeps until the
  /// transfer has ended. Messages may arrive in any order, also before their receive.
  /// @error{out_of_range; no such rank} @error{stopping; the channel is closed}
  /// @error{already_exists; a receive of this key has not ended}
  [[nodiscard]] virtual result<transfer_id> receive(rank_id from, message_key key,
                                                    std::span<std::byte> into) = 0;
  /// Returns true if the transport is to be told of kernels, because it sees no other
  /// sign of life of a rank than its calls. `kernel_begins` and `kernel_ends` then count.
  [[nodiscard]] virtual bool watches_kernels() const noexcept { return false; }
  /// Says that a worker of this rank begins a kernel. Until it ends, the rank counts as
  /// alive, however long the kernel takes.
  virtual void kernel_begins() noexcept {}
  /// Says that a kernel has ended, which is a sign of life as well.
  virtual void kernel_ends() noexcept {}
  /// Moves messages on, unless transfers of the channel are known to have ended, and adds
  /// the transfers of the channel that have ended to `ended`. A transfer ends with an
  /// error of these codes if no bytes arrive, a send only with the first one:
  /// @error{rank_lost; the other rank has shown no sign of life for the deadline}
  /// @error{timeout; a message of the sender was lost}
  /// @error{upstream_failed; the sender has no bytes}
  /// @error{diverged; the message has another size than the memory}
  virtual void poll(std::uint32_t channel, std::vector<transfer_end>& ended) = 0;
  /// Adds the transfers of a channel that are known to have ended to `ended`, as `poll`
  /// does, but moves no messages on where that takes long. For users whose messages may
  /// wait for the next poll of another user.
  virtual void take_ends(std::uint32_t channel, std::vector<transfer_end>& ended) {
    poll(channel, ended);
  }
  /// Returns true if the transfer that was begun last in a channel is known to have ended
  /// without an error; its end is not told again. If not, `poll` tells it later.
  [[nodiscard]] virtual bool take_end(std::uint32_t channel, transfer_id last) {
    static_cast<void>(channel);
    static_cast<void>(last);
    return false;
  }

  /// Adds a user, which moves on while others wait until it leaves.
  void enter(transport_user& user) { users_.push_back(&user); }
  /// Removes a user.
  void leave(const transport_user& user) noexcept { std::erase(users_, &user); }
  /// Moves all users on but the one that waits. Returns true if one of them has moved. A
  /// user that waits while it is moved on moves the others on in turn, but none that is
  /// being moved on already.
  bool move_others_on(const transport_user& waiting) {
    bool any = false;
    for (transport_user* const user : users_) {
      if (user == &waiting ||
          std::find(moving_.begin(), moving_.end(), user) != moving_.end()) {
        continue;
      }
      moving_.push_back(user);
      any = user->move_on_for_others() || any;
      moving_.pop_back();
    }
    return any;
  }

 protected:
  transport() = default;

 private:
  std::vector<transport_user*> users_;
  std::vector<transport_user*> moving_;  ///< users that are being moved on
};

/// Returns a transport to ranks that do not exist, for measurements of what a rank of
/// many costs: messages to them are dropped, and messages from them are zeros that come
/// at once. A world over it calls no kernels and waits for no rank, so that its tensors
/// have no meaningful content.
/// @error{out_of_range; expected 2 <= ranks <= 65,536 and 1 <= rank < ranks}
[[nodiscard]] result<std::unique_ptr<transport>> make_pretended_ranks(rank_id rank,
                                                                      rank_id ranks);
/// Returns the transport that the environment variable WEIR_PRETEND asks for, such as
/// "5000/10000" for rank 5,000 of 10,000, and writes a warning to stderr. Returns null if
/// there is no such variable. @error{invalid_argument; another text than RANK/RANKS}
/// @error{out_of_range; see `make_pretended_ranks`}
[[nodiscard]] result<std::unique_ptr<transport>> pretended_ranks_of_environment();

}  // namespace weir::runtime
