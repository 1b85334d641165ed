// SPDX-License-Identifier: Apache-2.0
/// @file
/// The arithmetic of collectives: element-wise reductions over ranks. Their bits depend
/// on the values of the ranks alone and, below level 2, on their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "weir/base/dtype.hpp"
#include "weir/base/error.hpp"

namespace weir::collective {

/// Operations of reductions.
enum class reduction_op : std::uint8_t { sum, max, min, product, average };
/// Returns the name of an operation.
[[nodiscard]] std::string_view name_of(reduction_op op) noexcept;

/// Largest number of ranks of a collective; sums of fp16 in fp64 are exact up to 8192.
inline constexpr int max_ranks = 1024;

/// One element-wise reduction over ranks 0..R-1.
///
/// Level 1 evaluates the canonical tree: neighbours (0,1),(2,3),... are paired again and
/// again, an odd tail is carried up, the lower rank is the left operand. Nodes are fp32
/// for floats of at most 16 bits, else of the type itself; the result is rounded once.
/// Level 0 may take any order. Level 2 rounds the exact sum once, so that no order of
/// ranks shows; it knows sums and averages of floats, whose exact sum is rounded to fp64
/// (to nothing wider than fp64) before the division; everything without rounding is the
/// same at all levels, and products of floats end at level 1.
///
/// An average is the sum and one division by R in the node type, rounded to the type;
/// integers wrap around and divide towards zero. Booleans: sum and max are OR, min and
/// product AND, any non-zero is true. Complex numbers add by component and multiply by
/// (ac - bd) + (ad + bc)i. Max and min take -0 as less than +0; a NaN among the inputs
/// gives the canonical quiet NaN (positive, top bit of the fraction alone; e4m3 0x7F), as
/// do sums of opposite infinities. fp8 saturates at its largest finite value; an infinity
/// in e5m2 stays one.
struct reduction {
  dtype type = dtype::fp32;             ///< type of the elements
  reduction_op op = reduction_op::sum;  ///< operation
  int level = 1;                        ///< level of determinism, 0 to 2
  bool wide = false;                    ///< nodes of fp32 are fp64, below level 2
};

/// Partial results that may be joined without changing the bits of the result.
enum class partial_rule : std::uint8_t {
  any,       ///< any two: level 0, and whatever does not round
  siblings,  ///< children of one node of the canonical tree
  none,      ///< only whole inputs: exact sums
};

/// A reduction with its kernels chosen for this processor.
/// @threads{a value; all calls are const}
class reducer {
 public:
  /// Makes a reducer with the fastest kernels of this processor.
  /// @error{unsupported; an operation that the type does not have at that level}
  /// @error{invalid_argument; a type that is not one of the 13, or a level outside 0..2}
  [[nodiscard]] static result<reducer> make(const reduction& operation);
  /// Makes a reducer with the kernels that every processor has, which test the fast ones.
  /// @error{unsupported; see make} @error{invalid_argument; see make}
  [[nodiscard]] static result<reducer> make_portable(const reduction& operation);

  /// Returns the type, operation and level.
  [[nodiscard]] const reduction& operation() const noexcept { return operation_; }
  /// Returns the size of an element. @units{bytes}
  [[nodiscard]] std::size_t element_bytes() const noexcept { return element_bytes_; }
  /// Returns the size of an element of a partial result. @units{bytes}
  [[nodiscard]] std::size_t node_bytes() const noexcept { return node_bytes_; }
  /// Returns the partial results that may be joined.
  [[nodiscard]] partial_rule rule() const noexcept { return rule_; }

  /// Reduces `count` elements of every input into every output.
  ///
  /// All inputs of an element are read before it is written anywhere: an output may be
  /// one of the inputs, but must not overlap one in any other way. Any alignment will do.
  /// @param inputs   one pointer per rank, in rank order, 1..max_ranks of them
  /// @param outputs  1..max_ranks pointers
  /// @param count    elements
  void reduce(std::span<const std::byte* const> inputs,
              std::span<std::byte* const> outputs, std::size_t count) const noexcept;
  /// Reduces as `reduce`, from the last elements to the first: the bytes that were
  /// written last are still in the cache.
  void reduce_backwards(std::span<const std::byte* const> inputs,
                        std::span<std::byte* const> outputs,
                        std::size_t count) const noexcept;

  /// An operand of `fold`: elements of the type, or of the node type.
  struct part {
    const std::byte* data;  ///< first element
    bool node;              ///< true for elements of the node type
  };
  /// Evaluates the canonical tree over `parts` as its leaves, in their order. With
  /// `finish` the outputs get elements of the type, and `ranks` divides an average;
  /// without it they get nodes. Not for rule `none` unless all parts are elements and it
  /// finishes.
  void fold(std::span<const part> parts, std::span<std::byte* const> outputs,
            std::size_t count, bool finish, int ranks) const noexcept;

 private:
  reducer() = default;

  reduction operation_;
  std::size_t element_bytes_ = 0;
  std::size_t node_bytes_ = 0;
  std::size_t components_ = 1;  ///< real numbers that an element is added as
  partial_rule rule_ = partial_rule::any;
  const struct reduction_kernels* kernels_ = nullptr;
};

/// Returns the end of the left part of the node [first, last) of the canonical tree.
[[nodiscard]] int canonical_split(int first, int last) noexcept;

/// Checks that an operation exists. @error{unsupported; see reducer::make}
/// @error{invalid_argument; see reducer::make}
[[nodiscard]] result<void> check_reduction(const reduction& operation);

}  // namespace weir::collective
