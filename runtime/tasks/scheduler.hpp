// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs ready tasks on the submitter's thread, on threads of the engine, and on threads
/// of the program that join and leave.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "map/tally.hpp"
#include "tasks/completions.hpp"
#include "tasks/failure_log.hpp"
#include "tasks/parking.hpp"
#include "tasks/ready_queues.hpp"
#include "tasks/ticks.hpp"
#include "tasks/wait_board.hpp"
#include "weir/base/system/fp_environment.hpp"
#include "weir/runtime/trace.hpp"

namespace weir::runtime {

/// Counters of one worker. Only the worker writes them; any thread may read them.
struct worker_tally {
  /// Tasks that have ended; counted before others can see that a task has ended.
  std::atomic<std::uint64_t> finished{0};
  /// Submissions; counted only if there are other workers.
  std::atomic<std::uint64_t> published{0};
  /// Tasks that have ended; counted after others can see it, and only if there are other
  /// workers.
  std::atomic<std::uint64_t> released{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> poisoned{0};
  std::atomic<std::uint64_t> postponed{0};
  std::atomic<std::uint64_t> parks{0};
};

/// Time that a worker has spent inside kernels, by the tags of the tasks.
struct kernel_times_by_tag {
  template <class T>
  using by_tag = std::array<std::atomic<T>, engine::max_tags>;
  by_tag<std::int64_t> ticks{};
  by_tag<std::int64_t> ns{};  ///< of traced tasks, whose times are taken in nanoseconds
};

/// Runs tasks whose last predecessor has ended.
///
/// Worker 0 is the submitter: it runs tasks while it waits. Workers 1 to k - 1 are
/// threads of the engine, the further ones are threads of the program inside `serve`.
/// Each worker has a queue of ready tasks and takes from the queues of others when its
/// own is empty.
///
/// **The way of a task.** `publish` lets a wired task start. When `task::pending` reaches
/// zero, whoever took the last 1 away queues the task or runs it. `run` calls the kernel,
/// closes the task (no more successors), takes 1 from `pending` of each successor, runs
/// one of those that became ready next and hands the others on (`dispatch`), and stores
/// `task::over`. See `wiring` for the order of these steps against the submitter.
///
/// **Two compiled paths.** The functions on the way of a task are templates over `Alone`.
/// With `Alone = true` the engine has one worker and no place for another: the submitter
/// does everything, so counters are loaded and stored without atomic exchanges, no other
/// thread is looked for, and a chain of tasks is run in one loop (`run_alone`). With
/// `Alone = false` the same code uses atomic exchanges. The choice is made once per call
/// from outside, by `alone_`, and not at each step.
///
/// **Tiny kernels.** Taking a task from another processor costs about `move_ns`, because
/// several cache lines travel. If kernels take less than that, two workers are slower
/// than one. Each worker therefore measures one kernel in 64 (`kernel_lengths`), and
/// calls its kernels tiny while their mean is below `worth_moving_ns`. A worker with tiny
/// kernels
///
/// * takes only from queues that hold many tasks (`at_first`), and the submitter takes
///   from its own queue only;
/// * gives a task that it is about to run to the submitter if `is_in_the_way`: its
///   kernels are tiny, and the submitter does not wait and has submitted since the last
///   call of `submits`. The worker is then right behind the submitter, and both write the
///   same cache lines;
/// * looks every 3 microseconds how many tasks each other worker has ended
///   (`watch_until`). `another_worker_lags` if tasks lie in the queue of a worker that
///   ended fewer tasks than tiny ones in that time, and that is not the submitter at
///   work: that worker is in a long kernel, and its tasks are worth taking. All workers
///   being slow counts as well, if any queue has tasks;
/// * after about 100 microseconds takes whatever it finds and measures again
///   (`kernel_lengths::measure_again`), because kernels may have become longer.
///
/// **Sleeping.** A worker that finds no task looks for one for `spin_ns`, then sleeps. To
/// lose no task, it announces that it will sleep, and looks once more after a
/// sequentially consistent fence; a thread that queues a task has such a fence between
/// the task and its look at `sleepers_`. One of the two sees the other. The submitter
/// that waits for a task writes its id into `awaited_` before its last look, and the
/// worker that ends the task closes it before it reads `awaited_`.
///
/// **Completions.** A kernel may take a handle (`postpone`). Its task then ends when the
/// kernel has returned and the handle is completed; see `completion_slot` for how the two
/// meet. The one that comes last finishes the task. If that is a worker of this engine,
/// it calls `finish`, which does what `run` does behind a kernel. Any other thread puts
/// the slot on the list `answers_`, sets a bit of `attention_`, and wakes a sleeper, as
/// if it had queued a task. Workers take the whole list (`finish_answers`): idle ones
/// look at it in each round and once more before they sleep; busy ones see the bit.
/// `execute` loads `attention_` for other reasons anyway, so completions add no step to
/// tasks that do not use them.
///
/// With a single worker, tasks of one group (tasks that commute, see `exclusion`) need no
/// exclusion, because each ends before the next one starts. This changes when the first
/// of them is postponed: from then on the bit `has_groups` makes every task of a group
/// enter it.
///
/// **Polling.** While tasks wait for completions, one idle worker calls the pollers
/// (`poll_until`): 50 times without a pause, then it yields the processor in between, and
/// after a millisecond without effect it sleeps for 50 microseconds at a time. The others
/// sleep at most for a millisecond, and one of them takes over if that worker has got a
/// task. `polling_` keeps two threads from polling at the same time.
/// @threads{all but wake, serve, board, tally_of, postpone, finish, completes_by and
/// add_answer: the submitter}
class scheduler {
 public:
  scheduler(const engine_options& options, failure_log& failures, trace& tracer);
  /// Waits for running kernels. Tasks that have not started never run.
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// Takes `satisfied` away from `t.pending`, and lets the task start if that leaves
  /// zero. The submitter calls it with the wiring guard less the number of edges when the
  /// edges of the task are written.
  void publish(task& t, std::int32_t satisfied);
  /// Keeps published tasks back until this thread waits or calls `end_batch`.
  void begin_batch() noexcept { batching_ = true; }
  void end_batch();
  /// Lets a task start that waits for no other.
  void publish(task& t);
  /// Queues a task that waits for no other. The caller calls `wake_for_tasks` later, once
  /// for several tasks.
  void start(task& t);
  void wake_for_tasks(unsigned count) noexcept;
  /// Wakes up to `count` of the threads that sleep now.
  void wake_sleepers(unsigned count) noexcept;
  /// Counts one more successor of `before`, after the submitter has written it behind the
  /// `count` that there are. Returns false if `before` has been closed.
  [[nodiscard]] bool count_successor(task& before, std::uint32_t count) const noexcept {
    if (alone_) {
      before.successors.store(count + 1, std::memory_order_relaxed);
      return true;
    }
    return before.successors.compare_exchange_strong(
        count, count + 1, std::memory_order_acq_rel, std::memory_order_acquire);
  }

  /// Returns true if the engine has one worker and no place for another.
  [[nodiscard]] bool alone() const noexcept { return alone_; }
  /// Returns true if the time inside of kernels is measured by tag.
  [[nodiscard]] bool measures_times() const noexcept { return times_; }
  /// Returns true if a task has failed or was poisoned. @pre no task is in flight
  [[nodiscard]] bool has_failures() const noexcept {
    std::uint64_t count = 0;
    for (unsigned w = 0; w < places_; ++w) {
      const worker_tally& t = state_[w]->done;
      count |= t.failed.load(std::memory_order_relaxed) |
               t.poisoned.load(std::memory_order_relaxed);
    }
    return count != 0;
  }
  /// Counts a call in place of a task.
  void count_call() noexcept { tally<std::uint64_t>(state_.front()->done.finished); }
  /// Adds to the time inside of the kernels of a tag, if that is measured.
  void add_time(std::uint16_t tag, std::int64_t ticks) noexcept {
    if (times_) {
      tally(state_.front()->times.ticks[tag], ticks);
    }
  }

  /// Calls a function that returns `result<void>`; an exception becomes its error.
  template <class Function>
  [[gnu::always_inline]] static inline result<void> call_kernel(const Function& f) {
    try {
      return f();
    } catch (const std::exception& e) {
      return error(errc::kernel_failed,
                   fmt::format("kernel threw an exception: {}", e.what()));
    } catch (...) {
      return error(errc::kernel_failed, "kernel threw an exception of unknown type");
    }
  }

  bool run_one();
  /// Runs tasks until `t` has ended.
  void help_until_ended(const task& t);
  void idle(std::int64_t timeout_ns);
  void wake() noexcept;
  /// Runs tasks on this thread until it is asked to leave. Returns false if no place for
  /// a worker is free.
  [[nodiscard]] bool serve(const std::stop_token& leave);

  /// Lets the task that worker `w` runs end later. @threads{worker w}
  [[nodiscard]] completion postpone(task& t, unsigned w);
  /// Returns true if the table is that of this engine. @threads{any of its workers}
  [[nodiscard]] bool completes_by(const completion_table& table) const noexcept {
    return table_.load(std::memory_order_acquire) == &table;
  }
  /// Ends a task that has been completed and whose kernel has returned. @threads{worker
  /// w}
  void finish(completion_slot& s, unsigned w);
  /// Lets a worker finish such a task. @threads{safe from any thread}
  void add_answer(completion_slot& s) noexcept;

  /// Adds a function that polls. Returns its number, which is never 0.
  [[nodiscard]] std::uint64_t add_poller(std::function<bool()> poller);
  /// Removes a function that polls. No thread is inside of it afterwards.
  void remove_poller(std::uint64_t number) noexcept;

  /// The notes for the watchdog; null if the engine has none.
  [[nodiscard]] wait_board* board() const noexcept { return board_.get(); }

  /// Places for workers.
  [[nodiscard]] unsigned workers() const noexcept { return places_; }
  [[nodiscard]] const worker_tally& tally_of(unsigned w) const noexcept;
  [[nodiscard]] const tick_clock& clock() const noexcept { return clock_; }
  /// Returns the times of one worker inside kernels.
  [[nodiscard]] const kernel_times_by_tag& times_of(unsigned w) const noexcept {
    return state_[w]->times;
  }

 private:
  struct alignas(64) worker {
    worker_tally done;
    // The worker alone uses the next three.
    alignas(64) kernel_times_by_tag times;
    alignas(64) kernel_lengths lengths;
    std::vector<std::uint64_t> seen_finished;  ///< by each worker
    std::uint64_t seen_published = 0;
    alignas(64) parking_place place;
    alignas(64) inbox from_others;
  };

  /// Runs tasks until `stopping()`, and then leaves the rest to other workers.
  template <class Stopping>
  void work(unsigned w, Stopping&& stopping);
  void start_batch();
  void stop() noexcept;
  /// Runs the task beside other workers and releases its successors. Returns the oldest
  /// successor that became ready, for this worker to run; the others are handed on.
  [[nodiscard]] task* run(task& t, unsigned w);
  /// Does what `run` does for a single worker, and goes on with the task that became
  /// ready until there is none or `until` has ended.
  [[nodiscard]] task* run_alone(task& first, const task& until);
  /// Prefetches cache lines that are needed after the kernel: those of the follower or
  /// successor that usually runs next, and those of some further successors, which may
  /// lie in caches of other processors.
  template <bool Alone>
  static void look_ahead(const task& t, std::span<const follower> followers) noexcept;
  /// Calls the kernel, unless the task is poisoned. Returns the time at which the kernel
  /// ended if the task is traced, else 0.
  template <bool Alone>
  std::int64_t execute(task& t, unsigned w);
  /// Does what `execute` does, with all notes and times that the options ask for.
  std::int64_t execute_observed(task& t, unsigned w, bool samples);
  /// Calls the kernel of a poisoned task. Returns what `execute` returns.
  std::int64_t execute_poisoned(task& t, unsigned w);
  /// Does what `attention_` asks for besides observing, and calls `execute_observed`.
  std::int64_t execute_attended(task& t, unsigned w, bool samples);
  /// Notes the failure of the task's kernel.
  void fail(task& t, unsigned w, result<void>&& outcome);
  [[nodiscard]] static result<void> call(task& t, const task_context& context);
  /// Result of `execute`, in place of a time, for a task that ends later.
  static constexpr std::int64_t postponed = -1;
  /// Notes that the kernel of a postponed task has returned. Returns `postponed`, or, if
  /// the task has been completed already, the result of `execute` for a task that ends.
  [[nodiscard]] std::int64_t after_return(task& t, unsigned w, std::int64_t start,
                                          std::int64_t end);
  /// Takes the outcome of a completed task out of its slot. Returns the time of its
  /// completion if it is traced, else 0.
  [[nodiscard]] std::int64_t settle(completion_slot& s, unsigned w);
  [[nodiscard]] completion_table& completions();
  [[nodiscard]] bool has_answers() const noexcept {
    return answers_.load(std::memory_order_seq_cst) != nullptr;
  }
  /// Finishes the tasks that other threads have completed.
  void finish_answers(unsigned w);
  /// Does what `attention_` asks for besides observing: answers, and the poller.
  void attend(unsigned w);
  [[nodiscard]] bool awaits_completions() const noexcept {
    return outstanding_.load(std::memory_order_acquire) != 0;
  }
  /// Returns true if there are pollers, and tasks that wait for completions.
  [[nodiscard]] bool polls() const noexcept {
    return has_pollers() && awaits_completions();
  }
  [[nodiscard]] bool has_pollers() const noexcept {
    return (attention_.load(std::memory_order_relaxed) & polls_too) != 0;
  }
  void stop_polling() noexcept;
  void limit_polls(std::int64_t ticks) noexcept;
  /// Calls the pollers, unless another thread does. Returns true if one of them has.
  bool poll();
  /// Polls until there is a task, `awake` returns true, the time is over (never if
  /// `end_ns` is negative), or no task waits for its completion.
  template <class Reason>
  [[nodiscard]] task* poll_until(unsigned w, std::int64_t end_ns, Reason&& awake);
  /// Sleeps unless `reason()` is true after the announcement.
  template <class Reason>
  void sleep_unless(unsigned w, std::int64_t timeout_ns, bool moves, Reason&& reason);
  /// Lets a task of a group leave it, and queues the one that enters.
  void leave_group(task& t, unsigned w);
  /// Returns true if tasks of groups enter them though there is a single worker.
  [[nodiscard]] bool alone_in_groups(const task& t) const noexcept {
    return alone_ && t.exclusive &&
           (attention_.load(std::memory_order_relaxed) & has_groups) != 0;
  }
  /// Waits for completions at the end of the engine, and closes the table.
  void drain() noexcept;
  /// Tasks that became ready when another one ended.
  struct freed_tasks {
    task* next_task = nullptr;  ///< the task that this worker runs next
    unsigned queued = 0;
  };
  /// Releases all tasks that wait for one that has run: its followers in the same replay,
  /// and its successors. Returns the task that is to run next, or null.
  template <bool Alone>
  [[nodiscard]] task* release_successors(task& t, std::span<const follower> followers,
                                         unsigned w, std::int64_t ended_ns);
  /// Releases the successors alone. Returns `freed` with what became ready in addition.
  template <bool Alone>
  [[nodiscard]] freed_tasks release_blocks(task& t, std::uint32_t count, unsigned w,
                                           std::int64_t ended_ns, freed_tasks freed);
  /// Decides where a task that became ready goes: it becomes the task in hand, or another
  /// worker that looks for a task gets it, or it is queued.
  template <bool Alone>
  void dispatch(task& t, unsigned w, freed_tasks& freed);
  /// Takes the predecessor `before`, which has ended, from what `after` waits for, and
  /// passes a failure on unless it is 0. Returns true if `after` is ready.
  template <bool Alone>
  bool release_one(task& after, task_id failure, const task& before,
                   std::int64_t ended_ns);
  /// Closes the task, so that it gets no more successors. Returns how many it has.
  template <bool Alone>
  [[nodiscard]] static std::uint32_t close(task& t) noexcept;
  /// Takes `count` from `pending`. Returns true if the task waits for nothing more.
  template <bool Alone>
  [[nodiscard]] bool satisfy(task& t, std::int32_t count) const noexcept {
    if constexpr (Alone) {
      const std::int32_t left = t.pending.load(std::memory_order_relaxed) - count;
      t.pending.store(left, std::memory_order_relaxed);
      return left == 0;
    }
    // With threads that only serve, the last predecessor is often seen by a plain load,
    // which saves the exchange. With workers of the engine it is not worth it: the load
    // brings the cache line to read, and the exchange would bring it again to write.
    if (workers_ == 1 && t.pending.load(std::memory_order_acquire) == count) {
      t.pending.store(0, std::memory_order_relaxed);
      return true;
    }
    return t.pending.fetch_sub(count, std::memory_order_acq_rel) == count;
  }
  void queue(task& t, unsigned w) { ready_.push(w, t); }
  /// Gives a task that worker `w` has released to a worker that is looking for one.
  /// Returns false if there is none.
  [[nodiscard]] bool hand_over(task& t, unsigned w) noexcept;
  [[nodiscard]] task* take(unsigned w, ready_queues::scope range);
  /// Says from which queues worker `w` may take before it has watched the others.
  [[nodiscard]] ready_queues::scope at_first(unsigned w) const noexcept;
  /// Returns true if tasks lie in the queue of a worker that is slow: that ended less
  /// than one task per `move_ns` since the last call, `passed_ns` ago, and is not the
  /// submitter at work. Also returns true if all others are slow and tasks lie in any
  /// queue.
  [[nodiscard]] bool another_worker_lags(unsigned w, std::int64_t passed_ns) noexcept;
  /// Tells the workers that the submitter is at work.
  void note_submission() noexcept {
    if (!alone_) {
      tally<std::uint64_t>(state_[0]->done.published);
    }
  }
  /// Returns true if the submitter has submitted since the last call for this worker.
  [[nodiscard]] bool submits(unsigned w) noexcept;
  /// Returns true if worker `w` runs tiny kernels directly behind the submitter. The
  /// submitter could run them in less time than their cache lines need to reach `w`.
  [[nodiscard]] bool is_in_the_way(unsigned w) noexcept {
    return state_[w]->lengths.tiny() && !helping_.load(std::memory_order_relaxed) &&
           submits(w);
  }
  /// Looks for a task for about as long as two wake-ups take, then sleeps once. Returns
  /// null after a sleep.
  template <class Reason>
  [[nodiscard]] task* spin_or_park(unsigned w, std::int64_t timeout_ns, Reason&& awake);
  /// Looks for a task until `end_ns`, open to tasks that others hand over.
  template <class Reason>
  [[nodiscard]] task* look_until(unsigned w, std::int64_t end_ns, Reason&& awake);
  /// Waits until a task is worth taking, while this worker's kernels are tiny.
  template <class Reason>
  [[nodiscard]] task* watch_until(unsigned w, std::int64_t end_ns, Reason&& awake);
  void wake_waiter(task_id ended) noexcept;
  [[nodiscard]] std::uint64_t sum_of_others(
      std::atomic<std::uint64_t> worker_tally::*counter) const noexcept;

  /// Values of `awaited_` beside ids: the submitter waits for no task, or for any.
  static constexpr task_id waits_for_none = 0;
  static constexpr task_id waits_for_any = UINT64_MAX;

  unsigned workers_;  ///< the submitter and the engine's own threads
  unsigned places_;   ///< workers, and places for threads that serve
  bool alone_;        ///< places_ == 1
  bool batching_ = false;
  bool times_;
  /// Bits of `attention_`. If `observes` alone is set, `execute` calls
  /// `execute_observed`; if any other bit is set, it calls `execute_attended`.
  static constexpr std::uint8_t observes = 1;    ///< times of kernels are measured
  static constexpr std::uint8_t polls_too = 2;   ///< there are pollers
  static constexpr std::uint8_t answers = 4;     ///< `answers_` is not empty
  static constexpr std::uint8_t has_groups = 8;  ///< see "Completions"
  static constexpr std::uint8_t watched = 16;    ///< there is a board
  std::atomic<std::uint8_t> attention_;
  bool moves_;  ///< whether there is a processor for every thread of the engine
  failure_log& failures_;
  trace& tracer_;
  tick_clock clock_;
  ready_queues ready_;
  std::vector<std::unique_ptr<worker>> state_;
  std::unique_ptr<wait_board> board_;  ///< null without a watchdog
  std::uint64_t released_seen_ = 0;    ///< of other workers, when `idle` returned last
  std::vector<task*> batch_;           ///< ready tasks that will start together
  std::uint32_t window_;
  std::int64_t drain_ns_;
  /// Functions that poll, with their numbers; guarded by `polling_`.
  std::vector<std::pair<std::uint64_t, std::function<bool()>>> pollers_;
  std::uint64_t poller_number_ = 0;
  std::atomic<std::int64_t> poll_ticks_{0};  ///< time between two polls of busy workers
  std::mutex table_made_;
  std::shared_ptr<completion_table> own_table_;    ///< made for the first handle
  std::atomic<completion_table*> table_{nullptr};  ///< `own_table_`, read without lock
  std::mutex guests_;
  std::condition_variable guest_left_;
  std::vector<unsigned> free_places_;
  alignas(64) std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<task_id> awaited_{waits_for_none};
  std::atomic<bool> stop_{false};
  std::atomic<bool> woken_{false};
  /// True while the submitter waits and therefore runs tasks.
  std::atomic<bool> helping_{false};
  /// Completed tasks that a worker has to finish, newest first.
  alignas(64) std::atomic<completion_slot*> answers_{nullptr};
  std::atomic<std::uint64_t> outstanding_{0};  ///< postponed tasks that have not ended
  std::atomic<bool> polling_{false};           ///< a thread calls or changes pollers
  std::atomic<bool> has_idle_poller_{false};   ///< a thread is inside of `poll_until`
  std::atomic<std::int64_t> polled_{0};        ///< time of the last poll, in ticks
  std::vector<std::thread> threads_;
};

}  // namespace weir::runtime
