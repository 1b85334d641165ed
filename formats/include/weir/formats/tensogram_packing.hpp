// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parameters of the encoding "simple_packing".
#pragma once

#include <cstdint>
#include <span>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

/// Parameters of a packed array:
/// value = reference + 2^binary * 10^-decimal * q, with q an integer of `bits` bits.
/// @source{Tensogram v3, simple_packing}
struct packing {
  double reference = 0;      ///< smallest value
  std::int32_t binary = 0;   ///< binary exponent of the step
  std::int32_t decimal = 0;  ///< decimal exponent of the step
  unsigned bits = 0;         ///< bits of q, 0 to 64
};

/// Returns the parameters with which all `values` fit into `bits` bits at the finest
/// step.
/// @error{invalid_argument; more than 64 bits, a value that is not finite, a range whose
/// binary scale exceeds 256}
/// @threads{safe to call concurrently}
[[nodiscard]] result<packing> compute_packing(std::span<const double> values,
                                              unsigned bits, std::int32_t decimal = 0);

/// Returns the size of `count` packed values. @units{bytes} @error{out_of_range; they
/// exceed 2^63-1}
[[nodiscard]] result<std::uint64_t> packed_size(std::uint64_t count, unsigned bits);

/// Writes the four keys `sp_*` of `p` into pipeline parameters.
void store_packing(const packing& p, cbor_map& parameters);

}  // namespace weir::formats
