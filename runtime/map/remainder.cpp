// SPDX-License-Identifier: Apache-2.0
/// @file
/// Removal of the blocks that a write covers from an older strided access.
#include "map/remainder.hpp"

#include <algorithm>

#include "tensor/progression.hpp"

namespace weir::runtime {
namespace {

/// A range of block numbers, from first to last; empty if last < first.
struct blocks {
  std::int64_t first = 0;
  std::int64_t last = -1;
};

/// Returns one block of the outermost progression, at `start` bytes from an origin.
footprint block_of(const footprint& f, std::int64_t start) noexcept {
  const footprint::progression& p = f.steps[0];
  footprint out = f;
  out.lo = start;
  out.hi = start + (f.hi - f.lo) - (p.count - 1) * p.stride;
  std::copy(f.steps.begin() + 1, f.steps.begin() + f.depth, out.steps.begin());
  --out.depth;
  return out;
}

/// Returns the blocks of `target` that `cover` covers. If `cover` is dense, these are the
/// blocks that lie inside of it. Otherwise both must have the same outermost stride; then
/// one block of `cover` either covers the block of `target` in the same period, or none
/// does.
blocks covered_blocks(const footprint& target, const footprint& cover) noexcept {
  const footprint::progression& p = target.steps[0];
  const std::int64_t span = (target.hi - target.lo) - (p.count - 1) * p.stride;
  if (cover.dense()) {
    return {ceil_div(cover.lo - target.lo, p.stride),
            floor_div(cover.hi - span - target.lo, p.stride)};
  }
  if (cover.steps[0].stride != p.stride) {
    return {};
  }
  const std::int64_t ahead = floor_div(target.lo - cover.lo, p.stride);
  const std::int64_t rest = target.lo - cover.lo - ahead * p.stride;
  if (!covers(block_of(cover, 0), block_of(target, rest))) {
    return {};
  }
  return {-ahead, cover.steps[0].count - 1 - ahead};
}

}  // namespace

// Blocks in the middle are kept, because the rest would be two footprints. A progression
// of one block is replaced by the block itself.
bool cut(footprint& target, const footprint& cover) noexcept {
  const blocks gone = covered_blocks(target, cover);
  footprint::progression& p = target.steps[0];
  if (gone.last < std::max<std::int64_t>(gone.first, 0) || gone.first >= p.count) {
    return false;
  }
  if (gone.first <= 0) {
    target.lo += (gone.last + 1) * p.stride;
    p.count -= std::min(gone.last + 1, p.count);
  } else if (gone.last >= p.count - 1) {
    target.hi -= (p.count - gone.first) * p.stride;
    p.count = gone.first;
  }
  if (p.count == 1) {
    target = block_of(target, target.lo);
  }
  return p.count == 0;
}

}  // namespace weir::runtime
