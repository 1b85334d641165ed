// SPDX-License-Identifier: Apache-2.0
/// @file
/// Blocking stages on the host's thread: handing complete items out together with empty
/// ones, taking both back, and handing the filled ones on in order.
///
/// Indices: calls are numbered from `first_open_`. The first `handed_out_` of them are
/// with the stage or have come back; of these the first `returned_` have come back
/// without a gap before them. The calls from `handed_out_` on, up to `next_open_`, wait
/// for the stage. Items come back in any order within a batch, but are handed on in the
/// order of the calls.
#include <algorithm>

#include <fmt/format.h>

#include "flow/stage_run.hpp"
#include "weir/pipeline/host/batch_stage.hpp"

namespace weir::flow {

/// Makes the items that a blocking stage takes and fills.
/// Each place in the ring of calls has one exchange. An exchange has a blank for every
/// item that the stage makes of one call.
void stage_run::make_exchanges() {
  // Sources and sinks have no exchanges.
  for (std::size_t i = 0; info_.face == face::blocking && i < ring_size_; ++i) {
    exchange& e = *exchanges_.emplace_back(std::make_unique<exchange>());
    for (std::uint32_t further = 1; further < info_.gives; ++further) {
      e.further.push_back(std::make_unique<blank>());
    }
  }
}

/// Each item that is handed out has the memory and the credits of the item that the stage
/// makes of it, so that it can be handed on at any time. The bytes of items of varying
/// size are known only when they come back, so that only one of them is handed out.
/// Returns null if nothing can be handed out now.
result<exchange*> stage_run::next_exchange() {
  // Calls from `handed_out_` on have not been with the stage.
  while (handed_out_ != open()) {
    const std::size_t place = (first_open_ + handed_out_) & (ring_size_ - 1);
    call& c = calls_[place];
    // Credits are needed for all calls that are handed out, and for this one.
    if (!has_output((static_cast<std::uint32_t>(handed_out_) + 1) * info_.gives)) {
      return nullptr;
    }
    // A gap is passed over; it counts as returned when all before it have.
    if (c.outcome.gap) {
      c.returned = true;
      ++handed_out_;
      returned_ += returned_ + 1 == handed_out_ ? 1 : 0;
      continue;
    }
    // Tasks still write the input.
    if (!facts_.host->base().ended(c.last)) {
      return nullptr;
    }
    // A task that writes the input has failed, so the item fails too.
    if (auto failed = failure_of(c)) {
      return at_item(c.seq, std::move(*failed));
    }
    // Memory for each item of the call; of varying sizes only one call is out.
    for (const auto& pool : pools_) {
      if (pool && (!pool->available(info_.gives) ||
                   (!pool->fixed() && handed_out_ != returned_))) {
        return nullptr;
      }
    }
    exchange& e = *exchanges_[place];
    // The exchange is filled in for this call; its memory is reused.
    e.input.holder = &c;
    e.source_ns = left_source(c);
    e.turn_ns = facts_.turn_ns;
    e.made = info_.own_numbering ? 0 : 1;
    e.partial = false;
    // The items that will be made, with their memory.
    for (std::size_t i = 0; i < info_.gives; ++i) {
      blank& b = e.item(i);
      b.stage = this;
      b.seq = c.seq;
      b.filled = {};
      b.nothing_yet = b.skipped = b.about_final = false;
      // The item begins with the attributes of its input.
      b.about = taken(e.input).about();
      for (std::size_t o = 0; o < pools_.size(); ++o) {
        b.slots[o] = pools_[o] ? &pools_[o]->take_blank() : nullptr;
      }
    }
    ++handed_out_;
    return &e;
  }
  return nullptr;
}

/// Takes an exchange back. A failed item becomes a gap or leaves through the outlets for
/// failed items.
result<void> stage_run::give_back(exchange& item, const error* failed) {
  call& c = calls_[(first_open_ + returned_) & (ring_size_ - 1)];
  WEIR_EXPECT(returned_ != handed_out_ && item.input.holder == &c);
  // The number of items is known only now.
  if (info_.own_numbering) {
    return take_made(item, c, failed);
  }
  blank& made = item.output;
  if (failed != nullptr) {
    WEIR_CHECK(count_failure(c.seq, *failed));
    made.filled = {};
    made.skipped = true;
    made.about.clear();
  }
  // Slots that were not filled return to their pools.
  fill_made(c, made);
  // The stage must have filled an outlet or skipped the item, and not both.
  if (any_filled(made) == made.skipped) {
    return at_item(c.seq, error(errc::invalid_argument,
                                fmt::format("on_ready must fill an outlet or skip: "
                                            "expected one of the two, found {}",
                                            made.skipped ? "both" : "neither")));
  }
  // Attributes that are too large fail the item as a whole.
  if (auto fits = check_attributes(c); !fits) {
    return at_item(c.seq, std::move(fits.error()));
  }
  c.outcome.skipped = made.skipped;
  // The inputs leave through other outlets under the same number.
  if (failed != nullptr && info_.dead_letters() != 0) {
    send_to_dead_letters(c, *failed);
  }
  return_call(c);
  return {};
}

/// Takes the items of a stage whose items have numbers of their own. They are handed on
/// by `settle_returned`.
/// Unused slots return at once.
result<void> stage_run::take_made(exchange& item, call& c, const error* failed) {
  if (failed != nullptr) {
    WEIR_CHECK(count_failure(c.seq, *failed));
    item.made = 0;
  }
  for (std::size_t i = 0; i < info_.gives; ++i) {
    blank& b = item.item(i);
    for (std::size_t o = 0; o < pools_.size(); ++o) {
      if (pools_[o]) {
        pools_[o]->settle(*b.slots[o]);
        if (i >= item.made || !b.filled[o]) {
          pools_[o]->drop(*b.slots[o]);
        }
      }
    }
  }
  return_call(c);
  return {};
}

/// Marks a call as returned and counts all returned ones without a gap before them.
void stage_run::return_call(call& c) noexcept {
  c.returned = true;
  // The oldest calls without a gap in between.
  while (returned_ != handed_out_ &&
         calls_[(first_open_ + returned_) & (ring_size_ - 1)].returned) {
    ++returned_;
  }
}

/// Hands on the items that a stage with numbers of its own has made of a call. Returns
/// whether the call is complete.
/// Each item gets the next number of the stage.
bool stage_run::publish_made(call& c) {
  exchange& e = *exchanges_[first_open_ & (ring_size_ - 1)];
  // The slots go from the blanks into the item.
  for (std::size_t i = 0; i < e.made; ++i) {
    blank& b = e.item(i);
    for (std::size_t o = 0; o < pools_.size(); ++o) {
      c.made[o] = pools_[o] && b.filled[o] ? b.slots[o] : nullptr;
    }
    c.about = std::move(b.about);
    c.outcome.about_set = true;
    publish(c);
    b.about.clear();
  }
  if (e.partial) {  // the stage has one open call, which is handed out again
    let_go_of_emitted(c);
    c.returned = false;
    --handed_out_;
    --returned_;
  }
  return !e.partial;
}

/// Hands on what the stage has made, from the oldest item.
/// Stops at the first call that has not come back.
result<bool> stage_run::settle_returned() {
  bool any = false;
  while (open() != 0 && has_output(info_.gives)) {
    // The oldest call decides: items are handed on in order.
    call& c = oldest();
    if (!c.outcome.gap && !c.returned) {
      break;
    }
    if (info_.own_numbering) {
      if (!publish_made(c)) {
        return true;
      }
    } else if (c.outcome.gap || c.outcome.skipped) {
      push_gap(c.seq);
    } else {
      publish(c);
    }
    // The counts are those from the oldest call on, which leaves now.
    handed_out_ -= c.returned ? 1 : 0;
    returned_ -= c.returned ? 1 : 0;
    finish(c);
    ++first_open_;
    any = true;
  }
  return any;
}

namespace {

/// Fills in what a child process sees of a call.
void look_at_call(const call& c, call_view& to) {
  to.seq = c.seq;
  to.inputs.clear();
  // A null pointer stands for a gap.
  for (const call::input& one : c.inputs) {
    const bool present = one.body != nullptr;
    to.inputs.push_back(present ? &one.body->slots[one.outlet]->tensor : nullptr);
  }
  // The lane is that of the first item.
  const auto first = std::ranges::find_if(
      c.inputs, [](const call::input& one) { return one.body != nullptr; });
  to.lane = first == c.inputs.end() ? 0 : first->body->lane;
}

}  // namespace

/// These functions let other modules look at exchanges without their definition.
void look_at(const exchange& from, call_view& to) {
  look_at_call(*from.input.holder, to);
  to.about = &taken(from.input).about();
  to.source_ns = from.source_ns;
  to.turn_ns = from.turn_ns;
}

void look_at(const ready& from, call_view& to) {
  look_at_call(*from.holder, to);
  to.about = &taken(from).about();
}

blank& made_item(exchange& of_call, std::size_t nth) {
  return of_call.item(nth);
}
/// Returns the memory of an outlet, if the engine knows it; a child process may then
/// write there.
runtime::storage memory_at(const blank& of_item, std::size_t outlet) {
  // Memory that has grown is not known to the engine.
  const slot* s = of_item.slots[outlet];
  const bool known = s != nullptr && !s->grown;
  return known ? s->memory : runtime::storage{};
}
void set_made(exchange& of_call, std::size_t made, bool partial) {
  of_call.made = made;
  of_call.partial = partial;
}
void set_attributes(blank& of_item, const attributes& about) {
  of_item.about = about;
  of_item.about_final = true;
}
bool wants_mark(const blank& of_item) {
  return of_item.wants_mark;
}
void set_mark(blank& of_item, const small_record& cursor,
              std::vector<image_section> state) {
  of_item.mark = {cursor, std::move(state)};
}

}  // namespace weir::flow
