// SPDX-License-Identifier: Apache-2.0
/// @file
/// New messages made of the objects of others: as they are stored, or encoded again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

/// How objects are to be encoded, as the command line says; an object keeps what is not
/// set here.
struct encoding_wishes {
  unsigned threads = 0;
  bool allow_nan = false;  ///< NaN becomes zero and a mask
  bool allow_inf = false;  ///< infinities become zeros and a mask for each sign
  std::string nan_method;
  std::string positive_method;
  std::string negative_method;
  std::optional<std::uint64_t> small_mask_bytes;
};

/// A message with the same elements, every object encoded again. Stages that are not
/// written, or that readers fail on, become safe ones, and an object that this build
/// cannot decode stays as it is stored; standard error names each such change. `number`
/// is the number of the message, for that text.
/// @error{what decoding returns: nothing that can be read is refused}
[[nodiscard]] result<byte_vector> recode_message(const formats::message_reader& reader,
                                                 std::size_t number,
                                                 const encoding_wishes& wishes);

/// Appends object `i`, whose digest the caller has verified, to a message: as it is
/// stored, or encoded again if `wishes` allow values that it holds outside of masks, or
/// masks of another method than it has.
/// @error{what reading and encoding return}
[[nodiscard]] result<void> take_with_masks(stored_message& to,
                                           const formats::message_reader& reader,
                                           std::size_t number, std::size_t i,
                                           const encoding_wishes& wishes);

/// All objects of a message after their digests were verified, each as it is stored or
/// with the masks that `wishes` ask for.
/// @error{hash_mismatch; what reading and encoding return}
[[nodiscard]] result<stored_message> stored_copy(const formats::message_reader& reader,
                                                 std::size_t number,
                                                 const encoding_wishes& wishes);

}  // namespace weir::tools
