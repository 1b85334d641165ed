// SPDX-License-Identifier: Apache-2.0
/// @file
/// Streams of libaec, the oracle of the szip codec.
#pragma once

#include <libaec.h>

#include "tensogram/codec/szip.hpp"

namespace weir::test {

/// Returns a stream of libaec over two buffers, which outlive it.
inline ::aec_stream libaec_stream(bytes_view from, mutable_bytes to,
                                  const formats::aec_parameters& p) {
  ::aec_stream stream{};
  // The library does not write to its input, but the field is not const.
  stream.next_in = reinterpret_cast<const unsigned char*>(from.data());
  stream.avail_in = from.size();
  stream.next_out = reinterpret_cast<unsigned char*>(to.data());
  stream.avail_out = to.size();
  stream.bits_per_sample = p.bits;
  stream.block_size = p.block;
  stream.rsi = p.rsi;
  stream.flags =
      (p.preprocess ? AEC_DATA_PREPROCESS : 0u) | (p.is_signed ? AEC_DATA_SIGNED : 0u) |
      (p.big_endian ? AEC_DATA_MSB : 0u) | (p.sample_bytes == 3 ? AEC_DATA_3BYTE : 0u);
  return stream;
}

}  // namespace weir::test
