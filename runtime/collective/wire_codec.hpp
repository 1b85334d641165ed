// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encoding of numbers that may be rounded on their way between ranks.
///
/// Steps of a plan encode and decode. A plan needs the sizes to reserve scratch memory.
#pragma once

#include <cstddef>
#include <span>

#include "weir/base/dtype.hpp"
#include "weir/collective/call.hpp"

namespace weir::collective {

/// Returns the size of `count` encoded numbers in bytes: the codes, then for fp8 one fp32
/// scale for each block of `wire_block` numbers, at a multiple of 64 bytes.
[[nodiscard]] std::size_t wire_bytes(wire_format wire, std::size_t count) noexcept;

/// Rounds elements of fp32, fp16 or bf16 to the wire format. The scale of an fp8 block
/// maps its largest finite magnitude to the largest number of fp8. Infinities become the
/// largest number in e4m3.
void encode_wire(dtype type, wire_format wire, const std::byte* from, std::size_t count,
                 std::byte* to) noexcept;
/// Decodes `count` numbers into every output.
void decode_wire(dtype type, wire_format wire, const std::byte* from, std::size_t count,
                 std::span<std::byte* const> outputs) noexcept;
/// Adds encoded inputs in fp32, in the order of ranks, and divides by `divisor` if it is
/// above 1. Writes the sums encoded, or as elements if `as_elements`.
void add_wire(dtype type, wire_format wire, std::span<const std::byte* const> inputs,
              std::size_t count, std::uint32_t divisor, bool as_elements,
              std::byte* to) noexcept;

}  // namespace weir::collective
