// SPDX-License-Identifier: Apache-2.0
/// @file
/// Bytes of one object: read, verified, decoded.
#include <fmt/core.h>

#include <algorithm>
#include <new>

#include "tensogram/codec/pipeline.hpp"
#include "tensogram/read/contents.hpp"
#include "tensogram/wire/copy_hash.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats {

namespace {

constexpr std::uint64_t read_piece = 1 << 20;

/// Feeds a range of a source to a digest, in pieces if it is not in memory.
result<void> hash_range(const byte_source& source, std::uint64_t offset,
                        std::uint64_t length, xxh3_stream& digest) {
  piece_reader pieces(source);
  const std::uint64_t step = pieces.in_memory() ? length : read_piece;
  for (std::uint64_t at = 0; at < length;) {
    const std::uint64_t count = std::min(step, length - at);
    WEIR_TRY(const bytes_view piece, pieces.at(offset + at, count));
    digest.update(piece);
    at += count;
  }
  return {};
}

/// What `options` ask of the digest of this object. @error{missing_hash}
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

result<void> compare(const object_place& place, std::uint64_t actual) {
  if (actual != place.frame.digest) {
    return error(errc::hash_mismatch,
                 fmt::format("cannot trust object: expected digest {}, found {}",
                             hex64(place.frame.digest), hex64(actual)));
  }
  return {};
}

/// An uncompressed object: copies and hashes in one pass over memory.
result<void> read_raw(const byte_source& source, std::uint64_t message,
                      const object_place& place, bool verify, mutable_bytes to) {
  const std::uint64_t at = message + place.payload_offset;
  const auto view = source.view();
  if (!verify) {
    return source.read(at, to);
  }
  const frame_body body = body_of(place.frame);
  if (view && body.length <= copy_piece) {
    WEIR_CHECK(source.read(at, to));
    return compare(place, xxh3_64(view->subspan(message + body.offset, body.length)));
  }
  const std::uint64_t before = place.payload_offset - body.offset;
  const std::uint64_t behind = body.length - before - to.size();
  xxh3_stream digest;
  WEIR_CHECK(hash_range(source, message + body.offset, before, digest));
  if (view) {
    copy_and_hash(view->subspan(at, to.size()), to, digest);
  } else {
    WEIR_CHECK(source.read(at, to));
    digest.update(to);
  }
  WEIR_CHECK(hash_range(source, at + to.size(), behind, digest));
  return compare(place, digest.digest());
}

result<void> read_encoded(const byte_source& source, std::uint64_t message,
                          const object_place& place, bool verify, mutable_bytes to) {
  const frame_body body = body_of(place.frame);
  piece_reader pieces(source);
  WEIR_TRY(const bytes_view bytes, pieces.at(message + body.offset, body.length));
  if (verify) {
    WEIR_CHECK(compare(place, xxh3_64(bytes)));
  }
  return decode_payload(
      place.descriptor,
      bytes.subspan(place.payload_offset - body.offset, place.payload_length), to);
}

}  // namespace

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

result<void> decode_object(const byte_source& source, std::uint64_t message,
                           const preamble& head, const object_place& place,
                           const read_options& options, mutable_bytes to) {
  const object_descriptor& descriptor = place.descriptor;
  WEIR_CHECK(check_readable(descriptor));
  WEIR_CHECK(check_sizes(descriptor, place.payload_length, place.decoded,
                         options.max_object_bytes));
  WEIR_EXPECT(to.size() == place.decoded);
  WEIR_TRY(const bool verify, must_verify(head, place, options));
  if (descriptor.compression == "none") {
    WEIR_CHECK(read_raw(source, message, place, verify, to));
  } else {
    WEIR_CHECK(read_encoded(source, message, place, verify, to));
  }
  if (options.native_order && descriptor.order != native_byte_order) {
    swap_units(to, info_of(descriptor.type).swap_unit);
  }
  return {};
}

}  // namespace weir::formats
