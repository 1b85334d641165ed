// SPDX-License-Identifier: Apache-2.0
/// @file
/// Footprints as blocks of bytes without gaps, and back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weir/runtime/tensor.hpp"

namespace weir::runtime {

/// A block of bytes without gaps. @invariant lo < hi
struct byte_run {
  std::int64_t lo = 0;  ///< first byte
  std::int64_t hi = 0;  ///< one past the last byte
  friend bool operator==(const byte_run&, const byte_run&) = default;
};

/// Calls `visit(lo, hi)` for each block of a footprint, the outermost progression
/// slowest. Blocks ascend if the footprint is nested; otherwise they may share bytes.
template <class Visit>
void for_each_run(const footprint& bytes, Visit&& visit) {
  if (bytes.empty()) {
    return;
  }
  std::array<std::int64_t, max_dims> index{};
  std::int64_t at = bytes.lo;
  for (;;) {
    visit(at, at + bytes.run);
    std::size_t level = bytes.depth;
    for (;;) {
      if (level == 0) {
        return;
      }
      --level;
      const footprint::progression& p = bytes.steps[level];
      at += p.stride;
      if (++index[level] < p.count) {
        break;
      }
      at -= p.stride * p.count;
      index[level] = 0;
    }
  }
}

/// Returns the blocks of a footprint, ascending and disjoint.
[[nodiscard]] std::vector<byte_run> runs_of(const footprint& bytes);

/// Adds footprints to `out` that cover exactly the blocks. Blocks of equal length at
/// equal distances become one footprint, also on a second level.
/// @pre the blocks ascend and are disjoint
void gather_runs(storage_id id, std::span<const byte_run> runs,
                 std::vector<footprint>& out);

/// Returns the number of bytes of a footprint; bytes that its blocks share count several
/// times if it is not nested.
[[nodiscard]] std::int64_t byte_count(const footprint& bytes) noexcept;

}  // namespace weir::runtime
