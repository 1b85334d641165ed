// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads ahead: threads fill pieces, at most a window ahead of the consumer, who takes
/// them in order.
///
/// `started` and `taken` are the two ends of the window: threads may begin pieces below
/// `taken + window`. Pieces may be completed out of order and wait in `ready` until their
/// turn comes.
///
/// The lock is held for the bookkeeping only; reading runs without it.
#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "weir/storage/hn4_async.hpp"

namespace weir::storage {

namespace {

/// A cancelled prefetcher stays cancelled.
error cancelled() {
  return error(errc::interrupted, "reading ahead was cancelled");
}

}  // namespace

/// State that the consumer shares with the threads. `mutex` protects everything below it.
struct hn4_prefetcher::shared {
  // Makes the options usable: at least one piece of at least one byte, rounded up to
  // whole payloads, inside the stream. Larger windows and pieces have no other effect
  // than those that hold the whole stream, so they are cut before sums can overflow. Then
  // starts the threads, which must see complete state.
  shared(const hn4_stream& s, const hn4_prefetch_options& o) : stream(s), options(o) {
    options.window = std::clamp<std::size_t>(options.window, 1, UINT32_MAX);
    const std::size_t most = std::max<std::size_t>(stream.size(), 1);
    options.piece = align_up<std::size_t>(std::clamp<std::size_t>(options.piece, 1, most),
                                          stream.payload());
    const std::uint64_t begin = std::min(options.offset, stream.size());
    end = begin + std::min(options.length, stream.size() - begin);
    pieces = (end - begin + options.piece - 1) / options.piece;
    start_threads();
  }
  shared(const shared&) = delete;
  shared& operator=(const shared&) = delete;
  // The threads end after the piece that they are reading. They are joined before the
  // members that they use are destroyed.
  ~shared() {
    stop();
    threads.clear();
  }

  // Fewer threads than were asked for are slower, and have no other effect. Without a
  // first one nothing could be read.
  void start_threads() {
    try {
      for (std::uint32_t i = 0; i < std::max(options.threads, 1U); ++i) {
        threads.emplace_back([this] { work(); });
      }
    } catch (const std::exception& e) {
      if (threads.empty()) {
        ready.emplace(0, error(errc::out_of_memory,
                               std::string("cannot read ahead: expected a thread of the "
                                           "system, found: ") +
                                   e.what()));
      }
    }
  }

  /// Ends all waiting.
  void stop() {
    const std::lock_guard lock(mutex);
    stopped = true;
    changed.notify_all();
  }

  /// Reads pieces until all are read or the object is stopped.
  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      // Waits until there is a piece to begin, or nothing is left to do.
      changed.wait(lock, [&] {
        return stopped || started == pieces || started < taken + options.window;
      });
      if (stopped || started == pieces) {
        return;
      }
      // The number is taken under the lock, the piece is read without it.
      const std::uint64_t index = started++;
      lock.unlock();
      auto piece = read(index);
      lock.lock();
      try {
        ready.emplace(index, std::move(piece));
      } catch (const std::bad_alloc&) {
        out_of_memory = true;
      }
      changed.notify_all();
    }
  }

  /// Reads one piece. A stream that gives less than was asked for ends the piece early.
  /// An exception would end the process, because it would leave a thread.
  result<byte_vector> read(std::uint64_t index) const {
    const std::uint64_t start = options.offset + index * options.piece;
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(options.piece, end - start));
    try {
      byte_vector bytes(size);
      WEIR_TRY(const std::size_t got, stream.read(start, bytes));
      bytes.resize(got);
      return bytes;
    } catch (const std::bad_alloc&) {
      return error(errc::out_of_memory,
                   "cannot read ahead: expected memory for a piece of " +
                       std::to_string(size) + " bytes, found too little")
          .hint("use smaller pieces or a smaller window");
    }
  }

  hn4_stream stream;
  hn4_prefetch_options options;
  std::uint64_t end = 0;
  std::uint64_t pieces = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false;
  bool out_of_memory = false;  ///< a piece could not be put into `ready`
  /// Pieces that a thread has begun to read.
  std::uint64_t started = 0;
  /// Pieces that the consumer has taken.
  std::uint64_t taken = 0;
  // Pieces by number that are complete, or the errors of reading them.
  std::map<std::uint64_t, result<byte_vector>> ready;
  std::vector<std::jthread> threads;
};

hn4_prefetcher::hn4_prefetcher(const hn4_stream& stream,
                               const hn4_prefetch_options& options)
    : shared_(std::make_unique<shared>(stream, options)) {}
hn4_prefetcher::hn4_prefetcher(hn4_prefetcher&&) noexcept = default;
hn4_prefetcher& hn4_prefetcher::operator=(hn4_prefetcher&&) noexcept = default;
hn4_prefetcher::~hn4_prefetcher() = default;

// A piece with an error stays in `ready`, so that every later call returns the same
// error.
//
// Returns nothing at the end of the range. May be called by one thread at a time.
result<std::optional<byte_vector>> hn4_prefetcher::next() {
  shared& s = *shared_;
  std::unique_lock lock(s.mutex);
  if (s.taken == s.pieces && !s.stopped) {
    return std::optional<byte_vector>();
  }
  s.changed.wait(
      lock, [&] { return s.stopped || s.out_of_memory || s.ready.count(s.taken) != 0; });
  if (s.stopped) {
    return cancelled();
  }
  if (s.out_of_memory) {
    return error(errc::out_of_memory,
                 "cannot read ahead: expected memory for a piece, found too little");
  }
  const auto found = s.ready.find(s.taken);
  if (!found->second) {
    return found->second.error();
  }
  // Taking a piece opens the window for the next one.
  std::optional<byte_vector> piece(std::move(*found->second));
  s.ready.erase(found);
  ++s.taken;
  s.changed.notify_all();
  return piece;
}

/// May be called from any thread, also while another one waits in `next`.
void hn4_prefetcher::cancel() {
  shared_->stop();
}

}  // namespace weir::storage
