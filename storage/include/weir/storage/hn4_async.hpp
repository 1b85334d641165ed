// SPDX-License-Identifier: Apache-2.0
/// @file
/// Streams read by several threads, and ahead of their consumer.
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

struct hn4_parallel_options {
  std::uint32_t threads = 0;  ///< the caller's is one of them; 0: one per processor
  /// Told after every piece, from any thread, one call at a time: bytes done, bytes asked
  /// for.
  std::function<void(std::uint64_t, std::uint64_t)> progress;
  std::stop_token stop;  ///< ends the read with `interrupted`
};

/// Fills `to` from `offset` with several threads; the same bytes as `stream.read`.
/// Returns how many: fewer than asked for only where the stream ends. Of several errors
/// the one of the lowest offset is returned.
/// @error{as hn4_stream::read; interrupted}
/// @threads{safe}
[[nodiscard]] result<std::size_t> read_parallel(const hn4_stream& stream,
                                                std::uint64_t offset, mutable_bytes to,
                                                const hn4_parallel_options& options = {});

struct hn4_prefetch_options {
  std::uint64_t offset = 0;
  std::uint64_t length = UINT64_MAX;         ///< cut at the end of the stream
  std::size_t piece = std::size_t{1} << 20;  ///< bytes, rounded up to whole payloads
  std::size_t window = 4;                    ///< pieces read ahead of the consumer
  std::uint32_t threads = 1;
};

/// Reads a stream piece by piece before it is asked for, in order, at most a window
/// ahead.
/// @threads{`next` by one thread, `cancel` by any}
class hn4_prefetcher {
 public:
  hn4_prefetcher(const hn4_stream& stream, const hn4_prefetch_options& options = {});
  hn4_prefetcher(hn4_prefetcher&&) noexcept;
  hn4_prefetcher& operator=(hn4_prefetcher&&) noexcept;
  /// Cancels, and waits for reads that are under way.
  ~hn4_prefetcher();

  /// The next piece; nothing at the end. After an error it is returned again.
  /// @error{as hn4_stream::read; interrupted, it was cancelled}
  [[nodiscard]] result<std::optional<byte_vector>> next();
  /// Ends waiting and later calls of `next` with `interrupted`.
  void cancel();

 private:
  struct shared;
  std::unique_ptr<shared> shared_;
};

}  // namespace weir::storage
