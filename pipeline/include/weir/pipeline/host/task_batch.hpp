// SPDX-License-Identifier: Apache-2.0
/// @file
/// How many tasks a host runs between two turns of its stages.
#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/base/clock.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::flow {

/// Runs ready tasks between two turns. A turn looks at every stage, which takes longer
/// than a short task, so short tasks run in batches. With several workers, long tasks run
/// one by one, because the stages then submit the tasks for the other workers in time.
/// @threads{thread-compatible; belongs to the submitter of the engine}
class task_batch {
 public:
  /// Largest number of tasks between two turns.
  static constexpr std::uint32_t max_tasks = 32;
  /// Makes a batch for an engine with a number of workers.
  explicit task_batch(unsigned workers = 2) : max_ns_(workers == 1 ? 100'000 : 10'000) {}

  /// Runs ready tasks. Returns false if none was ready.
  bool run(runtime::engine& host) {
    const std::int64_t begin = now_ns();
    std::uint32_t count = 0;
    while (count < size_ && host.run_one()) {
      ++count;
    }
    if (count == 0) {
      return false;
    }
    if (now_ns() - begin > max_ns_) {
      size_ = std::max(size_ / 2, 1U);
    } else if (count == size_) {
      size_ = std::min(size_ * 2, max_tasks);
    }
    return true;
  }

 private:
  std::int64_t max_ns_;  ///< most time of a batch, apart from its last task
  std::uint32_t size_ = 1;
};

}  // namespace weir::flow
