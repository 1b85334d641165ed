// SPDX-License-Identifier: Apache-2.0
/// @file
/// Mutexes that stay usable in a child process after `fork`.
#pragma once

#include <pthread.h>

#include <memory>
#include <mutex>
#include <vector>

namespace weir {

/// Makes a mutex unlocked in every child process that is forked from now on.
///
/// Without this, a child would wait for ever if another thread of the parent held the
/// mutex during the fork, because that thread does not exist in the child. The child
/// constructs the mutex anew; data that the mutex guards may be half changed there.
/// @param guarded  A mutex that lives as long as the process.
/// @returns true, so that the call can initialise a static variable.
/// @threads{safe to call concurrently}
template <class Mutex>
bool unlock_in_child_of_fork(Mutex& guarded) {
  static std::mutex adding;
  // The list is never freed, because a fork may happen during static destruction. The
  // handlers take no arguments and therefore reach it through a static pointer.
  static auto* const all = [] {
    auto* const made = new std::vector<Mutex*>;
    static std::vector<Mutex*>* list = nullptr;
    list = made;
    pthread_atfork([] { adding.lock(); }, [] { adding.unlock(); },
                   [] {
                     std::construct_at(&adding);
                     for (Mutex* const mutex : *list) {
                       std::construct_at(mutex);
                     }
                   });
    return made;
  }();
  const std::lock_guard lock(adding);
  all->push_back(&guarded);
  return true;
}

}  // namespace weir
