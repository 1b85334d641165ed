// SPDX-License-Identifier: Apache-2.0
/// @file
/// The logic of the stream actor, without actors.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stream/queue_operations.hpp"
#include "weir/actors/streams.hpp"

namespace weir::actors {

/// One queue: the operations in it, how many of them have ended, and the synchronizations
/// that wait for an answer.
/// @threads{thread-compatible; `ended` is called by workers of the engine}
class stream_state {
 public:
  /// Number of a synchronization, by which its answer is recognised.
  using ticket = std::uint64_t;
  /// The answer to a synchronization.
  struct answer {
    ticket asked = 0;
    result<std::uint64_t> outcome;  ///< number of operations enqueued before it
  };

  /// Makes a queue. Workers call `ended` when operations have ended, so that
  /// `take_answers` may return something; it must neither block nor throw.
  /// @error{invalid_argument, there is no mesh, no window or no such rank}
  [[nodiscard]] static result<std::unique_ptr<stream_state>> make(
      queue_spec spec, std::function<void()> ended);
  /// Closes the queue. Operations that are enqueued still run.
  ~stream_state();
  stream_state(const stream_state&) = delete;
  stream_state& operator=(const stream_state&) = delete;

  /// Enqueues a launch and returns its number in the queue. Also returns the errors of
  /// `tessera::make_launch`.
  /// @error{out_of_range, more operations than the window are in flight}
  [[nodiscard]] result<std::uint64_t> launch(const launch_order& order);
  /// Enqueues a copy and returns its number in the queue, or 0 if there is nothing to
  /// copy. Also returns the errors of `tessera::make_copy`.
  /// @error{out_of_range, more operations than the window are in flight}
  [[nodiscard]] result<std::uint64_t> copy(const copy_order& order);
  /// Returns a point behind everything enqueued so far.
  [[nodiscard]] event_ptr record();
  /// Lets later operations wait for a point. Returns the number of operations enqueued.
  [[nodiscard]] result<std::uint64_t> wait(const tessera::event& point);

  /// Requests an answer for when everything enqueued so far has ended.
  [[nodiscard]] ticket synchronize(std::int64_t now_ns);
  /// Returns the answers to synchronizations that have ended or passed their deadline
  /// since the last call, in the order of their requests.
  [[nodiscard]] std::vector<answer> take_answers(std::int64_t now_ns);
  /// Returns the earliest deadline; the largest number if no synchronization waits.
  [[nodiscard]] std::int64_t next_deadline() const noexcept;
  /// Returns one line about the queue.
  [[nodiscard]] std::string describe();

 private:
  /// A synchronization that has not ended.
  struct pending_synchronization {
    ticket number = 0;
    tessera::ref<synchronize_operation> end;
    std::uint64_t operations = 0;  ///< enqueued before it
    std::int64_t deadline_ns = 0;
    bool answered = false;  ///< the deadline has passed and was answered
  };
  /// A point in the queue.
  struct mark {
    tessera::ref<tessera::point> point;
    std::uint64_t operations = 0;  ///< enqueued before it
  };
  stream_state(queue_spec spec, std::function<void()> ended)
      : spec_(std::move(spec)), ended_call_(std::move(ended)) {}
  /// Returns an error if the window is full. `operation` names the refused operation.
  [[nodiscard]] result<void> check_window(const char* operation);
  std::uint64_t enqueue(tessera::ref<tessera::operation> operation,
                        const std::shared_ptr<const void>& holder);
  /// Updates `ended_` from the points that the queue has reached.
  void update_ended();
  [[nodiscard]] result<std::uint64_t> outcome_of(const pending_synchronization& a);

  queue_spec spec_;
  std::function<void()> ended_call_;
  std::shared_ptr<tessera::stream> queue_;
  std::uint64_t operations_ = 0;  ///< enqueued so far
  std::uint64_t ended_ = 0;       ///< operations that are known to have ended
  std::deque<mark> marks_;        ///< points that the queue has not reached
  std::deque<pending_synchronization> pending_;  ///< synchronizations that have not ended
  tessera::failure unreported_;  ///< found by synchronizations that were answered before
  std::uint64_t tickets_ = 0;    ///< last ticket
};

}  // namespace weir::actors
