// SPDX-License-Identifier: Apache-2.0
/// @file
/// A loop over pieces of work on several threads; what a piece does must not depend on
/// which thread does it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace weir::formats {

/// Work of fewer bytes is not worth a second thread.
inline constexpr std::size_t parallel_threshold = 64 * 1024;

/// Threads that `bytes` of work are worth; 0 and 1 stand for the caller's alone.
[[nodiscard]] inline unsigned worth_threads(unsigned threads,
                                            std::size_t bytes) noexcept {
  return bytes < parallel_threshold ? 1 : std::max(1u, threads);
}

/// Calls `work` here and, if they come in time, on up to `others` further threads;
/// returns when all of them have ended.
/// @pre `work` throws nothing, and does all there is to do even if nobody comes
void run_with_others(std::size_t others, const std::function<void()>& work);

/// Calls `work(i)` once for every i below `count`. The caller's thread takes part. An
/// exception of any piece is thrown again after all threads have ended.
template <class Work>
void for_each_piece(unsigned threads, std::size_t count, const Work& work) {
  if (threads <= 1 || count <= 1) {
    for (std::size_t i = 0; i < count; ++i) {
      work(i);
    }
    return;
  }
  std::atomic<std::size_t> next{0};
  std::exception_ptr thrown;
  std::mutex guard;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) {
        work(i);
      }
    } catch (...) {
      const std::lock_guard lock(guard);
      thrown = std::current_exception();
    }
  };
  run_with_others(std::min<std::size_t>(threads, count) - 1, run);
  if (thrown) {
    std::rethrow_exception(thrown);
  }
}

}  // namespace weir::formats
