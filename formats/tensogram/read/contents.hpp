// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the frames of a message say: metadata, descriptors and where the payloads lie.
/// Shared by reader and validation, like the layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensogram/codec/pipeline.hpp"
#include "tensogram/read/layout.hpp"

namespace weir::formats {

/// Offsets count from the start of the message.
struct object_place {
  object_descriptor descriptor;
  frame_info frame;
  std::uint64_t payload_offset = 0;
  std::uint64_t payload_length = 0;  ///< without masks
  std::uint64_t region_length = 0;   ///< with them
  std::uint64_t decoded = 0;         ///< bytes of its elements
  bool usable = false;               ///< the descriptor could be read
};

struct message_contents {
  message_metadata metadata;
  std::vector<object_place> objects;
};

struct content_checks {
  bool digests = true;     ///< of frames other than data objects, and the digest lists
  bool legacy = true;      ///< digests without the flag that announces them count
  bool canonical = false;  ///< warn of CBOR that is not canonical
};

/// Whether a frame has a digest to verify. Without its flag it has one only if `legacy`,
/// the preamble announces digests and the slot is filled: that is how writers 0.17 to
/// 0.20 left it.
[[nodiscard]] bool has_digest(const frame_info& frame, const preamble& head,
                              bool legacy) noexcept;

/// XXH3-64 over the body of a frame. @error{what the source returns}
[[nodiscard]] result<std::uint64_t> digest_of(const byte_source& source,
                                              std::uint64_t message,
                                              const frame_info& frame);

/// @error{what the source returns}
[[nodiscard]] result<message_contents> read_contents(piece_reader& pieces,
                                                     const message_layout& layout,
                                                     const content_checks& checks,
                                                     issue_list& issues);

/// Verifies and decodes an object into memory of `place.decoded` bytes, which is asked
/// for once the payload has shown that it can fill it. The elements are in the byte order
/// of the machine if `options.native_order`.
/// @error{unsupported; missing_hash; hash_mismatch; corrupt; out_of_range; out_of_memory;
/// what the source returns}
[[nodiscard]] result<void> decode_object(const byte_source& source, std::uint64_t message,
                                         const preamble& head, const object_place& place,
                                         const read_options& options,
                                         const element_memory& memory);
/// Whether the payload and the masks of an object decode, without a look at the digest
/// and without elements. @error{those of decode_object}
[[nodiscard]] result<void> check_object(const byte_source& source, std::uint64_t message,
                                        const object_place& place,
                                        const read_options& options);
/// `count` elements from `first` on, without a look at the digest.
/// @error{those of decode_object}
[[nodiscard]] result<void> decode_object_range(const byte_source& source,
                                               std::uint64_t message,
                                               const object_place& place,
                                               const read_options& options,
                                               std::uint64_t first, std::uint64_t count,
                                               const element_memory& memory);
/// The masks of an object. A small mask may stand for any number of elements, so the
/// payload must show that it has them before memory is taken for many.
/// @error{corrupt; unsupported; out_of_range; out_of_memory; what the source returns}
[[nodiscard]] result<value_masks> read_masks(const byte_source& source,
                                             std::uint64_t message,
                                             const object_place& place,
                                             const read_options& options);
/// Verifies the digest of an object as `options` ask. @error{missing_hash; hash_mismatch}
[[nodiscard]] result<void> verify_object(const byte_source& source, std::uint64_t message,
                                         const preamble& head, const object_place& place,
                                         const read_options& options);

}  // namespace weir::formats
