// SPDX-License-Identifier: Apache-2.0
/// @file
/// How pieces move: kernels of sends and receives, and what ends them.
///
/// A piece is a task of the engine on both ranks: on the sender it reads the bytes, on
/// the receiver it writes them. So the engine orders pieces and other tasks by their
/// accesses alone.
#include "world/pieces.hpp"

#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "places/byte_runs.hpp"
#include "weir/base/clock.hpp"

namespace weir::runtime {
namespace {

/// Gathers the blocks of a piece.
///
/// The bytes of a footprint may lie in many runs; they are sent as one message.
void pack(piece& p) {
  std::byte* to = p.packed.data();
  for_each_run(p.bytes, [&](std::int64_t lo, std::int64_t hi) {
    std::memcpy(to, p.base + lo, static_cast<std::size_t>(hi - lo));
    to += hi - lo;
  });
}

/// Scatters the blocks of a piece.
/// The counterpart of `pack`. Both ranks have the same footprint, so the order is the
/// same.
void unpack(const piece& p) {
  const std::byte* from = p.packed.data();
  for_each_run(p.bytes, [&](std::int64_t lo, std::int64_t hi) {
    std::memcpy(p.base + lo, from, static_cast<std::size_t>(hi - lo));
    from += hi - lo;
  });
}

/// Returns the failure of a send. If the receiver is lost, the text names the task that
/// needs the piece, as it does for a receive.
error failure_of_send(const piece& p, error cause) {
  if (cause.code() != errc::rank_lost) {
    return cause;
  }
  return error(cause.code(), fmt::format("{}; the task step {} \"{}\" needs bytes that "
                                         "have not come to rank {}",
                                         cause.text(), p.step, p.name, p.other));
}

}  // namespace

/// The kernel of a piece's task.
///
/// With a replay, the piece is the one of this run.
struct pieces::kernel {
  pieces* owner;
  piece* what;
  std::size_t number;
  result<void> operator()(const task_context& context) const {
    const auto* const replay = static_cast<const replay_run*>(context.argument);
    return owner->run(replay == nullptr ? *what : *replay->pieces[number], context);
  }
};

/// `note` is told failures of receives, with step and task.
pieces::pieces(engine& tasks, transport& link, note_function note)
    : tasks_(tasks), link_(link), note_(std::move(note)), channel_(link.open_channel()) {}

/// All tasks have ended before.
pieces::~pieces() {
  link_.close_channel(channel_);
}

/// Returns a piece of this object. @pre the mutex is locked
///
/// Pieces are used again, since a loop makes many of them.
piece& pieces::take(const piece_order& what) {
  if (spare_.empty()) {
    spare_.push_back(&memory_.emplace_back());
  }
  piece& p = *spare_.back();
  spare_.pop_back();
  static_cast<piece_order&>(p) = what;
  p.has_ended = false;
  p.is_forgotten = false;
  return p;
}

/// Called once the task and the transfer have ended. @pre the mutex is locked
void pieces::give_back(piece& p) {
  p.outcome = {};
  spare_.push_back(&p);
}

/// A receive is begun at once, so that the message finds its memory.
result<piece*> pieces::begin(const piece_order& what) {
  const std::lock_guard lock(mutex_);
  piece& p = take(what);
  if (!p.sends) {
    p.packed.resize(static_cast<std::size_t>(byte_count(p.bytes)));
    WEIR_TRY(const transfer_id id,
             link_.receive(p.other, {channel_, p.number}, p.packed));
    open_.emplace(id, &p);
    open_count_.store(open_.size(), std::memory_order_relaxed);
  }
  return &p;
}

/// The task is started even if earlier tasks have failed, because the other rank waits
/// for the message.
result<void> pieces::submit(const piece_order& what, std::size_t number) {
  WEIR_TRY(piece* const p, begin(what));
  const std::array<access, 1> accesses{
      access{p->bytes, p->sends ? access_mode::read : access_mode::write}};
  submit_options with;
  // The kernel runs even if its bytes are poisoned: a send must tell the receiver that
  // the piece does not exist, and a receive must give up its transfer.
  with.though_poisoned = true;
  // A rank waits for the message, so it goes before the tasks that are ready.
  with.urgent = true;
  WEIR_TRY([[maybe_unused]] const task_id id,
           tasks_.submit(p->sends ? "send" : "receive", accesses, kernel{this, p, number},
                         with));
  return {};
}

result<void> pieces::run(piece& p, const task_context& context) {
  return p.sends ? run_send(p, context) : run_receive(p, context);
}

/// A send that cannot begin ends the world, and its task ends as usual: the bytes that it
/// has read are good.
///
/// If the bytes do not exist, since a task before has failed, the receiver is told so.
result<void> pieces::run_send(piece& p, const task_context& context) {
  const bool exists = !context.poisoned();
  if (exists) {
    // Packed outside of the lock.
    p.packed.resize(static_cast<std::size_t>(byte_count(p.bytes)));
    pack(p);
  }
  const std::lock_guard lock(mutex_);
  // The world has ended.
  if (is_closed_) {
    give_back(p);
    return {};
  }
  auto begun = exists ? link_.send(p.other, {channel_, p.number}, p.packed)
                      : link_.send_failure(p.other, {channel_, p.number});
  if (!begun) {
    // The thread that waits may sleep and must see the failure.
    note_failure(std::move(begun).error());
    give_back(p);
    tasks_.wake();
    return {};
  }
  // Most small messages have left by now, so the task ends at once.
  if (link_.take_end(channel_, *begun)) {
    give_back(p);
    return {};
  }
  // The task ends when the message has been taken.
  p.waits = context.later();
  open_.emplace(*begun, &p);
  open_count_.store(open_.size(), std::memory_order_relaxed);
  return {};
}

/// The message may have come before the task runs, or may come later.
result<void> pieces::run_receive(piece& p, const task_context& context) {
  std::unique_lock lock(mutex_);
  // Not there yet: the task ends later, or, if its bytes are not wanted any more, the
  // message is only taken.
  if (!p.has_ended) {
    if (context.poisoned()) {
      p.is_forgotten = true;
    } else {
      p.waits = context.later();
    }
    return {};
  }
  result<void> outcome = std::exchange(p.outcome, {});
  // The lock is not held while bytes are copied.
  if (outcome && !context.poisoned()) {
    lock.unlock();
    unpack(p);
    lock.lock();
  }
  give_back(p);
  return outcome;
}

/// Keeps the first failure of a send. @pre the mutex is locked
void pieces::note_failure(error cause) {
  if (!failure_) {
    failure_ = std::move(cause);
    has_failed_.store(true, std::memory_order_relaxed);
  }
}

// Threads that run tasks poll between two of them, at the latest after this time (see
// `engine_options::poller`). The submitter need not poll as well; a failure is always
// looked at.
bool pieces::polled_lately() const noexcept {
  constexpr std::int64_t lately_ns = 200'000;
  return !has_failed() &&
         now_ns() - polled_ns_.load(std::memory_order_relaxed) < lately_ns;
}

// Tasks are completed after the mutex was released, because completing one may run code
// of the engine that takes other locks.
bool pieces::poll() {
  polled_ns_.store(now_ns(), std::memory_order_relaxed);
  std::vector<ending> endings;
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) {
      return false;
    }
    std::vector<transfer_end> ended;
    link_.poll(channel_, ended);
    for (transfer_end& one : ended) {
      end_transfer(std::move(one), endings);
      any = true;
    }
    open_count_.store(open_.size(), std::memory_order_relaxed);
  }
  end_tasks(endings);
  return any;
}

/// Adds the task of a transfer that has ended to `out`, if its kernel has returned.
///
/// For a receive there are three cases: the task is gone, it waits, or it has not run
/// yet.
void pieces::end_transfer(transfer_end&& one, std::vector<ending>& out) {
  const auto found = open_.find(one.id);
  if (found == open_.end()) {
    return;
  }
  piece& p = *found->second;
  open_.erase(found);
  if (p.sends) {
    if (!one.outcome) {
      note_failure(failure_of_send(p, std::move(one.outcome).error()));
    }
    // The task of a send ends without a failure: its bytes are good, and the world ends
    // by `failure_`.
    out.push_back({&p, std::move(p.waits), {}});
    return;
  }
  // The sender notes a failure of the task that it has run; others are noted here.
  if (!one.outcome &&
      (one.abandoned || one.outcome.error().code() != errc::upstream_failed)) {
    note_(p.step, p.name, one.outcome.error());
  }
  if (p.is_forgotten) {
    give_back(p);
  } else if (p.waits.task() != 0) {
    out.push_back({&p, std::move(p.waits), std::move(one.outcome)});
  } else {
    p.outcome = std::move(one.outcome);
    p.has_ended = true;
  }
}

/// A piece is given back before its task ends, because the world may end then.
/// Called without the mutex.
void pieces::end_tasks(std::vector<ending>& all) {
  for (ending& one : all) {
    if (!one.what->sends && one.outcome) {
      unpack(*one.what);
    }
    {
      const std::lock_guard lock(mutex_);
      give_back(*one.what);
    }
    static_cast<void>(complete(one.task, std::move(one.outcome)));
  }
}

/// The task that was submitted first.
std::optional<pieces::awaited_piece> pieces::oldest_awaited() {
  const std::lock_guard lock(mutex_);
  const piece* oldest = nullptr;
  for (const auto& [id, p] : open_) {
    if (!p->sends && p->waits.task() != 0 &&
        (oldest == nullptr || p->waits.task() < oldest->waits.task())) {
      oldest = p;
    }
  }
  if (oldest == nullptr) {
    return std::nullopt;
  }
  return awaited_piece{oldest->other, oldest->name};
}

/// The first failure of a send.
std::optional<error> pieces::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

/// After this, nothing is sent or received, and waiting tasks end.
void pieces::abandon(const error& for_others) {
  link_.abandon(channel_, for_others);
  std::vector<ending> endings;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    for (auto& [id, p] : open_) {
      // Receives fail with the reason, sends end as usual.
      if (p->waits.task() != 0) {
        endings.push_back(
            {p, std::move(p->waits), p->sends ? result<void>() : for_others});
      } else {
        p->outcome = for_others;
        p->has_ended = true;
      }
    }
    open_.clear();
    open_count_.store(0, std::memory_order_relaxed);
  }
  end_tasks(endings);
}

}  // namespace weir::runtime
