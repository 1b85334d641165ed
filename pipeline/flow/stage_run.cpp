// SPDX-License-Identifier: Apache-2.0
/// @file
/// Taking items from edges, calling stages, and letting go of what they held.
///
/// The state of a stage is a ring of calls. `first_open_` is the oldest call that has not
/// ended, and `next_open_` the one that collects its items; both only grow, and the place
/// in the ring is the number modulo its size.
///
/// What a stage does next is decided by `look` alone: it compares the entries at its
/// inlets, and then asks whether credits, memory and calls are free. `on_item` is called
/// only if everything that it may need is there, so it never waits.
#include "flow/stage_run.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "weir/base/clock.hpp"
#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::flow {

stage_run::stage_run(std::string name, const stage_info& info, stage_object& object,
                     run_facts& facts)
    : name_(std::move(name)), info_(info), object_(object), facts_(facts) {
  in_.resize(info.inlets());
  out_.resize(info.outlets());
}

void stage_run::connect_inlet(std::size_t number, edge& from, std::uint32_t outlet,
                              bool feedback, const stage_run& producer) {
  in_[number] = {&from, outlet, feedback, false, &producer};
  has_feedback_ = has_feedback_ || feedback;
}

void stage_run::connect_outlet(std::size_t outlet, edge& to, std::uint32_t delay,
                               const stage_run& consumer) {
  out_[outlet].push_back({&to, delay, &consumer});
}

/// Makes pools and rings. @param open_calls  Calls that may be open at a time.
result<void> stage_run::allocate(const graph_stage& source, const planned_stage& planned,
                                 std::uint32_t open_calls, std::int64_t budget) {
  skips_failures_ = source.on_failure != failure_policy::stop;
  max_failures_ = source.max_failures;
  weir::engine& host = *facts_.host;
  // Every outlet gets a pool, except those that only pass on what comes from elsewhere.
  for (std::size_t p = 0; p < info_.ports.size(); ++p) {
    if (info_.ports[p].inlet) {
      inlet_types_.push_back(planned.types[p]);
      continue;
    }
    outlet_types_.push_back(planned.types[p]);
    auto& pool = pools_.emplace_back();
    if (!info_.ports[p].dead_letter && (info_.ports[p].type.element || is_outside())) {
      WEIR_TRY(pool, slot_pool::create(host, planned.slots,
                                       planned.types[p].bytes().value_or(0), budget,
                                       name_ + "." + info_.ports[p].name, shared_));
      pool->fill_with(facts_.fill_slots);
    }
  }
  for (const port_info& memory : info_.scratch) {
    WEIR_TRY(auto pool,
             slot_pool::create(host, open_calls + 1, memory.type.bytes().value_or(0),
                               budget, name_ + "." + memory.name));
    pool->fill_with(facts_.fill_slots);
    scratch_.push_back(std::move(pool));
  }
  // Items that are alive: those in slots, and those that calls hold.
  items_ = std::make_unique<item_pool>(
      planned.slots + (open_calls + 2) * std::size_t{info_.gives}, info_.outlets());
  ring_size_ = std::bit_ceil(open_calls + std::size_t{1});
  calls_.resize(ring_size_);
  gate_accesses_.reserve(in_.size() * info_.takes);
  for (call& c : calls_) {
    c.inputs.reserve(in_.size() * info_.takes);
    c.emitted.reserve(info_.gives);
  }
  if (info_.face == face::source) {
    max_grants_ = planned.slots;
    for (std::size_t i = 0; i < std::bit_ceil(max_grants_); ++i) {
      blanks_.push_back(std::make_unique<blank>());
    }
  }
  plain_ = is_plain();
  if (plain_ && !out_.empty() && out_.front().size() == 1 &&
      out_.front().front().delay == 0) {
    only_to_ = out_.front().front().to;
  }
  for (call& c : calls_) {
    if (plain_ && !in_.empty()) {
      c.inputs.push_back({nullptr, in_.front().from, in_.front().outlet, 0});
    }
  }
  ready_.resize(ring_size_);
  make_exchanges();
  return {};
}

std::uint16_t stage_run::tag() const noexcept {
  constexpr std::uint32_t last = runtime::engine::max_tags - 1;
  return static_cast<std::uint16_t>(std::min(index + 1, last));
}

void stage_run::tag_tasks() noexcept {
  if (facts_.tagged != tag()) {
    facts_.tagged = tag();
    facts_.host->base().tag_tasks(tag());
  }
}

/// Returns whether items can be handed on through every outlet.
bool stage_run::has_output(std::uint32_t items) const noexcept {
  if (only_to_ != nullptr) {
    return only_to_->has_credit(items);
  }
  for (const auto& targets : out_) {
    for (const target& one : targets) {
      if (!one.to->has_credit(items)) {
        return false;
      }
    }
  }
  return true;
}

/// Returns whether every outlet and every scratch memory has a free slot.
bool stage_run::slots_available() const noexcept {
  for (const auto& pool : pools_) {
    if (pool && !pool->available(info_.gives)) {
      return false;
    }
  }
  for (const auto& pool : scratch_) {
    if (!pool->available(1)) {
      return false;
    }
  }
  return true;
}

/// A loop's head waits behind a barrier until the tail has passed it, so that the items
/// on the feedback edge are those of the barrier when they are copied.
bool stage_run::releases_feedback() const noexcept {
  return std::all_of(in_.begin(), in_.end(), [&](const auto& i) {
    return !i.feedback || i.from->epoch_passed >= epoch_;
  });
}

next_action stage_run::look_at_inputs() noexcept {
  bool all_ended = true;
  bool barrier = false;
  bool item = false;
  for (inlet& i : in_) {
    if (i.feedback || i.ended) {
      continue;
    }
    if (i.from->empty()) {
      return next_action::wait_input;
    }
    if (i.from->front().kind == entry_kind::end) {
      i.from->pop();
      i.ended = true;
      continue;
    }
    all_ended = false;
    (i.from->front().kind == entry_kind::barrier ? barrier : item) = true;
  }
  if (all_ended) {
    return next_action::end;
  }
  // Some inlets have the barrier; the items of the others come first.
  if (barrier) {
    return item ? next_action::wait_input : next_action::barrier;
  }
  if (!has_feedback_) {
    return next_action::take;
  }
  // The head of a loop also needs the item that was fed back.
  for (const inlet& i : in_) {
    if (i.feedback && i.from->empty()) {
      return next_action::wait_input;
    }
  }
  return releases_feedback() ? next_action::take : next_action::wait_input;
}

/// Decides the next action from the inputs, and then from what it needs.
next_action stage_run::look() noexcept {
  if (ended_) {
    return next_action::ended;
  }
  const next_action action = look_at_inputs();
  const bool looping = info_.face == face::looping;
  // Stages that hand on late must do so before a barrier or an end.
  const bool waits_for_calls = emits_late() || looping || info_.face == face::sink;
  switch (action) {
    case next_action::take: {
      // One place of the ring is for the call that is being collected.
      if (open() + 1 >= ring_size_ || (looping && open() != 0)) {
        return next_action::wait_tasks;
      }
      // Sinks and blocking stages need memory and credits only when items are handed out.
      if (is_outside()) {
        return action;
      }
      const bool completes = collected_ + 1 == info_.takes;
      if (completes && !slots_available()) {
        return next_action::wait_output;
      }
      if (completes && !emits_late() && !has_output(info_.gives)) {
        return next_action::wait_output;
      }
      return action;
    }
    case next_action::barrier:
      return waits_for_calls && open() != 0 ? next_action::wait_tasks : action;
    // Items that were collected and are not complete are processed at the end.
    case next_action::end:
      if (open() != 0 && waits_for_calls) {
        return next_action::wait_tasks;
      }
      if (collected_ != 0 && (!slots_available() || !has_output(info_.gives))) {
        return next_action::wait_output;
      }
      return action;
    default: return action;
  }
}

/// Does at most `limit` things. Counters note why it has stopped.
result<bool> stage_run::work(std::uint32_t limit) {
  bool worked = false;
  for (std::uint32_t n = 0; n < limit; ++n) {
    if (plain_) {
      WEIR_TRY(const std::uint32_t taken, info_.face == face::sink
                                              ? take_for_sink(limit - n)
                                              : take_plainly(limit - n));
      n += taken;
      worked = worked || taken != 0;
      if (n == limit) {
        break;
      }
      // `look` would tell the same.
      if (const inlet& i = in_.front(); i.from->empty() && !i.ended) {
        ++counters.blocked_input;
        return worked;
      }
    }
    switch (look()) {
      case next_action::take:
        WEIR_CHECK(take());
        worked = true;
        break;
      case next_action::barrier:
        if (info_.face == face::sink) {
          wants_settle_ = true;  // `settled` passes the barrier
          return worked;
        }
        WEIR_CHECK(pass_barrier());
        worked = true;
        break;
      case next_action::end: WEIR_CHECK(pass_end()); return true;
      case next_action::wait_output: ++counters.blocked_output; return worked;
      default: ++counters.blocked_input; return worked;
    }
  }
  return worked;
}

/// Takes the entries of the next number from all inlets. Returns false if they are a gap
/// of the stage.
/// An inlet that has ended gives a gap for every number.
bool stage_run::collect(call& c) {
  bool any = false;
  bool all = true;
  for (inlet& i : in_) {
    call::input taken_input{nullptr, i.from, i.outlet, 0};
    if (!i.ended) {
      const entry e = i.from->pop();
      WEIR_EXPECT(e.number == next_seq_);
      if (e.kind == entry_kind::item) {
        taken_input.body = e.body;
        taken_input.bytes = e.bytes;
      } else {
        i.from->give_back(0);
      }
    }
    const bool present = taken_input.body != nullptr;
    any = any || (present && !i.feedback);
    all = all && present;
    c.inputs.push_back(taken_input);
  }
  // A stage may take gaps of some inlets if it says so.
  return any && (all || info_.gaps == gap_policy::pass);
}

/// Takes the next number. A complete call runs; a gap gives its inputs back and goes on
/// as a gap.
result<void> stage_run::take() {
  call& c = current();
  if (collected_ == 0) {
    c.seq = next_seq_;
  }
  const std::size_t before = c.inputs.size();
  const bool complete = collect(c);
  const std::uint64_t number = next_seq_++;
  if (complete) {
    return ++collected_ == info_.takes ? run(c) : result<void>();
  }
  for (std::size_t i = before; i < c.inputs.size(); ++i) {
    if (call::input& one = c.inputs[i]; one.body != nullptr) {
      one.from->give_back(one.bytes);
      let_go(*one.body);
    }
  }
  c.inputs.resize(before);
  if (info_.own_numbering || info_.face == face::sink) {
    return {};
  }
  // A gap must not overtake items that are emitted later.
  if (emits_late() && open() != 0) {
    c.outcome.gap = true;  // behind the items that have not been emitted yet
    ++next_open_;
    return {};
  }
  if (emits_late() && !has_output(1)) {
    c.outcome.gap = true;
    ++next_open_;
    return {};
  }
  push_gap(number);
  return {};
}

/// Runs the call that was collected.
result<void> stage_run::run(call& c) {
  ++counters.items;
  c.taken_ns = facts_.recorder != nullptr ? now_ns() : 0;
  collected_ = 0;
  if (is_outside()) {
    WEIR_CHECK(gate(c));
    ++next_open_;
    return {};
  }
  active_ = &c;
  step s(*this);
  tag_tasks();
  auto done = guarded([&] { return object_.on_item(s); });
  active_ = nullptr;
  if (!done) {
    WEIR_CHECK(refuse(c, std::move(done.error())));
    ++next_open_;
    return {};
  }
  return after_on_item(c);
}

/// A stage outside the engine gets an item only once this task has run.
/// Slots that are complete have no task that writes them.
result<void> stage_run::gate(call& c) {
  gate_accesses_.clear();
  for (const call::input& i : c.inputs) {
    if (i.body != nullptr && !i.body->slots[i.outlet]->complete) {
      gate_accesses_.push_back(runtime::reads(i.body->slots[i.outlet]->tensor));
    }
  }
  if (gate_accesses_.empty()) {
    return {};
  }
  auto id = facts_.host->base().submit("item is complete", gate_accesses_,
                                       [](const runtime::task_context&) {});
  if (!id) {
    return at_item(c.seq, std::move(id.error()));
  }
  c.first = c.next = c.last = *id;
  return {};
}

/// Decides whether the call can end at once: without tasks and older calls it can.
result<void> stage_run::after_on_item(call& c) {
  if (info_.face == face::task) {
    WEIR_CHECK(emitted_once(c, "on_item"));
  }
  if (!emits_late() && info_.face != face::looping) {
    if (c.first == 0) {
      mark_emitted_complete(c);
    }
    if (c.outcome.skipped) {
      push_gap(c.seq);
    }
    if (c.first == 0 && open() == 0) {
      finish(c);
      return {};
    }
  }
  ++next_open_;
  return {};
}

/// Without numbers of its own, a stage makes one item of each item that it takes.
result<void> stage_run::emitted_once(const call& c, const char* function) const {
  if (info_.own_numbering || c.outcome.emissions + (c.outcome.skipped ? 1U : 0U) == 1) {
    return {};
  }
  return at_item(c.seq,
                 error(errc::invalid_argument,
                       fmt::format("{} must emit once or skip: expected one of the two, "
                                   "found {} items{}",
                                   function, c.outcome.emissions,
                                   c.outcome.skipped ? " and skip" : "")));
}

/// Empties a call. Everything that it held goes back: credits, items, slots.
void stage_run::finish(call& c) {
  if (c.taken_ns != 0) {
    facts_.recorder->record(index, c.seq, c.taken_ns, now_ns());
    c.taken_ns = 0;
  }
  for (const call::input& i : c.inputs) {
    if (i.body != nullptr) {
      i.from->give_back(i.bytes);
      let_go(*i.body);
    }
  }
  c.inputs.clear();
  let_go_of_emitted(c);
  drop_made(c);
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    if (slot*& s = c.scratch[i]; s != nullptr) {
      s->home->drop(*s);
      s = nullptr;
    }
  }
  if (c.outcome.about_set) {
    c.about.clear();
  }
  c.outcome = {};
  c.returned = c.dead_letter = c.over = false;
  c.refusal.reset();
  c.round = 0;
  c.first = c.last = c.next = 0;
}

void stage_run::let_go_of_emitted(call& c) noexcept {
  for (item* one : c.emitted) {
    let_go(*one);
  }
  c.emitted.clear();
}

void stage_run::drop_made(call& c) noexcept {
  for (std::size_t o = 0; o < out_.size(); ++o) {
    if (slot*& s = c.made[o]; s != nullptr) {
      s->home->drop(*s);
      s = nullptr;
    }
  }
}

/// Emits the item that the call has made. An item whose failure could still be skipped is
/// held back until its tasks have ended.
result<void> stage_run::emit(call& c) {
  if (info_.face == face::late && !in_on_done_) {
    return error(errc::invalid_argument,
                 "emit in on_item: expected a stage without on_done, found a late stage")
        .hint("emit in on_done");
  }
  if (++c.outcome.emissions > info_.gives) {
    return error(errc::invalid_argument,
                 fmt::format("emit: expected at most {} items for each call, found more",
                             info_.gives))
        .hint("describe the stage with rate(takes, gives)");
  }
  WEIR_CHECK(check_attributes(c));
  if (info_.face != face::late && skips_failures_) {
    c.outcome.wants_emit = true;
    return {};
  }
  if (in_on_done_) {
    mark_complete(c);
  }
  publish(c);
  return {};
}

/// Returns when the oldest input of a call left its source. An item without inputs is
/// new.
std::int64_t stage_run::left_source(const call& c) const noexcept {
  std::int64_t born = facts_.turn_ns;
  for (const call::input& i : c.inputs) {
    born = i.body != nullptr ? std::min(born, i.body->left_source_ns) : born;
  }
  return born;
}

/// Makes an item of the slots of a call and pushes it on all edges.
/// @pre Every edge has a credit.
void stage_run::publish(call& c) {
  item& one = items_->take();
  one.seq = info_.own_numbering ? next_made_++ : c.seq;
  for (std::size_t o = 0; o < out_.size(); ++o) {
    one.slots[o] = std::exchange(c.made[o], nullptr);
  }
  const item* from = nullptr;
  for (const call::input& i : c.inputs) {
    from = from != nullptr ? from : i.body;
  }
  if (from != nullptr) {
    one.lane = from->lane;
  }
  if (c.outcome.about_set) {
    one.about = c.about;
  } else if (from != nullptr && !from->about.empty()) {
    one.about = from->about;
  }
  one.left_source_ns = left_source(c);
  one.holders = 1;  // the call
  c.emitted.push_back(&one);
  for (std::size_t outlet = 0; outlet < out_.size(); ++outlet) {
    const slot* s = one.slots[outlet];
    for (const target& t : out_[outlet]) {
      if (s != nullptr) {
        t.to->push(one, one.seq + t.delay, s->bytes);
      } else {
        t.to->push_gap(one.seq + t.delay);
      }
    }
  }
  ++(c.dead_letter ? counters.skipped : counters.emitted);
}

/// Items of an own numbering have no gaps: their numbers count what the stage emits.
void stage_run::push_gap(std::uint64_t number) {
  ++counters.skipped;
  if (info_.own_numbering) {
    return;
  }
  for (const auto& targets : out_) {
    for (const target& t : targets) {
      t.to->push_gap(number + t.delay);
    }
  }
}

/// Feedback edges carry no markers: they are told that the marker has passed.
void stage_run::push_marker(entry_kind kind, std::uint64_t epoch) {
  for (const auto& targets : out_) {
    for (const target& t : targets) {
      if (t.delay == 0) {
        t.to->push_marker(kind, epoch);
      } else {
        t.to->epoch_passed = epoch;
      }
    }
  }
}

/// Takes the barrier from all inlets, adds the part of the stage to the image, and hands
/// the barrier on. @pre `look` has returned `barrier`.
result<void> stage_run::pass_barrier() {
  std::uint64_t epoch = 0;
  for (inlet& i : in_) {
    if (!i.feedback && !i.ended) {
      epoch = i.from->pop().number;
    }
  }
  WEIR_EXPECT(epoch == facts_.epoch);
  WEIR_CHECK(contribute());
  push_marker(entry_kind::barrier, epoch);
  return {};
}

/// Processes an incomplete call and hands the end on.
result<void> stage_run::pass_end() {
  if (collected_ != 0) {
    WEIR_CHECK(run(current()));
    if (open() != 0 && (emits_late() || info_.face == face::looping)) {
      return {};  // what it makes goes before the end
    }
  }
  ended_ = true;
  push_marker(entry_kind::end, ~std::uint64_t{0});
  return {};
}

error stage_run::at_item(std::uint64_t seq, error cause) const {
  facts_.failed_item = seq;
  facts_.failed_stage = index;
  return item_error(name_, seq, std::move(cause));
}

}  // namespace weir::flow
