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

/// Returns one block of the outermost progression, at `at` bytes from an origin.
footprint block_of(const footprint& f, std::int64_t at) noexcept {
  const footprint::progression& p = f.steps[0];
  footprint out = f;
  out.lo = at;
  out.hi = at + (f.hi - f.lo) - (p.count - 1) * p.stride;
  std::copy(f.steps.begin() + 1, f.steps.begin() + f.depth, out.steps.begin());
  --out.depth;
  return out;
}

/// Returns the blocks of `of` that `by` covers. If `by` is dense, these are the blocks
/// that lie inside of it. Otherwise both must have the same outermost stride; then one
/// block of `by` either covers the block of `of` in the same period, or none does.
blocks covered_blocks(const footprint& of, const footprint& by) noexcept {
  const footprint::progression& p = of.steps[0];
  const std::int64_t span = (of.hi - of.lo) - (p.count - 1) * p.stride;
  if (by.dense()) {
    return {ceil_div(by.lo - of.lo, p.stride), floor_div(by.hi - span - of.lo, p.stride)};
  }
  if (by.steps[0].stride != p.stride) {
    return {};
  }
  const std::int64_t ahead = floor_div(of.lo - by.lo, p.stride);
  const std::int64_t rest = of.lo - by.lo - ahead * p.stride;
  if (!covers(block_of(by, 0), block_of(of, rest))) {
    return {};
  }
  return {-ahead, by.steps[0].count - 1 - ahead};
}

}  // namespace

// Blocks in the middle are kept, because the rest would be two footprints. A progression
// of one block is replaced by the block itself.
bool cut(footprint& of, const footprint& by) noexcept {
  const blocks gone = covered_blocks(of, by);
  footprint::progression& p = of.steps[0];
  if (gone.last < std::max<std::int64_t>(gone.first, 0) || gone.first >= p.count) {
    return false;
  }
  if (gone.first <= 0) {
    of.lo += (gone.last + 1) * p.stride;
    p.count -= std::min(gone.last + 1, p.count);
  } else if (gone.last >= p.count - 1) {
    of.hi -= (p.count - gone.first) * p.stride;
    p.count = gone.first;
  }
  if (p.count == 1) {
    of = block_of(of, of.lo);
  }
  return p.count == 0;
}

}  // namespace weir::runtime
