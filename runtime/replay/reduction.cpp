// SPDX-License-Identifier: Apache-2.0
/// @file
/// Transitive reduction with sets of reachable tasks, one bit per pair.
///
/// Tasks are handled from the last to the first. When task `from` is handled, the sets of
/// all its successors are complete. An edge is implied if an earlier successor of `from`
/// reaches its end. Edges that carry failures need such a path of edges that carry
/// failures, hence two sets.
#include "replay/reduction.hpp"

namespace weir::runtime {
namespace {

/// Larger graphs keep all their edges: two bits per pair of tasks would need more memory
/// than the saved edges are worth.
constexpr std::size_t max_reduced = 8192;

/// One bit for each pair of tasks: whether the second can be reached from the first.
class bit_rows {
 public:
  explicit bit_rows(std::size_t n) : words_((n + 63) / 64), bits_(words_ * n) {}
  [[nodiscard]] bool test(std::size_t row, std::size_t bit) const noexcept {
    return (bits_[row * words_ + bit / 64] >> (bit % 64) & 1) != 0;
  }
  void set(std::size_t row, std::size_t bit) noexcept {
    bits_[row * words_ + bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
  /// Adds all that can be reached from `other`. @pre other > row
  void merge(std::size_t row, std::size_t other) noexcept {
    for (std::size_t w = other / 64; w < words_; ++w) {
      bits_[row * words_ + w] |= bits_[other * words_ + w];
    }
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace

/// Removes edges that others imply. The cost grows with the square of the number of
/// tasks, so large graphs are left as they are.
void graph_edges::reduce() {
  const std::size_t n = after_.size();
  if (n > max_reduced) {
    return;
  }
  bit_rows ordered(n);  // reachable by any path
  bit_rows carried(n);  // reachable by a path on which every edge carries failures
  std::vector<edge> remaining;
  for (std::size_t from = n; from-- > 0;) {
    remaining.clear();
    // Successors are in ascending order, so an edge comes after those that may imply it.
    for (const edge& e : after_[from]) {
      const bool carries = carries_failure(e.why);
      if (!(carries ? carried : ordered).test(from, e.to)) {
        remaining.push_back(e);
      }
      ordered.set(from, e.to);
      ordered.merge(from, e.to);
      if (carries) {
        carried.set(from, e.to);
        carried.merge(from, e.to);
      }
    }
    after_[from] = remaining;
  }
}

}  // namespace weir::runtime
