// SPDX-License-Identifier: Apache-2.0
/// @file
/// A new message made of objects as they are stored in others.
#pragma once

#include <vector>

#include "weir/formats/tensogram.hpp"

namespace weir::tools {

/// A message that is put together from stored objects: payloads, masks and descriptors
/// stay as they are, and nothing is decoded. @threads{a value}
struct stored_message {
  std::vector<formats::object_descriptor> descriptors;
  std::vector<formats::cbor_map> metadata;  ///< one per object, without `_reserved_`
  std::vector<byte_vector> regions;         ///< payload and masks of each object
  formats::cbor_map extra;
  bool hashes = true;

  /// Takes the keys and the use of digests from a message, but none of its objects.
  void take_head(const formats::message_reader& reader);
  /// Appends object `i`, whose digest the caller has verified. @error{what reading
  /// returns}
  [[nodiscard]] result<void> take(const formats::message_reader& reader, std::size_t i);
  /// The message written whole, with metadata, index and digests in its header.
  /// @error{those of encode_message}
  [[nodiscard]] result<byte_vector> encode() const;
};

}  // namespace weir::tools
