// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a loop over pieces of work on several threads. The work of a piece must not
/// depend on the thread that does it.
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

/// Returns the number of threads to use for `bytes` bytes of work; 0 and 1 both stand for
/// the calling thread alone.
[[nodiscard]] inline unsigned worth_threads(unsigned threads,
                                            std::size_t bytes) noexcept {
  return bytes < parallel_threshold ? 1 : std::max(1u, threads);
}

/// Calls `work` on this thread and, if they start in time, on up to `others` further
/// threads. Returns when all calls have ended. @pre `work` does not throw, and does
/// everything even if no other thread starts
void run_with_others(std::size_t others, const std::function<void()>& work);

/// Calls `work(i)` once for every i below `count`. The calling thread takes part. Pieces
/// are handed out by a shared counter, so fast threads do more of them. An exception of a
/// piece ends the calls of its thread and is thrown again when all threads have ended.
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
