// SPDX-License-Identifier: Apache-2.0
/// @file
/// Contents of the frames of a message: metadata, descriptors and the places of payloads.
/// Reader and validation share this code, as they share the layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensogram/codec/pipeline.hpp"
#include "tensogram/read/layout.hpp"

namespace weir::formats {

/// An object and the place of its payload. Offsets count from the start of the message.
struct object_place {
  object_descriptor descriptor;  ///< as stored
  frame_info frame;              ///< its place, type and flags
  std::uint64_t payload_offset = 0;
  std::uint64_t payload_length = 0;  ///< without masks
  std::uint64_t region_length = 0;   ///< with them
  std::uint64_t decoded = 0;         ///< bytes of its elements
  bool usable = false;               ///< the descriptor could be read
};

/// Metadata and objects of a message.
struct message_contents {
  message_metadata metadata;          ///< with the keys of preceders in the base entries
  std::vector<object_place> objects;  ///< in the order of the message
};

/// Options of reading the contents.
struct content_checks {
  bool digests = true;     ///< verify frames other than data objects
  bool legacy = true;      ///< accept digests without the flag that announces them
  bool canonical = false;  ///< warn of CBOR that is not canonical
};

/// Returns true if a frame has a digest to verify. A frame without the flag for digests
/// has one only if `legacy` is set, the preamble announces digests and the digest is not
/// zero. Writers 0.17 to 0.20 produce such frames.
[[nodiscard]] bool has_digest(const frame_info& frame, const preamble& head,
                              bool legacy) noexcept;

/// Returns XXH3-64 over the body of a frame. @error{what the source returns}
[[nodiscard]] result<std::uint64_t> digest_of(const byte_source& source,
                                              std::uint64_t message,
                                              const frame_info& frame);

/// Reads metadata and descriptors from the frames of a message.
/// @error{what the source returns}
[[nodiscard]] result<message_contents> read_contents(piece_reader& pieces,
                                                     const message_layout& layout,
                                                     const content_checks& checks,
                                                     issue_list& issues);

/// Copies the mark of szip offsets from the base entry of an object into its descriptor.
/// Without `_reserved_` in the entry the descriptor stays as it is.
void take_szip_mark(const cbor_map& base, object_descriptor& to) noexcept;

/// Verifies and decodes an object into memory of `place.decoded` bytes. The memory is
/// requested after the payload has shown that it can fill it. The elements are in the
/// byte order of the machine if `options.native_order` is set. @error{unsupported;
/// missing_hash; hash_mismatch; corrupt; out_of_range; out_of_memory; those of the
/// source}
[[nodiscard]] result<void> decode_object(const byte_source& source, std::uint64_t message,
                                         const preamble& head, const object_place& place,
                                         const read_options& options,
                                         const element_memory& memory);
/// Checks that the payload and the masks of an object decode. Does not verify the digest
/// and keeps no elements. @error{those of decode_object}
[[nodiscard]] result<void> check_object(const byte_source& source, std::uint64_t message,
                                        const object_place& place,
                                        const read_options& options);
/// Decodes `count` elements, beginning with element `first`. Does not verify the digest.
/// @error{those of decode_object}
[[nodiscard]] result<void> decode_object_range(const byte_source& source,
                                               std::uint64_t message,
                                               const object_place& place,
                                               const read_options& options,
                                               std::uint64_t first, std::uint64_t count,
                                               const element_memory& memory);
/// Reads the masks of an object. A small mask may stand for any number of elements, so
/// the payload must show that it has them before memory is taken for many.
/// @error{corrupt; unsupported; out_of_range; out_of_memory; those of the source}
[[nodiscard]] result<value_masks> read_masks(const byte_source& source,
                                             std::uint64_t message,
                                             const object_place& place,
                                             const read_options& options);
/// Verifies the digest of an object as `options` ask. @error{missing_hash; hash_mismatch}
[[nodiscard]] result<void> verify_object(const byte_source& source, std::uint64_t message,
                                         const preamble& head, const object_place& place,
                                         const read_options& options);

}  // namespace weir::formats
