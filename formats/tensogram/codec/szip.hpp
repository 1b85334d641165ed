// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression "szip": a bare stream of adaptive entropy coding. The descriptor holds the
/// bits at which its intervals start, which allows a range to be read alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensogram/codec/aec/aec.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

/// The width of a sample and its byte order; the pipeline derives both from the
/// descriptor.
struct szip_samples {
  unsigned bits = 8;    ///< width of a sample, 1..32
  bool packed = false;  ///< bytes of simple_packing, which are big-endian
};

/// Reads `szip_rsi`, `szip_block_size` and `szip_flags`.
/// @error{kind, a value that is not allowed; kind_of_key(kind), a key that is absent or
/// has another type}
[[nodiscard]] result<aec_parameters> read_szip(const cbor_map& parameters,
                                               const szip_samples& samples, errc kind);
/// Reads and checks `szip_block_offsets` for `intervals` intervals in `bytes` bytes: the
/// first is 0 and they strictly increase. Returns an empty list if the key is absent.
/// @error{kind, a list of another length, or offsets that break these rules}
[[nodiscard]] result<std::vector<std::uint64_t>> read_szip_offsets(
    const cbor_map& parameters, std::uint64_t intervals, std::uint64_t bytes, errc kind);
/// Returns the digest that a writer stores in `_reserved_.szip_offsets` to mark its
/// offsets as correct: XXH3-64 over the offsets and the stored length, each as a
/// big-endian u64. Never 0.
/// @source{docs/decisions/703-szip-offsets-count-only-where-marked.md}
[[nodiscard]] std::uint64_t szip_offsets_digest(std::span<const std::uint64_t> offsets,
                                                std::uint64_t stored);

/// A compressed stream and the properties that its descriptor gives.
struct szip_stream {
  bytes_view bytes;                  ///< stored bytes
  const aec_parameters& parameters;  ///< parameters of the coder
  /// Bit positions at which intervals start, as stored in the file. The reference writes
  /// wrong ones for intervals that start with empty blocks.
  const std::vector<std::uint64_t>& offsets;
  std::uint64_t size = 0;  ///< decoded bytes
};

/// Decodes the stream into `to`, which has the decoded size. Offsets let several threads
/// decode; wrong offsets do not change the result.
/// @error{corrupt; unsupported, the stream can be read with and without padding}
[[nodiscard]] result<void> szip_decode(const szip_stream& stream, const decode_target& to,
                                       unsigned threads);
/// Decodes bytes `[first, first + to.size())`, beginning at the start of the stream.
/// @error{corrupt}
[[nodiscard]] result<void> szip_decode_range(const szip_stream& stream,
                                             std::uint64_t first,
                                             const decode_target& to);

/// Consecutive intervals of a stream whose offsets are known to be right.
struct szip_intervals {
  std::uint64_t first_byte = 0;  ///< first byte of the stream that is needed
  std::uint64_t bytes = 0;       ///< number of bytes that are needed
  std::uint64_t start = 0;       ///< first bit of the intervals, from first_byte
  std::uint64_t end = 0;         ///< bit behind the intervals; 0: the end of the stream
  std::uint64_t decoded = 0;     ///< number of the first decoded byte in the object
  std::uint64_t size = 0;        ///< decoded bytes
};
/// Returns the intervals that hold decoded bytes `[first, first + count)` of a stream of
/// `stored` bytes that decodes to `size` bytes.
[[nodiscard]] szip_intervals intervals_of(const aec_parameters& p,
                                          const std::vector<std::uint64_t>& offsets,
                                          std::uint64_t stored, std::uint64_t size,
                                          std::uint64_t first, std::uint64_t count);
/// Decodes bytes `[first, first + to.size())` from these intervals, whose stored bytes
/// are `from`. @error{corrupt, damage, or intervals that do not end where the next one
/// starts}
[[nodiscard]] result<void> szip_decode_intervals(bytes_view from, const aec_parameters& p,
                                                 const szip_intervals& intervals,
                                                 std::uint64_t first,
                                                 const decode_target& to);

}  // namespace weir::formats
