// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sizes of chunks, their order over lanes and phases, and the pulses they form.
#include "stages/prose/chunk_plan.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::actors {

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

std::uint64_t max_pulses(const phase_budget& budget,
                         std::uint64_t pulse_tokens) noexcept {
  const std::uint64_t pulses =
      budget.tokens / pulse_tokens + (budget.tokens % pulse_tokens != 0 ? 1 : 0);
  return budget.pulses != 0 ? std::min(budget.pulses, pulses) : pulses;
}

chunk_plan::chunk_plan(settings s, const phase_uses& used)
    : settings_(std::move(s)), used_(used), ended_(settings_.lanes, false) {
  tokens_ = used_[0].tokens;
  slots_ = used_[0].pulses;
}

/// Returns the tokens of the phase's budget that have not been received.
std::uint64_t chunk_plan::left() const noexcept {
  const std::uint64_t budget =
      phase_ < phase_count ? settings_.budgets[phase_].tokens : 0;
  return budget > tokens_ ? budget - tokens_ : 0;
}

bool chunk_plan::all_ended() const noexcept {
  return std::find(ended_.begin(), ended_.end(), false) == ended_.end();
}

/// Goes on to the next phase, with what it had used before a resume.
void chunk_plan::close_phase() {
  ++phase_;
  tokens_ = phase_ < phase_count ? used_[phase_].tokens : 0;
  slots_ = phase_ < phase_count ? used_[phase_].pulses : 0;
}

/// Opens the next slot, if the budget is certain to leave at least one token for it. A
/// phase whose budget is used up is closed. Returns false if the answer to an outstanding
/// order is needed to decide, or if nothing more will come.
bool chunk_plan::open_slot() {
  while (phase_ < phase_count) {
    if (all_ended()) {
      ended_early_ = left() > 0;
      phase_ = phase_count;
      break;
    }
    const std::uint64_t pulses = settings_.budgets[phase_].pulses;
    const bool over = left() == 0 || (pulses != 0 && slots_ >= pulses);
    if (!over && left() > granted_) {
      ++slots_;
      open_.push_back(slot{phase_, std::vector<cell>(settings_.lanes), 0});
      return true;
    }
    if (granted_ != 0) {
      return false;  // chunks may come back shorter, so wait until all have
    }
    close_phase();
  }
  return false;
}

/// Orders chunks for the remaining lanes of a slot. Returns false if the size of the next
/// order depends on answers that are still outstanding.
bool chunk_plan::fill_slot(slot& s, chunk_orders& out) {
  for (; s.assigned < settings_.lanes; ++s.assigned) {
    cell& c = s.cells[s.assigned];
    const bool whole = left() >= granted_ + settings_.chunk;
    if (!whole && granted_ != 0 && !ended_[s.assigned]) {
      return false;
    }
    const std::uint64_t tokens = std::min(settings_.chunk, left());
    if (ended_[s.assigned] || tokens == 0) {
      c.state = cell_state::absent;
      continue;
    }
    c.state = cell_state::ordered;
    granted_ += tokens;
    ++orders_out_;
    out.push_back({s.assigned, tokens});
  }
  return true;
}

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
result<void> chunk_plan::resolve(chunk_reply reply) {
  const std::uint32_t lane = reply.order.lane;
  // Answers of a lane come in the order of its orders: this one belongs to the first slot
  // in which the lane waits.
  const auto waiting = lane >= settings_.lanes
                           ? open_.end()
                           : std::find_if(open_.begin(), open_.end(), [&](const slot& s) {
                               return s.cells[lane].state == cell_state::ordered;
                             });
  const std::uint64_t tokens = reply.chunk ? reply.chunk->tokens.size() : 0;
  if (waiting == open_.end() || tokens > reply.order.tokens ||
      (reply.chunk && tokens == 0)) {
    return error(
        errc::internal,
        fmt::format("taking a chunk of lane {} failed: expected an answer to an order of "
                    "{} tokens, found {} tokens",
                    lane, reply.order.tokens, tokens));
  }
  granted_ -= reply.order.tokens;
  --orders_out_;
  tokens_ += tokens;
  cell& c = waiting->cells[lane];
  c.state = reply.chunk ? cell_state::ready : cell_state::absent;
  ended_[lane] = ended_[lane] || !reply.chunk;
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
  out.phase = open_.front().phase;
  for (cell& c : open_.front().cells) {
    out.lanes.push_back(std::move(c.chunk));
  }
  open_.pop_front();
  return out;
}

bool chunk_plan::exhausted() {
  drop_empty_slots();
  if (open_.empty() && granted_ == 0 && phase_ < phase_count && open_slot()) {
    // The question has opened the next slot, which `take_orders` will fill.
    return false;
  }
  return open_.empty() && granted_ == 0 && phase_ == phase_count;
}

}  // namespace weir::actors
