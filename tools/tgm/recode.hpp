// SPDX-License-Identifier: Apache-2.0
/// @file
/// Builds messages from objects of other messages, as they are stored or encoded again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weir/formats/tensogram.hpp"

namespace weir::tools {

/// A message that is built from stored objects. Payloads, masks and descriptors stay as
/// they are; nothing is decoded.
/// @threads{a value}
struct stored_message {
  std::vector<formats::object_descriptor> descriptors;
  std::vector<formats::cbor_map> metadata;  ///< one per object, without `_reserved_`
  std::vector<byte_vector> regions;         ///< payload and masks of each object
  formats::cbor_map extra;                  ///< keys of the message
  bool hashes = true;                       ///< whether the message has digests

  /// Copies the keys of a message, and whether it has digests, but none of its objects.
  void take_head(const formats::message_reader& reader);
  /// Appends object `i` of a message, whose digest the caller has verified. Errors of
  /// reading are passed on.
  [[nodiscard]] result<void> take(const formats::message_reader& reader, std::size_t i);
  /// Returns the bytes of the message, with metadata, index and digests in its header.
  /// Errors of `encode_message` are passed on.
  [[nodiscard]] result<byte_vector> encode() const;
};

/// Options of the command line for encoding objects. Properties that are not set here
/// stay as the object has them.
struct encoding_overrides {
  unsigned threads = 0;    ///< threads besides the calling one
  bool allow_nan = false;  ///< NaN becomes zero and a mask
  bool allow_inf = false;  ///< infinities become zeros and a mask for each sign
  // Methods of the masks of NaN, positive and negative infinities; empty if not set.
  std::string nan_method;
  std::string positive_method;
  std::string negative_method;
  std::optional<std::uint64_t> small_mask_bytes;  ///< masks up to this size stay raw
};

/// Returns a message with the same elements, in which every object is encoded again.
///
/// Stages of a pipeline that this build does not write, or that known readers fail on,
/// are replaced by safe ones. An object that this build cannot decode stays as it is
/// stored. Each such change is reported on standard error.
/// @param number  Number of the message, for these reports.
/// @error{corrupt, hash_mismatch, out_of_range, an object cannot be decoded}
[[nodiscard]] result<byte_vector> recode_message(const formats::message_reader& reader,
                                                 std::size_t number,
                                                 const encoding_overrides& overrides);

/// Appends object `i` of a message, whose digest the caller has verified.
///
/// The object is encoded again if `overrides` ask for masks that it does not have, or
/// that it has with another method; otherwise it is appended as it is stored. Errors of
/// reading and encoding are passed on.
[[nodiscard]] result<void> take_with_masks(stored_message& to,
                                           const formats::message_reader& reader,
                                           std::size_t number, std::size_t i,
                                           const encoding_overrides& overrides);

/// Returns a copy of a message, after its digests have been verified. Objects are
/// appended as `take_with_masks` does it.
/// @error{hash_mismatch, the message is damaged}
/// Errors of reading and encoding are passed on.
[[nodiscard]] result<stored_message> stored_copy(const formats::message_reader& reader,
                                                 std::size_t number,
                                                 const encoding_overrides& overrides);

}  // namespace weir::tools
