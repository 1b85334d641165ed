// SPDX-License-Identifier: Apache-2.0
/// @file
/// Points: markers on all lanes of a stream.
///
/// A point is reached when the task of each lane has run. The counter is decremented with
/// sequential consistency, so a thread that sees it at 0 also sees all failures and the
/// time.
#include "weir/tessera/stream/point.hpp"

#include <utility>

#include "stream/notifier.hpp"
#include "weir/base/clock.hpp"

namespace weir::tessera {

point::point(unsigned lanes, notifier& notifier)
    : operation(operation_kind::marker),
      notifier_(notifier),
      left_(lanes),
      ids_(lanes, 0),
      failures_(lanes) {}

// Makes a point that is reached already, for a stream without unfinished operations.
ref<point> point::over_now(notifier& notifier) {
  auto out = make_ref<point>(0U, notifier);
  out->submitted_ = true;
  out->when_.store(now_ns(), std::memory_order_relaxed);
  return out;
}

// Uses a reached point again with a new time, which saves an allocation for each record
// of an event on an idle stream. Fails for points that have lanes.
bool point::over_again(const notifier& notifier) noexcept {
  if (!ids_.empty() || &notifier_ != &notifier) {
    return false;
  }
  when_.store(now_ns(), std::memory_order_relaxed);
  return true;
}

ref<operation> point::clone() const {
  return make_ref<point>(static_cast<unsigned>(ids_.size()), notifier_);
}

// Streams that hold operations back for this point are told once its tasks exist, because
// only then can other tasks name them as predecessors.
void point::submit(submission& to) {
  lane_set& lanes = to.lanes();
  for (unsigned d = 0; d < lanes.devices(); ++d) {
    ids_[d] = to.add(*this, d, 0, {&holds(lanes.lane_of(d)), 1});
  }
  submitted_ = true;
  for (const auto& call : std::exchange(waiting_, {})) {
    call(to.session());
  }
}

// Copies the lane's failure, and keeps the latest time of all lanes. The last lane calls
// the function that `when_reached` has set, and wakes waiting threads.
void point::step(lane_set& lanes, unsigned lane, std::uint32_t) noexcept {
  static_cast<void>(may_run(lanes, lane));
  if (!order_only) {
    failures_[lane] = lanes.lane_of(lane).poison;
  }
  const std::int64_t now = now_ns();
  std::int64_t last = when_.load(std::memory_order_relaxed);
  while (last < now &&
         !when_.compare_exchange_weak(last, now, std::memory_order_relaxed)) {
  }
  if (left_.fetch_sub(1, std::memory_order_seq_cst) == 1) {
    if (reached_call_) {
      std::exchange(reached_call_, {})();
    }
    notifier_.ring();
  }
}

failure point::first_failure() const {
  failure out;
  for (const failure& f : failures_) {
    out.merge(f);
  }
  return out;
}

}  // namespace weir::tessera
