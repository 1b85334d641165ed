// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calls in place of tasks: whether one is allowed, and what it leaves in the counters.
#include "weir/runtime/calls/direct_calls.hpp"

#include <algorithm>

#include "engine/engine_impl.hpp"
#include "weir/base/system/fp_environment.hpp"

namespace weir::runtime {
namespace {

/// Tasks of a tag after which the mean time of their kernels is known.
constexpr std::uint32_t judged_tasks = 64;
/// Calls that may take twice as long as a short kernel before the tag is measured again.
/// One call that takes sixteen times as long has the same effect.
constexpr std::int32_t full_credit = 16;

}  // namespace

// Time inside of the kernels of a tag, on all workers.
std::int64_t direct_calls::ticks_of(std::uint16_t tag) const noexcept {
  const scheduler& workers = engine_->impl_->workers;
  std::int64_t ticks = 0;
  for (unsigned w = 0; w < workers.workers(); ++w) {
    ticks += workers.times_of(w).ticks[tag].load(std::memory_order_relaxed);
  }
  return ticks;
}

// Whether the next kernel of a tag is likely to be short. Until that is known its kernels
// become tasks, whose time the workers measure: a kernel that might be long never keeps
// the submitter from its other work.
bool direct_calls::is_short(std::uint16_t tag) noexcept {
  kernel_length& of_tag = lengths_[tag];
  if (of_tag.credit > 0) {
    asked_short_ = true;
    return true;
  }
  asked_other_ = true;
  if (++of_tag.submitted < judged_tasks) {
    return false;
  }
  // Tasks in flight are not part of the time. If they are many, more tasks are needed.
  const std::uint64_t left = engine_->impl_->in_flight();
  if (left > of_tag.submitted / 2) {
    return false;
  }
  const std::int64_t ticks = ticks_of(tag);
  const auto ended = static_cast<std::int64_t>(of_tag.submitted - left);
  if (ticks - of_tag.ticks <= short_ticks_ * ended) {
    of_tag.credit = full_credit;
  }
  of_tag.ticks = ticks;
  of_tag.submitted = 0;
  return of_tag.credit > 0;
}

// Takes credit away for a call that was long, in proportion to its time.
void direct_calls::judge(std::uint16_t tag, std::int64_t ticks) noexcept {
  kernel_length& of_tag = lengths_[tag];
  if (ticks <= short_ticks_) {
    of_tag.credit = std::min(of_tag.credit + 1, full_credit);
    return;
  }
  const std::int64_t times = ticks / short_ticks_;
  of_tag.credit -= static_cast<std::int32_t>(std::min<std::int64_t>(times, full_credit));
  if (of_tag.credit <= 0) {
    of_tag.ticks = ticks_of(tag);
    of_tag.submitted = 0;
  }
}

// Returns false if the function must become a task: calls are not allowed now, their time
// is over, or a task would have another effect (see `is_like_call`), or it may be long
// and other workers could run it.
result<bool> direct_calls::call_erased(std::span<const borrowed_access> accesses,
                                       const void* function,
                                       result<void> (*caller)(const void*)) {
  engine::impl& s = *engine_->impl_;
  if (end_ == 0) {
    return false;
  }
  const bool alone = s.workers.alone();
  if ((!alone && (!s.workers.measures_times() || !is_short(s.window.tag()))) ||
      !s.is_like_call(accesses)) {
    return false;
  }
  const std::int64_t begin = s.workers.clock().now();
  if (begin >= end_) {
    return false;
  }
  result<void> outcome = scheduler::call_kernel([&] { return caller(function); });
  ensure_kernel_fp();  // the next function must not see what this one has changed
  if (!outcome) {
    return std::move(outcome.error());
  }
  const std::int64_t ticks = s.workers.clock().now() - begin;
  const std::uint16_t tag = s.count_call();
  s.workers.count_call(tag, ticks);
  if (!alone) {
    judge(tag, ticks);
  }
  return true;
}

/// The length in ticks is kept, because converting it reads the clock.
void direct_calls::allow(std::int64_t ns) noexcept {
  const tick_clock& clock = engine_->impl_->workers.clock();
  if (ns != allowed_ns_) {
    allowed_ns_ = ns;
    allowed_ticks_ = clock.to_ticks(ns);
  }
  if (short_ticks_ == 0) {
    short_ticks_ = std::max<std::int64_t>(1, clock.to_ticks(short_ns_));
  }
  end_ = ns == 0 ? 0 : clock.now() + allowed_ticks_;
  asked_short_ = asked_other_ = false;
}

}  // namespace weir::runtime
