// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sizes of chunks, their order over lanes and phases, and the pulses they form.
///
/// A slot is a pulse that is being put together: one cell per lane, each absent, ordered
/// or ready. Orders go out before the answers to earlier ones have come, so the plan must
/// know that a budget suffices even if every chunk comes back whole: `granted_` counts
/// the tokens of outstanding orders at their full size. Where the last tokens of a budget
/// are concerned, it waits for all answers first. The order of the orders, and therefore
/// of the tokens, does not depend on the times of the answers.
#include "stages/prose/chunk_plan.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::actors {

/// Tokens of all lanes of the pulse.
std::uint64_t pulse_chunks::tokens() const {
  std::uint64_t sum = 0;
  for (const auto& lane : lanes) {
    sum += lane ? lane->tokens.size() : 0;
  }
  return sum;
}

/// A chunk predicts all its tokens but the first, which the chunk before it predicts, and
/// the lookahead.
std::uint64_t pulse_chunks::ends_of_text(std::uint32_t separator) const {
  std::uint64_t sum = 0;
  for (const auto& lane : lanes) {
    if (lane) {
      const auto in_chunk =
          std::count(lane->tokens.begin() + 1, lane->tokens.end(), separator);
      sum +=
          static_cast<std::uint64_t>(in_chunk) + (lane->lookahead == separator ? 1 : 0);
    }
  }
  return sum;
}

/// Upper bound of the pulses of a phase: the budget in tokens, or its limit in pulses.
std::uint64_t max_pulses(const phase_budget& budget,
                         std::uint64_t pulse_tokens) noexcept {
  const std::uint64_t pulses =
      budget.tokens / pulse_tokens + (budget.tokens % pulse_tokens != 0 ? 1 : 0);
  return budget.pulses != 0 ? std::min(budget.pulses, pulses) : pulses;
}

/// `phase_count` stands for a name that is no phase.
std::size_t number_of_phase(std::string_view name) noexcept {
  constexpr std::array<std::string_view, phase_count> names = {"build", "test", "stream"};
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) -
                                  names.begin());
}

bool are_phases(const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return number_of_phase(name) < phase_count;
  });
}

/// Build, Test and Stream, all from the main source.
phase_steps standard_steps() {
  phase_steps steps;
  for (std::size_t phase = 0; phase < phase_count; ++phase) {
    steps.push_back({phase, 0});
  }
  return steps;
}

/// @param used  What each step had used before; shorter than the steps for a new run.
chunk_plan::chunk_plan(settings s, std::span<const phase_use> used)
    : settings_(std::move(s)), used_(used.begin(), used.end()) {
  used_.resize(settings_.steps.size());
  std::size_t streams = 0;
  for (const phase_step& one : settings_.steps) {
    streams = std::max(streams, one.stream + 1);
  }
  ended_.assign(streams, std::vector<bool>(settings_.lanes, false));
  if (!used_.empty()) {
    tokens_ = used_[0].tokens;
    slots_ = used_[0].pulses;
  }
}

/// Returns the budget of the step. @pre There is one.
const phase_budget& chunk_plan::budget() const noexcept {
  return settings_.budgets[settings_.steps[step_].phase];
}

/// Returns the tokens of the step's budget that have not been received.
std::uint64_t chunk_plan::left() const noexcept {
  const std::uint64_t tokens = step_ < settings_.steps.size() ? budget().tokens : 0;
  return tokens > tokens_ ? tokens - tokens_ : 0;
}

/// A source that has ended for all lanes ends the steps that read from it.
bool chunk_plan::all_ended(std::size_t stream) const noexcept {
  const auto& lanes = ended_[stream];
  return std::find(lanes.begin(), lanes.end(), false) == lanes.end();
}

/// Goes on to the next step, with what it had used before a resume.
void chunk_plan::close_step() {
  ++step_;
  tokens_ = step_ < used_.size() ? used_[step_].tokens : 0;
  slots_ = step_ < used_.size() ? used_[step_].pulses : 0;
}

/// Opens the next slot, if the budget is certain to leave at least one token for it. A
/// step whose budget is used up or whose stream has ended is closed. Returns false if the
/// answer to an outstanding order is needed to decide, or if nothing more will come.
bool chunk_plan::open_slot() {
  // Steps are closed one after another until one has something left.
  while (step_ < settings_.steps.size()) {
    const bool ended = all_ended(settings_.steps[step_].stream);
    const std::uint64_t pulses = budget().pulses;
    // The budget of the step is used up, in tokens or in pulses.
    const bool over = left() == 0 || (pulses != 0 && slots_ >= pulses);
    if (!over && !ended && left() > granted_) {
      ++slots_;
      open_.push_back(slot{step_, std::vector<cell>(settings_.lanes), 0});
      return true;
    }
    if (granted_ != 0) {
      return false;  // chunks may come back shorter, so wait until all have
    }
    // The report says that a source was too short for its budget.
    ended_early_ = ended_early_ || (ended && !over);
    close_step();
  }
  return false;
}

/// Orders chunks for the remaining lanes of a slot. Returns false if the size of the next
/// order depends on answers that are still outstanding.
// The last chunk of a budget is shorter, and its size is known only without open orders.
bool chunk_plan::fill_slot(slot& s, chunk_orders& out) {
  const std::size_t stream = settings_.steps[s.step].stream;
  const auto& ended = ended_[stream];
  for (; s.assigned < settings_.lanes; ++s.assigned) {
    cell& c = s.cells[s.assigned];
    // The budget covers a whole chunk even if all open orders come back whole.
    const bool whole = left() >= granted_ + settings_.chunk;
    if (!whole && granted_ != 0 && !ended[s.assigned]) {
      return false;
    }
    const std::uint64_t tokens = std::min(settings_.chunk, left());
    // The lane has ended, or nothing of the budget is left: the pulse is without it.
    if (ended[s.assigned] || tokens == 0) {
      c.state = cell_state::absent;
      continue;
    }
    c.state = cell_state::ordered;
    granted_ += tokens;
    ++orders_out_;
    out.push_back({s.assigned, tokens, stream});
  }
  return true;
}

/// Returns the orders that can be given now, with at most `slots` pulses under way.
chunk_orders chunk_plan::take_orders(std::size_t slots) {
  chunk_orders out;
  drop_empty_slots();
  while (true) {
    const bool filled = open_.empty() || open_.back().assigned == settings_.lanes ||
                        fill_slot(open_.back(), out);
    if (!filled || open_.size() >= slots || !open_slot()) {
      return out;
    }
  }
}

/// Gives back the whole ordered size, of which the chunk may use less.
/// An answer without a chunk says that the lane has ended.
result<void> chunk_plan::resolve(chunk_reply reply) {
  const std::uint32_t lane = reply.order.lane;
  // Answers of a lane come in the order of its orders: this one belongs to the first slot
  // in which the lane waits.
  const auto waiting = lane >= settings_.lanes
                           ? open_.end()
                           : std::find_if(open_.begin(), open_.end(), [&](const slot& s) {
                               return s.cells[lane].state == cell_state::ordered;
                             });
  // A reply that no order explains is a mistake of the program.
  const std::uint64_t tokens = reply.chunk ? reply.chunk->tokens.size() : 0;
  if (waiting == open_.end() || tokens > reply.order.tokens ||
      (reply.chunk && tokens == 0)) {
    return error(
        errc::internal,
        fmt::format("taking a chunk of lane {} failed: expected an answer to an order of "
                    "{} tokens, found {} tokens",
                    lane, reply.order.tokens, tokens));
  }
  // What was granted and not used is available again.
  granted_ -= reply.order.tokens;
  --orders_out_;
  tokens_ += tokens;
  auto& ended = ended_[settings_.steps[waiting->step].stream];
  cell& c = waiting->cells[lane];
  c.state = reply.chunk ? cell_state::ready : cell_state::absent;
  ended[lane] = ended[lane] || !reply.chunk;
  c.chunk = std::move(reply.chunk);
  return {};
}

/// Removes slots in which no lane has a chunk, because all lanes have ended: they become
/// no pulses.
void chunk_plan::drop_empty_slots() {
  std::erase_if(open_, [&](const slot& s) {
    return s.assigned == settings_.lanes &&
           std::all_of(s.cells.begin(), s.cells.end(),
                       [](const cell& c) { return c.state == cell_state::absent; });
  });
}

/// True if the oldest slot has an answer for every lane. Pulses keep the order of slots.
bool chunk_plan::ready() {
  drop_empty_slots();
  if (open_.empty() || open_.front().assigned < settings_.lanes) {
    return false;
  }
  const auto& cells = open_.front().cells;
  return std::none_of(cells.begin(), cells.end(),
                      [](const cell& c) { return c.state == cell_state::ordered; });
}

/// Returns the chunks of the next pulse once all of its lanes have been answered.
std::optional<pulse_chunks> chunk_plan::take_pulse() {
  if (!ready()) {
    return std::nullopt;
  }
  pulse_chunks out;
  out.step = open_.front().step;
  out.phase = settings_.steps[out.step].phase;
  out.stream = settings_.steps[out.step].stream;
  for (cell& c : open_.front().cells) {
    out.lanes.push_back(std::move(c.chunk));
  }
  open_.pop_front();
  return out;
}

/// True if nothing more will come.
bool chunk_plan::exhausted() {
  drop_empty_slots();
  const std::size_t steps = settings_.steps.size();
  if (open_.empty() && granted_ == 0 && step_ < steps && open_slot()) {
    // The question has opened the next slot, which `take_orders` will fill.
    return false;
  }
  return open_.empty() && granted_ == 0 && step_ == steps;
}

}  // namespace weir::actors
