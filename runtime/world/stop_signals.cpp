// SPDX-License-Identifier: Apache-2.0
/// @file
/// Handlers that note a signal and do nothing else.
#include "weir/runtime/world.hpp"

#include <atomic>
#include <csignal>

namespace weir::runtime {
namespace {

std::atomic<bool> stop_signal{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_stop_signal(int /*number*/) {
  stop_signal.store(true, std::memory_order_relaxed);
}

}  // namespace

/// Launchers send SIGUSR1 again and again if users do, so its handler stays.
void stop_at_signals() noexcept {
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) {
    struct sigaction with = {};
    with.sa_handler = note_stop_signal;
    with.sa_flags = SA_RESTART;
    if (number != SIGUSR1) {
      with.sa_flags |= static_cast<int>(SA_RESETHAND);
    }
    sigemptyset(&with.sa_mask);
    sigaction(number, &with, nullptr);
  }
}

bool stop_signal_arrived() noexcept {
  return stop_signal.load(std::memory_order_relaxed);
}

}  // namespace weir::runtime
