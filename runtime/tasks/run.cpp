// SPDX-License-Identifier: Apache-2.0
/// @file
/// The way of one task from ready to ended, compiled once for a single worker and once
/// for several (see "Two compiled paths" in scheduler.hpp).
///
/// The way of a task on a worker:
///
///   look_ahead -> execute -> (postponed: ends later, see completions.cpp)
///              -> release_successors -> the task in hand, which runs next on this worker
///
/// `execute` has three forms: the shortest one for tasks about which nothing is noted,
/// one that takes times, and one that does whatever else `attention_` asks for.
#include <algorithm>
#include <utility>

#include "tasks/exclusion.hpp"
#include "tasks/scheduler.hpp"

namespace weir::runtime {
namespace {

/// Number of successors whose records are prefetched while the task runs.
constexpr std::uint32_t successors_ahead = 4;

}  // namespace

/// Closes a task and returns its number of successors. With several workers, the exchange
/// meets the compare-and-exchange of the submitter; see wiring.hpp.
template <bool Alone>
std::uint32_t scheduler::close(task& t) noexcept {
  if constexpr (Alone) {
    return t.successors.load(std::memory_order_relaxed);
  }
  return t.successors.exchange(task::closed, std::memory_order_seq_cst);
}

/// Calls the kernel; an exception becomes a failure of the task.
[[gnu::always_inline]] inline result<void> scheduler::call(task& t,
                                                           const task_context& context) {
  return call_kernel([&] { return t.fn(values_of(t), context); });
}

/// Notes that a kernel failed. The root of the failure is the task itself.
[[gnu::cold, gnu::noinline]] void scheduler::fail(task& t, unsigned w,
                                                  result<void>&& outcome) {
  tally<std::uint64_t>(state_[w]->done.failed);
  t.root.store(t.id, std::memory_order_relaxed);
  failures_.kernel_failed(t.id, t.name, std::move(outcome).error());
}

/// Runs a task with times and trace. Returns the time of its end if it is traced, and 0
/// otherwise.
/// Traced tasks are timed by the system's clock, all others by the counter of the
/// processor, which costs less.
std::int64_t scheduler::execute_observed(task& t, unsigned w, bool samples) {
  worker& me = *state_[w];
  const bool traced = t.history != nullptr;
  const std::int64_t start = traced ? now_ns() : clock_.now();
  const task_context context(t.id, w, t.batch->argument, t);
  result<void> outcome = call(t, context);
  const std::int64_t end = traced ? now_ns() : clock_.now();
  // One kernel in 64 is measured, to see whether kernels are tiny.
  if (samples && !traced) {
    me.lengths.add(end - start);
  }
  if (traced || times_) {
    tally((traced ? me.times.ns : me.times.ticks)[t.tag], end - start);
  }
  ensure_kernel_fp();
  if (!outcome) {
    fail(t, w, std::move(outcome));
  }
  // The kernel has taken its handle, so the task ends later.
  if (context.postponable_ == nullptr) {
    return after_return(t, w, start, end);
  }
  if (traced) {
    tracer_.record(w, record_of(t, w, start, end));
  }
  return traced ? end : 0;
}

/// Does what else `attention_` asks for, and runs the task: finishes answers, polls,
/// notes the task on the board, and keeps it from running beside a postponed one of its
/// group.
[[gnu::noinline]] std::int64_t scheduler::execute_attended(task& t, unsigned w,
                                                           bool samples) {
  // Answers come first: they may free tasks that are older than this one.
  attend(w);
  if (alone_in_groups(t) && !group_of(t)->enter(t)) {
    return postponed;  // the group keeps it until the task inside has ended
  }
  if (board_ != nullptr) {
    board_->runs(w, &t);
  }
  const std::int64_t ended_ns = execute_observed(t, w, samples);
  if (board_ != nullptr) {
    board_->runs(w, nullptr);
  }
  if (ended_ns != postponed && alone_in_groups(t)) {
    leave_group(t, w);
  }
  return ended_ns;
}

/// Calls the kernel of a poisoned task that asked for it. A failure of the kernel adds
/// nothing to that of the task.
[[gnu::cold, gnu::noinline]] std::int64_t scheduler::execute_poisoned(task& t,
                                                                      unsigned w) {
  if (alone_in_groups(t) && !group_of(t)->enter(t)) {
    return postponed;  // the group keeps it until the task inside has ended
  }
  tally<std::uint64_t>(state_[w]->done.poisoned);
  const std::int64_t now = t.history != nullptr ? now_ns() : 0;
  const task_context context(t.id, w, t.batch->argument, t);
  static_cast<void>(call(t, context));
  ensure_kernel_fp();
  const std::int64_t ended_ns =
      context.postponable_ == nullptr ? after_return(t, w, now, now) : 0;
  if (ended_ns != postponed && alone_in_groups(t)) {
    leave_group(t, w);
  }
  return ended_ns;
}

/// Runs a task, on the shortest path if nothing about it must be observed.
template <bool Alone>
[[gnu::always_inline]] inline std::int64_t scheduler::execute(task& t, unsigned w) {
  // A single worker has nobody from whom tasks could be taken, so lengths do not matter.
  const bool samples = !Alone && state_[w]->lengths.sample();
  if (t.root.load(std::memory_order_relaxed) != 0) [[unlikely]] {  // it is not run
    if (t.though_poisoned) {
      return execute_poisoned(t, w);
    }
    tally<std::uint64_t>(state_[w]->done.poisoned);
    return 0;
  }
  const std::uint8_t attention = attention_.load(std::memory_order_relaxed);
  if (t.history != nullptr || attention != 0 || samples) {
    // `observes` is the lowest bit, so a larger value has another bit set.
    return attention > observes ? execute_attended(t, w, samples)
                                : execute_observed(t, w, samples);
  }
  const task_context context(t.id, w, t.batch->argument, t);
  result<void> outcome = call(t, context);
  ensure_kernel_fp();
  if (!outcome) [[unlikely]] {
    fail(t, w, std::move(outcome));
  }
  if (context.postponable_ == nullptr) [[unlikely]] {
    return after_return(t, w, 0, 0);
  }
  return 0;
}

/// Takes one predecessor away from a successor, and passes the failure on. Returns true
/// if the successor is ready now.
template <bool Alone>
[[gnu::always_inline]] inline bool scheduler::release_one(task& after, task_id failure,
                                                          const task& before,
                                                          std::int64_t ended_ns) {
  // Before the successor can become ready, so that it is never run with bytes that are
  // missing.
  if (failure != 0) {
    after.poison(failure);
  }
  if (!satisfy<Alone>(after, 1)) {
    return false;
  }
  // The last predecessor is the one that the trace shows as the cause of the wait.
  if (after.history != nullptr) {
    after.history->ready = ended_ns != 0 ? ended_ns : now_ns();
    after.history->waited_for = before.id;
    after.history->waited_for_name = before.name;
  }
  return true;
}

/// Decides where a task that became ready goes: the worker keeps one in hand to run it
/// next, preferably an urgent one, and the others are handed to a searching worker or
/// queued.
template <bool Alone>
[[gnu::always_inline]] inline void scheduler::dispatch(task& t, unsigned w,
                                                       freed_tasks& freed) {
  // A task that asks for another worker is never kept in hand.
  const bool for_other_worker =
      !Alone && t.worker != submit_options::anywhere && t.worker % workers_ != w;
  task* rest = &t;
  if (!for_other_worker &&
      (freed.next_task == nullptr || (t.urgent && !freed.next_task->urgent))) {
    rest = std::exchange(freed.next_task, &t);
  }
  // Handing over saves a sleeping or searching worker the way through a queue.
  if (rest != nullptr && (Alone || !hand_over(*rest, w))) {
    queue(*rest, w);
    ++freed.queued;
  }
}

/// Releases the successors in the blocks of a task.
template <bool Alone>
[[gnu::noinline]] scheduler::freed_tasks scheduler::release_blocks(
    task& t, std::uint32_t count, unsigned w, std::int64_t ended_ns, freed_tasks freed) {
  const task_id root = t.root.load(std::memory_order_relaxed);
  const successor_block* block = nullptr;
  for (std::uint32_t done = 0; done < count; done += successor_block::capacity) {
    block = done == 0 ? &successors_of(t) : block->next;
    const std::uint32_t here = std::min(count - done, successor_block::capacity);
    for (std::uint32_t i = 0; i < here; ++i) {
      const successor s = block->tasks[i];
      if (release_one<Alone>(s.waits(), s.carries_failure() ? root : 0, t, ended_ns)) {
        dispatch<Alone>(s.waits(), w, freed);
      }
    }
  }
  return freed;
}

/// Ends a task: closes it, releases followers and successors, and then declares it over.
/// Returns the task to be run next, or null. The order matters: `finished` is counted
/// before any successor can run, and the record is not touched after `task::over` has
/// been stored.
template <bool Alone>
[[gnu::always_inline]] inline task* scheduler::release_successors(
    task& t, std::span<const follower> followers, unsigned w, std::int64_t ended_ns) {
  // Copied, because the record may be used again before this function returns.
  const task_id id = t.id;
  const task_id root = t.root.load(std::memory_order_relaxed);
  if (board_ != nullptr) {
    board_->ended(id);
  }
  tally<std::uint64_t>(state_[w]->done.finished);
  // No further successor can be added from here on.
  const std::uint32_t count = close<Alone>(t);
  freed_tasks freed;
  task* const batch = t.batch->tasks;
  // Tasks of the same replay, whose edges are fixed.
  for (const follower f : followers) {
    if (release_one<Alone>(batch[f.index()], f.carries_failure() ? root : 0, t,
                           ended_ns)) {
      dispatch<Alone>(batch[f.index()], w, freed);
    }
  }
  if (count != 0) {
    freed = release_blocks<Alone>(t, count, w, ended_ns, freed);
  }
  // From now on the submitter may use the record again.
  t.successors.store(task::over | count, std::memory_order_release);
  if constexpr (!Alone) {
    std::atomic<std::uint64_t>& released = state_[w]->done.released;
    released.store(released.load(std::memory_order_relaxed) + 1,
                   std::memory_order_release);
    // Only for tasks that lie in a queue; a task that was handed over has a thread that
    // looks for it.
    wake_for_tasks(freed.queued);
    wake_waiter(id);
  }
  return freed.next_task;
}

/// Prefetches the records of the tasks that will probably run next, while this one runs.
template <bool Alone>
[[gnu::always_inline]] inline void scheduler::look_ahead(
    const task& t, std::span<const follower> followers) noexcept {
  if (!followers.empty()) {  // the first of them usually runs next
    const std::uint32_t next = followers.front().index();
    prefetch_to_write(t.batch->tasks + next);
    __builtin_prefetch(t.batch->values_of(next));
    __builtin_prefetch(t.batch->follower_begin + next);
  }
  if constexpr (!Alone) {
    const std::uint32_t count = t.successors.load(std::memory_order_acquire);
    const successor_block& first = successors_of(t);
    for (std::uint32_t i = 0; i < std::min(count, successors_ahead); ++i) {
      const task& next = first.tasks[i].waits();
      prefetch_to_write(&next);
      const std::size_t index = t.batch->index_of(next);
      if (i == 0 && index < t.batch->size) {  // usually runs next
        __builtin_prefetch(t.batch->values_of(index));
        __builtin_prefetch(t.batch->successors + index);
      }
    }
  }
}

/// Runs a chain of tasks on the only worker until a task frees none or `until` has ended.
/// Returns the task in hand, which has not been run.
task* scheduler::run_alone(task& first, const task& until) {
  task* next = &first;
  do {
    task& t = *next;
    const std::span<const follower> followers = t.batch->followers_of(t);
    look_ahead<true>(t, followers);
    const std::int64_t ended_ns = execute<true>(t, 0);
    next = ended_ns == postponed ? nullptr
                                 : release_successors<true>(t, followers, 0, ended_ns);
    // The only worker waits for `until`, so it does not run further tasks after its end.
  } while (next != nullptr && !until.ended());
  return next;
}

/// Runs one task and returns the one to be run next. A task whose group is occupied is
/// kept by the group, and a worker that leaves the group queues it again.
task* scheduler::run(task& t, unsigned w) {
  const std::span<const follower> followers = t.batch->followers_of(t);
  look_ahead<false>(t, followers);
  exclusion* const group = t.exclusive ? group_of(t) : nullptr;
  if (group != nullptr && !group->enter(t)) {
    return nullptr;
  }
  const std::int64_t ended_ns = execute<false>(t, w);
  if (ended_ns == postponed) {
    return nullptr;
  }
  if (group != nullptr) {
    leave_group(t, w);
  }
  return release_successors<false>(t, followers, w, ended_ns);
}

/// Does what is left to do after the kernel of a postponed task.
void scheduler::finish(completion_slot& s, unsigned w) {
  task& t = *s.waits;
  const std::int64_t ended_ns = settle(s, w);
  if (t.exclusive) {
    leave_group(t, w);
  }
  const std::span<const follower> followers = t.batch->followers_of(t);
  task* const next = alone_ ? release_successors<true>(t, followers, w, ended_ns)
                            : release_successors<false>(t, followers, w, ended_ns);
  if (next != nullptr) {
    queue(*next, w);
    wake_for_tasks(1);
  }
}

}  // namespace weir::runtime
