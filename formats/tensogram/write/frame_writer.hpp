// SPDX-License-Identifier: Apache-2.0
/// @file
/// Functions that the writers of whole messages and of streams share: checked and encoded
/// objects, frames, base entries.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tensogram/codec/pipeline.hpp"
#include "tensogram/wire/wire.hpp"
#include "tensogram/write/message_buffer.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::formats {

/// A data object ready to be written, apart from its digest.
struct prepared_object {
  code_buffer payload;     ///< encoded elements
  byte_vector masks;       ///< stored behind the payload
  byte_vector descriptor;  ///< CBOR
  cbor_map map;       ///< map of the descriptor, kept for a writer that aligns payloads
  cbor_map reserved;  ///< becomes base[i]._reserved_
  const object_descriptor* unchecked =
      nullptr;  ///< set if the values may still be non-finite

  /// Returns the length of the frame without padding, in bytes.
  [[nodiscard]] std::uint64_t frame_length() const noexcept {
    return frame_header_size + payload.bytes.size() + masks.size() + descriptor.size() +
           object_tail_size;
  }
};

/// Returns "object 3", for errors.
[[nodiscard]] std::string object_name(std::size_t index);

/// Checks the description of an object before its elements and its pipeline.
/// @error{invalid_argument; unsupported; out_of_range}
[[nodiscard]] result<void> check_described(const object_to_write& object);

/// Checks an object and runs its pipeline. `index` appears in errors only.
/// @error{invalid_argument; unsupported; out_of_range; those of the codec}
[[nodiscard]] result<prepared_object> prepare(const object_to_write& object,
                                              std::size_t index,
                                              const message_options& options,
                                              unsigned threads);

/// Place of the metadata that a caller gives. It limits the depth of nesting, because the
/// containers around that place count as well.
enum class metadata_place : std::uint8_t { extra, base_entry, descriptor };

/// Checks metadata of a caller: they must not have `_reserved_` at the top and must not
/// be nested deeper than a reader accepts. `part` names them in the error.
/// @error{invalid_argument}
[[nodiscard]] result<void> check_metadata(const cbor_map& metadata, metadata_place place,
                                          const std::string& part);

/// Adds `_reserved_` to a base entry.
void add_reserved(cbor_map& base, const cbor_map& reserved);

/// Makes a whole frame of any type other than the data object, padded to a multiple of 8
/// bytes.
[[nodiscard]] byte_vector make_frame(std::uint16_t type, bytes_view body, bool hashed);
/// Returns the size of a frame made by make_frame() for a body of `body` bytes.
[[nodiscard]] constexpr std::uint64_t padded_frame_size(std::uint64_t body) noexcept {
  return align_up(frame_header_size + body + frame_tail_size, frame_alignment);
}

/// Makes one pass over the payload, piece by piece: checks for non-finite values if
/// prepare() has left that to it, writes the payload with masks and descriptor to `to`
/// unless that is null, and returns the digest of the body, or 0 if not `hashed`.
/// @error{invalid_argument, a non-finite value}
[[nodiscard]] result<std::uint64_t> pass_payload(const prepared_object& object,
                                                 bool hashed, message_buffer* to);
/// Returns the bytes behind the descriptor of a data object: tail and padding.
[[nodiscard]] byte_vector make_object_end(const prepared_object& object,
                                          std::uint64_t digest);
/// Returns the flags of a data object frame.
[[nodiscard]] constexpr std::uint16_t object_flags(bool hashed) noexcept {
  return static_cast<std::uint16_t>(frame_flag::descriptor_after_payload |
                                    (hashed ? frame_flag::hash_present : 0));
}

}  // namespace weir::formats
