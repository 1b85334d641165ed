// SPDX-License-Identifier: Apache-2.0
/// @file
/// A thread for work that workers must not wait for: taking the submission lock when a
/// persistent kernel has ended, ending meetings that have timed out, and writing the
/// cache.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

namespace weir::tessera {

/// Calls functions later on a thread of its own, which the first request starts. Calls
/// run one at a time, in the order of their times; those with equal times run in the
/// order of the requests. Calls must not throw.
/// @threads{safe from any thread}
class deferred_calls {
 public:
  deferred_calls() = default;
  ~deferred_calls();
  deferred_calls(const deferred_calls&) = delete;
  deferred_calls& operator=(const deferred_calls&) = delete;

  /// Calls `call` as soon as the monotonic clock shows `when_ns` or more, in nanoseconds.
  /// 0 means as soon as possible.
  void later(std::function<void()> call, std::int64_t when_ns = 0);

 private:
  /// The body of the thread: waits for the first call's time and runs it without the
  /// lock.
  void work();

  std::mutex mutex_;
  /// notified when the first call may have changed, or at the end
  std::condition_variable changed_;
  /// Calls that wait, by their times.
  std::multimap<std::int64_t, std::function<void()>> calls_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weir::tessera
