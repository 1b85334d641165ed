// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pieces on their way between ranks. A task of the engine sends a piece, another one
/// receives it; both end when the transport says so, and hold no worker until then.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "weir/runtime/engine.hpp"
#include "weir/runtime/transport.hpp"

namespace weir::runtime {

/// The bytes of a piece, and the other rank.
struct piece_order {
  footprint bytes;
  /// First byte of the storage in which the piece lies.
  std::byte* base = nullptr;
  rank_id other = 0;
  std::uint64_t number = 0;  ///< among the messages from the sender to the receiver
  std::uint64_t step = 0;    ///< submission that needs the piece
  const char* name = "";     ///< name of the task of that submission
  bool sends = false;
};

/// A piece that this rank sends or receives.
struct piece : piece_order {
  // Guarded by the mutex of the pieces.
  /// Bytes of the message: the blocks of the piece one after another.
  std::vector<std::byte> packed;
  completion waits;           ///< handle of its task, once its kernel has returned
  bool has_ended = false;     ///< a receive has ended before its kernel was called
  bool is_forgotten = false;  ///< its task was poisoned before the receive has ended
  result<void> outcome;       ///< of a receive that has ended
};

/// The sends and receives of one rank in one channel.
///
/// A send is a task that reads the piece: its kernel packs the bytes and gives them to
/// the transport. A receive is a task that writes the piece. The transport gets memory
/// for it at the submission, so that older readers of the bytes do not delay the message.
/// The bytes are unpacked when the kernel has been called and the message has come. The
/// engine orders these tasks, so the pieces of a rank have the order of its stream. A
/// poisoned send tells the receiver that the piece does not exist.
///
/// Tasks that were recorded by the engine find the pieces of a replay in the argument of
/// their context, a `replay_run`.
/// @threads{safe from any thread, unless a comment says otherwise}
class pieces {
 public:
  /// Receives the failures of transfers: the number and the name of the task that needs
  /// the piece. Called by any thread.
  using note_function =
      std::function<void(std::uint64_t step, const char* name, const error& cause)>;

  /// @pre the engine and the transport outlive this object
  pieces(engine& tasks, transport& link, note_function note);
  /// Ends the use of the transport. @pre no task of a piece is in flight
  ~pieces();
  pieces(const pieces&) = delete;
  pieces& operator=(const pieces&) = delete;

  /// Submits the task of a piece, after it has begun to receive if the piece is received.
  /// `number` is the place of the piece among those of a recording. @threads{the
  /// submitter}
  [[nodiscard]] result<void> submit(const piece_order& what, std::size_t number = 0);
  /// Prepares a piece whose task a replay submits next, and begins to receive it if it is
  /// received. @threads{the submitter}
  [[nodiscard]] result<piece*> begin(const piece_order& what);
  /// Ends the transfers that have ended in the transport. Returns true if there was one.
  bool poll();
  /// Returns true if transfers have begun and not ended.
  [[nodiscard]] bool any_open() const noexcept {
    return open_count_.load(std::memory_order_relaxed) != 0;
  }
  /// A receive that holds up a task.
  struct awaited_piece {
    rank_id from;
    const char* task;
  };
  /// Returns the oldest receive whose task waits for its message.
  [[nodiscard]] std::optional<awaited_piece> oldest_awaited();
  /// Returns true if `poll` was called less than 200 us ago and no send has failed.
  [[nodiscard]] bool polled_lately() const noexcept;
  /// Returns true if a send has failed.
  [[nodiscard]] bool has_failed() const noexcept {
    return has_failed_.load(std::memory_order_relaxed);
  }
  /// Returns the failure of a send, which ends the world; none if there is none.
  [[nodiscard]] std::optional<error> failure();
  /// Ends all transfers and their tasks, and begins no further ones. Tells the other
  /// ranks `for_others`.
  void abandon(const error& for_others);

 private:
  struct kernel;
  /// A task that ends, with what it needs.
  struct ending {
    piece* what;
    completion task;
    result<void> outcome;
  };
  [[nodiscard]] piece& take(const piece_order& what);
  void give_back(piece& p);
  [[nodiscard]] result<void> run(piece& p, const task_context& context);
  [[nodiscard]] result<void> run_send(piece& p, const task_context& context);
  [[nodiscard]] result<void> run_receive(piece& p, const task_context& context);
  void end_transfer(transfer_end&& one, std::vector<ending>& out);
  void end_tasks(std::vector<ending>& all);
  void note_failure(error cause);

  engine& tasks_;
  transport& link_;
  note_function note_;
  std::uint32_t channel_;
  std::atomic<std::size_t> open_count_{0};
  std::atomic<std::int64_t> polled_ns_{0};  ///< time of the last poll
  std::atomic<bool> has_failed_{false};     ///< `failure_` has a value

  std::mutex mutex_;  ///< guards all below; locked before that of the transport
  std::unordered_map<transfer_id, piece*> open_;
  std::deque<piece> memory_;
  std::vector<piece*> spare_;
  std::optional<error> failure_;
  bool is_closed_ = false;
};

/// One replay of recorded tasks of a world: what differs from the recorded ones. Kernels
/// find it as the argument of their context.
struct replay_run {
  std::uint64_t steps = 0;     ///< submissions since the recorded ones
  std::vector<piece*> pieces;  ///< in the order of the recorded ones
  task_id oldest = 1;          ///< no older task of the replay is in flight
  task_id last = 0;            ///< last task of the replay

  /// Returns true if all tasks of the replay have ended.
  [[nodiscard]] bool has_ended(const engine& on) noexcept {
    while (oldest <= last && on.ended(oldest)) {
      ++oldest;
    }
    return oldest > last;
  }
};

}  // namespace weir::runtime
