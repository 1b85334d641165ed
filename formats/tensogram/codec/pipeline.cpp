// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages of an object, run one after the other.
#include "tensogram/codec/pipeline.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tensogram/codec/bits/bits.hpp"
#include "tensogram/codec/lz4.hpp"
#include "tensogram/codec/shuffle.hpp"
#include "tensogram/codec/zstd.hpp"

namespace weir::formats {

namespace {

/// rle and roaring store how many bits follow, as a big-endian u32, those behind the last
/// element included.
constexpr std::size_t bit_prefix = 4;

result<code_buffer> with_prefix(bytes_view elements, bytes_view code) {
  WEIR_TRY(code_buffer out, make_buffer(bit_prefix + code.size()));
  store_be<std::uint32_t>(out.storage.get(),
                          static_cast<std::uint32_t>(8 * elements.size()));
  std::copy(code.begin(), code.end(), out.storage.get() + bit_prefix);
  return out;
}

result<code_buffer> compress_bits(bytes_view elements, codec method) {
  const std::uint64_t count = 8 * std::uint64_t{elements.size()};
  if (count > std::numeric_limits<std::uint32_t>::max()) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot compress bits: expected fewer than 2^32, found {}", count));
  }
  if (method == codec::rle) {
    return with_prefix(elements, rle_encode(elements, count));
  }
  WEIR_TRY(const byte_vector code, roaring_encode(elements, count));
  return with_prefix(elements, code);
}

result<void> decompress_bits(bytes_view stored, codec method, mutable_bytes to) {
  const std::uint64_t count = 8 * std::uint64_t{to.size()};
  if (stored.size() < bit_prefix || load_be<std::uint32_t>(stored.data()) != count) {
    return error(errc::corrupt,
                 fmt::format("cannot decompress payload: expected {} bits announced in "
                             "front, found others",
                             count));
  }
  const bytes_view code = stored.subspan(bit_prefix);
  return method == codec::rle ? rle_decode(code, count, to)
                              : roaring_decode(code, count, to);
}

result<code_buffer> compress_szip(const pipeline& plan, object_descriptor& descriptor,
                                  bytes_view from, unsigned threads) {
  aec_code coded;
  if (!from.empty()) {
    WEIR_TRY(coded, aec_encode(from, plan.aec, threads));
  }
  cbor_array offsets(coded.offsets.begin(), coded.offsets.end());
  descriptor.parameters.set("szip_block_offsets", std::move(offsets));
  return std::move(coded.code);
}

result<code_buffer> compress(const pipeline& plan, object_descriptor& descriptor,
                             code_buffer from, unsigned threads) {
  switch (plan.compression) {
    case codec::none: return from;
    case codec::lz4: return lz4_encode(from.bytes);
    case codec::zstd: return zstd_encode(from.bytes, plan.zstd_level);
    case codec::szip: return compress_szip(plan, descriptor, from.bytes, threads);
    case codec::zfp: return zfp_encode(from.bytes, plan.zfp);
    case codec::blosc2: return blosc2_encode(from.bytes, plan.blosc2);
    case codec::rle:
    case codec::roaring: return compress_bits(from.bytes, plan.compression);
  }
  return from;
}

/// Whole of what was compressed, in `to`, which has plan.encoded bytes.
result<void> decompress(const pipeline& plan, bytes_view stored, mutable_bytes to,
                        unsigned threads) {
  switch (plan.compression) {
    case codec::none:
      if (!to.empty()) {
        std::memcpy(to.data(), stored.data(), to.size());
      }
      return {};
    case codec::lz4: return lz4_decode(stored, to);
    case codec::zstd: return zstd_decode(stored, to);
    case codec::szip: return szip_decode(stored, plan.aec, plan.offsets, to, threads);
    case codec::zfp: return zfp_decode(stored, plan.zfp, to);
    case codec::blosc2: return blosc2_decode(stored, plan.encoded, 0, to);
    case codec::rle:
    case codec::roaring: return decompress_bits(stored, plan.compression, to);
  }
  return {};
}

/// Bytes of the encoded payload that hold elements `first` .. `first + count`, from an
/// element on that starts at a byte.
stored_range encoded_range(const pipeline& plan, std::uint64_t first,
                           std::uint64_t count) {
  if (!plan.packed) {
    const std::uint64_t width = plan.count == 0 ? 0 : plan.decoded / plan.count;
    return {first * width, count * width, 0};
  }
  const unsigned bits = plan.packed->bits;
  const std::uint64_t start = align_down<std::uint64_t>(first, 8);
  const std::uint64_t from = start / 8 * bits;
  // Below 2^63: the whole has been sized.
  const std::uint64_t until =
      (first + count) / 8 * bits + ((first + count) % 8 * bits + 7) / 8;
  return {from, until - from, first - start};
}

result<void> finish_range(const pipeline& plan, bytes_view encoded, std::uint64_t first,
                          mutable_bytes to) {
  if (plan.packed) {
    unpack_values(encoded, *plan.packed, first, to, 1);
  } else if (!to.empty()) {
    std::memcpy(to.data(), encoded.data(), to.size());
  }
  return {};
}

}  // namespace

result<code_buffer> encode_payload(const pipeline& plan, object_descriptor& descriptor,
                                   bytes_view elements, unsigned threads) {
  code_buffer now{nullptr, elements};
  if (plan.packed) {
    WEIR_TRY(code_buffer packed, make_buffer(plan.encoded));
    pack_values(elements, *plan.packed, packed.writable(), threads);
    now = std::move(packed);
  }
  if (plan.shuffle != 0) {
    WEIR_TRY(code_buffer shuffled, make_buffer(plan.encoded));
    shuffle_bytes(now.bytes, plan.shuffle, shuffled.writable(), threads);
    now = std::move(shuffled);
  }
  return compress(plan, descriptor, std::move(now), threads);
}

result<void> decode_payload(const pipeline& plan, bytes_view stored, mutable_bytes to,
                            unsigned threads) {
  if (!plan.packed && plan.shuffle == 0) {
    return decompress(plan, stored, to, threads);
  }
  code_buffer now{nullptr, stored};
  if (plan.compression != codec::none) {
    WEIR_TRY(now, make_buffer(plan.encoded));
    WEIR_CHECK(decompress(plan, stored, now.writable(), threads));
  }
  if (plan.shuffle != 0 && !plan.packed) {
    unshuffle_bytes(now.bytes, plan.shuffle, to, threads);
    return {};
  }
  if (plan.shuffle != 0) {
    WEIR_TRY(code_buffer plain, make_buffer(plan.encoded));
    unshuffle_bytes(now.bytes, plan.shuffle, plain.writable(), threads);
    now = std::move(plain);
  }
  unpack_values(now.bytes, *plan.packed, 0, to, threads);
  return {};
}

stored_range stored_range_of(const pipeline& plan, std::uint64_t stored,
                             std::uint64_t first, std::uint64_t count) {
  return plan.compression == codec::none && plan.shuffle == 0
             ? encoded_range(plan, first, count)
             : stored_range{0, stored, first};
}

result<void> decode_payload_range(const pipeline& plan, bytes_view stored,
                                  std::uint64_t first, mutable_bytes to) {
  if (plan.shuffle != 0) {
    return error(errc::unsupported,
                 "cannot decode range: expected a pipeline without filter, found shuffle")
        .hint("decode the whole object");
  }
  if (to.empty()) {
    return {};
  }
  const std::uint64_t count = to.size() / (plan.decoded / plan.count);
  const stored_range range = encoded_range(plan, first, count);
  switch (plan.compression) {
    case codec::none: return finish_range(plan, stored, first, to);
    case codec::szip: {
      if (plan.offsets.empty()) {
        return error(errc::unsupported,
                     "cannot decode range: expected szip_block_offsets, found none")
            .hint("decode the whole object");
      }
      WEIR_TRY(code_buffer part, make_buffer(range.length));
      WEIR_CHECK(szip_decode_range(stored, plan.aec, plan.offsets, plan.encoded,
                                   range.offset, part.writable()));
      return finish_range(plan, part.bytes, range.first, to);
    }
    case codec::blosc2: {
      WEIR_TRY(code_buffer part, make_buffer(range.length));
      WEIR_CHECK(blosc2_decode(stored, plan.encoded, range.offset, part.writable()));
      return finish_range(plan, part.bytes, range.first, to);
    }
    default: {
      WEIR_TRY(code_buffer whole, make_buffer(plan.encoded));
      WEIR_CHECK(decompress(plan, stored, whole.writable(), 1));
      return finish_range(plan, whole.bytes.subspan(range.offset, range.length),
                          range.first, to);
    }
  }
}

}  // namespace weir::formats
