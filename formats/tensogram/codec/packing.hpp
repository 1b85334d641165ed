// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encoding "simple_packing": doubles as integers of 0 to 64 bits with a reference value
/// and two scale factors.
#pragma once

#include <cstdint>
#include <span>

#include "weir/formats/tensogram.hpp"
#include "weir/formats/tensogram_packing.hpp"

namespace weir::formats {

/// Rules for reading the parameters of a packed object, which depend on their source.
struct packing_rules {
  errc kind = errc::corrupt;  ///< of what is wrong with them
  bool legacy = false;        ///< names without `sp_`, as before 0.19, count too
};

/// All four parameters of an object that is there. @error{rules.kind, absent, of the
/// wrong kind or out of range}
[[nodiscard]] result<packing> read_packing(const cbor_map& parameters,
                                           const packing_rules& rules);

/// Parameters for writing: those that are given, the others computed from `values`, in
/// `parameters` afterwards.
/// @error{invalid_argument, one of reference value and binary scale alone, a range that
/// does not fit, a value that is not finite}
[[nodiscard]] result<packing> settle_packing(cbor_map& parameters, bytes_view values,
                                             unsigned threads);

/// Parameters for writing with 0 bits, which store nothing but a reference value, the
/// first of the values: the others need not be finite if masks take them out. Does
/// nothing for more bits, or where a reference value is given.
/// @error{unknown_key, a first value that is not finite}
[[nodiscard]] result<void> settle_constant(cbor_map& parameters, bytes_view values,
                                           byte_order order);

/// Packs native doubles into `to`, which has packed_size(n, bits).
void pack_values(bytes_view values, const packing& p, mutable_bytes to, unsigned threads);
/// Unpacks `to.size() / 8` native doubles, the first being number `first` of `from`.
void unpack_values(bytes_view from, const packing& p, std::uint64_t first,
                   mutable_bytes to, unsigned threads);

/// Inner loops for whole-byte widths where the processor has AVX2; `done` of `count`
/// elements were handled, the rest is the caller's.
struct simd_done {
  std::size_t done = 0;
};
[[nodiscard]] bool simd_at_hand() noexcept;
[[nodiscard]] simd_done pack_simd(const std::byte* values, std::size_t count,
                                  double reference, double scale, unsigned bits,
                                  std::byte* to) noexcept;
[[nodiscard]] simd_done unpack_simd(const std::byte* from, std::size_t count,
                                    double reference, double factor, unsigned bits,
                                    std::byte* to) noexcept;

/// Smallest and largest value; `finite` is false if any is not.
struct value_span {
  double lowest = 0;
  double highest = 0;
  bool finite = true;
};
[[nodiscard]] value_span span_of_values(bytes_view values, unsigned threads);

}  // namespace weir::formats
