// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encoding "simple_packing": doubles become integers of 0 to 64 bits relative to a
/// reference value, with a binary and a decimal scale factor (tensogram_internals.md,
/// "simple_packing Bit Layout").
#pragma once

#include <cstdint>
#include <span>

#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_packing.hpp"

namespace weir::formats {

/// Rules for reading the parameters of a packed object, which depend on their source.
struct packing_rules {
  errc kind = errc::corrupt;  ///< error code of malformed parameters
  bool legacy =
      false;  ///< also accepts names without `sp_`, which writers used before 0.19
};

/// Reads all four parameters of an existing object. @error{rules.kind, a parameter is
/// absent, of the wrong type or out of range}
[[nodiscard]] result<packing> read_packing(const cbor_map& parameters,
                                           const packing_rules& rules);

/// Determines the parameters for writing: takes the given ones, computes the others from
/// `values`, and stores all of them in `parameters`. @error{invalid_argument, a reference
/// value without a binary scale or the reverse, a range that does not fit, a value that
/// is not finite}
[[nodiscard]] result<packing> settle_packing(cbor_map& parameters, bytes_view values,
                                             unsigned threads);

/// Determines the parameters for writing with 0 bits, where only a reference value is
/// stored, the first of the values. The other values need not be finite if masks take
/// them out. Does nothing for more bits, or if a reference value or a binary scale is
/// given. @error{unknown_key, a first value that is not finite}
[[nodiscard]] result<void> settle_constant(cbor_map& parameters, bytes_view values,
                                           byte_order order);

/// Packs native doubles into `to`, which has packed_size(n, bits) bytes.
void pack_values(bytes_view values, const packing& p, mutable_bytes to, unsigned threads);
/// Unpacks `to.size() / 8` native doubles; the first has number `first` in `from`.
void unpack_values(bytes_view from, const packing& p, std::uint64_t first,
                   mutable_bytes to, unsigned threads);

/// Result of an inner loop for whole-byte widths, which exists for processors with AVX2.
/// It handled the first `done` elements; the caller handles the others.
struct simd_done {
  std::size_t done = 0;
};
/// Returns whether this processor has AVX2.
[[nodiscard]] bool simd_at_hand() noexcept;
/// Packs the first elements; does nothing for widths other than 8, 16, 24 and 32 bits.
[[nodiscard]] simd_done pack_simd(const std::byte* values, std::size_t count,
                                  double reference, double scale, unsigned bits,
                                  std::byte* to) noexcept;
/// Unpacks the first elements; `from` has at least `count` of them.
[[nodiscard]] simd_done unpack_simd(const std::byte* from, std::size_t count,
                                    double reference, double factor, unsigned bits,
                                    std::byte* to) noexcept;

/// Smallest and largest of some values.
struct value_span {
  double lowest = 0;   ///< smallest value
  double highest = 0;  ///< largest value
  bool finite = true;  ///< no value is a NaN or an infinity
};
/// Returns the span of native doubles; 0 to 0 if there are none.
[[nodiscard]] value_span span_of_values(bytes_view values, unsigned threads);

}  // namespace weir::formats
