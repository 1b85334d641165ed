// SPDX-License-Identifier: Apache-2.0
/// @file
/// How ranks agree on the step at which all of them stop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "weir/runtime/transport.hpp"

namespace weir::runtime {

/// Finds a boundary between two steps that no rank has passed, in a channel of its own.
///
/// All ranks pass the same boundaries, which they count. A rank that was asked to stop
/// tells rank 0. Rank 0 asks all ranks for the next boundary at which each can wait; a
/// rank that has answered does not pass this boundary until rank 0 has told all ranks the
/// largest of the numbers. A rank answers inside of steps as well, since it may wait
/// there for a task that a rank at an earlier boundary has not submitted yet.
/// @threads{belongs to the thread that submits, apart from `ask`}
class stop_agreement {
 public:
  /// Opens the channel. @pre the transport outlives this object
  explicit stop_agreement(transport& link);
  ~stop_agreement() { close(); }
  stop_agreement(const stop_agreement&) = delete;
  stop_agreement& operator=(const stop_agreement&) = delete;
  /// Ends the use of the transport.
  void close() noexcept { link_.close_channel(channel_); }
  /// Ends the use of the transport and tells the other ranks `for_others`.
  void abandon(const error& for_others) { link_.abandon(channel_, for_others); }

  /// Asks all ranks to stop. @threads{safe from any thread and in signal handlers}
  void ask() noexcept { asked_.store(true, std::memory_order_relaxed); }
  /// Notes that the rank comes to the next boundary.
  void arrive() noexcept {
    ++boundary_;
    is_inside_ = true;
  }
  /// Notes that the rank passes the boundary.
  void pass() noexcept { is_inside_ = false; }
  /// Returns true if the rank must wait at its boundary for the end of the agreement.
  [[nodiscard]] bool holds() const noexcept {
    return answer_ && !last_ && boundary_ >= *answer_;
  }
  /// Returns true if the ranks stop at this boundary.
  [[nodiscard]] bool stops() const noexcept { return last_ && boundary_ >= *last_; }
  /// Moves the messages on. Does not wait.
  /// @error{rank_lost; a rank is silent while the others wait for its answer}
  [[nodiscard]] result<void> move_on();

 private:
  enum class message_kind : std::uint64_t { request, question, answer, verdict };
  struct message {
    message_kind kind = message_kind::request;
    std::uint64_t boundary = 0;
  };
  /// A rank and the next message from it.
  struct peer {
    rank_id rank = 0;
    std::optional<error> gone;  ///< cause with which it has left the channel
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    transfer_id receive = 0;
    message next;
  };
  struct outgoing {
    transfer_id id;
    message content;
  };

  [[nodiscard]] result<void> await(peer& p);
  [[nodiscard]] result<void> send(peer& p, message content);
  [[nodiscard]] result<void> send_to_all(message content);
  [[nodiscard]] result<void> begin();
  [[nodiscard]] result<void> take(peer& p, const transfer_end& one);
  [[nodiscard]] result<void> take_message(peer& p);
  [[nodiscard]] result<void> note_answer(std::uint64_t boundary);
  void answer() noexcept { answer_ = is_inside_ ? boundary_ : boundary_ + 1; }

  transport& link_;
  std::uint32_t channel_;
  std::atomic<bool> asked_{false};
  bool has_sent_request_ = false;  ///< the request of this rank has been sent
  bool has_begun_ = false;         ///< rank 0 has asked the others
  bool is_inside_ = false;         ///< at a boundary, not in a step
  std::uint64_t boundary_ = 0;
  std::optional<std::uint64_t> answer_;
  std::optional<std::uint64_t> last_;  ///< boundary at which all stop
  std::uint64_t largest_ = 0;          ///< answer so far, on rank 0
  std::size_t answers_ = 0;
  std::vector<peer> peers_;
  std::list<outgoing> sends_;
};

}  // namespace weir::runtime
