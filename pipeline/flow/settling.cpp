// SPDX-License-Identifier: Apache-2.0
/// @file
/// The end of calls: their tasks have ended, late stages look at the results, and failed
/// items are skipped or stop the run.
///
/// A call ends in three steps: its tasks have ended (`tasks_ended`); the stage looks at
/// them if its face has such a function, and late items are handed on (`settle_front`);
/// and the call lets go of its inputs (`finish`). Calls end in the order in which they
/// began, so items behind a stage keep their order.
#include <algorithm>

#include <fmt/format.h>

#include "flow/stage_run.hpp"
#include "weir/base/utf8.hpp"
#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::flow {
namespace {

/// Returns the message of a failure without the errors of the engine, whose numbers of
/// tasks differ from run to run.
std::string repeatable_text(const error& failure) {
  const error* e = &failure;
  // Errors of the engine have numbers of tasks, which are not the same in each run.
  while ((e->code() == errc::kernel_failed || e->code() == errc::upstream_failed) &&
         e->cause() != nullptr) {
    e = e->cause();
  }
  return e->message();
}

/// Adds an attribute `error` with as much of a text as the attributes have room for. If
/// they have none, it replaces them.
/// A character of UTF-8 is never cut.
void add_error(attributes& to, const std::string& text) {
  to["error"] = std::string();
  // Half of the space is kept for the text.
  if (encoded_size(to) > max_attribute_bytes / 2) {
    to = {{"error", std::string()}};
  }
  // A text of more than 23 bytes has a head of two bytes.
  constexpr std::size_t longer_head = 2;
  const std::size_t capacity =
      std::min(text.size(), max_attribute_bytes - encoded_size(to) - longer_head);
  to["error"] = text.substr(0, utf8_boundary(text, capacity));
}

}  // namespace

/// Returns whether all tasks of a call have ended.
/// `next` remembers how far the tasks were seen to have ended, so that every task is
/// asked about once.
bool stage_run::tasks_ended(call& c) const noexcept {
  // Task numbers of a call need not be contiguous, but they rise.
  while (c.next != 0 && c.next <= c.last && facts_.host->base().ended(c.next)) {
    ++c.next;
  }
  return c.next == 0 || c.next > c.last;
}

/// Ends all calls that can end. Returns whether any did, or whether a loop has made a
/// step.
result<bool> stage_run::settle() {
  // Calls of a sink end when it has written them.
  if (info_.face == face::sink) {
    return false;
  }
  if (plain_) {
    return settle_plainly();
  }
  if (info_.face == face::blocking) {
    return settle_returned();
  }
  bool any = false;
  while (open() != 0) {
    call& c = oldest();
    // Calls behind an open one wait, even if their tasks have ended.
    if (!tasks_ended(c)) {
      break;
    }
    WEIR_TRY(const settling end, settle_front(c));
    // The call waits for space behind the stage, or for another step.
    if (end != settling::ended) {
      return any || end == settling::stepped;
    }
    finish(c);
    ++first_open_;
    any = true;
  }
  return any;
}

/// Looks at the tasks of a call only if the engine has counted failures.
/// @returns the first failure in the order of submission.
std::optional<error> stage_run::failure_of(const call& c) {
  if (c.first == 0 || facts_.host->base().failures() == 0) {
    return std::nullopt;
  }
  // The first task that has failed is the cause of the others.
  for (task_id id = c.first; id <= c.last; ++id) {
    if (auto ended = facts_.host->base().wait(id); !ended) {
      return std::move(ended.error());
    }
  }
  return std::nullopt;
}

/// Notes that no task writes the outputs of a call any more, if its tasks have ended.
/// Other stages write the tensors that the call hands on from its inputs.
// Later stages need no task then to wait for the item.
void stage_run::mark_complete(call& c) noexcept {
  if (c.next != 0 && c.next <= c.last) {
    return;  // on_done has submitted further tasks
  }
  for (std::size_t o = 0; o < pools_.size(); ++o) {
    slot* const made = c.made[o];
    if (made != nullptr && made->home == pools_[o].get()) {
      made->complete = true;
    }
  }
}

/// Notes that no task writes what a call without tasks has handed on. Other stages write
/// the tensors that the call hands on from its inputs.
void stage_run::mark_emitted_complete(call& c) noexcept {
  for (item* one : c.emitted) {
    for (std::size_t o = 0; o < pools_.size(); ++o) {
      slot* const made = one->slots[o];
      if (made != nullptr && made->home == pools_[o].get()) {
        made->complete = true;
      }
    }
  }
}

/// Lets a stage look at a call whose tasks have ended, and hands on what waited for them.
result<stage_run::settling> stage_run::settle_front(call& c) {
  const bool looping = info_.face == face::looping && !c.outcome.gap;
  // What the call may emit must fit, before the stage is asked.
  if ((emits_late() || looping) && !has_output(info_.gives)) {
    ++counters.blocked_output;
    return settling::blocked;
  }
  // A refusal by the stage itself is answered when its tasks have ended.
  if (c.refusal) {
    WEIR_CHECK(answer_failure(c, std::move(*c.refusal)));
    return settling::ended;
  }
  if (auto failed = failure_of(c)) {
    WEIR_CHECK(answer_failure(c, std::move(*failed)));
    return settling::ended;
  }
  if (c.outcome.gap) {
    push_gap(c.seq);
    return settling::ended;
  }
  // A loop may go on with another step.
  if (looping) {
    WEIR_TRY(const settling stepped, call_step(c));
    if (stepped != settling::ended) {
      return stepped;
    }
  } else if (!emits_late()) {
    return settling::ended;
  } else if (info_.face == face::late) {
    // Results are complete, and the stage may look at them.
    WEIR_CHECK(call_done(c));
    if (c.refusal) {
      return settling::stepped;  // `on_done` may have submitted tasks
    }
  }
  // Items whose failures are skipped are handed on only now.
  if (c.outcome.wants_emit) {
    mark_complete(c);
    publish(c);
  }
  // A skipped item goes on as a gap.
  if (c.outcome.skipped) {
    push_gap(c.seq);
  }
  return settling::ended;
}

/// Notes that the stage itself has refused an item, which therefore fails. Returns an
/// error if the run has to stop. What was handed on cannot be taken back.
result<void> stage_run::refuse(call& c, error cause) {
  // What was emitted cannot be taken back, so the run must stop.
  if (!skips_failures_ || !c.emitted.empty()) {
    return at_item(c.seq, std::move(cause));
  }
  c.refusal = std::make_unique<error>(std::move(cause));
  return {};
}

/// Calls `on_done`. An error of it is a refusal of the item.
result<void> stage_run::call_done(call& c) {
  active_ = &c;
  in_on_done_ = true;
  step s(*this);
  tag_tasks();
  auto done = guarded([&] { return object_.on_done(s); });
  in_on_done_ = false;
  active_ = nullptr;
  if (!done) {
    return refuse(c, std::move(done.error()));
  }
  return emitted_once(c, "on_done");
}

/// Lets a step loop work on its item. The tasks and items of the steps before have ended
/// and may go, so that a loop of any length holds what one step makes.
/// Returns `stepped` as long as the loop goes on.
result<stage_run::settling> stage_run::call_step(call& c) {
  let_go_of_emitted(c);
  c.first = c.last = c.next = 0;
  if (c.over) {
    return settling::ended;
  }
  // A step needs memory for what it may emit.
  if (!slots_available()) {
    ++counters.blocked_output;
    return settling::blocked;
  }
  // Every step of such a stage may emit as many items as a call.
  c.outcome.emissions = info_.own_numbering ? 0 : c.outcome.emissions;
  ++c.round;
  active_ = &c;
  step s(*this);
  tag_tasks();
  auto more = guarded([&] { return object_.on_step(s); });
  active_ = nullptr;
  if (!more) {
    WEIR_CHECK(refuse(c, std::move(more.error())));
    return settling::stepped;
  }
  if (*more) {
    return settling::stepped;
  }
  WEIR_CHECK(emitted_once(c, "on_step"));
  c.over = true;
  // Tasks of the last step must end before the call does.
  return c.first == 0 ? settling::ended : settling::stepped;
}

/// Counts an item that failed. Returns an error if the run has to stop.
/// The limit counts the failures of earlier runs, too.
result<void> stage_run::count_failure(std::uint64_t seq, error cause) {
  if (!skips_failures_) {
    return at_item(seq, std::move(cause));
  }
  // The limit is checked before the failure counts.
  if (failures_ == max_failures_) {
    const errc code = cause.code();
    return at_item(seq, error(code, fmt::format("expected at most {} failed items of the "
                                                "stage, found one more",
                                                max_failures_))
                            .because(std::move(cause)));
  }
  ++failures_;
  ++counters.failed;
  // Nested stages report their failures to the run.
  if (facts_.failures_of != nullptr) {
    facts_.failures_of->emplace_back(seq, std::move(cause));
  }
  return {};
}

/// Lets the inputs of a failed call leave through the outlets for failed items.
/// The outlets for failed items are the last ones, one per inlet.
void stage_run::send_to_dead_letters(call& c, const error& cause) {
  const std::size_t first = out_.size() - in_.size();
  for (std::size_t i = 0; i < in_.size(); ++i) {
    // The tensor of the input goes on as it is.
    if (const call::input& one = c.inputs[i]; one.body != nullptr) {
      slot* s = one.body->slots[one.outlet];
      ++s->names;
      c.made[first + i] = s;
    }
  }
  // The attributes are those of the first input, with the error added.
  c.about = {};
  for (const call::input& one : c.inputs) {
    if (one.body != nullptr) {
      c.about = one.body->about;
      break;
    }
  }
  c.outcome.about_set = c.dead_letter = true;
  // A dead letter is emitted even if the stage has skipped the item.
  c.outcome.skipped = c.outcome.wants_emit = false;
  add_error(c.about, repeatable_text(cause));
}

/// Ends a failed call: memory that its tasks may still write is replaced, and a gap or
/// the failed inputs go on.
result<void> stage_run::answer_failure(call& c, error cause) {
  WEIR_CHECK(count_failure(c.seq, cause));
  // A slot with one name is used by this call alone.
  for (slot* s : c.made) {
    if (s != nullptr && s->names == 1) {
      WEIR_CHECK(s->home->replace(*s));
    }
  }
  for (slot* s : c.scratch) {
    if (s != nullptr) {
      WEIR_CHECK(s->home->replace(*s));
    }
  }
  if (info_.dead_letters() == 0) {
    push_gap(c.seq);
    return {};
  }
  // What the stage has made is dropped.
  drop_made(c);
  send_to_dead_letters(c, cause);
  publish(c);
  return {};
}

}  // namespace weir::flow
