// SPDX-License-Identifier: Apache-2.0
/// @file
/// Notices that no task ends although tasks are in flight.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace weir::runtime {

/// A thread that looks at a counter several times per period. All functions of the view
/// are called on that thread.
/// @threads{construction and destruction: one thread}
class watchdog {
 public:
  struct view {
    std::function<bool()> busy;             ///< whether tasks are in flight
    std::function<std::uint64_t()> ended;   ///< number of tasks that have ended
    std::function<std::string()> describe;  ///< what runs, and what waits for what
    std::function<void(const std::string&)> report;
  };

  /// Reports once for every stretch of `period_ns` without progress.
  watchdog(std::int64_t period_ns, view v);
  ~watchdog();
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

 private:
  void watch();

  std::int64_t period_ns_;
  view view_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weir::runtime
