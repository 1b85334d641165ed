// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks that end after their kernels: from the handle to the worker that finishes the
/// task, and the poller. The protocol is described in scheduler.hpp.
///
/// The events of a postponed task, with the bits of its slot:
///
///   kernel calls later()        postpone      state = number of the task
///   any thread completes it     claimed, then the outcome, then `answered`
///   the kernel returns          after_return  `returned`
///
/// Whoever sets the second one of `answered` and `returned` sees the other bit in the
/// result of its exchange, and finishes the task. The slot then belongs to that thread
/// alone.
#include "tasks/completions.hpp"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "tasks/exclusion.hpp"
#include "tasks/scheduler.hpp"
#include "weir/base/clock.hpp"

namespace weir::runtime {
namespace {

/// Shortest and longest time between two polls of a worker that runs tasks.
constexpr std::int64_t busy_poll_ns = 2'000;
constexpr std::int64_t max_busy_poll_ns = 200'000;
/// Time between two polls of busy workers, as a multiple of the length of a poll.
constexpr std::int64_t polls_per_time = 30;

}  // namespace

/// A call that enters counts itself before it looks whether the table is closed, and
/// `close` marks the table before it looks at the count. Both are read-modify-write
/// operations on one number, so the call is refused or is waited for.
class completion_table::visit {
 public:
  // The number holds twice the count of visits, so that the lowest bit is free for
  // "closed".
  explicit visit(std::atomic<std::uint64_t>& visits) noexcept
      : visits_(visits),
        allowed_((visits.fetch_add(2, std::memory_order_acquire) & 1) == 0) {}
  ~visit() { visits_.fetch_sub(2, std::memory_order_release); }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;
  [[nodiscard]] bool allowed() const noexcept { return allowed_; }

 private:
  std::atomic<std::uint64_t>& visits_;
  bool allowed_;
};

// Handles may live longer than the engine. After this call none of them reaches it.
void completion_table::close() noexcept {
  visits_.fetch_or(1, std::memory_order_acq_rel);
  while (visits_.load(std::memory_order_acquire) != 1) {
    std::this_thread::yield();
  }
}

/// The number of a slot's task changes only after the task has ended, so a handle of an
/// older task finds another number or the bit of the call that completed it.
completion_slot* completion_table::claim(task_id id) noexcept {
  completion_slot& s = slot_of(id);
  std::uint64_t state = s.state.load(std::memory_order_acquire);
  while (state >> completion_slot::number_shift == id &&
         (state & completion_slot::claimed) == 0) {
    if (s.state.compare_exchange_weak(state, state | completion_slot::claimed,
                                      std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      return &s;
    }
  }
  return nullptr;
}

// The answer may be out of date as soon as it is given.
bool completion_table::awaited(task_id id) noexcept {
  const std::uint64_t state = slot_of(id).state.load(std::memory_order_acquire);
  return (visits_.load(std::memory_order_acquire) & 1) == 0 &&
         state >> completion_slot::number_shift == id &&
         (state & completion_slot::claimed) == 0;
}

/// A thread that runs tasks of the engine is waited for by the engine's destructor and
/// needs no visit.
result<void> completion_table::complete(task_id id, const char* name,
                                        result<void>&& outcome) {
  // A kernel of this engine may complete another task of it.
  const worker_place here = current_worker::now();
  const bool inside = here.owner != nullptr && here.owner->completes_by(*this);
  std::optional<visit> guest;
  if (!inside && !guest.emplace(visits_).allowed()) {
    return error(errc::stopping, fmt::format("task {} not completed: expected an engine "
                                             "that lives, found that it has ended",
                                             id));
  }
  completion_slot* const slot = claim(id);
  if (slot == nullptr) {
    return error(errc::internal,
                 fmt::format("task {} \"{}\" not completed: expected its first "
                             "completion, found a second one",
                             id, name));
  }
  // The slot belongs to this thread until `answered` is set.
  if (slot->traced) {
    slot->completed = now_ns();
  }
  slot->outcome = std::move(outcome);
  const std::uint64_t before =
      slot->state.fetch_or(completion_slot::answered, std::memory_order_acq_rel);
  if ((before & completion_slot::returned) == 0) {
    return {};  // the worker finishes the task when its kernel returns
  }
  if (inside) {
    here.owner->finish(*slot, here.worker);
  } else {
    owner_.add_answer(*slot);
  }
  return {};
}

completion::completion(completion&& from) noexcept
    : table_(std::move(from.table_)),
      id_(std::exchange(from.id_, 0)),
      name_(std::exchange(from.name_, "")) {}

// The task of the old handle is abandoned unless it has been completed.
completion& completion::operator=(completion&& from) noexcept {
  if (this != &from) {
    drop();
    table_ = std::move(from.table_);
    id_ = std::exchange(from.id_, 0);
    name_ = std::exchange(from.name_, "");
  }
  return *this;
}

// A handle that is dropped must not leave its task in flight for ever.
completion::~completion() {
  drop();
}

bool completion::awaited() const noexcept {
  return table_ != nullptr && table_->awaited(id_);
}

/// Another thread may complete the task at the same time; then this call does nothing.
void completion::drop() noexcept {
  if (awaited()) {
    static_cast<void>(
        complete(*this, error(errc::abandoned,
                              fmt::format("task {} \"{}\" abandoned: expected its "
                                          "completion, found that the handle was dropped",
                                          id_, name_))));
  }
  table_.reset();
}

// The handle stays as it is; a second call fails.
result<void> complete(const completion& handle, result<void> outcome) {
  if (handle.table_ == nullptr) {
    return error(errc::invalid_argument,
                 "no task completed: expected a handle of task_context::later, found an "
                 "empty one");
  }
  return handle.table_->complete(handle.id_, handle.name_, std::move(outcome));
}

// Taking the pointer away tells the scheduler, when the kernel returns, that its task
// goes on.
completion task_context::later() const {
  WEIR_EXPECT(postponable_ != nullptr);  // once, by the kernel, with its own context
  completion out = postponable_->batch->owner->postpone(*postponable_, worker);
  postponable_ = nullptr;
  return out;
}

// Only kernels that asked to be called although they are poisoned can see true. After
// `later` it is false.
bool task_context::poisoned() const noexcept {
  return postponable_ != nullptr &&
         postponable_->root.load(std::memory_order_relaxed) != 0;
}

/// Returns the table of handles, which is made for the first of them.
completion_table& scheduler::completions() {
  if (completion_table* const made = table_.load(std::memory_order_acquire);
      made != nullptr) {
    return *made;
  }
  const std::lock_guard lock(table_made_);
  if (own_table_ == nullptr) {
    own_table_ = std::make_shared<completion_table>(*this, window_);
    table_.store(own_table_.get(), std::memory_order_release);
  }
  return *own_table_;
}

/// No other thread knows the handle yet, so the order of these steps does not matter to
/// any of them.
completion scheduler::postpone(task& t, unsigned w) {
  completion_table& table = completions();
  completion_slot& s = table.slot_of(t.id);
  s.waits = &t;
  s.worker = w;
  s.traced = t.history != nullptr;
  if (alone_ && t.exclusive) {
    attention_.fetch_or(has_groups, std::memory_order_relaxed);
    // Tasks of the group have ended up to now, so that nothing is inside but this task.
    static_cast<void>(group_of(t)->enter(t));
  }
  // The watchdog names tasks that wait for their completion.
  if (board_ != nullptr) {
    board_->awaits_completion(t.id);
  }
  tally<std::uint64_t>(state_[w]->done.postponed);
  outstanding_.fetch_add(1, std::memory_order_relaxed);
  s.state.store(t.id << completion_slot::number_shift, std::memory_order_release);
  return {table.shared_from_this(), t.id, t.name};
}

/// If the task has not been completed yet, whoever does so finishes it: the record and
/// the slot must not be touched behind the exchange.
std::int64_t scheduler::after_return(task& t, unsigned w, std::int64_t start,
                                     std::int64_t end) {
  completion_slot& s = completions().slot_of(t.id);
  s.started = start;
  s.kernel_ended = end;
  const std::uint64_t before =
      s.state.fetch_or(completion_slot::returned, std::memory_order_acq_rel);
  // Another thread may finish the task from here on.
  if ((before & completion_slot::answered) == 0) {
    return postponed;
  }
  const std::int64_t ended_ns = settle(s, w);
  if (alone_in_groups(t)) {
    leave_group(t, w);
  }
  return ended_ns;
}

/// A failure of the kernel has been noted before and counts more than the outcome.
std::int64_t scheduler::settle(completion_slot& s, unsigned w) {
  task& t = *s.waits;
  std::int64_t ended_ns = 0;
  if (s.traced) {
    ended_ns = std::max(s.completed, s.kernel_ended);
    tracer_.record(w, record_of(t, s.worker, s.started, s.kernel_ended, ended_ns));
  }
  result<void> outcome = std::exchange(s.outcome, {});
  // The root is set if the kernel or a predecessor has failed.
  if (!outcome && t.root.load(std::memory_order_relaxed) == 0) {
    fail(t, w, std::move(outcome));
  }
  outstanding_.fetch_sub(1, std::memory_order_release);
  return ended_ns;
}

/// The worker that takes the list may finish the task at once, so the slot is not touched
/// once it is in the list. The bit is set behind that: a worker that clears it takes the
/// list afterwards.
void scheduler::add_answer(completion_slot& s) noexcept {
  completion_slot* head = answers_.load(std::memory_order_relaxed);
  do {
    s.next = head;
  } while (!answers_.compare_exchange_weak(head, &s, std::memory_order_release,
                                           std::memory_order_relaxed));
  attention_.fetch_or(answers, std::memory_order_release);
  // Either the sleeper sees the list in its last look, or this thread sees the sleeper.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_relaxed) != 0) {
    wake_sleepers(1);
  }
}

/// Takes the whole list, and finishes the oldest answer first.
void scheduler::finish_answers(unsigned w) {
  attention_.fetch_and(static_cast<std::uint8_t>(~answers), std::memory_order_acquire);
  completion_slot* newest = answers_.exchange(nullptr, std::memory_order_acquire);
  completion_slot* oldest = nullptr;
  while (newest != nullptr) {
    completion_slot* const older = std::exchange(newest->next, oldest);
    oldest = std::exchange(newest, older);
  }
  while (oldest != nullptr) {
    completion_slot* const newer = oldest->next;  // finishing frees the slot
    finish(*oldest, w);
    oldest = newer;
  }
}

// Polls of busy workers are limited by time, because a poll may cost as much as a short
// kernel.
void scheduler::attend(unsigned w) {
  if (has_answers()) {
    finish_answers(w);
  }
  if (polls() && clock_.now() - polled_.load(std::memory_order_relaxed) >=
                     poll_ticks_.load(std::memory_order_relaxed)) {
    poll();
  }
}

// One thread polls at a time; the flag is a lock that nobody waits for.
bool scheduler::poll() {
  if (!has_pollers() || polling_.exchange(true, std::memory_order_acquire)) {
    return false;
  }
  bool moved = false;
  const std::int64_t begun = clock_.now();
  for (const auto& [number, poller] : pollers_) {
    moved = poller() || moved;
  }
  // A poller is code of the program and may have changed the rounding.
  ensure_kernel_fp();
  const std::int64_t ended = clock_.now();
  polled_.store(ended, std::memory_order_relaxed);
  if (!moved) {
    limit_polls(ended - begun);
  }
  polling_.store(false, std::memory_order_release);
  return moved;
}

/// Sets the time between two polls of busy workers from the length of a poll that has
/// moved nothing. A poll of sockets takes several times as long as one of shared memory.
void scheduler::limit_polls(std::int64_t ticks) noexcept {
  poll_ticks_.store(std::clamp(ticks * polls_per_time, clock_.to_ticks(busy_poll_ns),
                               clock_.to_ticks(max_busy_poll_ns)),
                    std::memory_order_relaxed);
}

/// Keeps all threads from polling, and waits for the one that does.
void scheduler::stop_polling() noexcept {
  while (polling_.exchange(true, std::memory_order_acquire)) {
    std::this_thread::yield();
  }
}

// The list changes only while no thread polls.
std::uint64_t scheduler::add_poller(std::function<bool()> poller) {
  stop_polling();
  poll_ticks_.store(clock_.to_ticks(busy_poll_ns), std::memory_order_relaxed);
  pollers_.emplace_back(++poller_number_, std::move(poller));
  attention_.fetch_or(polls_too, std::memory_order_relaxed);
  polling_.store(false, std::memory_order_release);
  return poller_number_;
}

void scheduler::remove_poller(std::uint64_t number) noexcept {
  stop_polling();
  std::erase_if(pollers_, [number](const auto& one) { return one.first == number; });
  if (pollers_.empty()) {
    attention_.fetch_and(static_cast<std::uint8_t>(~polls_too),
                         std::memory_order_relaxed);
  }
  polling_.store(false, std::memory_order_release);
}

// The task that enters now has been ready all the time.
void scheduler::leave_group(task& t, unsigned w) {
  if (task* const next = group_of(t)->leave(t); next != nullptr) {
    queue(*next, w);
    wake_for_tasks(1);
  }
}

}  // namespace weir::runtime
