// SPDX-License-Identifier: Apache-2.0
/// @file
/// Adaptive entropy coding as of CCSDS 121.0-B, the coder beneath "szip": bytes equal to
/// those of libaec, with the bit where each reference sample interval starts.
#pragma once

#include <cstdint>
#include <vector>

#include "tensogram/codec/buffer.hpp"

namespace weir::formats {

/// Blocks of a segment: a run of empty blocks does not cross its end.
inline constexpr std::uint32_t aec_segment = 64;

struct aec_parameters {
  unsigned bits = 8;    ///< per sample, 1..32
  unsigned block = 16;  ///< samples per block, even, 2..4096
  unsigned rsi = 128;   ///< blocks per reference sample interval, 1..4096
  bool preprocess = true;
  bool is_signed = false;
  bool restricted = false;  ///< short identifiers, for at most 4 bits
  bool big_endian = false;  ///< samples of more than one byte
  unsigned sample_bytes = 1;

  [[nodiscard]] unsigned id_bits() const noexcept {
    return restricted && bits <= 4 ? (bits <= 2 ? 1 : 2)
                                   : (bits > 16 ? 5 : (bits > 8 ? 4 : 3));
  }
  [[nodiscard]] std::size_t interval() const noexcept { return std::size_t{rsi} * block; }
};

struct aec_code {
  code_buffer code;
  std::vector<std::uint64_t> offsets;  ///< bit where each interval starts
};

/// `from` is whole samples. The same bytes for any number of threads.
/// @error{out_of_memory}
[[nodiscard]] result<aec_code> aec_encode(bytes_view from, const aec_parameters& p,
                                          unsigned threads);

/// Decodes intervals from bit `start` on until `to` is full, which begins with an
/// interval. Returns the bit behind the last whole interval.
/// @error{corrupt, the stream ends before or has an impossible run}
[[nodiscard]] result<std::uint64_t> aec_decode(bytes_view from, std::uint64_t start,
                                               const aec_parameters& p, mutable_bytes to);

/// Samples as numbers: the low `bits` of 1 to 4 bytes.
void load_samples(bytes_view from, const aec_parameters& p, std::uint32_t* to) noexcept;
void store_samples(const std::uint32_t* from, const aec_parameters& p,
                   mutable_bytes to) noexcept;

}  // namespace weir::formats
