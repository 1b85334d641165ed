// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of a reduction for one type, operation and instruction set. The driver in
/// reduction.cpp puts them together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weir/collective/reduction.hpp"

namespace weir::collective {

/// Loops over a few thousand bytes. Elements may have any alignment; nodes are aligned.
struct reduction_kernels {
  std::size_t element_bytes;
  std::size_t node_bytes;
  /// Converts elements to nodes.
  void (*widen)(const std::byte* from, std::byte* to, std::size_t count);
  /// Combines elements with elements to nodes.
  void (*pair)(const std::byte* left, const std::byte* right, std::byte* to,
               std::size_t count);
  /// Combines nodes with nodes. `to` may be the left ones.
  void (*join)(const std::byte* left, const std::byte* right, std::byte* to,
               std::size_t count);
  /// Converts nodes to elements, divided by `divisor` if it is above 1.
  void (*finish)(const std::byte* from, std::byte* to, std::size_t count,
                 std::uint32_t divisor);
  /// Reduces the first elements of whole inputs in registers. Returns the number of
  /// elements that are done, which is 0 if there is no loop for so many ranks. Exact sums
  /// have only this function, and it does all elements.
  std::size_t (*whole)(const std::byte* const* inputs, std::size_t ranks,
                       std::byte* const* outputs, std::size_t output_count,
                       std::size_t count, std::uint32_t divisor);
};

/// Instruction sets that kernels are compiled for. All of them give the same bits.
enum class instructions : std::uint8_t { portable, avx2 };
/// Returns the best instruction set of this processor.
[[nodiscard]] instructions best_instructions() noexcept;

/// Return the kernels of a reduction that exists, each for its types, and null for
/// others.
[[nodiscard]] const reduction_kernels* float_kernels(const reduction& operation,
                                                     instructions set) noexcept;
[[nodiscard]] const reduction_kernels* narrow_kernels(const reduction& operation,
                                                      instructions set) noexcept;
[[nodiscard]] const reduction_kernels* integer_kernels(const reduction& operation,
                                                       instructions set) noexcept;
[[nodiscard]] const reduction_kernels* exact_kernels(const reduction& operation,
                                                     instructions set) noexcept;

}  // namespace weir::collective
