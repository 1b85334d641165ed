// SPDX-License-Identifier: Apache-2.0
/// @file
/// Carries out one read with several threads.
///
/// Pieces are multiples of a payload, so that at most the blocks at their borders are
/// verified by two threads. The threads take pieces from a common counter, which balances
/// their work without further communication.
///
/// The result is the same as that of one read: on failure, the error of the lowest
/// offset, wherever the threads were at that time.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "weir/storage/hn4_async.hpp"

namespace weir::storage {

namespace {

/// Smallest piece that a thread takes at a time.
constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;

/// The threads of one read. They take pieces from the front until none is left.
///
/// The object lives during one call. All threads are joined before `run` returns, so
/// they may refer to the arguments of the caller.
class team {
 public:
  team(const hn4_stream& stream, std::uint64_t offset, mutable_bytes to,
       const hn4_parallel_options& options)
      : stream_(stream),
        offset_(offset),
        to_(to),
        options_(options),
        piece_(align_up<std::uint64_t>(piece_bytes, stream.payload())) {}

  /// Reads with the calling thread and helpers, and waits for all.
  result<void> run() {
    // Small reads use fewer threads than were asked for.
    const std::uint64_t pieces = (to_.size() + piece_ - 1) / piece_;
    const std::uint32_t wanted =
        options_.threads != 0 ? options_.threads : std::thread::hardware_concurrency();
    const auto count = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(pieces, 1)));
    std::vector<std::jthread> helpers;
    try {
      for (std::uint32_t i = 1; i < count; ++i) {
        helpers.emplace_back([this] { work(); });
      }
    } catch (const std::exception&) {
      // The system gives no more threads or memory. Those that run read everything.
    }
    // The calling thread works, too. Clearing the list joins the helpers.
    work();
    helpers.clear();
    if (failure_) {
      return std::move(*failure_);
    }
    return {};
  }

 private:
  /// Takes pieces and reads them.
  void work() {
    for (;;) {
      // The counter may pass the end by one piece per thread.
      const std::uint64_t start = next_.fetch_add(piece_);
      // After a failure, only pieces before it are read: one of them may fail as well,
      // and the error of the lowest offset is returned.
      if (start >= to_.size() || start > failed_at_.load()) {
        return;
      }
      // Checked once per piece, so stopping takes the time of a piece.
      if (options_.stop.stop_requested()) {
        fail(start, error(errc::interrupted, "reading the stream was stopped"));
        return;
      }
      const std::uint64_t n = std::min<std::uint64_t>(piece_, to_.size() - start);
      auto got = read(start, static_cast<std::size_t>(n));
      if (!got) {
        fail(start, std::move(got).error());
        return;
      }
      report(n);
    }
  }
  /// Reads a piece. An exception would end the process if it left the thread of a helper.
  result<std::size_t> read(std::uint64_t start, std::size_t bytes) const {
    try {
      return stream_.read(offset_ + start,
                          to_.subspan(static_cast<std::size_t>(start), bytes));
    } catch (const std::bad_alloc&) {
      return error(errc::out_of_memory,
                   "cannot read the stream: expected memory for a piece of " +
                       std::to_string(bytes) + " bytes, found too little");
    }
  }
  /// Notes a failure; the one of the lowest offset counts. Called with the offset of the
  /// piece inside the range.
  void fail(std::uint64_t start, error e) {
    const std::lock_guard lock(mutex_);
    if (!failure_ || start < failed_at_.load()) {
      failure_ = std::move(e);
      failed_at_.store(start);
    }
  }
  /// Reports progress, one call at a time. The callback of the caller is never entered
  /// by two threads at once.
  void report(std::uint64_t bytes) {
    if (options_.progress) {
      const std::lock_guard lock(mutex_);
      done_ += bytes;
      options_.progress(done_, to_.size());
    }
  }

  const hn4_stream& stream_;
  std::uint64_t offset_;
  mutable_bytes to_;
  const hn4_parallel_options& options_;
  std::uint64_t piece_;
  std::atomic<std::uint64_t> next_{0};                ///< offset of the next piece
  std::atomic<std::uint64_t> failed_at_{UINT64_MAX};  ///< offset of the failed piece
  std::mutex mutex_;
  std::uint64_t done_ = 0;  ///< bytes read
  std::optional<error> failure_;
};

}  // namespace

/// Reads at most up to the end of the stream and returns the number of bytes.
result<std::size_t> read_parallel(const hn4_stream& stream, std::uint64_t offset,
                                  mutable_bytes to, const hn4_parallel_options& options) {
  // An empty or impossible range needs no threads; `read` reports it.
  if (to.empty() || offset >= stream.size()) {
    return stream.read(offset, to);
  }
  const auto count = static_cast<std::size_t>(
      std::min<std::uint64_t>(to.size(), stream.size() - offset));
  WEIR_CHECK(team(stream, offset, to.first(count), options).run());
  return count;
}

}  // namespace weir::storage
