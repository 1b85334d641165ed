// SPDX-License-Identifier: Apache-2.0
/// @file
/// Requests to end a run: a flag and an event descriptor, both of which a signal handler
/// may use.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "weir/actors/control.hpp"
#include "weir/base/error.hpp"

namespace weir::actors {

struct run_control::flags {
  std::atomic<bool> stop{false};
};

run_control::run_control()
    : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      flags_(std::make_unique<flags>()) {
  WEIR_EXPECT(descriptor_ >= 0);
}

run_control::~run_control() {
  ::close(descriptor_);
}

void run_control::wake() noexcept {
  const int saved = errno;
  const std::uint64_t one = 1;
  // The write fails only if the counter is full. The descriptor is then readable already,
  // so the waiting thread wakes all the same.
  [[maybe_unused]] const auto written = ::write(descriptor_, &one, sizeof one);
  errno = saved;
}

void run_control::request_stop() noexcept {
  flags_->stop.store(true, std::memory_order_seq_cst);
  wake();
}

bool run_control::stop_requested() const noexcept {
  return flags_->stop.load(std::memory_order_seq_cst);
}

namespace {

static_assert(std::atomic<run_control*>::is_always_lock_free);
std::atomic<run_control*> active_control{nullptr};

/// The first signal asks the run to end; the second one ends the process.
extern "C" void weir_on_signal(int) {
  auto* control = active_control.load(std::memory_order_seq_cst);
  if (control == nullptr || control->stop_requested()) {
    ::_exit(130);
  }
  control->request_stop();
}

/// A terminal that closes may send several signals, and every write to a closed pipe
/// sends one, so these never end the process.
extern "C" void weir_on_closed_terminal(int) {
  auto* control = active_control.load(std::memory_order_seq_cst);
  if (control != nullptr && !control->stop_requested()) {
    control->request_stop();
  }
}

}  // namespace

struct signal_scope::saved {
  struct sigaction interrupt {};
  struct sigaction terminate {};
  struct sigaction hang_up {};
  struct sigaction closed_pipe {};
  struct sigaction large_file {};
};

signal_scope::signal_scope(run_control& control) : saved_(std::make_unique<saved>()) {
  run_control* expected = nullptr;
  WEIR_EXPECT(active_control.compare_exchange_strong(expected, &control));
  struct sigaction action {};
  action.sa_handler = weir_on_signal;
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
  ::sigaction(SIGINT, &saved_->interrupt, nullptr);
  ::sigaction(SIGTERM, &saved_->terminate, nullptr);
  ::sigaction(SIGHUP, &saved_->hang_up, nullptr);
  ::sigaction(SIGPIPE, &saved_->closed_pipe, nullptr);
  ::sigaction(SIGXFSZ, &saved_->large_file, nullptr);
  active_control.store(nullptr, std::memory_order_seq_cst);
}

}  // namespace weir::actors
