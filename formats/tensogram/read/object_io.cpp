// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads, verifies and decodes the bytes of one object.
///
/// The order is the same for every kind of access: plan the pipeline (`plan_reading`,
/// which needs no payload), decide whether the digest must be verified, read, verify,
/// decode, then change the byte order and restore masked values. Errors have no place
/// here; the reader adds it.
#include <fmt/core.h>

#include <algorithm>
#include <new>

#include "tensogram/codec/bits/masks.hpp"
#include "tensogram/codec/pipeline.hpp"
#include "tensogram/read/contents.hpp"
#include "tensogram/wire/copy_hash.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats {

namespace {

/// Bytes that are read at a time to compute a digest.
constexpr std::uint64_t read_piece = 1 << 20;

/// Feeds a range of a source to a digest; in pieces, if the source is not in memory.
result<void> hash_range(const byte_source& source, std::uint64_t offset,
                        std::uint64_t length, xxh3_stream& digest) {
  piece_reader pieces(source);
  const std::uint64_t step = pieces.in_memory() ? length : read_piece;
  for (std::uint64_t done = 0; done < length;) {
    const std::uint64_t count = std::min(step, length - done);
    WEIR_TRY(const bytes_view piece, pieces.read(offset + done, count));
    digest.update(piece);
    done += count;
  }
  return {};
}

/// Returns true if `options` require that the digest of this object is verified.
/// @error{missing_hash}
/// Three cases have a digest to verify: it is announced, or it is unannounced and the
/// reader accepts digests of old writers. If none is there, only the strictest option is
/// an error.
result<bool> must_verify(const preamble& head, const object_place& place,
                         const read_options& options) {
  if (options.hashes == hash_check::none) {
    return false;
  }
  const bool legacy = options.legacy_hashes || options.hashes == hash_check::present;
  if (has_digest(place.frame, head, legacy)) {
    return true;
  }
  if (options.hashes == hash_check::present) {
    return false;
  }
  const bool unmarked =
      (head.flags & preamble_flag::hashes_present) != 0 && place.frame.digest != 0;
  error e(errc::missing_hash,
          "cannot verify object: expected a digest in its frame, found none announced");
  return unmarked ? std::move(e).hint(
                        "written before 0.21? the slot is filled: allow legacy hashes")
                  : std::move(e);
}

/// Compares a computed digest with that of the object's frame.
result<void> compare(const object_place& place, std::uint64_t actual) {
  if (actual != place.frame.digest) {
    return error(errc::hash_mismatch,
                 fmt::format("cannot trust object: expected digest {}, found {}",
                             hex64(place.frame.digest), hex64(actual)));
  }
  return {};
}

/// Reads an uncompressed object. Verification covers the whole body of the frame, so the
/// bytes before and behind the payload are fed to the digest too. Small objects in memory
/// are hashed at once; large ones are copied and hashed in one pass over memory.
result<void> read_raw(const byte_source& source, std::uint64_t message,
                      const object_place& place, bool verify, mutable_bytes to) {
  const std::uint64_t start = message + place.payload_offset;
  const auto view = source.view();
  // The elements are read straight to their place.
  if (!verify) {
    return source.read(start, to);
  }
  const frame_body body = body_of(place.frame);
  if (view && body.length <= copy_piece) {
    WEIR_CHECK(source.read(start, to));
    return compare(place, xxh3_64(view->subspan(message + body.offset, body.length)));
  }
  // The digest covers masks and descriptor too: `before` and `behind` count their bytes.
  const std::uint64_t before = place.payload_offset - body.offset;
  const std::uint64_t behind = body.length - before - to.size();
  xxh3_stream digest;
  WEIR_CHECK(hash_range(source, message + body.offset, before, digest));
  if (view) {
    copy_and_hash(view->subspan(start, to.size()), to, digest);
  } else {
    WEIR_CHECK(source.read(start, to));
    digest.update(to);
  }
  WEIR_CHECK(hash_range(source, start + to.size(), behind, digest));
  return compare(place, digest.digest());
}

/// Reads an object that is encoded: verifies the body of its frame, then decodes.
result<void> read_encoded(const byte_source& source, std::uint64_t message,
                          const object_place& place, const pipeline& plan, bool verify,
                          unsigned threads, const element_memory& memory) {
  const frame_body body = body_of(place.frame);
  piece_reader pieces(source);
  // A source that is not in memory gives a copy of the whole body.
  WEIR_TRY(const bytes_view bytes, pieces.read(message + body.offset, body.length));
  if (verify) {
    WEIR_CHECK(compare(place, xxh3_64(bytes)));
  }
  return decode_payload(
      plan, bytes.subspan(place.payload_offset - body.offset, place.payload_length),
      memory, threads);
}

/// Returns a provider that passes requests on and stores in `where` what it got.
element_memory noting(const element_memory& memory, mutable_bytes& where) {
  return [&](std::uint64_t bytes) -> result<mutable_bytes> {
    // The memory must have exactly the size that was asked for.
    WEIR_TRY(where, memory(bytes));
    WEIR_EXPECT(where.size() == bytes);
    return where;
  };
}

/// Returns the payload and the masks of an object.
result<bytes_view> region_of(piece_reader& pieces, std::uint64_t message,
                             const object_place& place) {
  return pieces.read(message + place.payload_offset, place.region_length);
}

/// Returns the number of elements of an object.
std::uint64_t count_of(const object_place& place) {
  return static_cast<std::uint64_t>(element_count(place.descriptor.shape));
}

/// Reads the masks of an object whose payload is known to have its elements.
result<value_masks> masks_of_elements(const byte_source& source, std::uint64_t message,
                                      const object_place& place) {
  piece_reader pieces(source);
  WEIR_TRY(const bytes_view region, region_of(pieces, message, place));
  return load_masks(place.descriptor.masks, region, count_of(place));
}

/// Checks that the payload decodes to the elements of the shape.
result<void> check_elements(const byte_source& source, std::uint64_t message,
                            const object_place& place, const read_options& options) {
  WEIR_TRY(const pipeline plan,
           plan_reading(place.descriptor, place.payload_length, options));
  // check_names() has compared the size of a raw payload with the shape.
  if (plan.raw()) {
    return {};
  }
  piece_reader pieces(source);
  WEIR_TRY(const bytes_view region, region_of(pieces, message, place));
  return check_payload(plan, region.first(place.payload_length));
}

/// Converts the byte order of decoded elements and restores masked values. `first` is the
/// number of the first element in `to`.
result<void> finish_elements(const byte_source& source, std::uint64_t message,
                             const object_place& place, const pipeline& plan,
                             const read_options& options, std::uint64_t first,
                             mutable_bytes to) {
  const object_descriptor& descriptor = place.descriptor;
  // Some stages give doubles of the machine, whatever the descriptor says.
  const byte_order have = plan.doubles() ? native_byte_order : descriptor.order;
  const byte_order want = options.native_order ? native_byte_order : descriptor.order;
  if (have != want) {
    swap_units(to, info_of(descriptor.type).swap_unit);
  }
  // Masked values are written in the final byte order.
  if (options.restore_non_finite && !descriptor.masks.empty()) {
    WEIR_TRY(const value_masks masks, masks_of_elements(source, message, place));
    restore_values(masks, descriptor.type, want, first, to);
  }
  return {};
}

}  // namespace

/// Computes the digest of the body of a frame, in memory at once and otherwise in pieces,
/// so that a large frame is never in memory as a whole.
result<std::uint64_t> digest_of(const byte_source& source, std::uint64_t message,
                                const frame_info& frame) {
  const frame_body body = body_of(frame);
  if (const auto view = source.view()) {
    return xxh3_64(view->subspan(message + body.offset, body.length));
  }
  xxh3_stream digest;
  WEIR_CHECK(hash_range(source, message + body.offset, body.length, digest));
  return digest.digest();
}

/// Compares the digest of an object with the stored one, if there is one that the options
/// tell it to check.
result<void> verify_object(const byte_source& source, std::uint64_t message,
                           const preamble& head, const object_place& place,
                           const read_options& options) {
  WEIR_TRY(const bool verify, must_verify(head, place, options));
  if (!verify) {
    return {};
  }
  WEIR_TRY(const std::uint64_t actual, digest_of(source, message, place.frame));
  return compare(place, actual);
}

/// Plans first, so that an object which cannot be decoded is refused before any byte is
/// read.
result<void> decode_object(const byte_source& source, std::uint64_t message,
                           const preamble& head, const object_place& place,
                           const read_options& options, const element_memory& memory) {
  WEIR_TRY(const pipeline plan,
           plan_reading(place.descriptor, place.payload_length, options));
  WEIR_TRY(const bool verify, must_verify(head, place, options));
  mutable_bytes to;
  if (plan.raw()) {  // there are as many elements as stored bytes show
    WEIR_TRY(to, memory(plan.decoded));
    WEIR_EXPECT(to.size() == plan.decoded);
    WEIR_CHECK(read_raw(source, message, place, verify, to));
  } else {
    WEIR_CHECK(read_encoded(source, message, place, plan, verify, options.threads,
                            noting(memory, to)));
  }
  return finish_elements(source, message, place, plan, options, 0, to);
}

/// Checks that an object can be decoded, masks included, without keeping its elements.
result<void> check_object(const byte_source& source, std::uint64_t message,
                          const object_place& place, const read_options& options) {
  WEIR_CHECK(check_elements(source, message, place, options));
  if (place.descriptor.masks.empty()) {
    return {};
  }
  piece_reader pieces(source);
  WEIR_TRY(const bytes_view region, region_of(pieces, message, place));
  return check_masks(place.descriptor.masks, region, count_of(place));
}

/// A range is not verified, because the digest covers the whole body of the frame.
result<void> decode_object_range(const byte_source& source, std::uint64_t message,
                                 const object_place& place, const read_options& options,
                                 std::uint64_t first, std::uint64_t count,
                                 const element_memory& memory) {
  WEIR_TRY(const pipeline plan,
           plan_reading(place.descriptor, place.payload_length, options));
  if (place.descriptor.type == dtype::bitmask) {
    return error(errc::unsupported,
                 "cannot decode range: expected elements of whole bytes, found a bitmask")
        .hint("decode the whole object");
  }
  if (count == 0) {
    // A range of no elements asks for memory of no bytes, so that the caller sees the
    // call.
    return memory(0).map([](mutable_bytes) {});
  }
  const payload_range range = range_of(plan, place.payload_length, first, count);
  const std::uint64_t from = message + place.payload_offset + range.offset;
  mutable_bytes to;
  if (plan.raw()) {
    // The bytes of a raw range are its elements.
    WEIR_TRY(to, memory(range.length));
    WEIR_CHECK(source.read(from, to));
  } else {
    piece_reader pieces(source);
    WEIR_TRY(const bytes_view bytes, pieces.read(from, range.length));
    WEIR_CHECK(decode_payload_range(plan, range, bytes, noting(memory, to)));
  }
  return finish_elements(source, message, place, plan, options, first, to);
}

/// Reads the masks of an object as they are stored. The size of the masks follows from
/// the number of elements, which is only a claim of the descriptor. If that claim is
/// large compared with the stored bytes, it has to be shown by decoding the elements
/// first.
result<value_masks> read_masks(const byte_source& source, std::uint64_t message,
                               const object_place& place, const read_options& options) {
  if (place.descriptor.masks.empty()) {
    return value_masks{};
  }
  // The limit holds for masks as well, whose size grows with the number of elements.
  if (place.decoded > options.max_object_bytes) {
    return error(errc::out_of_range,
                 fmt::format("cannot read masks: expected an object of at most {} bytes, "
                             "found {}",
                             options.max_object_bytes, place.decoded))
        .hint("raise max_object_bytes");
  }
  if (must_be_shown(place.decoded, place.region_length)) {
    WEIR_CHECK(check_elements(source, message, place, options));
  }
  return masks_of_elements(source, message, place);
}

}  // namespace weir::formats
