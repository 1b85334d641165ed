// SPDX-License-Identifier: Apache-2.0
/// @file
/// The thread that makes deferred calls: a list of calls ordered by time.
///
/// The thread sleeps until the time of the first call, or until a request comes. The name
/// of the thread is visible in debuggers.
///
/// Calls with the same time are made in the order of the requests. All calls are made by
/// one thread, one after another.
#include "stream/deferred_calls.hpp"

#include <chrono>
#include <utility>

#include "weir/base/clock.hpp"
#include "weir/base/system/threads.hpp"

namespace weir::tessera {
namespace {

/// Set when a call on this thread destroyed the `deferred_calls` that runs it.
thread_local bool deferred_calls_are_gone = false;  // NOLINT: one for each thread

}  // namespace

// Drops the calls that have not begun. A call may release the last reference to the
// object that owns the calls. Then this destructor runs on their own thread,
// which cannot join itself: it is detached and told by the flag not to touch members
// again.
deferred_calls::~deferred_calls() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    calls_.clear();
  }
  changed_.notify_all();
  if (!thread_.joinable()) {
    return;
  }
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
    deferred_calls_are_gone = true;
  } else {
    thread_.join();
  }
}

// Starts the thread at the first request. The thread blocks signals, so that the handlers
// of the program run on the program's threads.
void deferred_calls::later(std::function<void()> call, std::int64_t when_ns) {
  {
    const std::lock_guard lock(mutex_);
    calls_.emplace(when_ns, std::move(call));
    if (!thread_.joinable()) {
      const signal_blocker scope;
      thread_ = std::thread([this] { work(); });
    }
    // Under the lock: once it is free, the call may run and lead to the destructor.
    changed_.notify_one();
  }
}

/// Sleeps without the lock.
void deferred_calls::work() {
  name_this_thread("weir-deferred");
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (calls_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto first = calls_.begin();
    // The time of the first call has not come.
    const std::int64_t wait = first->first - now_ns();
    if (wait > 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(wait));
      continue;
    }
    std::function<void()> call = std::move(first->second);
    calls_.erase(first);
    lock.unlock();
    // The call and the objects that it holds are released without the lock: either may
    // request another call or destroy this object.
    call();
    call = nullptr;
    if (deferred_calls_are_gone) {
      return;  // the mutex has been destroyed as well
    }
    lock.lock();
  }
}

}  // namespace weir::tessera
