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
/// Short calls in a row after which only some of the calls of a tag are timed.
constexpr std::uint32_t timed_calls = 64;
/// Of those, one in so many is timed in the mean. The distance from one to the next is
/// random, between 1 and twice the mean without 1.
constexpr std::uint32_t mean_gap = 8;

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
bool direct_calls::is_short(kernel_length& of_tag, std::uint16_t tag) noexcept {
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

// Returns how many short calls there are from one that is timed to the next. A fixed
// number could always meet the same one of several kernels of a stage.
std::uint32_t direct_calls::draw_gap() noexcept {
  // Multiplier and increment of Numerical Recipes; its high bits are the random ones.
  draws_ = draws_ * 1'664'525 + 1'013'904'223;
  return 1 +
         static_cast<std::uint32_t>((std::uint64_t{draws_} * (2 * mean_gap - 1)) >> 32);
}

// Counts the time of a call. A short call stands for those that were not timed. The
// first call that is not short is followed by calls that are all timed.
void direct_calls::note_time(kernel_length& of_tag, std::uint16_t tag,
                             std::int64_t ticks) noexcept {
  const bool stands_for_others = of_tag.short_calls == timed_calls;
  if (ticks > short_ticks_) {
    of_tag.short_calls = 0;
  } else if (!stands_for_others) {
    ++of_tag.short_calls;
  }
  scheduler& workers = engine_->impl_->workers;
  workers.add_time(tag, stands_for_others ? ticks * mean_gap : ticks);
  if (!workers.alone()) {
    judge(of_tag, tag, ticks);
  }
}

// Takes credit away for a call that was long, in proportion to its time.
void direct_calls::judge(kernel_length& of_tag, std::uint16_t tag,
                         std::int64_t ticks) noexcept {
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
// and other workers could run it. Reading the clock before and behind a short kernel
// takes longer than the kernel, so most of them are called without.
result<bool> direct_calls::call_erased(std::span<const borrowed_access> accesses,
                                       const void* function,
                                       result<void> (*caller)(const void*)) {
  engine::impl& s = *engine_->impl_;
  if (end_ == 0) {
    return false;
  }
  const std::uint16_t tag = s.window.tag();
  kernel_length& of_tag = lengths_[tag];
  if ((!s.workers.alone() && (!s.workers.measures_times() || !is_short(of_tag, tag))) ||
      !s.is_like_call(accesses)) {
    return false;
  }
  bool timed = true;
  if (of_tag.short_calls == timed_calls) {
    timed = --until_timed_ == 0;
    until_timed_ = timed ? draw_gap() : until_timed_;
  }
  std::int64_t begin = 0;
  if (timed) {
    begin = s.workers.clock().now();
    if (begin >= end_) {
      return false;
    }
  }
  result<void> outcome = scheduler::call_kernel([&] { return caller(function); });
  ensure_kernel_fp();  // the next function must not see what this one has changed
  if (!outcome) {
    return std::move(outcome.error());
  }
  s.count_call();
  if (timed) {
    note_time(of_tag, tag, s.workers.clock().now() - begin);
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
