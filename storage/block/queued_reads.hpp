// SPDX-License-Identifier: Apache-2.0
/// @file
/// Several transfers from one file at a time: by the kernel's own queue, or by threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weir/base/bytes.hpp"

namespace weir::storage {

/// Transfers in flight, each with a number that its owner gives.
/// @threads{thread-compatible}
class queued_reads {
 public:
  struct ended {
    std::size_t number = 0;
    std::int64_t bytes = 0;  ///< read, from the front; negative: errno
  };
  /// Nothing may be in flight.
  virtual ~queued_reads() = default;
  /// Begins to fill `to`, which stays where it is until the transfer has ended. At most
  /// `depth` are in flight.
  virtual void start(std::size_t number, std::uint64_t offset, mutable_bytes to) = 0;
  /// Waits for any transfer; one at least is in flight.
  virtual ended wait() = 0;
};

/// Through io_uring. @return null: the kernel does not allow it
/// @source{Linux, io_uring_setup(2) and io_uring_enter(2)}
[[nodiscard]] std::unique_ptr<queued_reads> queue_in_kernel(int descriptor,
                                                            unsigned depth);

/// Threads that read on behalf of many queues.
class read_threads;
[[nodiscard]] std::shared_ptr<read_threads> start_read_threads(unsigned count);
[[nodiscard]] std::unique_ptr<queued_reads> queue_on_threads(
    std::shared_ptr<read_threads> threads, int descriptor);

}  // namespace weir::storage
