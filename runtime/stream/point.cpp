// SPDX-License-Identifier: Apache-2.0
/// @file
/// Markers on lanes.
#include "weir/runtime/stream/point.hpp"

#include <utility>

#include "weir/base/clock.hpp"

namespace weir::runtime {

point::point(const void* mesh, unsigned lanes, doorbell& bell)
    : operation(kind::marker),
      mesh_(mesh),
      bell_(bell),
      left_(lanes),
      ids_(lanes, 0),
      failures_(lanes) {}

ref<point> point::over_now(const void* mesh, doorbell& bell) {
  auto out = make_ref<point>(mesh, 0U, bell);
  out->submitted_ = true;
  out->when_.store(now_ns(), std::memory_order_relaxed);
  return out;
}

bool point::over_again(const void* mesh, const doorbell& bell) noexcept {
  if (!ids_.empty() || &bell_ != &bell) {
    return false;
  }
  mesh_ = mesh;
  when_.store(now_ns(), std::memory_order_relaxed);
  return true;
}

ref<operation> point::clone() const {
  return make_ref<point>(mesh_, static_cast<unsigned>(ids_.size()), bell_);
}

void point::submit(submission& to) {
  lane_set& lanes = to.lanes();
  for (unsigned d = 0; d < lanes.devices(); ++d) {
    const access& own = lanes.of(d).held;
    if (lanes.host_used) {
      const access both[] = {own, {lanes.host().token, access_mode::read}};
      ids_[d] = to.add(*this, d, 1, both);
    } else {
      ids_[d] = to.add(*this, d, 0, {&own, 1});
    }
  }
  submitted_ = true;
  for (const auto& call : std::exchange(waiting_, {})) {
    call(to.session());
  }
}

void point::step(lane_set& lanes, unsigned lane, std::uint32_t host) noexcept {
  static_cast<void>(may_run(lanes, lane));
  failure seen = lanes.of(lane).poison;
  if (host != 0) {
    seen.merge(lanes.host().poison);
  }
  failures_[lane] = std::move(seen);
  const std::int64_t now = now_ns();
  std::int64_t last = when_.load(std::memory_order_relaxed);
  while (last < now &&
         !when_.compare_exchange_weak(last, now, std::memory_order_relaxed)) {
  }
  if (left_.fetch_sub(1, std::memory_order_seq_cst) == 1) {
    if (reached_call_) {
      std::exchange(reached_call_, {})();
    }
    bell_.ring();
  }
}

std::span<const task_id> point::tasks_for(const void* mesh,
                                          unsigned lane) const noexcept {
  const std::span<const task_id> all(ids_);
  return mesh == mesh_ && lane < ids_.size() ? all.subspan(lane, 1) : all;
}

failure point::failure_for(const void* mesh, unsigned lane) const {
  if (mesh == mesh_ && lane < failures_.size()) {
    return failures_[lane];
  }
  failure out;
  for (const failure& f : failures_) {
    out.merge(f);
  }
  return out;
}

}  // namespace weir::runtime
