// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression "szip": a bare stream of adaptive entropy coding, and the bits where its
/// intervals start, which let a range be read alone.
#pragma once

#include <cstdint>
#include <vector>

#include "tensogram/codec/aec/aec.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

/// What the bits of a sample are is the pipeline's to say.
struct szip_samples {
  unsigned bits = 8;
  bool packed = false;  ///< big-endian bytes of simple_packing
};

/// From `szip_rsi`, `szip_block_size` and `szip_flags`. @error{kind; unsupported,
/// intervals padded to bytes}
[[nodiscard]] result<aec_parameters> read_szip(const cbor_map& parameters,
                                               const szip_samples& samples, errc kind);
/// `szip_block_offsets` as they must be for `intervals` intervals in `bytes` bytes: from
/// 0 on strictly increasing. Nothing if absent. @error{kind}
[[nodiscard]] result<std::vector<std::uint64_t>> read_szip_offsets(
    const cbor_map& parameters, std::uint64_t intervals, std::uint64_t bytes, errc kind);

/// Fills `to`. Offsets let several threads work; wrong ones change nothing.
/// @error{corrupt}
[[nodiscard]] result<void> szip_decode(bytes_view from, const aec_parameters& p,
                                       const std::vector<std::uint64_t>& offsets,
                                       mutable_bytes to, unsigned threads);
/// Bytes `[first, first + to.size())` of what the stream decodes to, `total` in all.
/// Writers are known whose offsets are off by some bits: then the whole is decoded.
/// @error{corrupt}
[[nodiscard]] result<void> szip_decode_range(bytes_view from, const aec_parameters& p,
                                             const std::vector<std::uint64_t>& offsets,
                                             std::uint64_t total, std::uint64_t first,
                                             mutable_bytes to);

}  // namespace weir::formats
