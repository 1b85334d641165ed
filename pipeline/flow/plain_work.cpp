// SPDX-License-Identifier: Apache-2.0
/// @file
/// The short path of plain stages: sources with one outlet, sinks with one inlet, and
/// stages that make one item of each item of one inlet. They do what `stage_run::grant`,
/// `hand_on`, `take`, `publish`, `finish`, `settle`, `next_ready` and `done` do, without
/// the cases that such a stage cannot have. Most stages of most pipelines are plain, so
/// the cost of a hop is decided here.
#include "flow/stage_run.hpp"

#include <algorithm>

#include "weir/base/clock.hpp"
#include "weir/pipeline/host/execution.hpp"
#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::flow {

/// Decided once, when the stage is allocated.
bool stage_run::is_plain() const noexcept {
  if (facts_.alone) {
    return false;
  }
  if (info_.face == face::sink) {
    return in_.size() == 1 && info_.takes == 1;
  }
  if (info_.face == face::source) {
    return out_.size() == 1 && pools_.front() && !info_.own_numbering;
  }
  return info_.face == face::task && in_.size() == 1 && !has_feedback_ &&
         out_.size() == 1 && info_.takes == 1 && info_.gives == 1 &&
         !info_.own_numbering && !skips_failures_ && scratch_.empty();
}

/// Pushes an item on the edges behind a plain stage. Without memory it is a gap there.
/// The number on a feedback edge is later by its delay.
[[gnu::always_inline]] inline void stage_run::push_plainly(item& one, const slot* memory,
                                                           std::uint64_t number) {
  if (only_to_ != nullptr && memory != nullptr) {
    only_to_->push(one, number, memory->bytes);
    return;
  }
  for (const target& t : out_.front()) {
    if (memory != nullptr) {
      t.to->push(one, number + t.delay, memory->bytes);
    } else {
      t.to->push_gap(number + t.delay);
    }
  }
}

/// Notes that no task writes what a call of a plain stage has made in memory of `pool`.
inline void mark_made_complete(const call& c, const slot_pool* pool) noexcept {
  slot* const made = c.emitted.empty() ? nullptr : c.emitted.front()->slots.front();
  if (made != nullptr && made->home == pool) {
    made->complete = true;
  }
}

/// Returns whether a call has emitted once, has no task and holds no other memory.
inline bool stage_run::has_just_emitted(const call& c) const noexcept {
  return c.outcome == call_outcome{.emissions = 1} && c.first == 0 &&
         c.made.front() == nullptr;
}

/// Ends the turn of a plain stage with a call, whose function has returned. A call
/// without tasks behind which no older one is open ends at once.
result<void> stage_run::end_plainly(call& c, const slot_pool* pool) {
  // An item must be made exactly once, or skipped; its number then goes on as a gap.
  if (c.outcome.emissions != 1 || c.outcome.skipped) [[unlikely]] {
    WEIR_CHECK(emitted_once(c, "on_item"));
    push_gap(c.seq);
  }
  if (c.first == 0) {
    mark_made_complete(c, pool);
    if (open() == 0) {
      finish_without_tasks(c);
      return {};
    }
  }
  ++next_open_;
  return {};
}

/// Takes items as long as the stage hands each on without tasks. Such a call ends at
/// once, so one call serves all of them. Returns how many items it has taken; the last
/// one may have been another one.
/// @pre The edge in front has `limit` entries.
result<std::uint32_t> stage_run::take_at_once(std::uint32_t limit, step& s) {
  if (only_to_ == nullptr || facts_.recorder != nullptr || open() != 0 ||
      ring_size_ == 1) {
    return 0;
  }
  edge& from = *in_.front().from;
  const edge& to = *only_to_;
  const slot_pool* const pool = pools_.front().get();
  call& c = current();
  call::input& input = c.inputs.front();
  active_ = &c;
  // Each item takes one credit behind the stage, and nobody else pushes meanwhile.
  const std::uint32_t most = std::min(limit, to.credits());
  std::uint32_t left = most;
  while (left != 0 && from.front().kind == entry_kind::item && to.has_bytes() &&
         (pool == nullptr || pool->available(1))) {
    const entry& e = from.pop();
    WEIR_EXPECT(e.number == next_seq_);
    c.seq = next_seq_++;
    input.body = e.body;
    input.bytes = e.bytes;
    // The call is likely to end at once. If not, it takes the credit again.
    from.give_back(e.bytes);
    ++counters.items;
    --left;
    if (auto done = guarded([&] { return object_.on_item(s); }); !done) [[unlikely]] {
      from.take_credit(input.bytes);
      return at_item(c.seq, std::move(done.error()));
    }
    if (!has_just_emitted(c)) [[unlikely]] {
      from.take_credit(input.bytes);
      WEIR_CHECK(end_plainly(c, pool));
      return most - left;
    }
    if (!c.emitted.empty()) {
      mark_made_complete(c, pool);
      let_go(*c.emitted.front());
      c.emitted.clear();
    }
    let_go(*input.body);
    c.outcome = {};
  }
  input.body = nullptr;
  return most - left;
}

/// Takes items and gaps, at most `limit`, as long as there are some, and credits and
/// memory. Returns how many it has taken. What it leaves to `look` are markers, and the
/// reason for which it has stopped.
/// Each entry is a call of its own, whose vectors keep their one element.
result<std::uint32_t> stage_run::take_plainly(std::uint32_t limit) {
  edge& from = *in_.front().from;
  const edge* const to = only_to_;
  const slot_pool* const pool = pools_.front().get();
  const bool records = facts_.recorder != nullptr;  // only a trace needs times
  // `on_item` cannot push on this edge, so entries stay valid and their number is known.
  const auto most = static_cast<std::uint32_t>(std::min<std::size_t>(limit, from.size()));
  tag_tasks();
  step s(*this);  // serves all calls: it refers to the active one
  WEIR_TRY(std::uint32_t taken, take_at_once(most, s));
  // The conditions are those of `look`, for one inlet and one outlet.
  while (taken < most && from.front().kind <= entry_kind::gap &&
         open() + 1 < ring_size_ && (pool == nullptr || pool->available(1)) &&
         (to != nullptr ? to->has_credit(1) : has_output(1))) {
    const entry& e = from.pop();
    // Numbers follow each other without holes; gaps fill them.
    WEIR_EXPECT(e.number == next_seq_);
    ++taken;
    // A gap costs one credit in front and one behind.
    if (e.body == nullptr) {
      from.give_back(0);
      push_gap(next_seq_++);
      continue;
    }
    call& c = current();
    c.seq = next_seq_++;
    call::input& input = c.inputs.front();
    input.body = e.body;
    input.bytes = e.bytes;
    ++counters.items;
    if (records) [[unlikely]] {
      c.taken_ns = now_ns();
    }
    active_ = &c;
    if (auto done = guarded([&] { return object_.on_item(s); }); !done) [[unlikely]] {
      return at_item(c.seq, std::move(done.error()));
    }
    WEIR_CHECK(end_plainly(c, pool));
  }
  active_ = nullptr;
  return taken;
}

/// The same for a sink, which gets the items later unless the host lets turns call it.
/// A gap ends here, because a sink has nothing behind it.
result<std::uint32_t> stage_run::take_for_sink(std::uint32_t limit) {
  edge& from = *in_.front().from;
  std::uint32_t taken = 0;
  if (facts_.calls_sinks) {
    WEIR_TRY(taken, write_plainly(limit));
  }
  for (; taken < limit && !from.empty() && from.front().kind <= entry_kind::gap &&
         open() + 1 < ring_size_;
       ++taken) {
    const entry& e = from.pop();
    WEIR_EXPECT(e.number == next_seq_);
    const std::uint64_t number = next_seq_++;
    // A gap is nothing to a sink.
    if (e.body == nullptr) {
      from.give_back(0);
      continue;
    }
    call& c = current();
    c.seq = number;
    call::input& input = c.inputs.front();
    input.body = e.body;
    input.bytes = e.bytes;
    ++counters.items;
    if (facts_.recorder != nullptr) {
      c.taken_ns = now_ns();
    }
    // Tasks write the item: a task behind them shows when they have ended.
    if (!e.body->slots[input.outlet]->complete) {
      WEIR_CHECK(gate(c));
    }
    ++next_open_;
  }
  return taken;
}

/// Returns whether a filled item is what most items of a plain source are. Others have
/// attributes or new memory, or are recorded, skipped or not filled.
inline bool stage_run::is_usual(const blank& filled) const noexcept {
  return filled.filled.front() && !filled.slots.front()->grown && filled.about.empty() &&
         !filled.about_final && filled.granted_ns == 0 &&
         !facts_.skipped.contain(filled.seq);
}

/// Makes the next item of a plain source, of a slot without attributes.
inline void stage_run::hand_on_slot(slot& filled) {
  item& one = items_->take();
  one.seq = next_seq_++;
  one.left_source_ns = facts_.turn_ns;
  one.slots.front() = &filled;
  one.holders = 1;  // until all edges have it
  push_plainly(one, &filled, one.seq);
  let_go(one);
  ++counters.items;
  ++counters.emitted;
}

/// Calls the sink for the items that are complete, as long as no older item is open.
/// Their calls end at once, so the ring of calls is not used.
result<std::uint32_t> stage_run::write_plainly(std::uint32_t limit) {
  if (facts_.recorder != nullptr || open() != 0) {
    return 0;
  }
  edge& from = *in_.front().from;
  call& c = current();
  call::input& input = c.inputs.front();
  ready now;
  now.holder = &c;
  taken t(now);
  std::uint32_t written = 0;
  for (; written < limit && !from.empty() && from.front().kind <= entry_kind::gap;
       ++written) {
    item* const body = from.front().body;
    if (body != nullptr && !body->slots[input.outlet]->complete) {
      break;  // a task writes it
    }
    const entry& e = from.pop();
    WEIR_EXPECT(e.number == next_seq_);
    c.seq = next_seq_++;
    if (body == nullptr) {
      from.give_back(0);
      continue;
    }
    input.body = body;
    input.bytes = e.bytes;
    ++counters.items;
    if (auto put = guarded([&] { return object_.put(t); }); !put) {
      return item_error(name_, c.seq, std::move(put.error()));
    }
    latency.written(std::min(facts_.turn_ns, body->left_source_ns));
    from.give_back(input.bytes);
    let_go(*body);
    input.body = nullptr;
  }
  return written;
}

/// See the declaration. One blank serves all items, because each comes back at once.
void stage_run::fill_plainly(std::uint32_t limit, std::uint64_t before,
                             source_turn& done) {
  if (!plain_ || only_to_ == nullptr || joined_ || end_read_ || granted_ != 0 ||
      facts_.recorder != nullptr) {
    return;
  }
  slot_pool& pool = *pools_.front();
  blank& b = *blanks_[first_blank_ & (blanks_.size() - 1)];
  b.stage = this;
  b.granted_ns = 0;
  b.filled = {};
  b.nothing_yet = b.about_final = b.wants_mark = false;
  pull p(b);
  while (done.delivered < limit && next_seq_ < before && only_to_->has_credit(1) &&
         pool.available(1)) {
    slot& s = pool.take_blank();
    b.seq = next_seq_;
    b.filled.front() = false;
    b.slots.front() = &s;
    auto more = guarded([&] { return object_.next(p); });
    if (!more || !*more || b.nothing_yet || !is_usual(b)) {
      granted_ = 1;
      done.last = &b;
      done.more = more ? std::move(more)
                       : result<bool>(item_error(name_, b.seq, std::move(more.error())));
      return;
    }
    hand_on_slot(s);
    ++done.delivered;
  }
}

/// Hands on a filled item of a plain source. Returns false, and does nothing, if the item
/// is not a usual one.
bool stage_run::hand_on_plainly(blank& filled) {
  if (!is_usual(filled)) {
    return false;
  }
  ++first_blank_;
  --granted_;
  hand_on_slot(*filled.slots.front());
  return true;
}

/// Returns whether a call hands on the only tensor of the item that it took. Without
/// changed attributes both items are then equal, and the one that is there serves as
/// both.
[[gnu::always_inline]] inline bool hands_on_same_tensor(const call& c) noexcept {
  const item& one = *c.inputs.front().body;
  const slot* const s = c.made.front();
  return s != nullptr && s == one.slots.front() && one.home->outlets() == 1;
}

/// Hands on the item of a call to the only edge behind the stage if the item that is
/// there serves. The edge then holds it, which counts one holder more. Returns false, and
/// does nothing, for other items.
/// @pre The attributes are those of the item.
[[gnu::always_inline]] inline bool stage_run::forward_plainly(call& c, edge& to) {
  if (!hands_on_same_tensor(c)) {
    return false;
  }
  slot* const s = c.made.front();
  --s->names;  // the item that is there keeps its own
  c.made.front() = nullptr;
  c.outcome = {.emissions = 1};
  to.push(*c.inputs.front().body, c.seq, s->bytes);
  ++counters.emitted;
  return true;
}

/// Hands on the item of a call of a plain stage, on all edges behind it. The item is a
/// new one, which the call holds, unless the item that is there serves.
/// @pre The call has not emitted, and the attributes are those of the item.
[[gnu::noinline]] result<void> stage_run::emit_plainly(call& c) {
  item& old = *c.inputs.front().body;
  slot* const s = c.made.front();
  item* one = &old;
  if (hands_on_same_tensor(c)) {
    --s->names;  // as in `forward_plainly`
  } else {
    one = &items_->take();
    one->seq = c.seq;
    one->lane = old.lane;
    one->left_source_ns = std::min(facts_.turn_ns, old.left_source_ns);
    one->slots.front() = s;
    one->holders = 1;
    push_reserved(c.emitted, *one);
    if (!old.about.empty()) [[unlikely]] {
      one->about = old.about;
    }
  }
  c.made.front() = nullptr;
  c.outcome = {.emissions = 1};
  // The edges take a holder each.
  push_plainly(*one, s, c.seq);
  ++counters.emitted;
  return {};
}

/// Lets go of what few calls have: memory that was not handed on, and changed attributes.
/// Their time goes to the recorder, if there is one.
[[gnu::noinline]] void stage_run::finish_rest(call& c) {
  // The recorder exists if a time was noted.
  if (c.taken_ns != 0) {
    facts_.recorder->record(index, c.seq, c.taken_ns, now_ns());
    c.taken_ns = 0;
  }
  // A slot that was made and not emitted is free again.
  if (slot*& s = c.made.front(); s != nullptr) {
    s->home->drop(*s);
    s = nullptr;
  }
  if (c.outcome.about_set) {
    c.about.clear();
    c.outcome.about_set = false;
  }
}

/// Lets go of the calls whose tasks have ended, from the oldest. Returns whether there
/// were any.
/// @pre The face is not that of a sink.
result<bool> stage_run::settle_plainly() {
  std::size_t ended = first_open_;
  // Tasks of calls end in any order; calls end from the oldest.
  while (ended != next_open_ && tasks_ended(calls_[ended & (ring_size_ - 1)])) {
    ++ended;
  }
  if (ended == first_open_) {
    return false;
  }
  // Failures are rare, so the tasks of calls are looked at only if there are any.
  const bool any_failed = facts_.host->base().failures() != 0;
  for (; first_open_ != ended; ++first_open_) {
    call& c = oldest();
    if (any_failed) {
      if (auto failed = failure_of(c)) {
        return at_item(c.seq, std::move(*failed));
      }
    }
    finish_plainly(c);
  }
  return true;
}

}  // namespace weir::flow

namespace weir {

/// A plain stage whose attributes are unchanged skips the checks of `stage_run::emit`.
result<void> step::emit() {
  flow::call& c = *stage_.active_;
  const bool usual = c.outcome == flow::call_outcome{};
  // Only plain stages know the edge behind them.
  if (stage_.only_to_ != nullptr && usual &&
      stage_.forward_plainly(c, *stage_.only_to_)) {
    return {};
  }
  return stage_.plain_ && usual ? stage_.emit_plainly(c) : stage_.emit(c);
}

}  // namespace weir
