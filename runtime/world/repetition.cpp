// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loops whose steps submit the same tasks again: a period is recorded as a capture of
/// the engine and replayed.
///
/// Why a replay is right: after a period has been submitted as usual, submitting it once
/// more leaves the ledger as it is, because the holders of bytes that it writes follow
/// from its calls alone, and all readers hold the bytes that it only reads. So each later
/// period moves the same pieces, which the recorded one has moved, until something else
/// changes the ledger (`disturb`). Pieces of replays get the numbers that they would have
/// anyway, so each rank decides by itself when it replays.
///
/// The modes are: off, watching (looking for a period), recording (the engine captures
/// one period), verifying (calls are compared and submitted as usual) and deferring
/// (calls are compared and submitted as a replay at the end of the period).
#include "world/repetition.hpp"

#include <algorithm>
#include <utility>

#include "world/ranked.hpp"

namespace weir::runtime {
namespace {

/// Number of rounds in which another world has nothing to do before deferred calls are
/// submitted. A short wait of that world then does not end a replay. Each round takes
/// the time of an idle wait at most.
constexpr unsigned rounds_before_submission = 16;

}  // namespace

/// A step is known if all of its calls have signatures. An unknown or empty step makes
/// the finder begin anew.
void period_finder::end_step() {
  if (known_ && count_ != 0) {
    steps_.push_back(step_.value());
    if (steps_.size() > 2 * max_period) {
      steps_.pop_front();
    }
  } else {
    steps_.clear();
  }
  step_ = {};
  count_ = 0;
  known_ = true;
}

/// Returns the smallest period that the newest steps have shown twice, or 0.
std::size_t period_finder::period() const noexcept {
  for (std::size_t p = 1; p <= max_period && 2 * p <= steps_.size(); ++p) {
    bool equal = true;
    for (std::size_t back = 1; back <= p; ++back) {
      equal = equal && step(back) == step(back + p);
    }
    if (equal) {
      return p;
    }
  }
  return 0;
}

/// Decides at the begin of a step whether to record, or to defer again.
void world::ranked::begin_step() {
  repetition& r = repetition_;
  r.in_step = true;
  r.is_disturbed = false;
  if (r.now == repeat_mode::off) {
    r.now = repeat_mode::watching;
  }
  if (r.now == repeat_mode::watching) {
    // The ledger must not have changed during a whole period.
    if (const std::size_t p = r.finder.period(); p != 0 && r.clean_steps >= p) {
      begin_recording(p);
    }
  } else if (r.follows() && r.phase == 0) {
    // At the begin of a period.
    r.now = r.clean_steps >= r.period ? repeat_mode::deferring : repeat_mode::verifying;
  }
}

/// Counts the recorded calls of the step as made. Passing begins with a period, so that
/// the steps that are taken back are the first ones of it.
result<bool> world::ranked::pass_step() {
  repetition& r = repetition_;
  if (r.now != repeat_mode::deferring || r.passed != r.phase) {
    return false;
  }
  ++r.passed;
  r.position = r.recorded->step_ends[r.phase];
  if (r.position == r.recorded->calls.size()) {
    r.passed = 0;
    WEIR_CHECK(replay_period());
  }
  return true;
}

// Only steps of the present period can be passed and not yet replayed; the program then
// makes their calls after all.
std::int64_t world::ranked::take_back_steps() noexcept {
  repetition& r = repetition_;
  const std::size_t passed = std::exchange(r.passed, 0);
  if (passed != 0) {
    r.phase = 0;
    r.position = 0;
  }
  return static_cast<std::int64_t>(passed);
}

// A step with fewer calls than the recorded one ends the use of the period.
result<void> world::ranked::end_step() {
  repetition& r = repetition_;
  r.in_step = false;
  r.clean_steps = r.is_disturbed ? 0 : r.clean_steps + 1;
  r.finder.end_step();
  if (r.now == repeat_mode::recording) {
    r.recorded->step_ends.push_back(r.recorded->calls.size());
    // The finder has one step more than when the recording began, or none at all if the
    // step was unknown or empty.
    if (!r.finder.repeats(r.period)) {
      end_recording(false);
    } else if (++r.phase == r.period) {
      end_recording(true);
    }
    return {};
  }
  if (!r.follows()) {
    return {};
  }
  // The step has made fewer calls than the recorded one.
  if (r.position != r.recorded->step_ends[r.phase]) {
    return stop_following();
  }
  r.phase = (r.phase + 1) % r.period;
  r.position = r.phase == 0 ? 0 : r.position;
  return {};
}

/// The loop is over.
result<void> world::ranked::end_steps() {
  repetition& r = repetition_;
  if (r.now == repeat_mode::recording) {
    end_recording(false);
  }
  WEIR_CHECK(r.follows() ? stop_following() : result<void>());
  r.in_step = false;
  r.finder.forget();
  r.now = repeat_mode::off;
  return {};
}

/// A capture of the engine records all tasks that this thread submits.
void world::ranked::begin_recording(std::size_t period) {
  repetition& r = repetition_;
  if (!tasks_.begin_capture()) {
    return;  // the program records something itself
  }
  r.recorded = std::make_shared<recorded_period>();
  // Steps and counters of the recorded period are needed to shift those of replays.
  r.recorded->first_step = steps_;
  r.recorded->before = counters_;
  r.recorded_tasks = 0;
  r.period = period;
  r.phase = 0;
  r.position = 0;
  r.now = repeat_mode::recording;
}

/// A capture with tasks that the world has not submitted, or of more tasks than fit into
/// the window, is not used.
void world::ranked::end_recording(bool complete) {
  repetition& r = repetition_;
  auto captured = tasks_.end_capture();
  r.recorded->after = counters_;
  if (complete && captured && captured->size() == r.recorded_tasks) {
    r.recorded->tasks = *captured;
    r.recorded->steps = steps_ - r.recorded->first_step;
    r.phase = 0;
    r.position = 0;
    r.now = repeat_mode::verifying;
    return;
  }
  // The attempt was in vain; the finder looks for a period again.
  r.recorded.reset();
  r.finder.forget();
  r.now = repeat_mode::watching;
}

/// Decides about one call of a step. Returns true if the world submits it later.
///
/// A signature of 0 stands for a call that cannot be recognised.
result<bool> world::ranked::defers(std::uint64_t signature) {
  repetition& r = repetition_;
  r.finder.add(signature);
  if (!r.follows()) {
    return false;
  }
  const recorded_period& all = *r.recorded;
  // Another call than the recorded one.
  if (r.position >= all.step_ends[r.phase] || signature == 0 ||
      all.calls[r.position].signature != signature) {
    WEIR_CHECK(stop_following());
    return false;
  }
  ++r.position;
  // Compared only; it is submitted as usual.
  if (r.now == repeat_mode::verifying) {
    return false;
  }
  // Messages must move on although nothing is submitted.
  if (++r.offered % steps_between_polls == 0) {
    WEIR_CHECK(move_on_at_times());
  }
  // The period is complete.
  if (r.position == all.calls.size()) {
    WEIR_CHECK(replay_period());
  }
  return true;
}

/// Returns true if calls were made that are not submitted yet.
/// A whole period is never left deferred, since its last call replays it.
bool world::ranked::has_deferred() const noexcept {
  const repetition& r = repetition_;
  return r.now == repeat_mode::deferring && r.position != 0 &&
         r.position != r.recorded->calls.size();
}

/// Submits the calls that were deferred as usual, and follows on without deferring.
///
/// Used when a replay is not possible any more.
result<void> world::ranked::submit_deferred() {
  repetition& r = repetition_;
  if (!has_deferred()) {
    return {};
  }
  r.now = repeat_mode::verifying;
  ++r.flushes;
  // The period is kept alive, since the calls below may end its use.
  const std::shared_ptr<recorded_period> all = r.recorded;
  for (std::size_t i = 0; i < r.position; ++i) {
    const recorded_call& call = all->calls[i];
    if (call.series) {
      WEIR_CHECK(enter_series(call.hash, *call.series));
      continue;
    }
    WEIR_CHECK(enter(call.hash, call.with, call.name, call.accesses));
    WEIR_TRY(const bool runs, count_task(call.with, call.accesses.size()));
    if (runs) {
      if (auto started = call.start(steps_); !started) {
        return fail(std::move(started).error());
      }
    }
  }
  return {};
}

/// Submits deferred calls while another world waits: the other ranks may need their
/// pieces before they come to that wait, because they need not defer the same calls. A
/// failure is reported by the next call.
/// Not while this world waits itself, whose calls are then under way, and not with passed
/// steps, which the program may take back.
bool world::ranked::submit_deferred_for_others() {
  if (waits_inside_ != 0 || !has_deferred() || repetition_.passed != 0 ||
      ++held_rounds_ < rounds_before_submission) {
    return false;
  }
  held_rounds_ = 0;
  static_cast<void>(disturb());
  return true;
}

/// Ends the use of a recorded period, because the present calls differ from its calls.
///
/// Its memory may still be used by replays that are under way, so it is kept until they
/// have ended.
result<void> world::ranked::stop_following() {
  repetition& r = repetition_;
  const auto submitted = submit_deferred();
  r.retired.push_back(std::move(r.recorded));
  while (!r.retired.empty() && r.retired.front()->has_ended(tasks_)) {
    r.retired.pop_front();
  }
  r.finder.forget();
  r.now = repeat_mode::watching;
  return submitted;
}

/// Submits the deferred calls before a call that is no submission of a step. A loop in
/// which that happens again and again is not followed any more.
/// For example, a loop that waits in the middle of each step flushes every period and
/// replays none.
result<void> world::ranked::disturb() {
  repetition& r = repetition_;
  WEIR_CHECK(submit_deferred());
  return r.follows() && r.flushes > 8 + r.replays ? stop_following() : result<void>();
}

/// Notes that the ledger has changed by something other than the tasks of steps. A whole
/// period must then be submitted as usual before the next replay.
/// A recorded period would include the movement that the change has caused.
void world::ranked::note_ledger_change() {
  repetition& r = repetition_;
  r.is_disturbed = true;
  r.clean_steps = 0;
  if (r.now == repeat_mode::recording) {
    end_recording(false);
  }
}

/// Submits the recorded period again, as a replay of the engine.
///
/// Everything that submissions of these tasks would change is changed here as well: the
/// log of calls, steps, numbers of pieces, counters.
result<void> world::ranked::replay_period() {
  recorded_period& all = *repetition_.recorded;
  // All tasks of the replay must fit into the window at once.
  while (tasks_.in_flight() != 0 &&
         (tasks_.free_slots() < all.tasks.size() || all.is_far_ahead(tasks_))) {
    WEIR_CHECK(advance());
  }
  replay_run& run = all.take_run(tasks_);
  // Steps of the tasks are shifted by so many.
  run.steps = steps_ - all.first_step;
  run.pieces.clear();
  for (const recorded_call& call : all.calls) {
    log_.fold(call.hash);
    log_.note(call.name);
  }
  steps_ += all.steps;
  // Receives are begun before the replay, as for usual pieces.
  for (piece_order what : all.pieces) {
    what.step += run.steps;
    what.number = what.sends ? sent_to_[what.other]++ : received_from_[what.other]++;
    auto begun = pieces_.begin(what);
    if (!begun) {
      return fail(std::move(begun).error());
    }
    run.pieces.push_back(*begun);
  }
  counters_.own_tasks += all.after.own_tasks - all.before.own_tasks;
  counters_.foreign_tasks += all.after.foreign_tasks - all.before.foreign_tasks;
  counters_.pieces_sent += all.after.pieces_sent - all.before.pieces_sent;
  counters_.bytes_sent += all.after.bytes_sent - all.before.bytes_sent;
  auto first = tasks_.replay(all.tasks, &run);
  if (!first) {
    return fail(std::move(first).error());
  }
  // Ids of tasks begin with 1.
  run.oldest = std::max<task_id>(*first, 1);
  run.last = run.oldest + all.tasks.size() - 1;
  ++repetition_.replays;
  auto moved = move_on_at_times();
  return moved ? result<void>() : std::move(moved).error();
}

}  // namespace weir::runtime
