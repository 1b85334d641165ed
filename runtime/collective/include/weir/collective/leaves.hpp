// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums that do not depend on how many ranks hold the data: leaves added along the lower
/// levels of the canonical tree, and accumulators in fixed point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weir/base/error.hpp"
#include "weir/collective/reduction.hpp"

namespace weir::collective {

/// Returns the type of the nodes of a level 1 reduction: fp32 for fp8, fp16 and bf16, and
/// the type itself otherwise.
[[nodiscard]] dtype node_type(dtype type) noexcept;

/// Adds leaves (e.g. the gradients of one rank's share of a batch) one after another
/// along the canonical tree over all of the leaves.
///
/// With L leaves in all, of which each of R ranks adds L / R consecutive ones, a power of
/// two, a level 1 all-reduce of the partial sums as `node_type` gives the same bits for
/// every such R. It holds one buffer of nodes per bit of the number of leaves.
/// ```
/// leaf_tree tree = or_throw(leaf_tree::make({dtype::fp32, reduction_op::sum}, n));
/// for (...) tree.add(leaf);
/// tree.finish(partial);  // then all_reduce(partial), and for narrow types `round_nodes`
/// ```
/// @threads{thread-compatible}
class leaf_tree {
 public:
  /// Makes a tree without leaves.
  /// @param operation  sum, product, max or min at level 0 or 1
  /// @param count      elements of each leaf
  /// @error{unsupported; an average, level 2, or an operation that `reducer::make`
  /// refuses}
  /// @error{invalid_argument; no such type or level, or a byte size above 2^63-1}
  [[nodiscard]] static result<leaf_tree> make(const reduction& operation,
                                              std::size_t count);

  /// Adds the next leaf: `count` elements of the type.
  /// @error{out_of_memory; no memory for one more buffer}
  result<void> add(const std::byte* leaf);
  /// Returns the number of leaves so far.
  [[nodiscard]] std::uint64_t leaves() const noexcept { return leaves_; }
  /// Returns the size of the partial sum, which has `count` nodes. @units{bytes}
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Writes the sum of the leaves so far as nodes, and begins a new sum.
  /// @error{invalid_argument; there are none, or their number is no power of two, so that
  /// the sum of all ranks' leaves would depend on how they are spread}
  result<void> finish(std::byte* nodes);

 private:
  explicit leaf_tree(const reducer& arithmetic, std::size_t count)
      : arithmetic_(arithmetic), count_(count) {}

  reducer arithmetic_;
  std::size_t count_;
  std::uint64_t leaves_ = 0;
  /// Subtrees that wait for their right neighbours: number k holds 2^k leaves.
  std::vector<std::vector<std::byte>> waiting_;
  std::vector<std::byte> first_;  ///< a leaf that waits for the second of its pair
};

/// Rounds `count` nodes of `type` to elements. @error{unsupported; see reducer::make}
/// @error{invalid_argument; see reducer::make}
result<void> round_nodes(dtype type, const std::byte* nodes, std::size_t count,
                         std::byte* elements);

/// Fixed point sums of fp8, fp16, bf16, fp32 or fp64: the same bits for every order,
/// number of ranks and spread of the leaves over them, by any all-reduce of integers.
///
/// 1. `note_sizes` of every leaf, then an all-reduce MAX of the exponents (int32).
/// 2. `add` of every leaf, then an all-reduce SUM of the limbs (int64).
/// 3. `finish`.
/// Each block of 256 elements, counted from the beginning of the whole tensor, has one
/// exponent. A leaf is rounded to 2^-(62 - h) of the block's largest size, where h is the
/// number of bits of the number of leaves; fp64 has a second limb for the next 62 - h
/// bits. A block with an infinity or a NaN becomes NaN in all its elements.
/// @source{Tessera Runtime & ABI, 4.7: stable reductions}
struct fixed_point_sum {
  static constexpr std::size_t block = 256;  ///< elements that share an exponent

  dtype type = dtype::fp32;  ///< type of the elements
  std::uint64_t leaves = 1;  ///< leaves of all ranks, at most 2^30
  std::uint64_t first = 0;   ///< first element of the buffers in the tensor
  std::size_t count = 0;     ///< number of elements of the buffers

  /// Checks the members. @error{unsupported; another type}
  /// @error{invalid_argument; a number of leaves outside [1, 2^30]}
  [[nodiscard]] result<void> check() const;
  /// Returns the number of blocks that the buffers touch.
  [[nodiscard]] std::size_t blocks() const noexcept;
  /// Returns the number of limbs of an element: 2 for fp64, and 1 otherwise.
  [[nodiscard]] std::size_t limbs() const noexcept;
  /// Exponent of a block before any leaf was noted.
  static constexpr std::int32_t no_exponent = -2000;

  /// Raises exponents to those of this leaf. @param exponents  `blocks()` numbers
  void note_sizes(const std::byte* leaf,
                  std::span<std::int32_t> exponents) const noexcept;
  /// Adds a leaf. @param sums  `count * limbs()` numbers, zero at the beginning
  void add(const std::byte* leaf, std::span<const std::int32_t> exponents,
           std::span<std::int64_t> sums) const noexcept;
  /// Rounds the sums to the type, to nearest even.
  void finish(std::span<const std::int32_t> exponents, std::span<const std::int64_t> sums,
              std::byte* elements) const noexcept;
};

}  // namespace weir::collective
