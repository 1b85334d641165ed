// SPDX-License-Identifier: Apache-2.0
/// @file
/// Manners of threads that a library starts in someone else's program: they handle none
/// of its signals and have names.
#pragma once

#include <pthread.h>
#include <signal.h>  // NOLINT: the masks are those of POSIX

#include <initializer_list>

namespace weir {

/// Blocks signals in the calling thread while it is in scope, so that threads started in
/// the scope inherit the mask and never run the program's signal handlers.
///
/// Signals that report a fault of the thread itself (such as SIGSEGV) stay unblocked, and
/// SIGPROF too, so that sampling profilers see these threads.
/// @threads{construct and destroy in the same thread}
class signal_blocker {
 public:
  /// Blocks the signals.
  signal_blocker() noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own :
         {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF}) {
      sigdelset(&blocked, own);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  /// Restores the mask that the thread had before.
  ~signal_blocker() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signal_blocker(const signal_blocker&) = delete;
  signal_blocker& operator=(const signal_blocker&) = delete;

 private:
  sigset_t before_{};
};

/// Sets the name of the calling thread that debuggers and /proc show.
/// @param name  At most 15 characters; the system ignores a longer name.
/// @threads{safe to call concurrently}
inline void name_this_thread(const char* name) noexcept {
  pthread_setname_np(pthread_self(), name);
}

}  // namespace weir
