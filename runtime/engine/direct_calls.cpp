// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls in place of tasks: whether one is allowed, and what it leaves in the counters.
#include "weir/runtime/calls/direct_calls.hpp"

#include "engine/engine_impl.hpp"
#include "weir/base/system/fp_environment.hpp"

namespace weir::runtime {

// Returns false if the function must become a task: calls are not allowed now, their time
// is over, or a task would have another effect (see `is_like_call`).
result<bool> direct_calls::call_erased(std::span<const borrowed_access> accesses,
                                       const void* function,
                                       result<void> (*caller)(const void*)) {
  engine::impl& s = *engine_->impl_;
  if (end_ == 0 || !s.is_like_call(accesses)) {
    return false;
  }
  const std::int64_t begin = s.workers.clock().now();
  if (begin >= end_) {
    return false;
  }
  // The function sees the same rounding as in a task, and the caller its own afterwards.
  const std::uint64_t environment = fp_control();
  set_fp_control(kernel_fp_control);
  result<void> outcome = scheduler::call_kernel([&] { return caller(function); });
  set_fp_control(environment);
  if (!outcome) {
    return std::move(outcome.error());
  }
  s.workers.count_call(s.window.count_call(), s.workers.clock().now() - begin);
  return true;
}

/// The length in ticks is kept, because converting it reads the clock.
void direct_calls::allow(std::int64_t ns) noexcept {
  const tick_clock& clock = engine_->impl_->workers.clock();
  if (ns != allowed_ns_) {
    allowed_ns_ = ns;
    allowed_ticks_ = clock.to_ticks(ns);
  }
  end_ = ns == 0 ? 0 : clock.now() + allowed_ticks_;
}

}  // namespace weir::runtime
