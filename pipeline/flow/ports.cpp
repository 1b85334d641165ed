// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sources and sinks on the host's thread: granting empty items, taking them back filled,
/// and handing complete items out.
///
/// Granted blanks form a ring. From the oldest: `held_` filled items that a joined source
/// may not hand on yet, and then items that are with the source; together they are
/// `granted_`. The number of a blank is that of the item that it becomes.
#include <algorithm>

#include <fmt/format.h>

#include "flow/stage_run.hpp"
#include "weir/base/clock.hpp"

namespace weir::flow {

/// Items of varying size are granted one at a time, because their bytes are known only
/// when they come back.
/// Returns null if nothing may be granted. @param before  First number that is not
/// granted.
blank* stage_run::grant(std::uint64_t before) {
  // Numbers of blanks that are with the source count.
  const std::uint64_t number = next_seq_ + granted_;
  if (end_read_ || number >= before || granted_ == max_grants_ ||
      !has_output(static_cast<std::uint32_t>(granted_) + 1)) {
    return nullptr;
  }
  for (const auto& pool : pools_) {
    if (!pool->available(1) || (!pool->fixed() && granted_ != 0)) {
      return nullptr;
    }
  }
  blank& b = *blanks_[(first_blank_ + granted_) & (blanks_.size() - 1)];
  ++granted_;
  b.stage = this;
  b.seq = number;
  b.granted_ns = facts_.recorder != nullptr ? now_ns() : 0;
  b.filled = {};
  b.nothing_yet = b.about_final = false;
  b.wants_mark = joined_;
  // Slots without a tensor; the source names them.
  for (std::size_t o = 0; o < pools_.size(); ++o) {
    b.slots[o] = &pools_[o]->take_blank();
  }
  return &b;
}

/// Tells without a change whether `grant` would succeed so often.
bool stage_run::can_grant(std::uint32_t count, std::uint64_t before) const noexcept {
  const std::uint64_t number = next_seq_ + granted_;
  if (end_read_ || number >= before) {
    return false;
  }
  const bool fixed = std::all_of(pools_.begin(), pools_.end(),
                                 [](const auto& pool) { return pool->fixed(); });
  // Of varying sizes one item is granted at a time.
  const std::uint64_t wanted =
      fixed ? std::min<std::uint64_t>(count, before - number) : 1;
  // The same conditions as for one item, for all of them.
  return granted_ + wanted <= max_grants_ &&
         has_output(static_cast<std::uint32_t>(granted_ + wanted)) &&
         std::all_of(pools_.begin(), pools_.end(),
                     [&](const auto& pool) { return pool->available(wanted); });
}

/// The memory of an item that is skipped returns to its pools at once.
/// The number becomes a gap behind the source.
void stage_run::skip_delivered(blank& filled) {
  for (std::size_t o = 0; o < pools_.size(); ++o) {
    pools_[o]->settle(*filled.slots[o]);
    pools_[o]->drop(*filled.slots[o]);
  }
  filled.about.clear();
  push_gap(next_seq_++);
}

/// Names the slots of a filled item in the call that hands it on.
/// A slot that was not filled returns to its pool.
void stage_run::fill_made(call& c, blank& filled) {
  for (std::size_t o = 0; o < pools_.size(); ++o) {
    if (!pools_[o]) {
      continue;  // an outlet for failed items
    }
    slot& s = *filled.slots[o];
    pools_[o]->settle(s);
    if (filled.filled[o]) {
      c.made[o] = &s;
    } else {
      pools_[o]->drop(s);
    }
  }
  // The attributes of a blank are final when it comes back.
  if (!filled.about.empty() || filled.about_final) {
    c.about = std::move(filled.about);
    c.outcome.about_set = true;
    filled.about = {};
  }
}

bool stage_run::any_filled(const blank& filled) const noexcept {
  return std::any_of(filled.filled.begin(),
                     filled.filled.begin() + static_cast<std::ptrdiff_t>(pools_.size()),
                     [](bool one) { return one; });
}

/// Blanks come back in the order in which they were granted.
result<void> stage_run::deliver(blank& filled) {
  WEIR_EXPECT(has_grants() && filled.seq == next_seq_ + held_);
  // The item waits until the others of its group have read the number.
  if (joined_) {
    ++held_;
    return {};
  }
  return hand_on(filled);
}

/// Hands on held items with numbers below `before`, each with the mark behind it.
result<void> stage_run::release(std::uint64_t before) {
  while (held_ != 0 && next_seq_ < before) {
    blank& oldest = *blanks_[first_blank_ & (blanks_.size() - 1)];
    --held_;
    here_ = std::move(oldest.mark);
    WEIR_CHECK(hand_on(oldest));
  }
  // The end comes behind the last held item.
  if (end_read_ && held_ == 0 && !ended_) {
    push_end();
  }
  return {};
}

/// Makes an item of the oldest blank and pushes it on the edges.
result<void> stage_run::hand_on(blank& filled) {
  if (plain_ && hand_on_plainly(filled)) {
    return {};
  }
  return hand_on_checked(filled);
}

/// The same for an item of any form.
result<void> stage_run::hand_on_checked(blank& filled) {
  ++first_blank_;
  --granted_;
  // A number that the user wants to skip was read and is dropped here.
  if (facts_.skipped.contain(filled.seq)) {
    skip_delivered(filled);
    return {};
  }
  // Sources have no input; a call is used for the moment only.
  call& c = current();
  fill_made(c, filled);
  if (!any_filled(filled)) {
    return at_item(filled.seq, error(errc::invalid_argument,
                                     "next has returned true: expected an item with at "
                                     "least one tensor, found none"));
  }
  if (auto fits = check_attributes(c); !fits) {
    return at_item(filled.seq, std::move(fits.error()));
  }
  c.seq = next_seq_++;
  ++counters.items;
  // The time in the trace is that of granting.
  c.taken_ns = filled.granted_ns;
  publish(c);
  finish(c);
  return {};
}

/// The newest blanks are taken back, so that the numbers before them stay.
void stage_run::take_back_grants() noexcept {
  while (has_grants()) {
    --granted_;
    blank& b = *blanks_[(first_blank_ + granted_) & (blanks_.size() - 1)];
    // The slots return without having been filled.
    for (std::size_t o = 0; o < pools_.size(); ++o) {
      pools_[o]->take_back(*b.slots[o]);
    }
    b.about.clear();
  }
}

/// Notes the end. Items that are held go before it.
void stage_run::end_source(blank& unused, const small_record& cursor) {
  WEIR_EXPECT(unused.seq == next_seq_ + held_);
  take_back_grants();
  final_cursor_ = cursor;
  end_read_ = true;
  if (held_ == 0) {
    push_end();
  }
}

/// The end is an entry without a number.
void stage_run::push_end() {
  ended_ = true;
  push_marker(entry_kind::end, ~std::uint64_t{0});
}

/// Items are handed out in order, each when the tasks that write it have ended.
result<const ready*> stage_run::next_ready() {
  if (handed_out_ == open()) {
    return nullptr;
  }
  const std::size_t place = (first_open_ + handed_out_) & (ring_size_ - 1);
  call& c = calls_[place];
  if (c.last != 0) {
    WEIR_TRY(const bool is_there, tasks_wrote(c));
    if (!is_there) {
      return nullptr;
    }
  }
  ++handed_out_;
  ready_[place].holder = &c;
  return &ready_[place];
}

/// Returns whether the tasks in front of an item have ended. A failure of one is an
/// error.
result<bool> stage_run::tasks_wrote(const call& c) {
  if (!facts_.host->base().ended(c.last)) {
    return false;
  }
  if (auto failed = failure_of(c)) {
    return at_item(c.seq, std::move(*failed));
  }
  return true;
}

/// Lets go of the oldest item of a sink, which has written it.
void stage_run::done() {
  WEIR_EXPECT(handed_out_ != 0);
  --handed_out_;
  call& c = oldest();
  // The call of a sink has no outputs.
  if (plain_) {
    latency.written(std::min(facts_.turn_ns, c.inputs.front().body->left_source_ns));
    finish_plainly(c);
  } else {
    latency.written(left_source(c));
    finish(c);
  }
  ++first_open_;
}

}  // namespace weir::flow
