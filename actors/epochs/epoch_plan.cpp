// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rules by which epochs begin.
#include "epochs/epoch_plan.hpp"

#include "weir/base/error.hpp"

namespace weir::actors {

std::uint64_t epoch_plan::boundary_behind(std::uint64_t item) const noexcept {
  const std::uint64_t every = rules_.every_items;
  if (every == 0 || item / every >= epoch_order::no_boundary / every) {
    return epoch_order::no_boundary;
  }
  return (item / every + 1) * every;
}

std::optional<epoch_order> epoch_plan::launch(const flow::stand& from, bool stored,
                                              std::int64_t now_ns) {
  launched_ = true;
  durable_ = barrier_ = from;
  if (!stored) {
    durable_.items = epoch_order::no_boundary;  // unlike every place that is reached
  }
  last_ns_ = now_ns;
  boundary_ = boundary_behind(from.next_item);
  if (stopping_) {
    return epoch_order{0, boundary_, true};
  }
  if (rules_.every_items == 0) {
    return std::nullopt;
  }
  return epoch_order{boundary_, boundary_behind(boundary_), false};
}

std::optional<epoch_order> epoch_plan::tick(const flow::stand& reached,
                                            std::int64_t now_ns) {
  const bool due = rules_.every_ns > 0 && now_ns - last_ns_ >= rules_.every_ns;
  if (!due || !launched_ || stopping_ || ordered_ || saving_ ||
      reached.items == durable_.items) {
    return std::nullopt;
  }
  ordered_ = true;
  return epoch_order{0, boundary_, false};
}

std::optional<epoch_order> epoch_plan::stop() {
  if (stopping_) {
    return std::nullopt;
  }
  stopping_ = true;
  return launched_ ? std::optional(epoch_order{0, boundary_, true}) : std::nullopt;
}

std::optional<epoch_order> epoch_plan::complete(const flow::stand& barrier,
                                                std::int64_t now_ns) {
  WEIR_EXPECT(launched_ && !saving_);
  saving_ = true;
  ordered_ = false;
  barrier_ = barrier;
  last_ns_ = now_ns;
  boundary_ = boundary_behind(barrier.next_item);
  if (stopping_ || rules_.every_items == 0) {
    return std::nullopt;  // the order for the last epoch stands
  }
  return epoch_order{boundary_, boundary_behind(boundary_), false};
}

void epoch_plan::saved() {
  WEIR_EXPECT(saving_);
  saving_ = false;
  durable_ = barrier_;
}

void epoch_plan::not_saved() {
  WEIR_EXPECT(saving_);
  saving_ = false;
}

}  // namespace weir::actors
