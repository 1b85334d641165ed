// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of a reduction for one type, operation and instruction set, and the driver
/// that puts them together.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weir/collective/reduction.hpp"

namespace weir::collective {

/// Loops over a few thousand bytes. Raw elements may have any alignment, nodes are
/// aligned.
struct reduction_kernels {
  std::size_t element_bytes;
  std::size_t node_bytes;
  /// nodes <- elements
  void (*widen)(const std::byte* from, std::byte* to, std::size_t count);
  /// nodes <- elements op elements
  void (*pair)(const std::byte* left, const std::byte* right, std::byte* to,
               std::size_t count);
  /// nodes <- nodes op nodes; `to` may be the left ones
  void (*join)(const std::byte* left, const std::byte* right, std::byte* to,
               std::size_t count);
  /// elements <- nodes
  void (*finish)(const std::byte* from, std::byte* to, std::size_t count,
                 std::uint32_t divisor);
  /// The first elements of a whole reduction, in registers; returns how many it did,
  /// which is none if it has no loop for so many ranks. Exact sums have this alone and do
  /// all.
  std::size_t (*whole)(const std::byte* const* inputs, std::size_t ranks,
                       std::byte* const* outputs, std::size_t output_count,
                       std::size_t count, std::uint32_t divisor);
};

/// Instruction sets that kernels are compiled for; all of them give the same bits.
enum class instructions : std::uint8_t { portable, avx2 };
[[nodiscard]] instructions best_instructions() noexcept;

/// Kernels of a reduction that exists, each for its types; null for others.
[[nodiscard]] const reduction_kernels* float_kernels(const reduction& what,
                                                     instructions set) noexcept;
[[nodiscard]] const reduction_kernels* narrow_kernels(const reduction& what,
                                                      instructions set) noexcept;
[[nodiscard]] const reduction_kernels* integer_kernels(const reduction& what,
                                                       instructions set) noexcept;
[[nodiscard]] const reduction_kernels* exact_kernels(const reduction& what,
                                                     instructions set) noexcept;

}  // namespace weir::collective
