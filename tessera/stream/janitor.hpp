// SPDX-License-Identifier: Apache-2.0
/// @file
/// A thread for work that workers must not wait for, such as taking the session when a
/// persistent kernel has ended, or ending meetings that have timed out.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

namespace weir::tessera {

/// Calls functions later on a thread of its own, which is started by the first request.
/// @threads{safe from any thread}
class janitor {
 public:
  janitor() = default;
  ~janitor();
  janitor(const janitor&) = delete;
  janitor& operator=(const janitor&) = delete;

  /// Calls `what` when the monotonic clock shows `when_ns` or more; 0: as soon as
  /// possible.
  void later(std::function<void()> what, std::int64_t when_ns = 0);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<std::int64_t, std::function<void()>> calls_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weir::tessera
