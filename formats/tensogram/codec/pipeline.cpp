// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the stages of an object one after the other: encoding, filter, compression.
/// Memory passes between them as `code_buffer`, without copies where a stage does
/// nothing.
///
/// writing   elements -> pack -> shuffle -> compress -> payload
/// reading   payload -> decompress -> unshuffle -> unpack -> elements
///
/// `plan.cpp` has checked names, parameters and sizes before a function here runs. What a
/// plan cannot know is whether a payload really decodes to the size of its shape. Memory
/// for large sizes is therefore taken only after a decoding whose result is not kept
/// (`show_size`).
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

/// rle and roaring store the number of bits in front, as a big-endian u32. The count
/// includes the unused bits of the last byte.
constexpr std::size_t bit_prefix = 4;

/// Puts the number of bits in front of a code.
result<code_buffer> with_prefix(bytes_view elements, bytes_view code) {
  WEIR_TRY(code_buffer out, make_buffer(bit_prefix + code.size()));
  store_be<std::uint32_t>(out.storage.get(),
                          static_cast<std::uint32_t>(8 * elements.size()));
  std::copy(code.begin(), code.end(), out.storage.get() + bit_prefix);
  return out;
}

/// Compresses a bit list with rle or roaring.
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

/// Decompresses a bit list with rle or roaring.
result<void> decompress_bits(bytes_view stored, codec method, const decode_target& to) {
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

/// Compresses with szip and stores the offsets of the intervals as a parameter. The
/// digest of the offsets marks them as made by a writer that vouches for them; see
/// docs/decisions/703-szip-offsets-count-only-where-marked.md.
/// An empty payload has no intervals, no offsets and no mark.
result<code_buffer> compress_szip(const pipeline& plan, object_descriptor& descriptor,
                                  bytes_view from, unsigned threads) {
  aec_code coded;
  if (!from.empty()) {
    WEIR_TRY(coded, aec_encode(from, plan.aec, threads));
  }
  cbor_array offsets(coded.offsets.begin(), coded.offsets.end());
  descriptor.szip_offsets =
      coded.offsets.empty() ? 0
                            : szip_offsets_digest(coded.offsets, coded.code.bytes.size());
  descriptor.parameters.set("szip_block_offsets", std::move(offsets));
  return std::move(coded.code);
}

/// Runs the compression. Only szip changes the descriptor, to which it adds its offsets.
result<code_buffer> compress(const pipeline& plan, object_descriptor& descriptor,
                             code_buffer from, unsigned threads) {
  switch (plan.compression) {
    case codec::none: return from;
    case codec::lz4: return lz4_encode(from.bytes);
    case codec::zstd: return zstd_encode(from.bytes, plan.zstd_level);
    case codec::szip: return compress_szip(plan, descriptor, from.bytes, threads);
    case codec::zfp: return zfp_encode(from.bytes, plan.zfp);
    case codec::blosc2: return blosc2_encode(from.bytes, plan.blosc2);
    // The count of these codecs is in bits.
    case codec::rle:
    case codec::roaring: return compress_bits(from.bytes, plan.compression);
  }
  return from;
}

/// Returns the stream that the szip decoder takes.
szip_stream szip_of(const pipeline& plan, bytes_view stored) {
  return {stored, plan.aec, plan.offsets, plan.encoded};
}

/// Decompresses everything; `to` has plan.encoded bytes.
/// Without memory in `to`, the stream is only checked.
result<void> decompress(const pipeline& plan, bytes_view stored, const decode_target& to,
                        unsigned threads) {
  switch (plan.compression) {
    case codec::none:
      if (to.has_memory() && to.size() != 0) {
        std::memcpy(to.bytes().data(), stored.data(), to.size());
      }
      return {};
    case codec::lz4: return lz4_decode(stored, to);
    case codec::zstd: return zstd_decode(stored, to);
    case codec::szip: return szip_decode(szip_of(plan, stored), to, threads);
    case codec::zfp: return zfp_decode(stored, plan.zfp, to);
    case codec::blosc2: return blosc2_decode(stored, plan.encoded, 0, to);
    case codec::rle:
    case codec::roaring: return decompress_bits(stored, plan.compression, to);
  }
  return {};
}

/// Decompresses without keeping the result if memory for it may not be taken at once.
/// This costs a second decoding, but only for payloads that decode to more than 4 MiB and
/// more than 16 times their size.
result<void> show_size(const pipeline& plan, bytes_view stored) {
  return must_be_shown(plan.encoded, stored.size())
             ? decompress(plan, stored, decode_target::nowhere(plan.encoded), 1)
             : result<void>();
}

/// Returns the bytes of an element before packing. @pre there are elements
std::uint64_t element_bytes(const pipeline& plan) noexcept {
  return plan.decoded / plan.count;
}

/// Part of the encoded bytes that holds a range of elements. It begins at an element that
/// starts at a byte, which may be before the first requested one.
/// Packed elements of odd widths share bytes.
struct encoded_range {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t skipped = 0;  ///< elements before the first requested one
};

/// Finds that part. Packed elements start at a byte in groups of eight.
encoded_range encoded_part(const pipeline& plan, std::uint64_t first,
                           std::uint64_t count) {
  if (!plan.packed) {
    // Elements that are not packed have whole bytes.
    const std::uint64_t width = element_bytes(plan);
    return {first * width, count * width, 0};
  }
  const unsigned bits = plan.packed->bits;
  const std::uint64_t start = align_down<std::uint64_t>(first, 8);
  const std::uint64_t from = start / 8 * bits;
  // This does not overflow: planning has checked that the whole is below 2^63.
  // The product is split like that of `packed_size`.
  const std::uint64_t until =
      (first + count) / 8 * bits + ((first + count) % 8 * bits + 7) / 8;
  return {from, until - from, first - start};
}

/// Decodes a part of a payload that szip or blosc2 compressed. Marked szip offsets let
/// the decoder begin at the interval of the part; `stored` then holds those intervals
/// only.
result<void> decompress_part(const pipeline& plan, const payload_range& range,
                             bytes_view stored, std::uint64_t first,
                             const decode_target& to) {
  if (plan.compression == codec::blosc2) {
    return blosc2_decode(stored, plan.encoded, first, to);
  }
  // Unmarked offsets may be wrong, so the stream is decoded from its start.
  if (!plan.offsets_marked) {
    return szip_decode_range(szip_of(plan, stored), first, to);
  }
  const szip_intervals intervals =
      intervals_of(plan.aec, plan.offsets, range.offset + stored.size(), plan.encoded,
                   first, to.size());
  return szip_decode_intervals(stored, plan.aec, intervals, first, to);
}

/// Returns the encoded bytes `part`, where `stored` are the stored bytes of the range.
result<code_buffer> encoded_bytes(const pipeline& plan, const payload_range& range,
                                  bytes_view stored, const encoded_range& part) {
  // Raw elements are used in place.
  if (plan.compression == codec::none || part.length == 0) {
    return code_buffer{nullptr, stored.first(part.length)};
  }
  if (plan.compression == codec::szip || plan.compression == codec::blosc2) {
    if (must_be_shown(part.length, stored.size())) {
      WEIR_CHECK(decompress_part(plan, range, stored, part.offset,
                                 decode_target::nowhere(part.length)));
    }
    WEIR_TRY(code_buffer out, make_buffer(part.length));
    WEIR_CHECK(decompress_part(plan, range, stored, part.offset, out.writable()));
    return out;
  }
  // The other codecs cannot decode a part without the bytes before it.
  WEIR_CHECK(show_size(plan, stored));
  WEIR_TRY(code_buffer out, make_buffer(plan.encoded));
  WEIR_CHECK(decompress(plan, stored, out.writable(), 1));
  // Only the view becomes smaller; the whole stays in memory until the caller has copied
  // the part.
  out.bytes = out.bytes.subspan(part.offset, part.length);
  return out;
}

}  // namespace

/// Each stage makes a buffer of its own; a stage that is absent passes its input on.
result<code_buffer> encode_payload(const pipeline& plan, object_descriptor& descriptor,
                                   bytes_view elements, unsigned threads) {
  // The elements of the caller are not copied if no stage changes them.
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

/// Decodes compression, filter and encoding in that order. The last stage writes directly
/// into the caller's memory, which is requested only after show_size().
result<void> decode_payload(const pipeline& plan, bytes_view stored,
                            const element_memory& memory, unsigned threads) {
  WEIR_CHECK(show_size(plan, stored));
  // One stage at most: it decodes straight to its destination.
  if (!plan.packed && plan.shuffle == 0) {
    WEIR_TRY(const mutable_bytes to, memory(plan.decoded));
    return decompress(plan, stored, to, threads);
  }
  code_buffer now{nullptr, stored};
  if (plan.compression != codec::none) {
    WEIR_TRY(now, make_buffer(plan.encoded));
    WEIR_CHECK(decompress(plan, stored, now.writable(), threads));
  }
  // Unshuffling is the last stage and writes to the destination.
  if (plan.shuffle != 0 && !plan.packed) {
    WEIR_TRY(const mutable_bytes to, memory(plan.decoded));
    unshuffle_bytes(now.bytes, plan.shuffle, to, threads);
    return {};
  }
  if (plan.shuffle != 0) {
    WEIR_TRY(code_buffer plain, make_buffer(plan.encoded));
    unshuffle_bytes(now.bytes, plan.shuffle, plain.writable(), threads);
    now = std::move(plain);
  }
  WEIR_TRY(const mutable_bytes to, memory(plan.decoded));
  unpack_values(now.bytes, *plan.packed, 0, to, threads);
  return {};
}

/// lz4 and zstd check only a beginning if they keep nothing, so they get memory here.
result<void> check_payload(const pipeline& plan, bytes_view stored) {
  // Other codecs check the whole stream even if they keep nothing.
  if (plan.compression != codec::lz4 && plan.compression != codec::zstd) {
    return decompress(plan, stored, decode_target::nowhere(plan.encoded), 1);
  }
  WEIR_CHECK(show_size(plan, stored));
  WEIR_TRY(code_buffer encoded, make_buffer(plan.encoded));
  return decompress(plan, stored, encoded.writable(), 1);
}

/// Finds the stored bytes that are needed. A remote reader requests no others.
payload_range range_of(const pipeline& plan, std::uint64_t stored, std::uint64_t first,
                       std::uint64_t count) {
  payload_range out{first, count, 0, stored};
  // A filter spreads the bytes of an element over the whole payload.
  if (plan.shuffle != 0) {
    return out;
  }
  const encoded_range part = encoded_part(plan, first, count);
  if (plan.compression == codec::none) {
    out.offset = part.offset;
    out.length = part.length;
  } else if (plan.compression == codec::szip && plan.offsets_marked && part.length != 0) {
    const szip_intervals intervals = intervals_of(plan.aec, plan.offsets, stored,
                                                  plan.encoded, part.offset, part.length);
    out.offset = intervals.first_byte;
    out.length = intervals.bytes;
  }
  return out;
}

/// Ranges need a pipeline in which parts can be located: no shuffle, and offsets for
/// szip. Other codecs are decoded from the start.
result<void> decode_payload_range(const pipeline& plan, const payload_range& range,
                                  bytes_view stored, const element_memory& memory) {
  if (plan.shuffle != 0) {
    return error(errc::unsupported,
                 "cannot decode range: expected a pipeline without filter, found shuffle")
        .hint("decode the whole object");
  }
  if (plan.compression == codec::szip && plan.offsets.empty() && plan.encoded != 0) {
    return error(errc::unsupported,
                 "cannot decode range: expected szip_block_offsets, found none")
        .hint("decode the whole object");
  }
  const encoded_range part = encoded_part(plan, range.first, range.count);
  WEIR_TRY(const code_buffer encoded, encoded_bytes(plan, range, stored, part));
  WEIR_TRY(const mutable_bytes to, memory(range.count * element_bytes(plan)));
  if (plan.packed) {
    unpack_values(encoded.bytes, *plan.packed, part.skipped, to, 1);
  } else {
    std::memcpy(to.data(), encoded.bytes.data(), to.size());
  }
  return {};
}

}  // namespace weir::formats
