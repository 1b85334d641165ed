// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compression "zfp": one-dimensional doubles in three modes.
#pragma once

#include "tensogram/codec/buffer.hpp"
#include "weir/formats/cbor.hpp"

namespace weir::formats {

/// Modes of zfp, which limit the bits, the bit planes or the error.
enum class zfp_mode : std::uint8_t { rate, precision, accuracy };

/// Parameters of a stream.
struct zfp_parameters {
  zfp_mode mode = zfp_mode::rate;  ///< which limit `value` is
  double value = 0;                ///< bits per value, bit planes, or largest error
};

/// Reads `zfp_mode` and the parameter of the mode.
/// @error{kind, a value that is not allowed; kind_of_key(kind), a key that is absent or
/// has another type}
[[nodiscard]] result<zfp_parameters> read_zfp(const cbor_map& parameters, errc kind);
/// Compresses native doubles. The result is padded with zeros to a multiple of 8 bytes,
/// as the reference's library writes it. @error{out_of_memory; internal}
[[nodiscard]] result<code_buffer> zfp_encode(bytes_view from, const zfp_parameters& p);
/// Decompresses to native doubles. The stream must be exactly as long as its values
/// require, or padded to a multiple of 8 bytes. @error{corrupt, a stream of another
/// length; out_of_memory}
[[nodiscard]] result<void> zfp_decode(bytes_view from, const zfp_parameters& p,
                                      const decode_target& to);

}  // namespace weir::formats
