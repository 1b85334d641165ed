// SPDX-License-Identifier: Apache-2.0
/// @file
/// Transport of bytes between ranks: the only part of a collective that can be replaced.
/// It does no arithmetic.
#pragma once

#include <cstddef>

#include "weir/base/error.hpp"

namespace weir::collective {

/// Moves bytes between ranks of one group.
/// @threads{calls for different steps may come from different threads at the same time}
class transport {
 public:
  virtual ~transport() = default;
  /// Moves `bytes` bytes of rank `source` at `from` to rank `target` at `to`. They have
  /// arrived when it returns. The two ranges are equal or do not overlap.
  /// @error{io; the bytes did not arrive}
  virtual result<void> move(int source, const std::byte* from, int target, std::byte* to,
                            std::size_t bytes) = 0;
};

/// Returns the transport between ranks of one process, which copies.
[[nodiscard]] transport& in_process_transport() noexcept;

}  // namespace weir::collective
