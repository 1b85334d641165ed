// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a stage tells about itself: what it waits for, whether it limits the rate, and
/// what it holds.
///
/// These functions only look: they are called when a run stalls, for reports and for
/// tests.
#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "flow/stage_run.hpp"

namespace weir::flow {

/// Counts items that calls have taken and not given back.
std::uint32_t stage_run::held_of(const edge& from) const noexcept {
  std::uint32_t count = 0;
  for (const call& c : calls_) {
    // The credit of a gap was given back at once.
    for (const call::input& i : c.inputs) {
      count += i.body != nullptr && i.from == &from ? 1U : 0U;
    }
  }
  return count;
}

/// @units{bytes}
std::int64_t stage_run::slot_bytes() const noexcept {
  std::int64_t all = initial_slots_ ? initial_slots_->bytes() : 0;
  // Slots of scratch are counted like those of outlets.
  for (const auto* group : {&pools_, &scratch_}) {
    for (const auto& pool : *group) {
      all += pool ? pool->bytes() : 0;
    }
  }
  return all;
}

/// A stage that waits for the stages behind it does not limit the rate, whatever it has.
bool stage_run::limits_rate() const noexcept {
  if (!has_output(info_.gives)) {
    return false;
  }
  // Work is there: open calls, or entries at all inlets.
  return open() != 0 || in_.empty() ||
         std::none_of(in_.begin(), in_.end(),
                      [](const auto& i) { return !i.ended && i.from->empty(); });
}

/// The reasons are in the order in which `look` would find them.
stage_run::wait stage_run::waiting_for() const {
  if (ended_) {
    return {open() != 0 ? "tasks" : "nothing: it has ended"};
  }
  // An edge without a credit names the stage behind it.
  const auto full = [this]() -> std::optional<wait> {
    for (const auto& targets : out_) {
      for (const target& one : targets) {
        if (!one.to->has_credit(info_.gives)) {
          return wait{fmt::format("\"{}\" to let go of an item", one.consumer->name()),
                      one.consumer};
        }
      }
    }
    return std::nullopt;
  };
  // An item that is in the stage has to leave it before another one may enter.
  if (open() != 0) {
    if (auto behind = full()) {
      return *std::move(behind);
    }
  }
  // An inlet without an entry names the stage in front of it.
  for (const inlet& i : in_) {
    if (!i.ended && i.from->empty()) {
      return {fmt::format("an item of \"{}\"", i.producer->name()), i.producer};
    }
  }
  if (!releases_feedback()) {
    return {"the end of its loop at a barrier"};
  }
  if (wants_settle_) {
    return {"the sink to make its items durable"};
  }
  if (auto behind = full()) {
    return *std::move(behind);
  }
  // A joined source has read further than others of its group.
  if (held_ != 0) {
    return {"the sources that it meets"};
  }
  // A source that could have items granted has not delivered any.
  if (info_.face == face::source && slots_available()) {
    return {"its data"};
  }
  return {open() != 0 ? "tasks" : "memory for an item"};
}

}  // namespace weir::flow
