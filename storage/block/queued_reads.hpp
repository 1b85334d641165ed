// SPDX-License-Identifier: Apache-2.0
/// @file
/// Several reads of one file at the same time: by io_uring or by threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weir/base/bytes.hpp"

namespace weir::storage {

/// Reads of one file that are in flight. Each has a number that its owner chooses.
/// @threads{thread-compatible}
class queued_reads {
 public:
  /// The end of one read.
  struct ended_read {
    std::size_t number = 0;  ///< number that was given to `start`
    std::int64_t bytes = 0;  ///< bytes read from the front; negative: -errno
  };
  /// Nothing may be in flight.
  virtual ~queued_reads() = default;
  /// Begins to read into `to`, which must stay valid until the read has ended. At most
  /// `depth` reads, as given when the queue was made, are in flight.
  virtual void start(std::size_t number, std::uint64_t offset, mutable_bytes to) = 0;
  /// Waits until any read has ended. At least one must be in flight.
  virtual ended_read wait() = 0;
};

/// Makes a queue that the kernel serves (io_uring).
/// @param depth largest number of reads in flight
/// @returns null if the kernel does not allow it
/// @source{Linux, io_uring_setup(2) and io_uring_enter(2)}
[[nodiscard]] std::unique_ptr<queued_reads> queue_in_kernel(int descriptor,
                                                            unsigned depth);

/// Threads that read for any number of queues. They end with the last reference.
class read_threads;
/// Starts `count` threads.
[[nodiscard]] std::shared_ptr<read_threads> start_read_threads(unsigned count);
/// Makes a queue whose reads are carried out by threads.
[[nodiscard]] std::unique_ptr<queued_reads> queue_on_threads(
    std::shared_ptr<read_threads> threads, int descriptor);

}  // namespace weir::storage
