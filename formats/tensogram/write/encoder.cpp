// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes a whole message whose length is known before the first byte is written.
///
/// All objects are encoded first. Then all sizes are known, the index is laid out, and
/// the message is written front to back in one pass, in which payloads are also hashed. A
/// digest list in the header precedes the payloads, so its frame is written twice: first
/// with zeros, which take the same space, and at the end with the digests.
#include <fmt/core.h>

#include <new>
#include <optional>

#include "tensogram/codec/parallel.hpp"
#include "tensogram/wire/metadata.hpp"
#include "tensogram/write/frame_writer.hpp"
#include "weir/base/hash.hpp"

namespace weir::formats {

namespace {

/// Writes header metadata, index, digest list, objects, digest list and postamble in this
/// order; each digest list is optional.
class message_encoder {
 public:
  message_encoder(std::span<const object_to_write> objects,
                  const message_options& options)
      : objects_(objects), options_(options) {}

  /// Checks, encodes and lays out everything before the first byte is written. The buffer
  /// then has exactly the final size.
  result<void> run(byte_vector& to) {
    WEIR_CHECK(
        check_metadata(options_.extra, metadata_place::extra, "metadata of the message"));
    WEIR_CHECK(check_alignment());
    WEIR_CHECK(prepare_objects());
    align_descriptors();
    align_first();
    message_buffer out(to, total_);
    write_header(out);
    WEIR_CHECK(write_objects(out));
    write_end(out);
    WEIR_EXPECT(out.size() == total_);
    out.finish();
    return {};
  }

 private:
  /// Whether and where digest lists are written.
  /// The header can have a digest list although the digests are known last; see
  /// write_header().
  bool listed() const {
    return options_.hashes && !objects_.empty() && options_.list != hash_list::none;
  }
  bool header_list() const { return listed() && options_.list != hash_list::footer; }
  bool footer_list() const {
    return listed() &&
           (options_.list == hash_list::footer || options_.list == hash_list::both);
  }

  /// Checks and encodes all objects and makes the metadata.
  result<void> prepare_objects() {
    // Results come in the order of the objects, whichever thread was first.
    std::vector<std::optional<result<prepared_object>>> parts(objects_.size());
    // Either the objects are distributed to the threads, or the single object uses them.
    const unsigned outer = objects_.size() > 1 ? options_.threads : 1;
    const unsigned inner = objects_.size() > 1 ? 1 : options_.threads;
    for_each_piece(outer, objects_.size(), [&](std::size_t i) {
      parts[i].emplace(prepare(objects_[i], i, options_, inner));
    });
    prepared_.reserve(objects_.size());
    message_metadata metadata;
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      WEIR_TRY(prepared_object object, std::move(*parts[i]));
      metadata.base.push_back(objects_[i].metadata);
      // The base entry gets what the writer knows about the object.
      add_reserved(metadata.base.back(), object.reserved);
      prepared_.push_back(std::move(object));
    }
    metadata.extra = options_.extra;
    metadata.reserved = make_provenance(options_.writer);
    described_ = make_metadata(metadata);
    metadata_ = encode_cbor(described_);
    return {};
  }

  /// Checks the alignment. A mapped file begins at the start of a page, so 4096 is the
  /// largest alignment that its bytes in memory are sure to have.
  /// The smallest alignment is that of the widest element.
  result<void> check_alignment() const {
    const std::uint32_t a = options_.payload_alignment;
    if (a != 0 && (a < 16 || a > 4096 || (a & (a - 1)) != 0)) {
      return error(
          errc::invalid_argument,
          fmt::format("cannot align payloads: expected a power of two from 16 to "
                      "4096, found {}",
                      a));
    }
    return {};
  }
  // Messages without objects have no payload to align.
  bool aligned() const { return options_.payload_alignment != 0 && !objects_.empty(); }
  /// Returns the number of bytes by which a frame at offset `frame` must move for its
  /// payload to be aligned.
  std::uint64_t gap(std::uint64_t frame) const {
    const std::uint64_t a = options_.payload_alignment;
    return align_up(frame + frame_header_size, a) - (frame + frame_header_size);
  }
  /// Returns a byte string of at least 256 bytes. The head of its length then has three
  /// bytes whatever `more` below 4096 is, so each byte added moves the rest by one byte.
  static cbor_value filler(std::uint64_t more) { return byte_vector(256 + more); }

  /// Aligns payloads after the first one: pads each descriptor until the payload of the
  /// next object is aligned, on the assumption that its own payload is.
  void align_descriptors() {
    for (std::size_t i = 0; aligned() && i + 1 < prepared_.size(); ++i) {
      prepared_object& object = prepared_[i];
      // The padding makes the descriptor, and so the frame, longer. Its own size must not
      // change with its value, hence the fixed smallest size.
      object.map.set("padding", filler(0));
      object.descriptor = encode_cbor(object.map);
      // The frame of an aligned payload begins 16 bytes before a multiple of the
      // alignment.
      const std::uint64_t start = options_.payload_alignment - frame_header_size;
      const std::uint64_t next = align_up(start + object.frame_length(), frame_alignment);
      object.map.set("padding", filler(gap(next)));
      object.descriptor = encode_cbor(object.map);
    }
  }

  /// Pads the metadata until the first payload is aligned. A larger index may move it
  /// again, so this is repeated until nothing changes.
  void align_first() {
    plan();
    for (std::uint64_t more = 0; aligned() && gap(index_.offsets.front()) != 0;) {
      // The first round adds the key itself, later rounds only move.
      more += padded_ ? gap(index_.offsets.front()) : 0;
      padded_ = true;
      described_.find("_reserved_")->map()->set("padding", filler(more));
      metadata_ = encode_cbor(described_);
      plan();
    }
  }

  /// Computes sizes and offsets. The index holds offsets that depend on its own size
  /// (tensogram_internals.md, "Two-Pass Index Construction"). From offsets of zero on,
  /// the size can only grow, and it is bounded, so a few rounds reach a fixed point.
  void plan() {
    std::uint64_t before = preamble_size + padded_frame_size(metadata_.size());
    digests_.assign(objects_.size(), 0);
    index_ = {};
    // The size of a digest list depends on the number of digests alone.
    const std::uint64_t list =
        padded_frame_size(encode_cbor(make_digests(digests_)).size());
    index_.offsets.assign(objects_.size(), 0);
    for (const prepared_object& object : prepared_) {
      index_.lengths.push_back(object.frame_length());
    }
    if (!objects_.empty()) {
      // An index with larger offsets can be longer and then moves the objects further.
      std::uint64_t size = 0;
      while (size != padded_frame_size(index_size(index_))) {
        size = padded_frame_size(index_size(index_));
        place_objects(before + size + (header_list() ? list : 0));
      }
      before += size;
    }
    before += header_list() ? list : 0;
    // The objects end where the footer begins.
    footer_ = place_objects(before);
    total_ = footer_ + (footer_list() ? list : 0) + postamble_size;
  }

  /// Sets the offsets of all objects, the first of which is at `offset`. Returns the end
  /// of the last one.
  std::uint64_t place_objects(std::uint64_t offset) {
    for (std::size_t i = 0; i < prepared_.size(); ++i) {
      index_.offsets[i] = offset;
      offset += align_up(index_.lengths[i], frame_alignment);
    }
    return offset;
  }

  /// Returns the flags of the preamble, which announce the frames that follow.
  std::uint16_t flags() const {
    unsigned flags = preamble_flag::header_metadata;
    flags |= objects_.empty() ? 0u : preamble_flag::header_index;
    flags |= header_list() ? preamble_flag::header_hashes : 0u;
    flags |= footer_list() ? preamble_flag::footer_hashes : 0u;
    flags |= options_.hashes ? preamble_flag::hashes_present : 0u;
    return static_cast<std::uint16_t>(flags);
  }

  /// Writes preamble, metadata, index and, with zeros, the digest list.
  void write_header(message_buffer& to) {
    to.put(make_preamble({flags(), total_}));
    to.put(make_frame(frame_type::header_metadata, metadata_, options_.hashes));
    if (!objects_.empty()) {
      to.put(make_frame(frame_type::header_index, encode_cbor(make_index(index_)),
                        options_.hashes));
    }
    if (header_list()) {  // the digests are known later; they take the same space
      list_at_ = to.size();
      to.put(digest_frame(frame_type::header_hashes));
    }
  }

  // Makes a digest list with the digests that are known so far.
  byte_vector digest_frame(std::uint16_t type) const {
    return make_frame(type, encode_cbor(make_digests(digests_)), options_.hashes);
  }

  /// Writes the frames of the objects. The payload is hashed as it is copied.
  result<void> write_objects(message_buffer& to) {
    for (std::size_t i = 0; i < prepared_.size(); ++i) {
      const prepared_object& object = prepared_[i];
      to.put(make_frame_header(frame_type::object, object_flags(options_.hashes),
                               object.frame_length()));
      auto digest = pass_payload(object, options_.hashes, &to);
      if (!digest) {
        return std::move(digest).error().located(object_name(i));
      }
      digests_[i] = *digest;
      to.put(make_object_end(object, digests_[i]));
    }
    return {};
  }

  /// Writes the final digest lists and the postamble.
  void write_end(message_buffer& to) {
    if (header_list()) {
      // The frame has the size of the one with zeros.
      const byte_vector frame = digest_frame(frame_type::header_hashes);
      to.replace(list_at_, frame);
    }
    if (footer_list()) {
      to.put(digest_frame(frame_type::footer_hashes));
    }
    to.put(make_postamble({footer_, total_}));
  }

  std::span<const object_to_write> objects_;
  const message_options& options_;
  std::vector<prepared_object> prepared_;  ///< the objects as they will be stored
  cbor_map described_;    ///< metadata of the message, which padding may extend
  byte_vector metadata_;  ///< `described_` as CBOR
  bool padded_ = false;   ///< `described_` has the key "padding"
  object_index index_;    ///< places of the objects
  std::vector<std::uint64_t> digests_;  ///< zeros until an object is written
  std::uint64_t footer_ = 0;            ///< offset at which the objects end
  std::uint64_t total_ = 0;             ///< length of the message
  std::size_t list_at_ = 0;             ///< place of the digest list in the header
};

}  // namespace

/// Memory is the only failure that is thrown; all others are results.
/// A buffer of the caller keeps its memory for the next message.
result<void> encode_message_into(byte_vector& to,
                                 std::span<const object_to_write> objects,
                                 const message_options& options) {
  try {
    return message_encoder(objects, options).run(to);
  } catch (const std::bad_alloc&) {
    return error(
        errc::out_of_memory,
        fmt::format("cannot write a message of {} objects: expected enough memory, found "
                    "too little",
                    objects.size()));
  }
}

result<byte_vector> encode_message(std::span<const object_to_write> objects,
                                   const message_options& options) {
  byte_vector out;
  WEIR_CHECK(encode_message_into(out, objects, options));
  return out;
}

}  // namespace weir::formats
