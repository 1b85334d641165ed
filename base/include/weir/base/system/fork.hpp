// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the child of a fork finds of objects that belong to the whole process.
#pragma once

#include <pthread.h>

#include <memory>
#include <mutex>
#include <vector>

namespace weir {

/// Sees to it that this mutex is open in every child of a fork. Without this, a child
/// whose parent had another thread inside the mutex would wait for ever, as that thread
/// does not exist in the child. The mutex must live as long as the process.
/// @returns true, so that a static variable can be initialised by the call
/// @threads{safe from any thread}
template <class Mutex>
bool unlock_in_child_of_fork(Mutex& guarded) {
  static std::mutex adding;
  static auto* const all = [] {
    auto* const made = new std::vector<Mutex*>;
    static std::vector<Mutex*>* list = nullptr;
    list = made;
    pthread_atfork([] { adding.lock(); }, [] { adding.unlock(); },
                   [] {
                     std::construct_at(&adding);
                     for (Mutex* const one : *list) {
                       std::construct_at(one);
                     }
                   });
    return made;
  }();
  const std::lock_guard lock(adding);
  all->push_back(&guarded);
  return true;
}

}  // namespace weir
