// SPDX-License-Identifier: Apache-2.0
/// @file
/// The exact decision whether two footprints overlap, and the containment test.
/// @source{docs/tensormap.md, section 3.b}
///
/// The search compares the outermost levels first. A pair of parts either does not meet,
/// meets for certain (the ends of a part always belong to it), or is opened into the
/// blocks of one side. The side with fewer candidates is opened, which keeps the search
/// short for the views that programs have.
#include <algorithm>
#include <array>
#include <numeric>

#include "tensor/progression.hpp"
#include "weir/runtime/tensor.hpp"

namespace weir::runtime {
namespace {

using progression = footprint::progression;

/// One side of the search: the levels of a footprint, and for each level the span of
/// everything from that level inwards.
struct side {
  explicit side(const footprint& f) noexcept : bytes(f), depth(f.depth) {
    std::int64_t inside = f.run;
    span[static_cast<std::size_t>(depth)] = inside;
    for (int i = depth - 1; i >= 0; --i) {
      const progression& p = step(i);
      inside += p.stride * (p.count - 1);
      span[static_cast<std::size_t>(i)] = inside;
    }
  }
  [[nodiscard]] const progression& step(int level) const noexcept {
    return bytes.steps[static_cast<std::size_t>(level)];
  }
  [[nodiscard]] std::int64_t from(int level) const noexcept {
    return span[static_cast<std::size_t>(level)];
  }
  const footprint& bytes;
  int depth;
  std::array<std::int64_t, max_dims + 1> span;  ///< elements up to `depth` are set
};

/// Values of a counter that must be examined, from first to last in steps.
struct choice {
  std::int64_t first = 0;
  std::int64_t last = -1;
  std::int64_t step = 1;
  [[nodiscard]] std::int64_t size() const noexcept {
    if (last < first) {
      return 0;
    }
    const auto steps =
        (static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first)) /
        static_cast<std::uint64_t>(step);
    return static_cast<std::int64_t>(std::min<std::uint64_t>(steps, INT64_MAX - 1)) + 1;
  }
};

/// Returns true if blocks of `run_a` bytes along p and of `run_b` bytes along q share a
/// byte. The first block of q begins `d` bytes after the first block of p.
bool blocks_meet(const progression& p, std::int64_t run_a, const progression& q,
                 std::int64_t run_b, std::int64_t d) noexcept {
  // Block k of p meets block l of q if k * p.stride - l * q.stride lies in [low, high].
  const std::int64_t low = d - run_a + 1;
  const std::int64_t high = d + run_b - 1;
  if (p.stride == q.stride) {
    const std::int64_t k = std::max(ceil_div(low, p.stride), 1 - q.count);
    return k <= p.count - 1 && k * p.stride <= high;
  }
  return difference_lands(p.stride, p.count, q.stride, q.count, low, high);
}

/// Returns the outermost progression, or one of a single block.
const progression& outermost(const footprint& f) noexcept {
  static constexpr progression one{1, 1};
  return f.depth == 0 ? one : f.steps[0];
}

/// Depth-first search over pairs of blocks that may meet. Each level that is opened costs
/// one unit of the budget, so the time is bounded; when the budget is spent, the answer
/// is "maybe", which callers treat as "yes".
class search {
 public:
  search(const footprint& a, const footprint& b, int budget) noexcept
      : a_(a), b_(b), budget_(budget) {}

  /// Returns whether the part of A from level i and the part of B from level j share a
  /// byte, where B starts `d` bytes after A.
  [[nodiscard]] overlap meet(std::int64_t d, int i, int j) noexcept {
    if (d >= a_.from(i) || -d >= b_.from(j)) {
      return overlap::no;
    }
    const bool a_dense = i == a_.depth;
    const bool b_dense = j == b_.depth;
    // The first and the last byte of a part always belong to it.
    if (a_dense && (b_dense || d >= 0 || d + b_.from(j) <= a_.from(i))) {
      return overlap::yes;
    }
    if (b_dense && (d <= 0 || a_.from(i) <= d + b_.from(j))) {
      return overlap::yes;
    }
    if (--budget_ < 0) {
      return overlap::maybe;
    }
    if (i + 1 >= a_.depth && j + 1 >= b_.depth) {
      return leaf(d, i, j) ? overlap::yes : overlap::no;
    }
    return branch(d, i, j);
  }

 private:
  /// Decides exactly where each side has at most one progression.
  [[nodiscard]] bool leaf(std::int64_t d, int i, int j) const noexcept {
    const progression one{1, 1};
    return blocks_meet(i < a_.depth ? a_.step(i) : one, a_.bytes.run,
                       j < b_.depth ? b_.step(j) : one, b_.bytes.run, d);
  }

  /// Opens the level with the fewest candidates: the blocks of A, the blocks of B, or the
  /// distances between blocks of both.
  [[nodiscard]] overlap branch(std::int64_t d, int i, int j) noexcept {
    // Counts how many pairs each way would have to look at.
    const choice by_a = i < a_.depth ? blocks_of_a(d, i, j) : choice{};
    const choice by_b = j < b_.depth ? blocks_of_b(d, i, j) : choice{};
    const bool both = i < a_.depth && j < b_.depth;
    const std::int64_t cost_a = i < a_.depth ? by_a.size() : INT64_MAX;
    const std::int64_t cost_b = j < b_.depth ? by_b.size() : INT64_MAX;
    if (both) {
      const choice by_both = differences(d, i, j);
      if (by_both.size() <= std::min(cost_a, cost_b)) {
        return try_differences(by_both, d, i, j);
      }
    }
    overlap seen = overlap::no;
    const bool take_a = cost_a <= cost_b;
    const choice& c = take_a ? by_a : by_b;
    for (std::int64_t k = c.first; k <= c.last; ++k) {
      const overlap o = take_a ? meet(d - k * a_.step(i).stride, i + 1, j)
                               : meet(d + k * b_.step(j).stride, i, j + 1);
      if (note(o, seen)) {
        return seen;
      }
    }
    return seen;
  }

  /// Tries the distances between a block of A and a block of B, each once, although
  /// several pairs of blocks may have the same one.
  [[nodiscard]] overlap try_differences(const choice& c, std::int64_t d, int i,
                                        int j) noexcept {
    const progression& p = a_.step(i);
    const progression& q = b_.step(j);
    overlap seen = overlap::no;
    for (std::int64_t n = 0, count = c.size(); n < count; ++n) {
      const std::int64_t v = c.first + n * c.step;
      if (p.stride != q.stride) {
        if (--budget_ < 0) {
          return overlap::maybe;
        }
        if (!difference_lands(p.stride, p.count, q.stride, q.count, v, v)) {
          continue;
        }
      }
      if (note(meet(d - v, i + 1, j + 1), seen)) {
        return seen;
      }
    }
    return seen;
  }

  /// Records an answer. Returns true if the search can end: "yes" is final, and "maybe"
  /// means that the budget is spent.
  [[nodiscard]] static bool note(overlap o, overlap& seen) noexcept {
    if (o != overlap::no) {
      seen = o;
    }
    return o != overlap::no;
  }

  /// Returns the blocks of A's outer level whose span meets that of B.
  [[nodiscard]] choice blocks_of_a(std::int64_t d, int i, int j) const noexcept {
    const progression& p = a_.step(i);
    return {std::max<std::int64_t>(0, ceil_div(d - a_.from(i + 1) + 1, p.stride)),
            std::min(p.count - 1, floor_div(d + b_.from(j) - 1, p.stride)), 1};
  }
  /// Returns the blocks of B's outer level whose span meets that of A.
  [[nodiscard]] choice blocks_of_b(std::int64_t d, int i, int j) const noexcept {
    const progression& q = b_.step(j);
    return {std::max<std::int64_t>(0, ceil_div(-d - b_.from(j + 1) + 1, q.stride)),
            std::min(q.count - 1, floor_div(a_.from(i) - d - 1, q.stride)), 1};
  }
  /// Returns the distances between a block of A and one of B at which their insides can
  /// meet.
  [[nodiscard]] choice differences(std::int64_t d, int i, int j) const noexcept {
    const progression& p = a_.step(i);
    const progression& q = b_.step(j);
    // Distances of blocks are multiples of the greatest common divisor of the strides.
    const std::int64_t step =
        p.stride == q.stride ? p.stride : std::gcd(p.stride, q.stride);
    const std::int64_t low = std::max(d - a_.from(i + 1) + 1, (1 - q.count) * q.stride);
    const std::int64_t high = std::min(d + b_.from(j + 1) - 1, (p.count - 1) * p.stride);
    return {ceil_div(low, step) * step, floor_div(high, step) * step, step};
  }

  side a_;
  side b_;
  int budget_;
};

}  // namespace

/// Tries the cheap tests first: the spans, then two dense footprints, then footprints of
/// at most one level, which have a closed test. Only the rest needs the search, whose
/// steps are limited by `budget`.
overlap decide_overlap(const footprint& a, const footprint& b, int budget) noexcept {
  // An empty footprint has lo == hi == 0, so no span has a byte in common with it.
  if (a.id != b.id || a.lo >= b.hi || b.lo >= a.hi) {
    return overlap::no;
  }
  if (a.dense() && b.dense()) {
    return overlap::yes;
  }
  if (a.depth <= 1 && b.depth <= 1) {
    const bool meet = blocks_meet(outermost(a), a.run, outermost(b), b.run, b.lo - a.lo);
    return meet ? overlap::yes : overlap::no;
  }
  return search(a, b, budget).meet(b.lo - a.lo, 0, 0);
}

/// A sufficient test: it may return false for footprints that are contained, but never
/// true for others.
bool covers(const footprint& outer, const footprint& inner) noexcept {
  if (inner.empty()) {
    return true;
  }
  if (outer.id != inner.id || inner.lo < outer.lo || inner.hi > outer.hi) {
    return false;
  }
  if (outer.dense()) {
    return true;
  }
  // Places every block of `inner` on the lattice of `outer`. Levels of `inner` whose
  // stride is a multiple of an outer stride move along that level; finer levels must fit
  // into the outer run.
  std::int64_t rest = inner.lo - outer.lo;
  int next = 0;
  for (int i = 0; i < outer.depth; ++i) {
    const progression& level = outer.steps[static_cast<std::size_t>(i)];
    std::int64_t reach = rest / level.stride;
    rest %= level.stride;
    while (next < inner.depth &&
           inner.steps[static_cast<std::size_t>(next)].stride >= level.stride) {
      const progression& p = inner.steps[static_cast<std::size_t>(next)];
      if (p.stride % level.stride != 0) {
        return false;
      }
      reach += (p.count - 1) * (p.stride / level.stride);
      ++next;
    }
    if (reach > level.count - 1) {
      return false;
    }
  }
  std::int64_t inside = inner.run;
  for (; next < inner.depth; ++next) {
    const progression& p = inner.steps[static_cast<std::size_t>(next)];
    inside += (p.count - 1) * p.stride;
  }
  return rest + inside <= outer.run;
}

}  // namespace weir::runtime
