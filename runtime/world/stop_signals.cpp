// SPDX-License-Identifier: Apache-2.0
/// @file
/// Handlers that note a signal, and what a later signal does.
///
/// A handler may do very little: it sets a flag that is polled, and changes handlers.
#include "world/stop_signals.hpp"

#include "weir/runtime/world.hpp"

#include <atomic>
#include <csignal>

namespace weir::runtime {
namespace {

/// Written by handlers, read by all threads. A lock-free atomic is safe in a handler.
std::atomic<bool> stop_signal{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void note_stop_signal(int number);

/// Signals of which a second one ends the process. SIGUSR1 is not among them.
constexpr int ending_signals[] = {SIGTERM, SIGINT};

/// Gives a signal its usual effect, unless the program has a handler of its own. May be
/// called by a handler.
void end_at(int number) noexcept {
  struct sigaction now = {};
  if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == note_stop_signal) {
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    sigemptyset(&usual.sa_mask);
    sigaction(number, &usual, nullptr);
  }
}

/// Launchers send SIGUSR1 again and again if users do, so its handler stays. After one of
/// the others the next one ends the process, whichever it is.
void note_stop_signal(int number) {
  stop_signal.store(true, std::memory_order_relaxed);
  if (number != SIGUSR1) {
    end_at_stop_signals();
  }
}

}  // namespace

// Also called when a world has failed: it cannot save its state any more, so a polite
// stop has no purpose.
void end_at_stop_signals() noexcept {
  for (const int number : ending_signals) {
    end_at(number);
  }
}

/// Replaces the handlers of the process. Programs that have their own call `ask_to_stop`
/// instead.
void stop_at_signals() noexcept {
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) {
    struct sigaction with = {};
    with.sa_handler = note_stop_signal;
    // System calls go on after the signal.
    with.sa_flags = SA_RESTART;
    sigemptyset(&with.sa_mask);
    sigaction(number, &with, nullptr);
  }
}

bool stop_signal_arrived() noexcept {
  return stop_signal.load(std::memory_order_relaxed);
}

}  // namespace weir::runtime
