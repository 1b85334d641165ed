// SPDX-License-Identifier: Apache-2.0
/// @file
/// Issuing and committing of pulses, and the metrics that a commit updates.
#include "conductor/conductor_state.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::actors {

bool save_gate::pass(std::uint64_t before, std::uint64_t after) noexcept {
  due_ = due_ || (every_ != 0 && after / every_ > before / every_);
  if (!due_ || busy_) {
    return false;
  }
  due_ = false;
  busy_ = true;
  return true;
}

conductor_state::conductor_state(settings s, conductor_record record,
                                 run_accounts accounts)
    : settings_(std::move(s)),
      record_(std::move(record)),
      accounts_(std::move(accounts)),
      plan_({settings_.lanes, settings_.chunk, settings_.budgets}, record_.used),
      gate_(settings_.every_tokens),
      marks_(settings_.lanes),
      issued_pulses_(record_.pulses),
      issued_tokens_(record_.tokens),
      issued_updates_(record_.used[0].pulses) {
  record_.reset_due.resize(settings_.lanes, 0);
  reset_due_ = record_.reset_due;
  build_base_ns_ = accounts_.build_ns;
  kernel_base_ns_ = accounts_.kernel_ns;
  stall_base_ns_ = accounts_.stall_ns;
}

/// Returns the chunks to order now. With prefetching, a fixed number of pulses is
/// prepared ahead. Without it, chunks are ordered only when their pulse can be issued at
/// once.
chunk_orders conductor_state::take_orders() {
  if (draining_) {
    return {};
  }
  const std::size_t free_window =
      settings_.window - std::min(settings_.window, pulses_in_flight_.size());
  const std::size_t slots = settings_.prefetch == 0
                                ? std::min<std::size_t>(free_window, 1)
                                : static_cast<std::size_t>(settings_.prefetch);
  // Chunks are ordered in batches, because a message with many orders costs as much as
  // one with a single order. New slots are therefore opened only when half of them are
  // used up. A slot that waits for its last lanes is filled in any case.
  const bool enough = plan_.prepared() > slots / 2;
  return slots == 0 ? chunk_orders{}
                    : plan_.take_orders(enough ? plan_.prepared() : slots);
}

/// Adds the lanes whose contexts are emptied before this pulse to the order, and notes
/// those that are to be emptied before their next chunk. A boundary at the start of a
/// chunk belongs to this pulse, and a later one in it to the next.
void conductor_state::note_boundaries(const pulse_chunks& chunks, pulse_order& order) {
  if (settings_.boundary == storage::boundary_policy::never) {
    return;
  }
  for (std::uint32_t lane = 0; lane < settings_.lanes; ++lane) {
    if (!chunks.lanes[lane]) {
      continue;
    }
    const auto& boundaries = chunks.lanes[lane]->boundaries;
    const bool before = !boundaries.empty() && boundaries.front() == 0;
    if (reset_due_[lane] != 0 || before) {
      order.resets.push_back(lane);
    }
    reset_due_[lane] = !boundaries.empty() && boundaries.back() > 0 ? 1 : 0;
  }
}

/// Returns the pulses to issue now, if the window has room for a whole batch. A batch
/// ends early at a pulse after which a snapshot is due, because the snapshot is requested
/// behind the batch.
std::optional<issued_pulses> conductor_state::take_pulses(std::int64_t now_ns) {
  issued_pulses out;
  if (draining_ || pulses_in_flight_.size() + settings_.batch > settings_.window) {
    return std::nullopt;
  }
  while (out.orders.size() < settings_.batch && !out.snapshot_after) {
    auto next = take_pulse(now_ns);
    if (!next) {
      break;
    }
    out.orders.push_back(std::move(*next));
    out.snapshot_after = pulses_in_flight_.back().snapshot;
  }
  return out.orders.empty() ? std::nullopt : std::optional(std::move(out));
}

/// Makes the order of the next pulse from its chunks, and notes in a flight what `commit`
/// will need. All counters here are those of issued pulses; the record has those of
/// committed ones. The levels of the model that are updated follow from the positions of
/// the tokens, in the Build phase only.
std::optional<pulse_order> conductor_state::take_pulse(std::int64_t now_ns) {
  auto chunks = plan_.take_pulse();
  if (!chunks) {
    return std::nullopt;
  }
  pulse_order order;
  note_boundaries(*chunks, order);
  models::pulse& p = order.pulse;
  p.id = issued_pulses_++;
  p.phase = static_cast<models::pulse_phase>(chunks->phase);
  p.update = issued_updates_;
  p.total_updates = record_.total_updates;
  pulse_in_flight f;
  f.tokens = chunks->tokens();
  f.ends_of_text = chunks->ends_of_text();
  for (const auto& lane : chunks->lanes) {
    if (lane) {
      f.marks.push_back(lane->mark);
      const std::uint64_t from = lane->lane_position;
      p.active_levels |= p.phase == models::pulse_phase::build
                             ? models::active_mask(settings_.frequencies, from,
                                                   from + lane->tokens.size())
                             : 0;
    }
  }
  if (p.phase == models::pulse_phase::build) {
    ++issued_updates_;
    build_start_ns_ = build_began_ ? build_start_ns_ : now_ns;
    build_began_ = true;
  }
  f.snapshot = gate_.pass(issued_tokens_, issued_tokens_ + f.tokens);
  issued_tokens_ += f.tokens;
  f.pulse = p;
  f.reset_due = reset_due_;
  order.lanes = std::move(chunks->lanes);
  order.more_follow = !plan_.exhausted();
  pulses_in_flight_.push_back(std::move(f));
  return order;
}

/// Adds the likelihood of a pulse to the metrics and to the learning curve.
void conductor_state::count_scores(const pulse_in_flight& f,
                                   const models::pulse_result& r) {
  const std::uint64_t bytes = r.scored - std::min(r.scored, f.ends_of_text);
  accounts_.count({f.pulse.phase, f.tokens, r.nats_q32, bytes}, record_.used[0].tokens,
                  {settings_.budgets[0].tokens, settings_.curve_window});
}

/// Updates the times of the Build phase: those of this process are added to those before
/// a resume.
void conductor_state::count_times(const pulse_in_flight& f, const pulse_done& done,
                                  std::int64_t now_ns) {
  if (f.pulse.phase == models::pulse_phase::build) {
    accounts_.build_ns = build_base_ns_ + (now_ns - build_start_ns_);
    accounts_.kernel_ns = kernel_base_ns_ + done.kernel_ns;
    accounts_.stall_ns = stall_base_ns_ + done.stall_ns;
  }
}

/// Makes the effects of a completed pulse final. Pulses complete in the order of their
/// issue; anything else is a fault of the program. Record, marks and accounts change
/// together here, so a boundary always describes a state between two pulses.
result<void> conductor_state::commit(const pulse_done& done, std::int64_t now_ns) {
  if (pulses_in_flight_.empty() || pulses_in_flight_.front().pulse.id != done.pulse_id) {
    return error(
        errc::internal,
        fmt::format("committing pulse {} failed: expected pulse {}", done.pulse_id,
                    pulses_in_flight_.empty() ? record_.pulses
                                              : pulses_in_flight_.front().pulse.id));
  }
  const pulse_in_flight f = std::move(pulses_in_flight_.front());
  pulses_in_flight_.pop_front();
  for (const observer& o : observers_) {
    o(pulse_view{f.pulse, done.result, f.tokens});
  }
  count_scores(f, done.result);
  count_times(f, done, now_ns);
  for (const storage::chunk_mark& mark : f.marks) {
    marks_[mark.lane] = mark;
  }
  record_.reset_due = f.reset_due;
  auto& used = record_.used[static_cast<std::size_t>(f.pulse.phase)];
  used.tokens += f.tokens;
  used.pulses += 1;
  record_.tokens += f.tokens;
  record_.pulses += 1;
  phase_ = f.pulse.phase;
  if (f.snapshot) {
    boundaries_.push_back(boundary_now());
  }
  return {};
}

/// Returns the state after the last committed pulse, encoded, so that later commits do
/// not change it.
boundary conductor_state::boundary_now() const {
  boundary b;
  b.pulses = record_.pulses;
  b.tokens = record_.tokens;
  for (const auto& mark : marks_) {
    if (mark) {
      b.marks.push_back(*mark);
    }
  }
  run_accounts accounts = accounts_;
  accounts.generations += 1;  // counts the checkpoint that this boundary becomes
  b.conductor = encode(record_);
  b.metrics = encode(accounts);
  return b;
}

std::optional<boundary> conductor_state::take_boundary() {
  if (boundaries_.empty()) {
    return std::nullopt;
  }
  boundary b = std::move(boundaries_.front());
  boundaries_.pop_front();
  return b;
}

bool conductor_state::at_rest() {
  return pulses_in_flight_.empty() && (draining_ || plan_.exhausted());
}

}  // namespace weir::actors
