// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads of HN4 streams by several threads, and reads ahead of a consumer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::storage {

/// How `read_parallel` reads.
struct hn4_parallel_options {
  /// Number of threads, the calling thread included; 0 for one per processor.
  std::uint32_t threads = 0;
  /// Called after every piece with the bytes read and the bytes requested. Calls come
  /// from any of the threads, one at a time.
  std::function<void(std::uint64_t, std::uint64_t)> progress;
  std::stop_token stop;  ///< request to stop; the read then fails with `interrupted`
};

/// Reads bytes from `offset` on with several threads.
///
/// The bytes and the errors are those of `hn4_stream::read`. If several threads fail, the
/// error of the lowest offset is returned.
/// @returns `to.size()`, or fewer at the end of the stream
/// @error{interrupted, `options.stop` was requested}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::size_t> read_parallel(const hn4_stream& stream,
                                                std::uint64_t offset, mutable_bytes to,
                                                const hn4_parallel_options& options = {});

/// How a prefetcher reads.
struct hn4_prefetch_options {
  std::uint64_t offset = 0;  ///< byte of the stream at which reading begins
  /// Bytes; the range is cut at the end of the stream.
  std::uint64_t length = UINT64_MAX;
  /// Bytes per piece, rounded up to whole payloads.
  std::size_t piece = std::size_t{1} << 20;
  std::size_t window = 4;     ///< number of pieces that are read ahead of the consumer
  std::uint32_t threads = 1;  ///< number of threads that read
};

/// Reads a stream piece by piece, in order, before the pieces are asked for. At most a
/// window of them is held in memory.
/// @threads{`next` may be called by one thread, `cancel` by any}
class hn4_prefetcher {
 public:
  /// Starts the threads, which begin to read at once.
  hn4_prefetcher(const hn4_stream& stream, const hn4_prefetch_options& options = {});
  /// Moves the prefetcher; its threads continue.
  hn4_prefetcher(hn4_prefetcher&&) noexcept;
  /// Moves the prefetcher; its threads continue.
  hn4_prefetcher& operator=(hn4_prefetcher&&) noexcept;
  /// Cancels, and waits for the reads that are in progress.
  ~hn4_prefetcher();

  /// Waits for the next piece and returns it, or nothing at the end. An error of
  /// `hn4_stream::read` is returned again by every later call.
  /// @error{interrupted, the prefetcher was cancelled}
  [[nodiscard]] result<std::optional<byte_vector>> next();
  /// Makes waiting and later calls of `next` fail with `interrupted`.
  void cancel();

 private:
  struct shared;
  std::unique_ptr<shared> shared_;
};

}  // namespace weir::storage
