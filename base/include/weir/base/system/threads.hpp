// SPDX-License-Identifier: Apache-2.0
/// @file
/// What threads of a library owe the program that they run in.
#pragma once

#include <pthread.h>
#include <signal.h>  // NOLINT: the masks are those of POSIX

#include <initializer_list>

namespace weir {

/// Threads that are made in such a scope take none of the program's signals: a thread
/// inherits the mask of the one that makes it. Signals that tell a thread of its own
/// faults stay, and so does that of sampling profilers.
/// @threads{a scope of one thread}
class signal_blocker {
 public:
  signal_blocker() noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own :
         {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF}) {
      sigdelset(&blocked, own);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~signal_blocker() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signal_blocker(const signal_blocker&) = delete;
  signal_blocker& operator=(const signal_blocker&) = delete;

 private:
  sigset_t before_{};
};

/// What debuggers and /proc call this thread. @pre at most 15 characters
inline void name_this_thread(const char* name) noexcept {
  pthread_setname_np(pthread_self(), name);
}

}  // namespace weir
