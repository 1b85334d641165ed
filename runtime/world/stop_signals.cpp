// SPDX-License-Identifier: Apache-2.0
/// @file
/// Handlers that note a signal, and what a later signal does.
///
/// A handler may do very little: it sets a flag that is polled, and changes handlers.
#include "world/stop_signals.hpp"

#include "weir/runtime/world.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace weir::runtime {
namespace {

/// Written by handlers, read by all threads. A lock-free atomic is safe in a handler.
std::atomic<bool> stop_signal{false};  // NOLINT: handlers have no other objects
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

/// Returns the time in nanoseconds. May be called by a handler.
std::int64_t now_ns() noexcept {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// A SIGTERM that comes so soon after the first one is the same request: at the end of
/// the time of a job Slurm sends two within milliseconds.
constexpr std::int64_t same_request_ns = 1'000'000'000;

/// Notes a SIGTERM. From now on SIGINT ends the process, and SIGTERM does so if it is
/// another request.
void note_term() noexcept {
  static constinit std::atomic<std::int64_t> first_term_ns{0};  // 0: none has come
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);
  end_at(SIGINT);
  std::int64_t first = 0;
  const std::int64_t now = now_ns();
  if (!first_term_ns.compare_exchange_strong(first, now) &&
      now - first >= same_request_ns) {
    end_at(SIGTERM);
    raise(SIGTERM);  // comes when the handler has returned
  }
}

/// Launchers send SIGUSR1 again and again if users do, so its handler stays. After one of
/// the others the next one ends the process, whichever it is.
void note_stop_signal(int number) {
  stop_signal.store(true, std::memory_order_relaxed);
  if (number == SIGTERM) {
    note_term();
  } else if (number == SIGINT) {
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
