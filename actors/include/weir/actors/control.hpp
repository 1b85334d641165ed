// SPDX-License-Identifier: Apache-2.0
/// @file
/// Requests to end a run, from any thread and from signal handlers.
#pragma once

#include <memory>

namespace weir::actors {

/// Asks a run to end. One object may serve several runs, one after the other.
/// @threads{safe from any thread; `request_stop` and `wake` also from a signal handler}
class run_control {
 public:
  /// Makes a control that asks for nothing yet.
  run_control();
  ~run_control();
  run_control(const run_control&) = delete;
  run_control& operator=(const run_control&) = delete;

  /// Ends the run behind the items in flight, with a last checkpoint.
  /// @threads{safe from any thread and from a signal handler}
  void request_stop() noexcept;
  /// Returns whether `request_stop` was called.
  [[nodiscard]] bool stop_requested() const noexcept;
  /// Returns a file descriptor that becomes readable after `request_stop` or `wake`.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Makes the descriptor readable, so that a thread that waits for it looks again.
  /// @threads{safe from any thread and from a signal handler}
  void wake() noexcept;

 private:
  int descriptor_ = -1;
  struct flags;
  std::unique_ptr<flags> flags_;
};

/// Handles signals while it lives. The first SIGINT or SIGTERM asks `control` to stop,
/// and a second one ends the process at once with exit code 130. SIGHUP (the terminal was
/// closed; ignored if the process was started with `nohup`) and SIGPIPE (the reader of
/// the output has ended) ask `control` to stop, however often they arrive.
/// @invariant at most one object at a time
class signal_scope {
 public:
  /// Installs the handlers. `control` must outlive the object.
  explicit signal_scope(run_control& control);
  /// Restores the handlers that were there before.
  ~signal_scope();
  signal_scope(const signal_scope&) = delete;
  signal_scope& operator=(const signal_scope&) = delete;

 private:
  struct saved;
  std::unique_ptr<saved> saved_;
};

}  // namespace weir::actors
