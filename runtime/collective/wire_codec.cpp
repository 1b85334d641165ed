// SPDX-License-Identifier: Apache-2.0
/// @file
/// The codec of wire formats: bf16, and fp8 with one scale for each block. Blocks go
/// through fp32. A scale uses the whole range of fp8 for the largest number of its block.
///
/// All arithmetic on the way is in fp32, whatever the type of the elements, so a block
/// has the same code on all ranks.
#include "collective/wire_codec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "collective/kernels/default_environment.hpp"
#include "collective/kernels/narrow_floats.hpp"

namespace weir::collective {
namespace {

using block = std::array<float, wire_block>;

/// Convert a block of elements to fp32 and back.
template <class T>
void widen_block(const std::byte* from, std::size_t count, block& to) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    T x;
    std::memcpy(&x, from + i * sizeof(T), sizeof x);
    if constexpr (std::is_same_v<T, float>) {
      to[i] = x;
    } else {
      to[i] = to_float(x);
    }
  }
}

/// Converts a block of fp32 to elements.
template <class T>
void narrow_block(const block& from, std::size_t count, std::byte* to) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    T x;
    if constexpr (std::is_same_v<T, float>) {
      x = from[i];
    } else {
      from_float(from[i], x);
    }
    std::memcpy(to + i * sizeof(T), &x, sizeof x);
  }
}

void load_elements(dtype type, const std::byte* from, std::size_t count,
                   block& to) noexcept {
  switch (type) {
    case dtype::fp16: return widen_block<half_bits>(from, count, to);
    case dtype::bf16: return widen_block<bfloat_bits>(from, count, to);
    default: return widen_block<float>(from, count, to);
  }
}

void store_elements(dtype type, const block& from, std::size_t count,
                    std::byte* to) noexcept {
  switch (type) {
    case dtype::fp16: return narrow_block<half_bits>(from, count, to);
    case dtype::bf16: return narrow_block<bfloat_bits>(from, count, to);
    default: return narrow_block<float>(from, count, to);
  }
}

std::size_t code_bytes(wire_format wire) noexcept {
  return wire == wire_format::bf16 ? 2 : 1;
}
/// Returns the offset of the scales behind the codes.
std::size_t scales_at(wire_format wire, std::size_t count) noexcept {
  return (count * code_bytes(wire) + 63) / 64 * 64;
}

/// Returns the scale of a block: its largest finite size divided by the largest number of
/// the format, and 1 for a block of zeros.
float scale_of(wire_format wire, const block& values, std::size_t count) noexcept {
  float largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float size = std::abs(values[i]);
    largest = size > largest && std::isfinite(size) ? size : largest;
  }
  const float scale = largest / (wire == wire_format::fp8_e4m3 ? 448.0F : 57344.0F);
  if (largest == 0) {
    return 1;
  }
  return std::max(scale, std::numeric_limits<float>::denorm_min());
}

/// Writes block `index` of a region of `count` numbers. Changes `values`.
void put_block(wire_format wire, block& values, std::size_t index, std::size_t count,
               std::byte* to) noexcept {
  const std::size_t first = index * wire_block;
  const std::size_t here = std::min(wire_block, count - first);
  if (wire == wire_format::bf16) {
    return narrow_block<bfloat_bits>(values, here, to + first * 2);
  }
  const float scale = scale_of(wire, values, here);
  for (std::size_t i = 0; i < here; ++i) {
    values[i] /= scale;
  }
  std::memcpy(to + scales_at(wire, count) + index * sizeof scale, &scale, sizeof scale);
  if (wire == wire_format::fp8_e4m3) {
    return narrow_block<e4m3_bits>(values, here, to + first);
  }
  return narrow_block<e5m2_bits>(values, here, to + first);
}

/// Reads block `index` of a region of `count` numbers.
void get_block(wire_format wire, const std::byte* from, std::size_t index,
               std::size_t count, block& values) noexcept {
  const std::size_t first = index * wire_block;
  const std::size_t here = std::min(wire_block, count - first);
  if (wire == wire_format::bf16) {
    return widen_block<bfloat_bits>(from + first * 2, here, values);
  }
  if (wire == wire_format::fp8_e4m3) {
    widen_block<e4m3_bits>(from + first, here, values);
  } else {
    widen_block<e5m2_bits>(from + first, here, values);
  }
  float scale = 1;
  std::memcpy(&scale, from + scales_at(wire, count) + index * sizeof scale, sizeof scale);
  for (std::size_t i = 0; i < here; ++i) {
    values[i] *= scale;
  }
}

}  // namespace

// The layout: codes, padding to a multiple of 64 bytes, then the scales of fp8.
std::size_t wire_bytes(wire_format wire, std::size_t count) noexcept {
  const std::size_t blocks = (count + wire_block - 1) / wire_block;
  return scales_at(wire, count) +
         (wire == wire_format::bf16 ? 0 : blocks * sizeof(float));
}

// Runs with the default floating point environment, so that the codes do not depend on
// the caller's.
void encode_wire(dtype type, wire_format wire, const std::byte* from, std::size_t count,
                 std::byte* to) noexcept {
  const default_environment environment;
  const std::size_t size = info_of(type).size;
  block values;
  for (std::size_t b = 0; b * wire_block < count; ++b) {
    const std::size_t first = b * wire_block;
    load_elements(type, from + first * size, std::min(wire_block, count - first), values);
    put_block(wire, values, b, count, to);
  }
}

// A block is decoded once for all outputs.
void decode_wire(dtype type, wire_format wire, const std::byte* from, std::size_t count,
                 std::span<std::byte* const> outputs) noexcept {
  const default_environment environment;
  const std::size_t size = info_of(type).size;
  block values;
  for (std::size_t b = 0; b * wire_block < count; ++b) {
    const std::size_t first = b * wire_block;
    get_block(wire, from, b, count, values);
    for (std::byte* const to : outputs) {
      store_elements(type, values, std::min(wire_block, count - first),
                     to + first * size);
    }
  }
}

// The sum is in fp32 and in the order of the ranks, so it does not depend on timing.
void add_wire(dtype type, wire_format wire, std::span<const std::byte* const> inputs,
              std::size_t count, std::uint32_t divisor, bool as_elements,
              std::byte* to) noexcept {
  const default_environment environment;
  const std::size_t size = info_of(type).size;
  block sums;
  block values;
  for (std::size_t b = 0; b * wire_block < count; ++b) {
    const std::size_t first = b * wire_block;
    const std::size_t here = std::min(wire_block, count - first);
    get_block(wire, inputs[0], b, count, sums);
    for (std::size_t r = 1; r < inputs.size(); ++r) {
      get_block(wire, inputs[r], b, count, values);
      for (std::size_t i = 0; i < here; ++i) {
        sums[i] += values[i];
      }
    }
    for (std::size_t i = 0; i < here && divisor > 1; ++i) {
      sums[i] /= static_cast<float>(divisor);
    }
    if (as_elements) {
      store_elements(type, sums, here, to + first * size);
    } else {
      put_block(wire, sums, b, count, to);
    }
  }
}

}  // namespace weir::collective
