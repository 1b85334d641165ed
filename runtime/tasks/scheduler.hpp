// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs ready tasks on k threads: the submitter, which is worker 0, and k - 1 of its own;
/// others join and leave as they like.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "map/tally.hpp"
#include "tasks/failure_log.hpp"
#include "tasks/parking.hpp"
#include "tasks/ready_queues.hpp"
#include "tasks/ticks.hpp"
#include "tasks/wait_board.hpp"
#include "weir/base/system/fp_environment.hpp"
#include "weir/runtime/trace.hpp"

namespace weir::runtime {

/// What one worker has done. Written by it alone, read by anyone.
struct worker_tally {
  std::atomic<std::uint64_t> finished{0};   ///< counted before others can see the end
  std::atomic<std::uint64_t> published{0};  ///< by the submitter, beside other workers
  std::atomic<std::uint64_t> released{0};   ///< after; not with a single worker
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> poisoned{0};
  std::atomic<std::uint64_t> parks{0};
  std::atomic<std::int64_t> kernel_ticks{0};
  std::atomic<std::int64_t> kernel_ns{
      0};  ///< of traced tasks, whose times are in ns anyway
};

/// @threads{all but wake, serve, board and tally_of: the submitter}
class scheduler {
 public:
  scheduler(const engine_options& options, failure_log& failures, trace& tracer);
  /// Running kernels end; tasks that have not started never run.
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// Takes one from `t.pending` for each of `satisfied`; the task runs once it is zero.
  /// Called by the submitter when a task is wired, with the guard that kept it from
  /// starting.
  void publish(task& t, std::int32_t satisfied);
  /// From here to `end_batch`, published tasks are kept back until this thread waits.
  void begin_batch() noexcept { batching_ = true; }
  void end_batch();
  /// A task that waits for nothing; likewise.
  void publish(task& t);
  /// Queues a task that waits for nothing. `wake_for_tasks` is to follow.
  void start(task& t);
  void wake_for_tasks(unsigned count) noexcept;
  /// One more successor of `before`, which has `count` and whose next is written; false
  /// if there can be no more.
  [[nodiscard]] bool count_successor(task& before, std::uint32_t count) const noexcept {
    if (alone_) {
      before.successors.store(count + 1, std::memory_order_relaxed);
      return true;
    }
    return before.successors.compare_exchange_strong(
        count, count + 1, std::memory_order_acq_rel, std::memory_order_acquire);
  }

  bool run_one();
  /// Runs tasks until `t` has ended.
  void help_until_ended(const task& t);
  void idle(std::int64_t timeout_ns);
  void wake() noexcept;
  /// Runs tasks on this thread until it is asked to leave. False if no place is free.
  [[nodiscard]] bool serve(const std::stop_token& leave);

  /// Where it is noted who waits for whom; null if nobody watches.
  [[nodiscard]] wait_board* board() const noexcept { return board_.get(); }

  /// Places for workers.
  [[nodiscard]] unsigned workers() const noexcept { return places_; }
  [[nodiscard]] const worker_tally& tally_of(unsigned w) const noexcept;
  [[nodiscard]] const tick_clock& clock() const noexcept { return clock_; }

 private:
  struct alignas(64) worker {
    worker_tally done;
    // Of its own thread.
    alignas(64) kernel_lengths lengths;
    std::vector<std::uint64_t> seen_finished;  ///< by each worker
    std::uint64_t seen_published = 0;
    alignas(64) parking_place place;
    alignas(64) inbox from_others;
  };

  /// Until `stopping()`; what is in hand then is left to others.
  template <class Stopping>
  void work(unsigned w, Stopping&& stopping);
  void start_batch();
  void stop() noexcept;
  /// Runs the task, beside other workers, and releases its successors: the oldest of
  /// those that became ready is returned, the others are queued. What is on its way knows
  /// at compile time whether there is a single worker.
  [[nodiscard]] task* run(task& t, unsigned w);
  /// With a single worker: likewise, and goes on with what it would return until there is
  /// none or `until` has ended.
  [[nodiscard]] task* run_alone(task& first, const task& until);
  /// Asks for cache lines that are needed when the kernel has run: of the follower or
  /// successor that most often runs next, and of some successors, which other workers may
  /// have.
  template <bool Alone>
  static void look_ahead(const task& t, std::span<const follower> followers) noexcept;
  /// Returns when it ended, if the task is traced and was run; else 0.
  template <bool Alone>
  std::int64_t execute(task& t, unsigned w);
  /// Likewise, with all that somebody may want to know of it.
  std::int64_t execute_observed(task& t, unsigned w, bool samples);
  /// The task's kernel failed.
  void fail(task& t, unsigned w, result<void>&& outcome);
  [[nodiscard]] result<void> call(task& t, unsigned w);
  /// Tasks that the end of one has made ready.
  struct freed_tasks {
    task* in_hand = nullptr;  ///< the one that its worker runs next
    unsigned queued = 0;
  };
  /// Releases all that wait for a task that has run: its followers in the same replay and
  /// other successors. Returns the one that is to run next, if there is one.
  template <bool Alone>
  [[nodiscard]] task* release_successors(task& t, std::span<const follower> followers,
                                         unsigned w, std::int64_t ended_ns);
  /// The part about others than followers: `freed` and what it adds.
  template <bool Alone>
  [[nodiscard]] freed_tasks release_blocks(task& t, std::uint32_t count, unsigned w,
                                           std::int64_t ended_ns, freed_tasks freed);
  /// A task became ready: it is in hand now, or another worker's, or in a queue.
  template <bool Alone>
  void dispatch(task& t, unsigned w, freed_tasks& freed);
  /// `before` has ended, with a failure that passes on unless it is 0; true if it was the
  /// last one that `after` waited for.
  template <bool Alone>
  bool release_one(task& after, task_id failure, const task& before,
                   std::int64_t ended_ns);
  /// No more successors: how many there are.
  template <bool Alone>
  [[nodiscard]] static std::uint32_t close(task& t) noexcept;
  /// True if the task waits for nothing more.
  template <bool Alone>
  [[nodiscard]] bool satisfy(task& t, std::int32_t count) const noexcept {
    if constexpr (Alone) {
      const std::int32_t left = t.pending.load(std::memory_order_relaxed) - count;
      t.pending.store(left, std::memory_order_relaxed);
      return left == 0;
    }
    // Who is the last need not count. Beside other workers, the look would cost as much:
    // the line of the record has to come twice.
    if (workers_ == 1 && t.pending.load(std::memory_order_acquire) == count) {
      t.pending.store(0, std::memory_order_relaxed);
      return true;
    }
    return t.pending.fetch_sub(count, std::memory_order_acq_rel) == count;
  }
  void queue(task& t, unsigned w) { ready_.push(w, t); }
  /// Gives a task that worker `w` has freed to one that looks for any.
  [[nodiscard]] bool hand_over(task& t, unsigned w) noexcept;
  [[nodiscard]] task* take(unsigned w, ready_queues::scope what);
  /// What worker w may take before it has watched the others.
  [[nodiscard]] ready_queues::scope at_first(unsigned w) const noexcept;
  /// True if tasks lie in the queue of somebody who neither ends short ones all the time
  /// nor submits, or anywhere and all others are so. `passed_ns`: since the call before.
  [[nodiscard]] bool somebody_lags(unsigned w, std::int64_t passed_ns) noexcept;
  /// The submitter is at work.
  void note_submission() noexcept {
    if (!alone_) {
      tally<std::uint64_t>(state_[0]->done.published);
    }
  }
  /// Whether the submitter has submitted since this was asked last.
  [[nodiscard]] bool submits(unsigned w) noexcept;
  /// Whether the worker runs tiny kernels right behind the submitter, who would have run
  /// them sooner than it takes to send for them.
  [[nodiscard]] bool is_in_the_way(unsigned w) noexcept {
    return state_[w]->lengths.tiny() && !helping_.load(std::memory_order_relaxed) &&
           submits(w);
  }
  /// Looks for a task for about two wake-ups' time, then sleeps once. Null after a sleep.
  template <class Reason>
  [[nodiscard]] task* spin_or_park(unsigned w, std::int64_t timeout_ns, Reason&& awake);
  /// Looks for a task until then.
  template <class Reason>
  [[nodiscard]] task* look_until(unsigned w, std::int64_t end_ns, Reason&& awake);
  /// Likewise, while others run tiny kernels.
  template <class Reason>
  [[nodiscard]] task* watch_until(unsigned w, std::int64_t end_ns, Reason&& awake);
  void wake_waiter(task_id ended) noexcept;
  [[nodiscard]] std::uint64_t sum_of_others(
      std::atomic<std::uint64_t> worker_tally::*counter) const noexcept;

  /// Nobody waits / any task's end is waited for.
  static constexpr task_id waits_for_none = 0;
  static constexpr task_id waits_for_any = UINT64_MAX;

  unsigned workers_;  ///< the submitter and the own threads
  unsigned places_;
  bool alone_;
  bool batching_ = false;
  bool times_;
  bool observes_;  ///< every task
  bool moves_;     ///< there is a processor for every own thread
  failure_log& failures_;
  trace& tracer_;
  tick_clock clock_;
  ready_queues ready_;
  std::vector<std::unique_ptr<worker>> state_;
  std::unique_ptr<wait_board> board_;  ///< if somebody watches
  std::uint64_t released_seen_ = 0;    ///< by others, when `idle` returned last
  std::vector<task*> batch_;           ///< ready, to be started together
  std::mutex guests_;
  std::condition_variable guest_left_;
  std::vector<unsigned> free_places_;
  alignas(64) std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<task_id> awaited_{waits_for_none};
  std::atomic<bool> stop_{false};
  std::atomic<bool> woken_{false};
  /// The submitter waits, and runs tasks itself.
  std::atomic<bool> helping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace weir::runtime
