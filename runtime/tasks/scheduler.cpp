// SPDX-License-Identifier: Apache-2.0
/// @file
/// How workers take and wait for tasks, and how they sleep and are woken. The protocol is
/// described in scheduler.hpp.
///
/// The states of a worker without a task:
///
///   take: own queue, then others
///     -> spin_or_park: look_until (about 100 us), or watch_until with tiny kernels,
///                      or poll_until while tasks wait for completions
///     -> sleep_unless: announce, look once more, sleep
///     -> take again
#include "tasks/scheduler.hpp"

#include <algorithm>
#include <cfenv>
#include <thread>
#include <utility>

#include "weir/base/system/processors.hpp"
#include "weir/base/system/threads.hpp"

namespace weir::runtime {
namespace {

/// How long a worker looks for tasks before it sleeps: longer than a sleeping thread of a
/// virtual machine needs to run again, and longer than most gaps between the stages of a
/// graph.
constexpr std::int64_t spin_ns = 100'000;
/// Pause instructions between two looks at the queues.
constexpr int pauses_per_look = 16;
/// Time between two looks of a worker with tiny kernels at the others.
constexpr std::int64_t watch_ns = 3'000;
/// Longest sleep of a worker while another one polls, which may get a long task.
constexpr std::int64_t relief_ns = 1'000'000;

/// Sets a flag for its own lifetime.
class flag_guard {
 public:
  explicit flag_guard(std::atomic<bool>& flag) noexcept : flag_(flag) {
    flag_.store(true, std::memory_order_relaxed);
  }
  ~flag_guard() { flag_.store(false, std::memory_order_relaxed); }
  flag_guard(const flag_guard&) = delete;
  flag_guard& operator=(const flag_guard&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace

/// Starts the threads of the engine. Place 0 is that of the submitter, the next ones
/// belong to the engine's own threads, and the rest is free for threads that serve. Every
/// thread rounds to nearest, whatever the thread that creates it does, so that results do
/// not depend on it. Signals stay blocked in the threads, except those that report a
/// fault of the thread itself, so the threads of the program receive them.
scheduler::scheduler(const engine_options& options, failure_log& failures, trace& tracer)
    : workers_(options.workers),
      places_(std::max(options.workers, options.max_workers)),
      alone_(places_ == 1),
      times_(options.kernel_time),
      attention_(static_cast<std::uint8_t>((times_ ? observes : 0) |
                                           (options.watchdog_ns > 0 ? watched : 0))),
      moves_(workers_ <= allowed_processors()),
      failures_(failures),
      tracer_(tracer),
      ready_(places_, workers_, options.window),
      board_(options.watchdog_ns > 0
                 ? std::make_unique<wait_board>(options.window, places_)
                 : nullptr),
      window_(options.window),
      drain_ns_(options.drain) {
  if (options.poller) {
    static_cast<void>(add_poller(options.poller));
  }
  for (unsigned w = 0; w < places_; ++w) {
    state_.push_back(std::make_unique<worker>());
    state_.back()->seen_finished.resize(places_);
  }
  for (unsigned w = places_; w-- > workers_;) {
    free_places_.push_back(w);
  }
  try {
    const signal_blocker scope;
    for (unsigned w = 1; w < workers_; ++w) {
      threads_.emplace_back([this, w] {
        name_this_thread("weir-worker");
        std::fesetround(FE_TONEAREST);
        work(w, [this] { return stop_.load(std::memory_order_seq_cst); });
      });
    }
  } catch (...) {  // no more threads: those that run would outlive their scheduler
    stop();
    throw;
  }
}

scheduler::~scheduler() {
  stop();
  drain();
}

/// Wakes and joins the threads of the engine, then waits until the last guest has left.
void scheduler::stop() noexcept {
  stop_.store(true, std::memory_order_seq_cst);
  for (auto& w : state_) {
    w->place.wake();
  }
  for (auto& thread : threads_) {
    thread.join();
  }
  std::unique_lock lock(guests_);
  guest_left_.wait(lock, [this] { return free_places_.size() == places_ - workers_; });
}

/// The threads of the engine have ended, so this thread alone finishes tasks. Tasks that
/// become ready never run.
void scheduler::drain() noexcept {
  if (own_table_ == nullptr) {
    return;
  }
  {
    const current_worker here(*this, 0);
    const fp_scope scope;
    const std::int64_t end = now_ns() + drain_ns_;
    while (awaits_completions()) {
      poll();
      if (has_answers()) {
        finish_answers(0);
      }
      const std::int64_t left = end - now_ns();
      if (left <= 0 || !awaits_completions()) {
        break;
      }
      constexpr std::int64_t nap = 50'000;
      sleep_unless(0, has_pollers() ? std::min(left, nap) : left, false,
                   [this] { return has_answers(); });
    }
  }
  own_table_->close();
}

/// A thread of the program serves as a worker until `leave` is requested. Returns false
/// if all places are taken or the engine stops.
bool scheduler::serve(const std::stop_token& leave) {
  unsigned w = 0;
  {
    const std::lock_guard lock(guests_);
    if (free_places_.empty() || stop_.load(std::memory_order_seq_cst)) {
      return false;
    }
    // The thread works at this place, whose queue and counters it uses, until it leaves.
    w = free_places_.back();
    free_places_.pop_back();
  }
  {
    const fp_scope scope;
    const std::stop_callback wake_up(leave, [this, w] {
      // The fence pairs with the one in spin_or_park(): either the last look before
      // sleeping sees the request, or the wake-up finds the worker parked.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      state_[w]->place.wake();
    });
    work(w,
         [&] { return leave.stop_requested() || stop_.load(std::memory_order_seq_cst); });
  }
  const std::lock_guard lock(guests_);
  free_places_.push_back(w);
  guest_left_.notify_all();
  return true;
}

void scheduler::end_batch() {
  batching_ = false;
  start_batch();
}

/// Publishes the tasks that were collected, with one wake-up for all.
void scheduler::start_batch() {
  for (task* t : batch_) {
    queue(*t, 0);
  }
  wake_for_tasks(static_cast<unsigned>(batch_.size()));
  batch_.clear();
}

const worker_tally& scheduler::tally_of(unsigned w) const noexcept {
  return state_[w]->done;
}

/// Takes a task for a worker.
task* scheduler::take(unsigned w, ready_queues::scope range) {
  const ready_queues::taken some = ready_.pop(w, range);
  // A worker that went to sleep meanwhile may have seen neither queue with these tasks.
  wake_for_tasks(some.moved);
  return some.first;
}

/// Returns the scope of a worker's first look; see "Tiny kernels" in scheduler.hpp.
ready_queues::scope scheduler::at_first(unsigned w) const noexcept {
  using enum ready_queues::scope;
  if (state_[w]->lengths.tiny()) {
    return w == 0 ? own : surplus;
  }
  return helping_.load(std::memory_order_relaxed) ? any : unless_few;
}

/// Returns whether the submitter has submitted since this worker asked last.
bool scheduler::submits(unsigned w) noexcept {
  const std::uint64_t published =
      state_[0]->done.published.load(std::memory_order_relaxed);
  return published != std::exchange(state_[w]->seen_published, published);
}

/// Returns whether another worker is in a long kernel while tasks wait for it.
bool scheduler::another_worker_lags(unsigned w, std::int64_t passed_ns) noexcept {
  bool lags = false;
  bool all_slow = true;
  const bool submitting = submits(w);
  for (unsigned other = 0; other < places_; ++other) {
    if (other != w) {
      const std::uint64_t finished =
          state_[other]->done.finished.load(std::memory_order_relaxed);
      // Tasks that the other worker has ended since the last look, times the cost of
      // moving one, compared with the time that has passed.
      const auto ended = static_cast<std::int64_t>(
          finished - std::exchange(state_[w]->seen_finished[other], finished));
      const bool slow = ended * move_ns < passed_ns && !(other == 0 && submitting);
      all_slow &= slow;
      lags |= slow && !ready_.empty(other);
    }
  }
  return lags || (all_slow && !ready_.empty());
}

/// Hands a task to a worker that searches, without a queue. Returns false if none does.
bool scheduler::hand_over(task& t, unsigned w) noexcept {
  if (t.worker != submit_options::anywhere) {
    const unsigned wanted = t.worker % workers_;
    return wanted != w && state_[wanted]->from_others.offer(t);
  }
  for (unsigned other = 0; other < places_; ++other) {
    if (other != w && state_[other]->from_others.offer(t)) {
      return true;
    }
  }
  return false;
}

/// Removes `satisfied` predecessors (and the guard) from a task; starts it if it is
/// ready.
void scheduler::publish(task& t, std::int32_t satisfied) {
  if (alone_ ? satisfy<true>(t, satisfied) : satisfy<false>(t, satisfied)) {
    publish(t);
  } else {
    note_submission();
  }
}

void scheduler::publish(task& t) {
  if (batching_) {
    if (t.history != nullptr) {
      t.history->ready = now_ns();
    }
    batch_.push_back(&t);
    return;
  }
  start(t);
  wake_for_tasks(1);
}

void scheduler::start(task& t) {
  note_submission();
  if (t.history != nullptr) {
    t.history->ready = now_ns();
  }
  queue(t, 0);
}

/// Wakes up to `count` sleeping workers.
void scheduler::wake_for_tasks(unsigned count) noexcept {
  if (alone_ || count == 0) {
    return;
  }
  // Either the sleeper sees the task in its last look, or this thread sees the sleeper.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_relaxed) == 0) {
    return;
  }
  wake_sleepers(count);
}

// From the last place to the first, so the submitter is woken last.
void scheduler::wake_sleepers(unsigned count) noexcept {
  for (unsigned w = places_; w-- > 0 && count > 0;) {
    if (state_[w]->place.parked() && state_[w]->place.wake()) {
      --count;
    }
  }
}

/// Wakes the submitter if it waits for this task, or for any.
void scheduler::wake_waiter(task_id ended) noexcept {
  // The task was closed before this, and the waiter announces itself before it looks at
  // the task; both are sequentially consistent, so one of the two sees the other.
  const task_id awaited = awaited_.load(std::memory_order_seq_cst);
  if (awaited == ended || awaited == waits_for_any) {
    state_[0]->place.wake();
  }
}

/// Spins until there is a task, `awake` returns true, or the time is over. Meanwhile
/// other workers may put a task into this worker's inbox.
template <class Reason>
task* scheduler::look_until(unsigned w, std::int64_t end_ns, Reason&& awake) {
  inbox& mine = state_[w]->from_others;
  mine.open();
  // The first look leaves small rests of the submitter alone, which it may be about to
  // run itself.
  ready_queues::scope range = at_first(w);
  do {
    for (int i = 0; i < pauses_per_look && !mine.full(); ++i) {
      spin_pause();
    }
    if (mine.full() || awake()) {
      break;
    }
    if (has_answers()) {
      finish_answers(w);
    }
    if (task* const t = take(w, range); t != nullptr) {
      // Both a queue and another worker had a task: the second one is queued for others.
      if (task* const handed = mine.close(); handed != nullptr) {
        queue(*handed, w);
        wake_for_tasks(1);
      }
      return t;
    }
    // From the second look on, a few tasks are enough, even of a submitter at work.
    range = ready_queues::scope::any;
  } while (now_ns() < end_ns);
  return mine.close();
}

/// Spins like look_until(), but for a worker with tiny kernels: looks at the others only
/// from time to time and takes their tasks only if that pays.
template <class Reason>
task* scheduler::watch_until(unsigned w, std::int64_t end_ns, Reason&& awake) {
  std::int64_t looked = now_ns();
  (void)another_worker_lags(w, 0);
  while (!awake()) {
    spin_pause();
    if (has_answers()) {
      finish_answers(w);
      return take(w, ready_queues::scope::any);
    }
    const std::int64_t now = now_ns();
    if (now - looked < watch_ns) {
      continue;
    }
    if (another_worker_lags(w, now - looked) || now >= end_ns) {
      state_[w]->lengths.measure_again();
      return take(w, ready_queues::scope::any);
    }
    if (task* const t = take(w, at_first(w)); t != nullptr) {
      return t;
    }
    looked = now;
  }
  return nullptr;
}

/// Looks for a task for a while, then sleeps. Returns null after a sleep, so that the
/// caller looks again. The announcement, the fence and the last look come in this order;
/// see "Sleeping" in scheduler.hpp.
template <class Reason>
[[gnu::noinline]] task* scheduler::spin_or_park(unsigned w, std::int64_t timeout_ns,
                                                Reason&& awake) {
  const std::int64_t limit =
      timeout_ns < 0 || timeout_ns > spin_ns ? spin_ns : timeout_ns;
  const std::int64_t start = now_ns();
  // One idle worker polls; the others look for tasks and sleep.
  if (polls() && !has_idle_poller_.exchange(true, std::memory_order_acquire)) {
    task* const t = poll_until(w, timeout_ns < 0 ? -1 : start + timeout_ns, awake);
    has_idle_poller_.store(false, std::memory_order_release);
    return t;
  }
  kernel_lengths& lengths = state_[w]->lengths;
  // Until this is done, kernels count as long.
  lengths.calibrate(clock_);
  if (task* const t = lengths.tiny() ? watch_until(w, start + limit, awake)
                                     : look_until(w, start + limit, awake);
      t != nullptr || awake()) {
    return t;
  }
  const std::int64_t left = timeout_ns - (now_ns() - start);
  std::int64_t length = timeout_ns < 0 ? -1 : std::max<std::int64_t>(left, 1);
  // Sleeps only a while, to take over the polling if the worker that polls gets a task.
  if (polls()) {
    length = timeout_ns < 0 ? relief_ns : std::min(length, relief_ns);
  }
  sleep_unless(w, length, moves_ && w > 0 && w < workers_,
               [&] { return !ready_.empty() || has_answers() || awake(); });
  return nullptr;
}

/// Announces the sleep, looks once more, and sleeps.
template <class Reason>
[[gnu::noinline]] void scheduler::sleep_unless(unsigned w, std::int64_t timeout_ns,
                                               bool moves, Reason&& reason) {
  parking_place& place = state_[w]->place;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  place.announce();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!reason()) {
    tally<std::uint64_t>(state_[w]->done.parks);
    place.sleep(timeout_ns, moves);
  } else {
    place.retract();
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

/// Each round polls, and looks for answers and tasks.
template <class Reason>
[[gnu::noinline]] task* scheduler::poll_until(unsigned w, std::int64_t end_ns,
                                              Reason&& awake) {
  constexpr unsigned polls_at_once = 50;
  constexpr std::int64_t yield_ns = 1'000'000;
  constexpr std::int64_t nap_ns = 50'000;
  std::int64_t moved = now_ns();
  unsigned idle_rounds = 0;
  while (awaits_completions() && !awake()) {
    const bool any = poll();
    if (has_answers()) {
      finish_answers(w);
    }
    if (task* const t = take(w, ready_queues::scope::any); t != nullptr) {
      return t;
    }
    const std::int64_t now = now_ns();
    if (awake() || (end_ns >= 0 && now >= end_ns)) {
      break;
    }
    moved = any ? now : moved;
    idle_rounds = any ? 0 : idle_rounds + 1;
    if (idle_rounds < polls_at_once) {
      spin_pause();
    } else if (now - moved < yield_ns) {
      std::this_thread::yield();
    } else {
      sleep_unless(w, nap_ns, false,
                   [&] { return !ready_.empty() || has_answers() || awake(); });
    }
  }
  return nullptr;
}

/// The loop of a worker.
template <class Stopping>
void scheduler::work(unsigned w, Stopping&& stopping) {
  const current_worker here(*this, w);
  ensure_kernel_fp();
  task* next = nullptr;
  while (!stopping()) {
    if (next == nullptr) {
      next = take(w, at_first(w));
    }
    if (next == nullptr) {
      next = spin_or_park(w, -1, stopping);
    }
    if (next != nullptr) {
      next = run(*next, w);
    }
    // The submitter is right behind this worker and runs the tiny task in less time.
    if (next != nullptr && next->worker == submit_options::anywhere && is_in_the_way(w)) {
      ready_.send(0, *std::exchange(next, nullptr));
    }
  }
  if (next != nullptr) {
    queue(*next, w);
  }
  if (!ready_.empty() || has_answers()) {
    wake_for_tasks(places_);  // this thread may have been woken for what it leaves
  }
}

/// Runs one task on the submitter's thread. Returns false if none is ready.
bool scheduler::run_one() {
  start_batch();
  const current_worker here(*this, 0);
  task* t = take(0, ready_queues::scope::any);
  if (t == nullptr && awaits_completions()) {
    const fp_scope scope;
    attend(0);
    t = take(0, ready_queues::scope::any);
  }
  if (t == nullptr) {
    return false;
  }
  const fp_scope scope;
  if (task* freed = alone_ ? run_alone(*t, *t) : run(*t, 0); freed != nullptr) {
    queue(*freed, 0);
    wake_for_tasks(1);
  }
  return true;
}

/// Runs tasks on the submitter's thread until `t` has ended, and sleeps if there are
/// none.
void scheduler::help_until_ended(const task& t) {
  start_batch();
  if (board_ != nullptr) {
    board_->submitter_waits(&t);
  }
  const flag_guard helping(helping_);
  const current_worker here(*this, 0);
  const fp_scope scope;
  // The worker that ends the task closes it before it looks for a thread to wake.
  const auto closed = [&t] {
    return t.successors.load(std::memory_order_seq_cst) >= task::closed;
  };
  task* next = nullptr;
  while (!t.ended()) {
    if (next == nullptr) {
      next = take(0, at_first(0));
    }
    if (next == nullptr) {
      // Of the tasks in flight, the oldest is ready or waits for its completion.
      WEIR_EXPECT(!alone_ || awaits_completions());
      // Announced before the last look of `spin_or_park`; see `wake_waiter`.
      awaited_.store(t.id, std::memory_order_seq_cst);
      next = spin_or_park(0, -1, closed);
      awaited_.store(waits_for_none, std::memory_order_relaxed);
      continue;  // if the wait is over, the task in hand is queued for others
    }
    next = alone_ ? run_alone(*next, t) : run(*next, 0);
  }
  if (has_answers()) {  // this thread may have been woken for them
    finish_answers(0);
  }
  if (board_ != nullptr) {
    board_->submitter_waits(nullptr);
  }
  if (next != nullptr) {
    queue(*next, 0);
    wake_for_tasks(1);
  }
}

/// Sums a counter over all workers except the submitter.
std::uint64_t scheduler::sum_of_others(
    std::atomic<std::uint64_t> worker_tally::*counter) const noexcept {
  std::uint64_t sum = 0;
  for (unsigned w = 1; w < places_; ++w) {
    sum += (state_[w]->done.*counter).load(std::memory_order_acquire);
  }
  return sum;
}

/// Waits on the submitter's thread until a task of another worker ends, a task is ready,
/// wake() is called, or the time is over.
void scheduler::idle(std::int64_t timeout_ns) {
  start_batch();
  // A task that was about to end when the caller last looked is counted in `finished` and
  // was not in `released_seen_`, so this thread does not sleep through its end.
  // A task of its own ends here only if it is completed.
  const std::atomic<std::uint64_t>& own = state_[0]->done.finished;
  const auto reason = [this, &own, before = own.load(std::memory_order_relaxed)] {
    return woken_.load(std::memory_order_seq_cst) ||
           own.load(std::memory_order_relaxed) != before ||
           sum_of_others(&worker_tally::finished) != released_seen_ || !ready_.empty();
  };
  if (!reason()) {
    const flag_guard helping(helping_);
    const current_worker here(*this, 0);
    const fp_scope scope;
    awaited_.store(waits_for_any, std::memory_order_seq_cst);
    if (task* t = spin_or_park(0, timeout_ns, reason); t != nullptr) {
      queue(*t, 0);
      wake_for_tasks(1);
    }
    if (has_answers()) {  // this thread may have been woken for them
      finish_answers(0);
    }
    awaited_.store(waits_for_none, std::memory_order_relaxed);
  }
  // The exchange makes the caller see what was done before the wake-up that it consumes.
  woken_.exchange(false, std::memory_order_seq_cst);
  released_seen_ = sum_of_others(&worker_tally::released);
}

void scheduler::wake() noexcept {
  // The flag is seen by the next `idle`, if none runs now.
  woken_.store(true, std::memory_order_seq_cst);
  state_[0]->place.wake();
}

}  // namespace weir::runtime
