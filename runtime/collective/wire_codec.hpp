// SPDX-License-Identifier: Apache-2.0
/// @file
/// Numbers as they travel when they may be rounded on their way.
#pragma once

#include <cstddef>
#include <span>

#include "weir/base/dtype.hpp"
#include "weir/collective/call.hpp"

namespace weir::collective {

/// Bytes of `count` numbers: their codes, then for fp8 one fp32 scale per block of
/// `wire_block`, at a multiple of 64 bytes.
[[nodiscard]] std::size_t wire_bytes(wire_format wire, std::size_t count) noexcept;

/// Rounds elements of fp32, fp16 or bf16 to the wire format. The scale of an fp8 block
/// brings its largest finite size to the largest of fp8; infinities saturate in e4m3.
void encode_wire(dtype type, wire_format wire, const std::byte* from, std::size_t count,
                 std::byte* to) noexcept;
/// The reverse: `count` numbers into every output.
void decode_wire(dtype type, wire_format wire, const std::byte* from, std::size_t count,
                 std::span<std::byte* const> outputs) noexcept;
/// Adds inputs in wire format in fp32, in rank order, divides by `divisor` if it is above
/// 1, and gives the sums in wire format, or as elements.
void add_wire(dtype type, wire_format wire, std::span<const std::byte* const> inputs,
              std::size_t count, std::uint32_t divisor, bool as_elements,
              std::byte* to) noexcept;

}  // namespace weir::collective
