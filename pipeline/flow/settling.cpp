// SPDX-License-Identifier: Apache-2.0
/// @file
/// The end of calls: their tasks have ended, late stages look at the results, and failed
/// items are skipped or stop the run.
#include <fmt/format.h>

#include "flow/stage_run.hpp"
#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::flow {

result<bool> stage_run::settle() {
  if (info_.face == face::sink) {
    return false;
  }
  bool any = false;
  while (open() != 0) {
    call& c = oldest();
    while (c.next != 0 && c.next <= c.last && facts_.host->base().ended(c.next)) {
      ++c.next;
    }
    if (c.next != 0 && c.next <= c.last) {
      break;
    }
    WEIR_TRY(const bool ended, settle_front(c));
    if (!ended) {
      break;
    }
    finish(c);
    ++first_open_;
    any = true;
  }
  return any;
}

/// Looks at the tasks of a call only if the engine has counted new failures.
std::optional<error> stage_run::failure_of(const call& c) {
  if (c.first == 0) {
    return std::nullopt;
  }
  const runtime::engine_counters now = facts_.host->base().counters();
  if (now.failed + now.poisoned == 0) {
    return std::nullopt;
  }
  for (task_id id = c.first; id <= c.last; ++id) {
    if (auto ended = facts_.host->base().wait(id); !ended) {
      return std::move(ended.error());
    }
  }
  return std::nullopt;
}

/// Returns false if the call cannot end yet, because its item cannot be handed on.
result<bool> stage_run::settle_front(call& c) {
  if (emits_late() && !has_output(info_.gives)) {
    ++counters.blocked_output;
    return false;
  }
  if (auto failed = failure_of(c)) {
    WEIR_CHECK(answer_failure(c, std::move(*failed)));
    return true;
  }
  if (!emits_late()) {
    return true;
  }
  if (c.gap) {
    push_gap(c.seq);
    return true;
  }
  if (info_.face == face::late) {
    active_ = &c;
    in_on_done_ = true;
    step s(*this);
    auto done = guarded([&] { return object_.on_done(s); });
    in_on_done_ = false;
    active_ = nullptr;
    if (!done) {
      return at_item(c.seq, std::move(done.error()));
    }
    if (!info_.own_numbering && c.emissions + (c.skipped ? 1U : 0U) != 1) {
      return at_item(c.seq,
                     error(errc::invalid_argument,
                           fmt::format("on_done must emit once or skip: expected one of "
                                       "the two, found {} items{}",
                                       c.emissions, c.skipped ? " and skip" : "")));
    }
  } else if (c.wants_emit) {
    publish(c);
  }
  if (c.skipped) {
    push_gap(c.seq);
  }
  return true;
}

result<void> stage_run::answer_failure(call& c, error cause) {
  if (!skips_failures_) {
    return at_item(c.seq, std::move(cause));
  }
  ++counters.failed;
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
  push_gap(c.seq);
  return {};
}

}  // namespace weir::flow
