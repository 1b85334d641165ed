// SPDX-License-Identifier: Apache-2.0
/// @file
/// How bytes get from one rank to another: the one thing that steps of a collective leave
/// to somebody else. Arithmetic never crosses it.
#pragma once

#include <cstddef>

#include "weir/base/error.hpp"

namespace weir::collective {

/// Moves bytes between ranks of one group.
/// @threads{calls for different steps may come from different threads at the same time}
class transport {
 public:
  virtual ~transport() = default;
  /// Brings `bytes` bytes of rank `source` at `from` to rank `target` at `to`; they are
  /// there when it returns. The two ranges are equal or do not overlap.
  /// @error{io, the bytes did not arrive}
  virtual result<void> move(int source, const std::byte* from, int target, std::byte* to,
                            std::size_t bytes) = 0;
};

/// Ranks of one process: a copy.
[[nodiscard]] transport& in_process_transport() noexcept;

}  // namespace weir::collective
