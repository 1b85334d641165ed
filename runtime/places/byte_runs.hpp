// SPDX-License-Identifier: Apache-2.0
/// @file
/// Footprints as blocks of bytes without gaps, and back.
#pragma once

#include <algorithm>
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

/// Calls `visit(lo, hi)` for the blocks of a footprint, but leaves out repetitions of the
/// outermost progression that have no byte in [lo, hi) if the footprint is nested.
template <class Visit>
void for_each_run_near(const footprint& bytes, std::int64_t lo, std::int64_t hi,
                       Visit&& visit) {
  if (bytes.depth == 0 || !bytes.nested) {
    for_each_run(bytes, visit);
    return;
  }
  const footprint::progression& outer = bytes.steps[0];
  const std::int64_t span = bytes.hi - bytes.lo - (outer.count - 1) * outer.stride;
  const std::int64_t first =
      lo - bytes.lo < span ? 0 : (lo - bytes.lo - span) / outer.stride + 1;
  const std::int64_t end =
      hi <= bytes.lo ? 0 : std::min(outer.count, (hi - bytes.lo - 1) / outer.stride + 1);
  if (first >= end) {
    return;
  }
  footprint near = bytes;
  near.lo += first * outer.stride;
  near.hi = near.lo + (end - first - 1) * outer.stride + span;
  near.steps[0].count = end - first;
  for_each_run(near, visit);
}

/// Returns the blocks of a footprint, ascending and disjoint.
[[nodiscard]] std::vector<byte_run> runs_of(const footprint& bytes);

/// Adds footprints to `out` that cover exactly the blocks. Blocks of equal length at
/// equal distances become one footprint, also on a second level.
/// @pre the blocks ascend and are disjoint
void gather_runs(storage_id id, std::span<const byte_run> runs,
                 std::vector<footprint>& out);

/// Returns the number of blocks of a footprint; those that share bytes count each.
[[nodiscard]] inline std::int64_t block_count(const footprint& bytes) noexcept {
  std::int64_t count = bytes.empty() ? 0 : 1;
  for (std::size_t i = 0; i < bytes.depth; ++i) {
    count *= bytes.steps[i].count;
  }
  return count;
}

/// Returns the number of bytes of a footprint; bytes that its blocks share count several
/// times if it is not nested.
[[nodiscard]] std::int64_t byte_count(const footprint& bytes) noexcept;

}  // namespace weir::runtime
