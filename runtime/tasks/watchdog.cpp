// SPDX-License-Identifier: Apache-2.0
/// @file
/// The thread of the watchdog.
///
/// The thread wakes up four times per period and compares the number of ended tasks with
/// that of the last time. It reads only atomics, so it disturbs no worker.
#include "tasks/watchdog.hpp"

#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "weir/base/clock.hpp"
#include "weir/base/system/threads.hpp"

namespace weir::runtime {

watchdog::watchdog(std::int64_t period_ns, view v)
    : period_ns_(period_ns), view_(std::move(v)) {
  const signal_blocker scope;
  thread_ = std::thread([this] { watch(); });
}

watchdog::~watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

/// Compares the number of ended tasks several times per period. After a report, the next
/// one needs another full period without progress.
void watchdog::watch() {
  name_this_thread("weir-watchdog");
  constexpr int looks_per_period = 4;
  std::uint64_t seen = view_.ended();
  std::int64_t since = now_ns();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait_for(lock, std::chrono::nanoseconds(period_ns_ / looks_per_period + 1));
    const std::uint64_t ended = view_.ended();
    const std::int64_t now = now_ns();
    if (stop_ || ended != seen || !view_.busy()) {
      seen = ended;
      since = now;
    } else if (now - since >= period_ns_) {
      view_.report(fmt::format("no task has ended for {} ms: {}",
                               (now - since) / 1'000'000, view_.describe()));
      since = now;
    }
  }
}

}  // namespace weir::runtime
