// SPDX-License-Identifier: Apache-2.0
/// @file
/// Blocking stages on the host's thread: handing complete items out together with empty
/// ones, taking both back, and handing the filled ones on in order.
#include <fmt/format.h>

#include "flow/stage_run.hpp"

namespace weir::flow {

/// Each item that is handed out has the memory and the credits of the item that the stage
/// makes of it, so that it can be handed on at any time. The bytes of items of varying
/// size are known only when they come back, so that only one of them is handed out.
result<exchange*> stage_run::next_exchange() {
  while (handed_out_ != open()) {
    const std::size_t place = (first_open_ + handed_out_) & (ring_size_ - 1);
    call& c = calls_[place];
    if (!has_output(static_cast<std::uint32_t>(handed_out_) + 1)) {
      return nullptr;
    }
    if (c.gap) {
      c.returned = true;
      ++handed_out_;
      returned_ += returned_ + 1 == handed_out_ ? 1 : 0;
      continue;
    }
    if (!facts_.host->base().ended(c.last)) {
      return nullptr;
    }
    if (auto failed = failure_of(c)) {
      return at_item(c.seq, std::move(*failed));
    }
    for (const auto& pool : pools_) {
      if (pool && (!pool->available(1) || (!pool->fixed() && handed_out_ != returned_))) {
        return nullptr;
      }
    }
    exchange& e = *exchanges_[place];
    e.input.holder = &c;
    e.output.stage = this;
    e.output.seq = c.seq;
    e.output.filled = {};
    e.output.nothing_yet = e.output.skipped = false;
    e.output.about = taken(e.input).about();
    for (std::size_t o = 0; o < pools_.size(); ++o) {
      e.output.slots[o] = pools_[o] ? &pools_[o]->take_blank() : nullptr;
    }
    ++handed_out_;
    return &e;
  }
  return nullptr;
}

result<void> stage_run::give_back(exchange& item, const error* failed) {
  call& c = calls_[(first_open_ + returned_) & (ring_size_ - 1)];
  WEIR_EXPECT(returned_ != handed_out_ && item.input.holder == &c);
  blank& made = item.output;
  if (failed != nullptr) {
    WEIR_CHECK(count_failure(c.seq, *failed));
    made.filled = {};
    made.skipped = true;
    made.about.clear();
  }
  fill_made(c, made);
  if (any_filled(made) == made.skipped) {
    return at_item(c.seq, error(errc::invalid_argument,
                                fmt::format("on_ready must fill an outlet or skip: "
                                            "expected one of the two, found {}",
                                            made.skipped ? "both" : "neither")));
  }
  if (auto fits = check_attributes(c); !fits) {
    return at_item(c.seq, std::move(fits.error()));
  }
  c.skipped = made.skipped;
  if (failed != nullptr && info_.dead_letters() != 0) {
    send_to_dead_letters(c, *failed);
  }
  c.returned = true;
  while (returned_ != handed_out_ &&
         calls_[(first_open_ + returned_) & (ring_size_ - 1)].returned) {
    ++returned_;
  }
  return {};
}

/// Hands on what the stage has made, from the oldest item.
result<bool> stage_run::settle_returned() {
  bool any = false;
  while (open() != 0 && has_output(1)) {
    call& c = oldest();
    if (!c.gap && !c.returned) {
      break;
    }
    if (c.gap || c.skipped) {
      push_gap(c.seq);
    } else {
      publish(c);
    }
    handed_out_ -= c.returned ? 1 : 0;
    returned_ -= c.returned ? 1 : 0;
    finish(c);
    ++first_open_;
    any = true;
  }
  return any;
}

}  // namespace weir::flow
