// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression "szip": a bare stream of adaptive entropy coding, and the bits where its
/// intervals start, which let a range be read alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensogram/codec/aec/aec.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

/// What the bits of a sample are is the pipeline's to say.
struct szip_samples {
  unsigned bits = 8;
  bool packed = false;  ///< big-endian bytes of simple_packing
};

/// From `szip_rsi`, `szip_block_size` and `szip_flags`. @error{kind}
[[nodiscard]] result<aec_parameters> read_szip(const cbor_map& parameters,
                                               const szip_samples& samples, errc kind);
/// `szip_block_offsets` as they must be for `intervals` intervals in `bytes` bytes: from
/// 0 on strictly increasing. Nothing if absent. @error{kind}
[[nodiscard]] result<std::vector<std::uint64_t>> read_szip_offsets(
    const cbor_map& parameters, std::uint64_t intervals, std::uint64_t bytes, errc kind);
/// What a writer that vouches for offsets leaves in `_reserved_.szip_offsets`: XXH3-64
/// over the offsets and the stored length, each as a big-endian u64. Never 0.
/// @source{docs/decisions/703-szip-offsets-count-only-where-marked.md}
[[nodiscard]] std::uint64_t szip_offsets_digest(std::span<const std::uint64_t> offsets,
                                                std::uint64_t stored);

/// A stream and what its descriptor says of it.
struct szip_stream {
  bytes_view bytes;
  const aec_parameters& parameters;
  /// Bits where intervals start, as the file has them. The reference writes wrong ones
  /// for intervals that start with empty blocks.
  const std::vector<std::uint64_t>& offsets;
  std::uint64_t size = 0;  ///< decoded bytes
};

/// Fills `to`, which has the decoded size. Offsets let several threads work; wrong ones
/// change nothing. @error{corrupt}
[[nodiscard]] result<void> szip_decode(const szip_stream& stream, const decode_target& to,
                                       unsigned threads);
/// Decoded bytes `[first, first + to.size())`, found from the start of the stream.
/// @error{corrupt}
[[nodiscard]] result<void> szip_decode_range(const szip_stream& stream,
                                             std::uint64_t first,
                                             const decode_target& to);

/// Consecutive intervals of a stream whose offsets are known to be right.
struct szip_intervals {
  std::uint64_t first_byte = 0;  ///< of the stream, that holds their first bit
  std::uint64_t bytes = 0;       ///< of the stream, that hold them all
  std::uint64_t start = 0;       ///< their first bit, counted from there
  std::uint64_t end = 0;         ///< the bit behind them; 0: the end of the stream
  std::uint64_t decoded = 0;     ///< number of the first decoded byte
  std::uint64_t size = 0;        ///< decoded bytes
};
/// Those that hold decoded bytes `[first, first + count)`; `stored` bytes are the stream.
[[nodiscard]] szip_intervals intervals_of(const aec_parameters& p,
                                          const std::vector<std::uint64_t>& offsets,
                                          std::uint64_t stored, std::uint64_t size,
                                          std::uint64_t first, std::uint64_t count);
/// Decoded bytes `[first, first + to.size())` out of these intervals, whose bytes `from`
/// are. @error{corrupt, damage, or intervals that do not end where the next one starts}
[[nodiscard]] result<void> szip_decode_intervals(bytes_view from, const aec_parameters& p,
                                                 const szip_intervals& intervals,
                                                 std::uint64_t first,
                                                 const decode_target& to);

}  // namespace weir::formats
