// SPDX-License-Identifier: Apache-2.0
/// @file
/// Requests to end a run: a flag and an event descriptor, both of which a signal handler
/// may use.
///
/// A run is asked to stop by setting the flag; the descriptor wakes a thread that waits
/// in `poll`. Signals are the reason for this form: in a handler only lock-free atomics
/// and a few system calls such as `write` are allowed.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "weir/actors/control.hpp"
#include "weir/base/error.hpp"

namespace weir::actors {

/// In memory of its own, so that the header does not need <atomic>.
struct run_control::flags {
  std::atomic<bool> stop{false};
};

run_control::run_control()
    : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      flags_(std::make_unique<flags>()) {
  // Without an event descriptor no run could be stopped, and the process is out of
  // descriptors anyway.
  WEIR_EXPECT(descriptor_ >= 0);
}

run_control::~run_control() {
  ::close(descriptor_);
}

// The handler of a signal must leave `errno` as it was.
void run_control::wake() noexcept {
  const int saved = errno;
  const std::uint64_t one = 1;
  // The write fails only if the counter is full. The descriptor is then readable already,
  // so the waiting thread wakes all the same.
  [[maybe_unused]] const auto written = ::write(descriptor_, &one, sizeof one);
  errno = saved;
}

// The flag is set before the descriptor is written: a woken thread finds it set.
void run_control::request_stop() noexcept {
  flags_->stop.store(true, std::memory_order_seq_cst);
  wake();
}

bool run_control::stop_requested() const noexcept {
  return flags_->stop.load(std::memory_order_seq_cst);
}

namespace {

static_assert(std::atomic<run_control*>::is_always_lock_free);
/// The control that signals refer to, or null while no scope is alive.
std::atomic<run_control*> active_control{nullptr};

/// Number of handlers that run at the moment, each on any thread.
std::atomic<int> running_handlers{0};

/// Counts a handler while it may use the control.
class handler_scope {
 public:
  handler_scope() { running_handlers.fetch_add(1, std::memory_order_seq_cst); }
  ~handler_scope() { running_handlers.fetch_sub(1, std::memory_order_seq_cst); }
  handler_scope(const handler_scope&) = delete;
  handler_scope& operator=(const handler_scope&) = delete;
};

/// The first signal asks the run to end; the second one ends the process.
extern "C" void weir_on_signal(int) {
  const handler_scope runs;
  auto* control = active_control.load(std::memory_order_seq_cst);
  if (control == nullptr || control->stop_requested()) {
    // The shell's code for SIGINT, 128 + 2. `_exit` runs no destructors, which a signal
    // handler must not run.
    ::_exit(130);
  }
  control->request_stop();
}

/// A terminal that closes may send several signals, and every write to a closed pipe
/// sends one, so these never end the process.
extern "C" void weir_on_closed_terminal(int) {
  const handler_scope runs;
  auto* control = active_control.load(std::memory_order_seq_cst);
  if (control != nullptr && !control->stop_requested()) {
    control->request_stop();
  }
}

}  // namespace

/// The treatment of each signal before the scope, which its destructor puts back.
struct signal_scope::saved {
  struct sigaction interrupt {};
  struct sigaction terminate {};
  struct sigaction hang_up {};
  struct sigaction closed_pipe {};
  struct sigaction large_file {};
};

signal_scope::signal_scope(run_control& control) : saved_(std::make_unique<saved>()) {
  // Two scopes at a time would each put back the handlers of the other one.
  run_control* expected = nullptr;
  WEIR_EXPECT(active_control.compare_exchange_strong(expected, &control));
  struct sigaction action {};
  action.sa_handler = weir_on_signal;
  // System calls are repeated after the handler, so that a signal is no error of a read.
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &saved_->interrupt);
  ::sigaction(SIGTERM, &action, &saved_->terminate);
  action.sa_handler = weir_on_closed_terminal;
  ::sigaction(SIGPIPE, &action, &saved_->closed_pipe);
  ::sigaction(SIGHUP, &action, &saved_->hang_up);
  action.sa_handler = SIG_IGN;  // a write beyond `ulimit -f` is an error of the write
  ::sigaction(SIGXFSZ, &action, &saved_->large_file);
  if (saved_->hang_up.sa_handler == SIG_IGN) {  // the user has started it with nohup
    ::sigaction(SIGHUP, &saved_->hang_up, nullptr);
  }
}

signal_scope::~signal_scope() {
  // The old handlers are put back first, so that no new handler begins. One that another
  // thread has begun may still refer to the control, and is waited for.
  ::sigaction(SIGINT, &saved_->interrupt, nullptr);
  ::sigaction(SIGTERM, &saved_->terminate, nullptr);
  ::sigaction(SIGHUP, &saved_->hang_up, nullptr);
  ::sigaction(SIGPIPE, &saved_->closed_pipe, nullptr);
  ::sigaction(SIGXFSZ, &saved_->large_file, nullptr);
  active_control.store(nullptr, std::memory_order_seq_cst);
  while (running_handlers.load(std::memory_order_seq_cst) != 0) {
    std::this_thread::yield();
  }
}

}  // namespace weir::actors
