// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rules by which epochs begin.
///
/// Two rules can be set: every so many items, and every so many seconds. Checkpoints by
/// items stand at multiples of `every_items`, counted from the first item of the first
/// run, so that a resumed run makes them at the same places. `boundary_` is the next of
/// these places; sources are not asked for items behind it until the epoch there has
/// begun.
#include "epochs/epoch_plan.hpp"

#include <algorithm>

#include "weir/base/error.hpp"

namespace weir::actors {

/// Returns the first multiple of `every_items` above `item`, but at most the end of the
/// run. Without such a rule, or if the multiple would overflow, it is the end of the run,
/// which is `no_boundary` for a run that ends with its sources.
std::uint64_t epoch_plan::boundary_behind(std::uint64_t item) const noexcept {
  const std::uint64_t every = rules_.every_items;
  const bool regular = every != 0 && item / every < epoch_order::no_boundary / every;
  const std::uint64_t next =
      regular ? (item / every + 1) * every : epoch_order::no_boundary;
  return std::min(next, rules_.end);
}

/// Begins the plan. If a stop was asked for before the launch, the first order is already
/// that of the last epoch.
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
  return next_boundary();
}

/// Returns the order for the next barrier whose place is known by its number.
std::optional<epoch_order> epoch_plan::next_boundary() const noexcept {
  if (rules_.every_items == 0 && rules_.end == epoch_order::no_boundary) {
    return std::nullopt;
  }
  return epoch_order{boundary_, boundary_behind(boundary_), false};
}

/// Orders an epoch by time. Nothing is ordered while another epoch is under way, and none
/// whose image would equal the durable one.
std::optional<epoch_order> epoch_plan::tick(const flow::stand& reached,
                                            std::int64_t now_ns) {
  const bool due = rules_.every_ns > 0 && now_ns - last_ns_ >= rules_.every_ns;
  if (!due || !launched_ || stopping_ || ordered_ || saving_ ||
      reached.items == durable_.items) {
    return std::nullopt;
  }
  ordered_ = true;
  // An order at 0 is due at once, wherever the sources are.
  return epoch_order{0, boundary_, false};
}

/// Orders the last epoch once, at the place where the sources are.
std::optional<epoch_order> epoch_plan::stop() {
  if (stopping_) {
    return std::nullopt;
  }
  stopping_ = true;
  return launched_ ? std::optional(epoch_order{0, boundary_, true}) : std::nullopt;
}

/// Notes that the image of the epoch is complete and returns the order for the next epoch
/// by items. It is given before the image is durable; the host begins it only afterwards.
std::optional<epoch_order> epoch_plan::complete(const flow::stand& barrier,
                                                std::int64_t now_ns) {
  WEIR_EXPECT(launched_ && !saving_);
  saving_ = true;
  ordered_ = false;
  barrier_ = barrier;
  // The time between epochs counts from the image, not from its order.
  last_ns_ = now_ns;
  boundary_ = boundary_behind(barrier.next_item);
  if (stopping_) {
    return std::nullopt;  // the order for the last epoch stands
  }
  return barrier.next_item < rules_.end ? next_boundary() : stop();
}

void epoch_plan::saved() {
  WEIR_EXPECT(saving_);
  saving_ = false;
  durable_ = barrier_;
}

// `durable_` stays at the checkpoint before, so the next tick orders a new epoch.
void epoch_plan::not_saved() {
  WEIR_EXPECT(saving_);
  saving_ = false;
}

}  // namespace weir::actors
